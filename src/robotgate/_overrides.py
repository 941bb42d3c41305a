"""What the operator wants for single hosts: options in place of the gate's, and to leave them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate._checks import (
    check_choice,
    check_flag,
    check_instant,
    check_number,
    check_patience,
    check_seconds,
    check_whole,
    unless_none,
)
from robotgate._errors import OptionError
from robotgate._host_pattern import HostPattern, keys
from robotgate._quota import rate_of
from robotgate._status import StatusPolicy

if TYPE_CHECKING:
    from robotgate._quota import Rate

__all__ = ["NO_RATE", "HostBlocks", "HostOptions", "HostOverride", "HostPattern", "Overrides"]

Value = TypeVar("Value")

MANY_BLOCKS: Final = 64
"""As many as are kept without looking whether some are over."""
NO_RATE: Final = (1, 1e-9)
"""As the rate of an override: none, whatever the gate's. No clock tells instants as close as that apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options that hold for one host, all of them settled; `HostOverride` tells of each."""

    delay: float
    rate: Rate | None
    concurrency: int
    max_delay: float
    max_block: float
    latency_factor: float
    obey_crawl_delay: bool
    obey_visit_time: bool
    status_policy: StatusPolicy
    ignore_robots: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverride:
    """Options for some hosts; what is None is as in the next pattern that names the host, and at last as in the gate.

    Raises:
        OptionError: a value makes no sense; the message names the field.
    """

    delay: float | None = None
    """Seconds between the end of one response and the next request, at least."""
    rate: tuple[int, float] | None = None
    """At most so many requests in so many seconds, counted from when it was given; `NO_RATE` lifts the gate's."""
    concurrency: int | None = None
    """Requests under way at once."""
    max_delay: float | None = None
    """Seconds; a site that asks for a longer delay is refused. `math.inf` waits however long."""
    max_block: float | None = None
    """Seconds; a longer block is refused at once, not waited out. `math.inf` waits however long."""
    latency_factor: float | None = None
    """The delay is at least so many times as long as the host's responses take to begin; 0 does not ask."""
    obey_crawl_delay: bool | None = None
    """Whether Crawl-delay and Request-rate count."""
    obey_visit_time: bool | None = None
    """Whether pages are asked for within the hours of Visit-time alone."""
    status_policy: StatusPolicy | None = None
    """What a robots.txt that cannot be read means."""
    ignore_robots: bool | None = None
    """Whether robots.txt is neither asked for nor obeyed: for hosts of one's own."""

    def __post_init__(self) -> None:
        unless_none(check_seconds, "delay", self.delay)
        unless_none(rate_of, "rate", self.rate)
        if self.concurrency is not None:
            check_whole("concurrency", self.concurrency, least=1)
        unless_none(check_patience, "max_delay", self.max_delay)
        unless_none(check_patience, "max_block", self.max_block)
        unless_none(check_number, "latency_factor", self.latency_factor)
        for name in ("obey_crawl_delay", "obey_visit_time", "ignore_robots"):
            unless_none(check_flag, name, getattr(self, name))
        if self.status_policy is not None:
            check_choice("status_policy", self.status_policy, StatusPolicy)

    @classmethod
    def own(cls) -> HostOverride:
        """For a host of one's own: no robots.txt, no delay and no rate. What the server says itself still counts:
        a 429 or 503 blocks it, and the gate's concurrency holds.
        """
        return cls(
            delay=0.0,
            rate=NO_RATE,
            latency_factor=0.0,
            obey_crawl_delay=False,
            obey_visit_time=False,
            ignore_robots=True,
        )

    def over(self, options: HostOptions) -> HostOptions:
        """The options with these in place of them."""
        return HostOptions(
            delay=_first(self.delay, options.delay),
            rate=options.rate if self.rate is None else _settled_rate(self.rate),
            concurrency=_first(self.concurrency, options.concurrency),
            max_delay=_first(self.max_delay, options.max_delay),
            max_block=_first(self.max_block, options.max_block),
            latency_factor=_first(self.latency_factor, options.latency_factor),
            obey_crawl_delay=_first(self.obey_crawl_delay, options.obey_crawl_delay),
            obey_visit_time=_first(self.obey_visit_time, options.obey_visit_time),
            status_policy=_first(self.status_policy, options.status_policy),
            ignore_robots=_first(self.ignore_robots, options.ignore_robots),
        )


