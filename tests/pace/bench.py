"""A scheduler on virtual time without a gate, and visitors whose starts are written down."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Unpack

from tests.paced import now

from robotgate.events import Events
from robotgate.options import DEFAULTS, HostOptions, Rate
from robotgate.pace.host import Host, PacedOrigin, PacedTurn
from robotgate.pace.scheduler import Scheduler
from robotgate.pace.scope import Scope
from robotgate.pace.signals import NOTHING_HEARD, TELLING_STATUSES, Heard
from robotgate.pace.state import GOOD_BELOW
from robotgate.pace.store_work import StoreWork
from robotgate.pace.turn import Permits, Places
from robotgate.sites import Outcome, RobotsRecord
from robotgate.sites.site import Site
from robotgate.urls import Origin

if TYPE_CHECKING:
    from robotgate.pace.lease import Lease
    from robotgate.pace.state import HostState

HOST: Final = "a.example"
OPTIONS: Final = DEFAULTS | HostOptions(obey_visit_time=True, adaptive=False)


class OwnLease:
    """A lease that ends when the test says so."""

    def __init__(self) -> None:
        self.valid = True

    def is_valid(self) -> bool:
        """Return whether it has not ended."""
        return self.valid


def heard_of(status: int, retry_after: float | None = None) -> Heard:
    """What an answer says; a Retry-After counts with a status that tells off."""
    if status not in TELLING_STATUSES:
        return NOTHING_HEARD
    return Heard(tells_off=True, pause=retry_after, field="" if retry_after is None else "Retry-After")


def answered(
    state: HostState, *, status: int, retry_after: float | None, began_at: float, now: float, jitter: float
) -> HostState:
    """The state of a host after an answer."""
    host = Host(HOST)
    host.restore(state)
    turn = PacedTurn(PacedOrigin(Origin("http", HOST, 80), host, OPTIONS), began_at=began_at)
    host.note_latency(turn, now, status < GOOD_BELOW)
    is_good = status < GOOD_BELOW
    host.note_answer(turn, heard_of(status, retry_after), is_good=is_good, now=now, jitter=jitter)
    return host.snapshot()


class Bench:
    """A scheduler, its hosts, and the starts of its visitors.

    Args:
        robots: permits for robots.txt; None: shared with pages.
    """

    def __init__(
        self,
        *,
        concurrency: int = 256,
        robots: int | None = 8,
        total: Rate | None = None,
        max_slots: int | None = None,
        has_store: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.scopes = () if total is None else (Scope("total", rates=[total], robots_first=False),)
        self.pages = Permits(concurrency)
        self.robots = self.pages if robots is None else Permits(robots)
        self.scheduler = Scheduler(
            ticks=(loop or asyncio.get_running_loop()).time,
            epoch=0.0,
            places=Places(self.pages, self.robots),
            max_slots=max_slots,
            events=Events(),
            work=StoreWork(has_store=has_store),
            loop=loop or asyncio.get_running_loop(),
        )
        self.starts: list[tuple[float, str]] = []

    def origin(
        self, name: str = HOST, *, port: int = 80, lease: Lease | None = None, **given: Unpack[HostOptions]
    ) -> Site:
        """An origin, paced with all others of the same host.

        Args:
            lease: of a host that is new.
        """
        known = self.scheduler.hosts.get(name)
        if known is None:
            known = self.scheduler.hosts[name] = Host(name, lease=lease)
        origin = Origin("http", name, port)
        paced = Site(origin, known, OPTIONS | given, scopes=self.scopes, key=origin.text)
        paced.record = RobotsRecord(
            origin=origin, outcome=Outcome.MISSING, checked_at=0.0, fresh_until_at=math.inf
        )
        known.origins += (paced,)
        self.scheduler.update_limits(known)
        return paced

    async def begin(self, turn: PacedTurn) -> None:
        """Have a turn begin, as the gate does it: at once, or when it is granted."""
        scheduler = self.scheduler
        if not scheduler.try_begin(turn, scheduler.now()):
            await scheduler.wait(turn)
            while not scheduler.begin_granted(turn):
                await scheduler.wait(turn)

    async def visit(
        self, name: str, paced: PacedOrigin, *, priority: int = 0, max_wait: float = math.inf
    ) -> None:
        """Wait for a turn, note its start, and end it at once."""
        turn = PacedTurn(paced, priority=priority, deadline_at=now() + max_wait)
        await self.begin(turn)
        self.starts.append((now(), name))
        self.scheduler.end(turn, self.scheduler.now())

    def visits(self, paced: PacedOrigin, *names: str) -> list[asyncio.Task[None]]:
        """A visitor for each name, in this order."""
        return [asyncio.create_task(self.visit(name, paced)) for name in names]
