"""A scheduler on virtual time without a gate, and visitors whose starts are written down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias, Unpack

from robotgate.events import Events
from robotgate.options import DEFAULTS, HostOptions, Rate
from robotgate.pace.host import Host, PacedOrigin, PacedTurn, StartWindow
from robotgate.pace.scheduler import Scheduler
from robotgate.pace.signals import NOTHING_HEARD, TELLING_STATUSES, Heard
from robotgate.pace.state import GOOD_BELOW
from robotgate.pace.store_work import StoreWork
from robotgate.pace.turn import Permits, Places
from robotgate.urls import Origin

if TYPE_CHECKING:
    from robotgate.pace.host import Lease
    from robotgate.pace.spacing import Asked
    from robotgate.pace.state import HostState

Visit: TypeAlias = "asyncio.Task[None]"

HOST: Final = "a.example"
DAY: Final = 24 * 3600.0
OPTIONS: Final = DEFAULTS | HostOptions(obey_visit_time=True, adaptive=False)


class OwnLease:
    """A lease that ends when the test says so."""

    def __init__(self) -> None:
        self.valid = True

    def is_valid(self) -> bool:
        """Return whether it has not ended."""
        return self.valid


def now() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everything that can run now, run."""
    for _ in range(20):
        await asyncio.sleep(0)


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
        is_saved: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.pages = Permits(concurrency)
        self.robots = self.pages if robots is None else Permits(robots)
        self.scheduler = Scheduler(
            ticks=(loop or asyncio.get_running_loop()).time,
            epoch=0.0,
            places=Places(self.pages, self.robots),
            total=None if total is None else StartWindow([total]),
            max_slots=max_slots,
            events=Events(),
            work=StoreWork(is_saved=is_saved),
            loop=loop or asyncio.get_running_loop(),
        )
        self.starts: list[tuple[float, str]] = []

    def origin(
        self,
        name: str = HOST,
        *,
        port: int = 80,
        host: str = "",
        lease: Lease | None = None,
        asked: Asked | None = None,
        **given: Unpack[HostOptions],
    ) -> PacedOrigin:
        """An origin, paced with all others of the same host.

        Args:
            host: the pace key; by default the name.
            lease: of a host that is new.
        """
        key = host or name
        known = self.scheduler.hosts.get(key)
        if known is None:
            known = self.scheduler.hosts[key] = Host(key, lease=lease)
        paced = PacedOrigin(Origin("http", name, port), known, OPTIONS | given)
        if asked is not None:
            paced.asked = asked
        known.origins += (paced,)
        self.scheduler.update_limits(known)
        return paced

    def change(self, paced: PacedOrigin, **given: Unpack[HostOptions]) -> None:
        """Other options from now on."""
        paced.options = paced.options | given
        self.scheduler.update_limits(paced.host)

    def ask(self, paced: PacedOrigin, asked: Asked) -> None:
        """The origin's robots.txt asks for something else from now on."""
        paced.asked = asked
        self.scheduler.update_limits(paced.host)

    async def begin(self, turn: PacedTurn) -> None:
        """Have a turn begin, as the gate does it: at once, or when it is granted."""
        scheduler = self.scheduler
        if not scheduler.try_begin(turn, scheduler.now()):
            await scheduler.wait(turn)
            while not scheduler.begin_granted(turn):
                await scheduler.wait(turn)

    async def visit(
        self,
        name: str,
        paced: PacedOrigin,
        *,
        takes: float = 0.0,
        ahead: bool = False,
        priority: int = 0,
        max_wait: float | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        outage: str = "",
    ) -> None:
        """Wait for a turn, note its start, and hold it for so long; the answer comes at the end."""
        turn = PacedTurn(
            paced,
            ahead=ahead,
            priority=priority,
            deadline_at=float("inf") if max_wait is None else now() + max_wait,
        )
        await self.begin(turn)
        self.starts.append((now(), name))
        try:
            await asyncio.sleep(takes)
            if status is not None:
                self.scheduler.note_answer(turn, status, heard_of(status, retry_after), self.scheduler.now())
            if outage:
                self.scheduler.note_outage(turn, outage)
        finally:
            self.scheduler.end(turn, self.scheduler.now())

    def visits(self, paced: PacedOrigin, *names: str, takes: float = 0.0) -> list[Visit]:
        """A visitor for each name, in this order."""
        return [asyncio.create_task(self.visit(name, paced, takes=takes), name=name) for name in names]

    async def open(self, paced: PacedOrigin, *, ahead: bool = False) -> PacedTurn:
        """A turn that has begun, and ends when the test says so. Its task may ask for others."""
        turn = PacedTurn(paced, ahead=ahead)
        await self.begin(turn)
        turn.holder = None
        return turn
