"""`gate.stats`: totals over a gate's life, and its hosts by state now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from robotgate.pace.host import OPEN
from robotgate.pace.state import CLOSED, is_open

if TYPE_CHECKING:
    from collections.abc import Collection

    from robotgate.pace.host import Host
    from robotgate.sites.site import Site
    from robotgate.web.turns import Turns


def count_hosts(hosts: Collection[Host], now: float) -> Counter[str]:
    """Count hosts by state, under the names of `GateStats`. The counts of several parts may be added."""
    return Counter(
        hosts_waiting=len([host for host in hosts if host.waiters]),
        hosts_blocked=len([host for host in hosts if host.blocked_until_at > now]),
    )


def count_origins(sites: Collection[Site], now: float) -> Counter[str]:
    """As `count_hosts`, of origins. No rules are read."""
    circuits = [site.circuit for site in sites if site.circuit is not CLOSED]
    return Counter(
        origins_known=len([site for site in sites if site.record is not None or site.ruling is not None]),
        origins_unreachable=sum([is_open(circuit, now=now) for circuit in circuits]),
        origins_blocked=len([site for site in sites if site.operator_until_at > now]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStats:
    """What one gate has done since it was made, and what its memory holds now.

    The totals count this gate's own turns and never shrink. Those of a `HostView` go on from what the store knows.
    """

    visits: int
    """Turns that began: requests sent, those for robots.txt included."""
    robots_requests: int
    """Requests for robots.txt among them, redirects included."""
    bytes_read: int
    """Bytes of bodies, decoded, by turns that have ended."""
    refused: int
    """Turns refused because the rules disallow the URL."""
    turned_away: int
    """Turns refused for another reason: too late for `max_wait`, or the host is blocked or cannot be reached."""

    waiting: int
    """Turns that wait now."""
    open_turns: int
    """Turns that have begun and not ended."""
    open_robots: int
    """Those of them for robots.txt."""
    hosts: int
    """Hosts in memory; what a pace key joins is one."""
    hosts_waiting: int = 0
    """Hosts that turns wait for now."""
    hosts_blocked: int = 0
    """Hosts that asked for a pause which is not over."""
    origins: int
    """Origins in memory: a host has one for each scheme and port that was used."""
    origins_known: int = 0
    """Origins whose robots.txt is known, fresh or not, or is not obeyed."""
    origins_unreachable: int = 0
    """Origins that no request is sent to because they could not be reached."""
    origins_blocked: int = 0
    """Origins that `RobotGate.block` keeps the gate away from."""

    @classmethod
    def of(cls, turns: Turns, counts: Counter[str]) -> Self:
        """Put the totals together with the counts of all hosts and origins."""
        scheduler, totals = turns.scheduler, turns.scheduler.totals
        held = scheduler.pages.held | scheduler.robots.held
        ahead = [turn.ahead for turn in held if turn.state is OPEN]
        return cls(
            visits=totals.visits,
            robots_requests=totals.robots_visits,
            bytes_read=totals.bytes_read,
            refused=totals.refused,
            turned_away=totals.turned_away,
            waiting=scheduler.waiting,
            open_turns=len(ahead),
            open_robots=sum(ahead),
            hosts=len(scheduler.hosts),
            origins=len(turns.sites),
            **counts,
        )

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.visits} visits, {self.robots_requests} of them for robots.txt, {self.bytes_read} bytes,"
            f" {self.refused} refused, {self.turned_away} turned away; {self.waiting} waiting,"
            f" {self.open_turns} under way; {self.hosts} hosts, {self.hosts_waiting} with waiters,"
            f" {self.hosts_blocked} blocked; {self.origins} origins, {self.origins_known} known,"
            f" {self.origins_unreachable} unreachable, {self.origins_blocked} blocked by the operator"
        )
