"""`gate.stats`: totals over a gate's life, and its hosts by state now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from robotgate.pace.state import CLOSED, is_open

if TYPE_CHECKING:
    from robotgate.web.turns import Turns


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
    hosts_waiting: int
    """Hosts that turns wait for now."""
    hosts_blocked: int
    """Hosts that asked for a pause which is not over."""
    origins: int
    """Origins in memory: a host has one for each scheme and port that was used."""
    origins_known: int
    """Origins whose robots.txt is known, fresh or not, or is not obeyed."""
    origins_unreachable: int
    """Origins that no request is sent to because they could not be reached."""
    origins_blocked: int
    """Origins that `RobotGate.block` keeps the gate away from."""

    @classmethod
    def of(cls, turns: Turns, *, now: float) -> Self:
        """Count. Each host and each origin in memory is looked at once; no rules are read. Any thread may call it."""
        scheduler, totals = turns.scheduler, turns.scheduler.totals
        waiting = blocked = 0
        # Copies: the event loop's thread may go on.
        for host in list(scheduler.hosts.values()):
            if host.waiters:
                waiting += 1
            if host.blocked_until_at > now:
                blocked += 1
        known = unreachable = kept_away = 0
        for site in list(turns.sites.values()):
            if site.record is not None or site.ruling is not None:
                known += 1
            if site.circuit is not CLOSED and is_open(site.circuit, now=now):
                unreachable += 1
            if site.operator_until_at > now:
                kept_away += 1
        return cls(
            visits=totals.visits,
            robots_requests=totals.robots_visits,
            bytes_read=totals.bytes_read,
            refused=totals.refused,
            turned_away=totals.turned_away,
            waiting=scheduler.waiting,
            open_turns=scheduler.open_turns,
            open_robots=scheduler.open_robots,
            hosts=len(scheduler.hosts),
            hosts_waiting=waiting,
            hosts_blocked=blocked,
            origins=len(turns.sites),
            origins_known=known,
            origins_unreachable=unreachable,
            origins_blocked=kept_away,
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
