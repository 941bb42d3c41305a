"""The hosts that nobody uses, packed: which these are, and the table that a gate has of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from robotgate.pace.budget import is_spent
from robotgate.pace.state import is_open
from robotgate.sites.packed import bytes_of, names_of, pack_host, sites_of, unpack_host
from robotgate.sites.record import is_answered, is_fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robotgate.pace.host import Host
    from robotgate.sites.packed import NewSite, Packed
    from robotgate.sites.site import Site
    from robotgate.urls import HostPattern


def is_idle(host: Host, now: float) -> bool:
    """Return whether a host may be packed: no turn uses it, and no time that passes changes what it counts as.

    It counts as a host that is free, and each of its origins as one whose robots.txt is known: `GateStats`.
    """
    if host.in_slots or host.waiting_origins or host.is_wanted or host.wake_at < math.inf:
        return False
    if host.blocked_until_at > now or is_spent(host, now):
        return False
    if host.limiter is not None and host.last_visit_at + host.delay > now:
        # A new one would have a token.
        return False
    return all(_is_idle(site, now) for site in sites_of(host))


def _is_idle(site: Site, now: float) -> bool:
    record = site.record
    if site.ruling is not None or record is None or site.options["ignore_robots"]:
        return False
    return (
        (is_answered(record) or not is_fresh(record, now))
        and site.operator_until_at <= now
        and not is_open(site.circuit, now=now)
        # Its addresses are known, for a while.
        and site.scopes_until_at == math.inf
    )


class IdleHosts:
    """The hosts that are packed. Each of their robots.txt is known.

    Args:
        update_limits: called with a host that was unpacked.
    """

    def __init__(self, new_site: NewSite, update_limits: Callable[[Host], None]) -> None:
        self._new_site, self._update_limits = new_site, update_limits
        self.hosts: dict[str, Packed] = {}
        """By pace key."""
        self._oldest: list[str] = []
        """Those that go first if some have to go, the oldest last; some may have been used since."""
        self.origins: int = 0
        """How many origins they have."""
        self._slowed = 0

    def add(self, host: Host) -> None:
        """Pack a host that `is_idle`, and that nothing else refers to."""
        self.hosts[host.key] = pack_host(host)
        self._count(host, 1)

    def take(self, key: str) -> Host | None:
        """Unpack a host, which is not here from then on; None if it is not here."""
        if key not in self.hosts:
            return None
        host = self._whole(key, self.hosts.pop(key))
        self._count(host, -1)
        return host

    def copies(self) -> Iterator[Host]:
        """Return each host for a look at it; it stays packed."""
        for key, host in list(self.hosts.items()):
            yield self._whole(key, host)

    def named_by(self, pattern: HostPattern) -> list[str]:
        """Return the pace keys of the hosts some origin of which a pattern names."""
        end = pattern.key.encode()
        return [
            key
            for key, host in self.hosts.items()
            # The first test is quicker than to read the names.
            if end in bytes_of(host) and any(pattern.matches(name) for name in names_of(host))
        ]

    def oldest(self) -> str | None:
        """Return the pace key of the host that was packed first, or nearly so, another one each time."""
        while self.hosts:
            # A copy: to find the first key of a dict takes the longer, the more of its first were deleted.
            self._oldest = self._oldest or list(reversed(self.hosts))
            key = self._oldest.pop()
            if key in self.hosts:
                return key
        return None

    def counts(self) -> Counter[str]:
        """Return them counted by state, under the names of `GateStats`; most counts are 0, because they are idle."""
        return Counter(hosts_slowed=self._slowed, origins_known=self.origins)

    def _count(self, host: Host, by: int) -> None:
        self.origins += by * len(host.origins)
        if host.learned_delay:
            self._slowed += by

    def _whole(self, key: str, packed: Packed) -> Host:
        host = unpack_host(key, packed, self._new_site)
        self._update_limits(host)
        return host
