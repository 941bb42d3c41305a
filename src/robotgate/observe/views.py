"""What a gate tells of itself: `GateStats`, of all; `HostView`, of one host; and `OriginView`, of one of its origins.

A host is what is paced together, by its pace key; an origin is what one robots.txt binds.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from robotgate.pace.budget import ends_at, is_spent, left, used
from robotgate.pace.scope import TOTAL
from robotgate.pace.state import is_open
from robotgate.pace.turn import OPEN
from robotgate.sites.record import Standing
from robotgate.sites.site import HostAccess, Ruling, Site, is_closed_unread

if TYPE_CHECKING:
    from collections.abc import Collection

    from robotgate.client.turns import Turns
    from robotgate.pace.host import Host


_YEAR_3000: Final = 32_503_680_000.0


def count_hosts(hosts: Collection[Host], now: float) -> Counter[str]:
    """Count hosts by state, under the names of `GateStats`. The counts of several parts may be added."""
    return Counter(
        hosts_waiting=len([host for host in hosts if host.waiting_origins]),
        hosts_blocked=len([host for host in hosts if host.blocked_until_at > now]),
        hosts_slowed=len([host for host in hosts if host.learned_delay]),
        hosts_spent=len([host for host in hosts if host.budget is not None and is_spent(host, now)]),
    )


def count_origins(sites: Collection[Site], now: float) -> Counter[str]:
    """As `count_hosts`, of origins. No rules are read."""
    unreachable = [
        site
        for site in sites
        if (site.circuit.outages and is_open(site.circuit, now=now)) or is_closed_unread(site, now)
    ]
    return Counter(
        origins_known=len([site for site in sites if site.record is not None or site.ruling is not None]),
        origins_unreachable=len(unreachable),
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
    """Turns refused for another reason: too late for `max_wait`, beyond a budget, or the host is blocked or cannot be
    reached."""
    told_off: int = 0
    """Answers that said we were too fast: 429, 503, or 403 with a spent quota."""
    malformed: int = 0
    """Header fields about our speed that could not be read."""

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
    hosts_slowed: int = 0
    """Hosts that have taught a delay."""
    hosts_spent: int = 0
    """Hosts whose budget is used up."""
    budget_pages: int = 0
    """Pages that were requested in the present period of `total_budget`, if there is one."""
    budget_bytes: int = 0
    """Bytes that were read in it."""
    origins: int
    """Origins in memory: a host has one for each scheme and port that was used."""
    origins_known: int = 0
    """Origins whose robots.txt is known, fresh or not, or is not obeyed."""
    origins_unreachable: int = 0
    """Origins that no page is requested from because they, or their robots.txt, could not be reached."""
    origins_blocked: int = 0
    """Origins that `RobotGate.block` keeps the gate away from."""

    @classmethod
    def of(cls, turns: Turns, counts: Counter[str] | None = None) -> Self:
        """Put the totals together with the counts of all hosts and origins, which are counted now if not given."""
        scheduler, idle, now = turns.scheduler, turns.idle, turns.now()
        if counts is None:
            # Copies: the event loop's thread may go on.
            counts = count_hosts(list(turns.scheduler.hosts.values()), now)
            counts += count_origins(list(turns.sites.values()), now)
            counts += idle.counts()
        held = scheduler.places.pages.held | scheduler.places.robots.held
        ahead = [turn.ahead for turn in held if turn.state is OPEN]
        total = scheduler.scopes.get(TOTAL)
        pages, read = (0, 0) if total is None or total.budget is None else used(total, now)
        return cls(
            **asdict(scheduler.totals),
            waiting=scheduler.places.waiting,
            open_turns=len(ahead),
            open_robots=sum(ahead),
            budget_pages=pages,
            budget_bytes=read,
            hosts=len(scheduler.hosts) + len(idle.hosts),
            origins=len(turns.sites) + idle.origins,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host as it is known now: what is paced together. Instants are seconds since the epoch."""

    host: str
    """The pace key."""
    origins: tuple[str, ...]
    """Its origins in memory."""
    visits: int
    """Requests sent, those for robots.txt included."""
    bytes_read: int
    last_visit_at: float | None
    """When the last response ended, or the last request began if that came later. The moment of a crash counts."""
    next_allowed_at: float
    """No turn begins earlier."""
    blocked_until_at: float | None
    """Until when an answer blocks the host; None when none does."""
    failures: int
    """Blocks in a row."""
    latency: float | None
    """Seconds the host takes to begin a response, as a moving average; None while unknown."""
    delay: float
    """Seconds between visits: the longest of the operator's, the sites', the learned and what its latency asks for."""
    learned_delay: float = 0.0
    """Seconds between visits that the host has taught; 0.0: none."""
    asked_by: str | None = None
    """The header by which an answer asked for a pause or a spacing last; None when that is over."""
    asked_until_at: float | None = None
    """Until when it asked."""
    budget_pages: int = 0
    """Pages that were requested in the present period of the budget, if there is one."""
    budget_bytes: int = 0
    """Bytes that were read in it."""
    budget_pages_left: int | None = None
    """Pages that are left of the budget; None where none limits them."""
    budget_bytes_left: int | None = None
    """Bytes that are left of it."""
    budget_renewed_at: float | None = None
    """When it is there anew; None: nothing was used, there is none, or it is there once."""
    waiting: int
    """Tasks waiting for a turn."""
    open_turns: int
    """Requests under way."""

    @classmethod
    def of(cls, host: Host, *, now: float, next_allowed_at: float) -> HostView:
        """Return what is known of a host, from memory."""
        pages, read = (0, 0) if host.budget is None else used(host, now)
        pages_left, bytes_left = left(host, now)
        renewed_at = ends_at(host)
        return HostView(
            host=host.key,
            origins=tuple(paced.origin.text for paced in host.origins),
            visits=host.visits,
            bytes_read=host.bytes_read,
            last_visit_at=host.snapshot().last_visit_at,
            next_allowed_at=next_allowed_at,
            blocked_until_at=host.blocked_until_at if host.blocked_until_at > now else None,
            failures=host.failures,
            latency=host.latency,
            delay=host.delay,
            learned_delay=host.learned_delay,
            asked_by=host.asked_by if host.asked_until_at > now else None,
            asked_until_at=host.asked_until_at if host.asked_until_at > now else None,
            budget_pages=pages,
            budget_bytes=read,
            budget_pages_left=pages_left,
            budget_bytes_left=bytes_left,
            budget_renewed_at=renewed_at if now < renewed_at < math.inf else None,
            waiting=host.waiting,
            open_turns=sum(turn.state is OPEN for turn in host.in_slots),
        )

    def __str__(self) -> str:
        """One line."""
        return ", ".join(
            [
                f"{self.host}: {self._pace()}",
                *_marks(blocked=self.blocked_until_at),
                *self.slowed_by,
                *self.budget_left,
            ]
        )

    @property
    def slowed_by(self) -> list[str]:
        """What the host's answers slow us down by, in words: what they ask for, and the learned delay."""
        asked = _marks(**{f"asked by {self.asked_by}": self.asked_until_at})
        return asked + ([f"learned delay {self.learned_delay:.3g} s"] if self.learned_delay else [])

    @property
    def budget_left(self) -> list[str]:
        """What is left of its budget, in words; empty without one."""
        parts = (self.budget_pages_left, "page"), (self.budget_bytes_left, "byte")
        return [f"{n} {what}{'' if n == 1 else 's'} of its budget left" for n, what in parts if n is not None]

    def _pace(self, more: str = "") -> str:
        return (
            f"{self.visits} visit{'' if self.visits == 1 else 's'},"
            f" {self.bytes_read} byte{'' if self.bytes_read == 1 else 's'},{more} {self.delay:g} s apart,"
            f" {self.waiting} waiting, {self.open_turns} under way"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginView(HostView):
    """An origin as it is known now: its rules, and its host, which other origins may share."""

    origin: str
    """Scheme, host and port."""
    access: HostAccess | None
    """How much of it may be fetched; None while its rules are not known."""
    checked_at: float | None
    """When its robots.txt was last requested."""
    fresh_until_at: float | None
    """Until when its rules are used without another request; None while they are not known, and for a host whose
    robots.txt is not obeyed."""
    stale: bool
    """Whether the last request for it failed, so that the last good rules hold."""
    refused: int
    """Turns refused because its rules disallow the URL."""
    blocked_by_operator_until_at: float | None
    """Until when `RobotGate.block` blocks it; None when it does not."""
    unreachable_until_at: float | None
    """Until when no request is sent to it because it could not be reached; None when one may be."""
    scopes: tuple[str, ...] = ()
    """What it shares a pace with beside its host, in words: all hosts, its group, its server's addresses."""
    beyond_budget_of: str | None = None
    """What has no budget left for a page of it: its host, its group, itself, or ``all hosts``; None if all have."""

    @classmethod
    def of_site(cls, site: Site, ruling: Ruling | None, *, now: float, next_allowed_at: float) -> OriginView:
        """Return what is known of an origin, from memory."""
        record = None if ruling is None else ruling.record
        of_host = site.host.key if is_spent(site.host, now) else None
        return OriginView(
            **asdict(HostView.of(site.host, now=now, next_allowed_at=next_allowed_at)),
            origin=site.key,
            access=None if ruling is None else ruling.access,
            checked_at=None if record is None else record.checked_at,
            fresh_until_at=None if ruling is None or record is None else ruling.fresh_until_at,
            stale=ruling is not None and ruling.standing is Standing.STALE_RULES,
            refused=site.refused,
            blocked_by_operator_until_at=site.operator_until_at if site.operator_until_at > now else None,
            unreachable_until_at=site.circuit.retry_at if is_open(site.circuit, now=now) else None,
            scopes=tuple(scope.name for scope in site.scopes),
            beyond_budget_of=next(
                (scope.name for scope in site.scopes if scope.renewed_at(now) > now), of_host
            ),
        )

    def __str__(self) -> str:
        """One line."""
        access = "unknown" if self.access is None else self.access.value
        marks = _marks(
            blocked=self.blocked_until_at,
            blocked_by_the_operator=self.blocked_by_operator_until_at,
            unreachable=self.unreachable_until_at,
        )
        stale = " by stale rules" if self.stale else ""
        pace = self._pace(f" {self.refused} refused,")
        head = f"{self.origin}: {access}{stale}, {pace}"
        return ", ".join([head, *marks, *self.slowed_by, *self.budget_left])


def _marks(**until_at: float | None) -> list[str]:
    return [
        name.replace("_", " ")
        + (f" until {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z" if at < _YEAR_3000 else "")
        for name, at in until_at.items()
        if at is not None
    ]
