"""What the operator says while the gate runs: hosts to leave alone, and options of single hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.events import BlockCause, HostBlocked, HostRecovered
from robotgate.pace.state import CLOCK_GRAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.events import Events
    from robotgate.options import HostBlocks, HostOverride, Overrides
    from robotgate.pace.scheduler import Scheduler
    from robotgate.sites.site import Site
    from robotgate.urls import HostPattern
    from robotgate.web.cache import SiteCache


class Operator:
    """Applies blocks and overrides to the sites in memory."""

    def __init__(
        self,
        *,
        blocks: HostBlocks,
        overrides: Overrides,
        scheduler: Scheduler,
        events: Events,
    ) -> None:
        self.cache: SiteCache | None = None
        """Set once, by the gate."""
        self.publish: Callable[[str, float], None] | None = None
        """Tells the other gates that share the store; None where none does."""
        self._blocks = blocks
        self._overrides = overrides
        self._scheduler = scheduler
        self._events = events

    def block(self, pattern: str, until_at: float) -> None:
        """Leave hosts alone until an instant, at all gates that share the store; an instant that has passed lifts it.

        Raises:
            OptionError: the pattern or the instant makes no sense.
        """
        known = self._take(pattern, until_at)
        if self.publish is not None:
            # A lift, too, of what is not blocked here: another process may have blocked it.
            self.publish(known, until_at)

    def hear(self, pattern: str, until_at: float) -> None:
        """Take in what another gate was told, or this one, which the store repeats."""
        known_at, now = self._until_at(pattern), self._scheduler.now()
        is_known = until_at == known_at or abs(until_at - known_at) <= CLOCK_GRAIN
        if not is_known and max(until_at, known_at) > now:
            self._take(pattern, until_at)

    def override(self, pattern: str, override: HostOverride | None) -> None:
        """Change the options of some hosts; waiting turns are held to them.

        Raises:
            OptionError: the pattern or a value makes no sense; everything is then as it was.
        """
        changed = self._overrides.set(pattern, override)
        sites = self._named_by(changed)
        for site in sites:
            site.options = self._overrides.options(site.origin.host)
        if self.cache is not None:
            for site in sites:
                self.cache.judge_anew(site)
        for host in {site.host for site in sites}:
            self._scheduler.update_limits(host)

    def _take(self, pattern: str, until_at: float) -> str:
        now = self._scheduler.now()
        was_blocked = self._until_at(pattern) > now
        blocked = self._blocks.set(pattern, until_at)
        sites = self._named_by(blocked)
        for site in sites:
            site.operator_until_at = self._blocks.until_at(site.origin.host)
        for host in {site.host for site in sites}:
            self._scheduler.reconsider(host)
        name, cause = str(blocked), BlockCause.OPERATOR
        if until_at > now and self._events.is_heard(HostBlocked):
            self._events.emit(HostBlocked(at=now, host=name, until_at=until_at, cause=cause))
        elif until_at <= now and was_blocked and self._events.is_heard(HostRecovered):
            self._events.emit(HostRecovered(at=now, host=name, cause=cause))
        return name

    def _until_at(self, pattern: str) -> float:
        self._blocks.prune(self._scheduler.now())
        return self._blocks.get(pattern)

    def _named_by(self, pattern: HostPattern) -> list[Site]:
        if self.cache is None:
            return []
        return [site for site in self.cache.sites.values() if pattern.matches(site.origin.host)]