class Overrides:
    """The options of every host. Settled field by field: the host's own override, then that of the longest domain
    it is below, and so on up to ``*``, then the gate's options.

    Args:
        defaults: the gate's.
        given: an override for each pattern.

    Raises:
        OptionError: a pattern or an override makes no sense, or leaves a delay over the `max_delay` that would hold.
    """

    def __init__(self, defaults: HostOptions, given: Mapping[str, HostOverride]) -> None:
        self._defaults = defaults
        self._overrides: dict[str, HostOverride] = {}
        if not isinstance(given, Mapping):
            raise OptionError(f"overrides={given!r}: give a mapping of host patterns to HostOverride")
        for text, override in given.items():
            pattern = _read(text, override)
            if pattern.key in self._overrides:
                raise OptionError(f"overrides[{text!r}]: {str(pattern)!r} is given twice, in two spellings")
            self._overrides[pattern.key] = override
        # The same for all hosts whose most specific pattern is the same, so looked up and not computed anew.
        self._settled = {key: self._settle(key) for key in self._overrides}

    def set(self, pattern: str, override: HostOverride | None) -> HostPattern:
        """Put an override in place of a pattern's present one; None takes it away. Returns the pattern, as read.

        Raises:
            OptionError: as the constructor; everything is then as it was.
        """
        known = HostPattern.parse(pattern) if override is None else _read(pattern, override)
        before = self._overrides.get(known.key)
        self._put(known.key, override)
        try:
            settled = {key: self._settle(key) for key in self._touched_by(known)}
        except OptionError:
            self._put(known.key, before)
            raise
        if override is None:
            self._settled.pop(known.key, None)
        self._settled |= settled
        return known

    def options(self, host: str) -> HostOptions:
        """The options of a host, given as `Origin.host` has it."""
        settled = self._settled
        if settled:
            for key in keys(host):
                options = settled.get(key)
                if options is not None:
                    return options
        return self._defaults

    def _put(self, key: str, override: HostOverride | None) -> None:
        if override is None:
            self._overrides.pop(key, None)
        else:
            self._overrides[key] = override

    def _touched_by(self, pattern: HostPattern) -> list[str]:
        if pattern.is_wildcard:
            return [key for key in self._overrides if pattern.matches(key)]
        return [pattern.key] if pattern.key in self._overrides else []

    def _settle(self, key: str) -> HostOptions:
        options = self._defaults
        for above in reversed(list(keys(key))):
            override = self._overrides.get(above)
            if override is not None:
                options = override.over(options)
        if options.delay > options.max_delay:
            raise OptionError(self._contradiction(key, options))
        return options

    def _contradiction(self, key: str, options: HostOptions) -> str:
        chain = [above for above in keys(key) if above in self._overrides]
        # The more specific of the two is to blame; of one override, the delay.
        for above in chain:
            override = self._overrides[above]
            name = f"overrides[{str(HostPattern(above))!r}]"
            if override.delay is not None:
                return f"{name}.delay={options.delay!r} is over max_delay={options.max_delay!r}, which holds there"
            if override.max_delay is not None:
                return f"{name}.max_delay={options.max_delay!r} is under delay={options.delay!r}, which holds there"
        return f"delay={options.delay!r} is over max_delay={options.max_delay!r}"


class HostBlocks:
    """Hosts that the operator wants left alone, and until when. Of several patterns, the latest instant holds."""

    def __init__(self) -> None:
        self._until_at: dict[str, float] = {}
        self._prune_at = MANY_BLOCKS

    def set(self, pattern: str, until_at: float) -> HostPattern:
        """Leave hosts alone until an instant, in place of the pattern's present one. Returns the pattern, as read.

        Args:
            until_at: seconds since the epoch; `math.inf` until lifted; 0 lifts.

        Raises:
            OptionError: the pattern names no host, or the instant is none.
        """
        known = HostPattern.parse(pattern)
        check_instant("until_at", until_at)
        if until_at:
            self._until_at[known.key] = until_at
        else:
            self._until_at.pop(known.key, None)
        return known

    def get(self, pattern: str) -> float:
        """The instant of this very pattern; 0 where it has none.

        Raises:
            OptionError: it names no host.
        """
        return self._until_at.get(HostPattern.parse(pattern).key, 0.0)

    def until_at(self, host: str) -> float:
        """Until when a host, given as `Origin.host` has it, is left alone; 0 or an instant past when it is not."""
        blocks = self._until_at
        return max(blocks.get(key, 0.0) for key in keys(host)) if blocks else 0.0

    def prune(self, now: float) -> None:
        """Forget what is over, once there are so many that it may be worth the walk."""
        if len(self._until_at) < self._prune_at:
            return
        self._until_at = {key: until_at for key, until_at in self._until_at.items() if until_at > now}
        self._prune_at = max(MANY_BLOCKS, 2 * len(self._until_at))


def _read(text: str, override: HostOverride) -> HostPattern:
    try:
        pattern = HostPattern.parse(text)
    except OptionError as error:
        raise OptionError(f"overrides: {error}") from error
    if not isinstance(override, HostOverride):
        raise OptionError(f"overrides[{text!r}]={override!r}: give a HostOverride")
    if override.ignore_robots and not pattern.key:
        raise OptionError(f"overrides[{text!r}].ignore_robots=True: name the hosts that are your own")
    return pattern


def _settled_rate(rate: tuple[int, float]) -> Rate | None:
    return None if rate == NO_RATE else rate_of("rate", rate)


def _first(given: Value | None, otherwise: Value) -> Value:
    return otherwise if given is None else given
