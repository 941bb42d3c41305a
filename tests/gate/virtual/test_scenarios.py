"""The pace as a specification: when tasks ask, what the host answers, and the exact instants of what follows.

Time begins at midnight of 1 January 1970 UTC, and is virtual. A row lists what happened, in order: a name where
somebody's turn began, ``robots.txt`` where that was asked for, and a name with an error where somebody was refused.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import DAY, SITE, asks, make_gate, now, scripted

from robotgate import GateOptions, HostOverride, OpenHours, RobotGateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate, Turn

OTHER_SITE: Final = "http://b.example"
FOR_EVER: Final = 10.0**9


@dataclass(frozen=True, slots=True)
class Comer:
    """A task that asks for a turn, and the outcome."""

    name: str
    at: float = 0.0
    _: KW_ONLY
    site: str = SITE
    takes: float = 0.0
    """Seconds from the turn to the answer."""
    priority: int = 0
    max_wait: float | None = None
    status: int = 200
    retry_after: str | None = None
    times_out: bool = False
    """Whether nothing comes in place of an answer."""
    finds_nobody: bool = False
    """Whether no connection is made."""
    leaves_at: float | None = None
    """When it is cancelled."""

    async def come(self, gate: RobotGate, log: list[tuple[float, str]]) -> None:
        """Ask, and write down what happens."""
        await asyncio.sleep(self.at - now())
        try:
            async with gate.turn(f"{self.site}/page", priority=self.priority, max_wait=self.max_wait) as turn:
                log.append((now(), self.name))
                await self._ask(turn)
        except RobotGateError as error:
            log.append((now(), f"{self.name}: {type(error).__name__}"))

    async def _ask(self, turn: Turn) -> None:
        await asyncio.sleep(self.takes)
        if self.times_out or self.finds_nobody:
            turn.report(error=TimeoutError() if self.times_out else ConnectionRefusedError())
            return
        headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
        turn.report(status=self.status, headers=headers)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the specification."""

    name: str
    options: GateOptions
    comers: tuple[Comer, ...]
    happens: list[tuple[object, str]]
    _: KW_ONLY
    robots: str | None = None
    """The robots.txt that has to be asked for; without one, `known` is known from the start."""
    robots_takes: float = 0.0
    known: str = ""
    acts: tuple[tuple[float, Callable[[RobotGate], None]], ...] = ()
    """What the operator does, and when."""


def between(first: float, last: float) -> object:
    """Some instant from the first to the last: where chance keeps clients from coming back together."""
    return pytest.approx((first + last) / 2, abs=(last - first) / 2 + 1e-6)


def comers(*names: str, takes: float = 0.0) -> tuple[Comer, ...]:
    """Several who come at the beginning, in this order."""
    return tuple(Comer(name, takes=takes) for name in names)


SPACING: Final = [
    Scenario(
        "one at a time: from the end of an answer to the next request",
        GateOptions(delay=2.0),
        comers("a", "b", "c", takes=0.75),
        [(0.0, "a"), (2.75, "b"), (5.5, "c")],
    ),
    Scenario(
        "two at a time: from start to start",
        GateOptions(delay=1.0, concurrency_per_host=2),
        comers("a", "b", "c", "d", takes=1.5),
        [(0.0, "a"), (1.0, "b"), (2.0, "c"), (3.0, "d")],
    ),
    Scenario(
        "two at a time, and slow: never a third",
        GateOptions(delay=1.0, concurrency_per_host=2),
        comers("a", "b", "c", "d", takes=5.0),
        [(0.0, "a"), (1.0, "b"), (5.0, "c"), (6.0, "d")],
    ),
    Scenario(
        "without a delay, one at a time: one after the other",
        GateOptions(delay=0.0),
        comers("a", "b", "c", takes=0.5),
        [(0.0, "a"), (0.5, "b"), (1.0, "c")],
    ),
    Scenario(
        "robots.txt is a visit like any other",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "robots.txt"), (1.25, "a"), (2.25, "b")],
        robots=asks(),
        robots_takes=0.25,
    ),
    Scenario(
        "a fraction of a Crawl-delay counts, and holds for the first page",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "robots.txt"), (1.62, "a"), (2.99, "b")],
        robots=asks("Crawl-delay: 1.37"),
        robots_takes=0.25,
    ),
    Scenario(
        "a Crawl-delay shorter than ours changes nothing",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "a"), (1.0, "b")],
        known=asks("Crawl-delay: 0.2"),
    ),
    Scenario(
        "a Crawl-delay that we do not obey changes nothing",
        GateOptions(delay=1.0, obey_crawl_delay=False),
        comers("a", "b"),
        [(0.0, "a"), (1.0, "b")],
        known=asks("Crawl-delay: 20", "Request-rate: 1/30"),
    ),
    Scenario(
        "a Crawl-delay over max_delay is refused",
        GateOptions(delay=1.0, max_delay=60.0),
        comers("a"),
        [(0.0, "a: DisallowedError")],
        known=asks("Crawl-delay: 61"),
    ),
    Scenario(
        "or waited for, if the operator says so",
        GateOptions(delay=1.0, max_delay=math.inf),
        comers("a", "b"),
        [(0.0, "a"), (3600.5, "b")],
        known=asks("Crawl-delay: 3600.5"),
    ),
    Scenario(
        "one of days as well: no timer of a loop is that long",
        GateOptions(delay=1.0, max_delay=math.inf),
        comers("a", "b"),
        [(0.0, "a"), (3 * DAY, "b")],
        known=asks(f"Crawl-delay: {3 * DAY:.0f}"),
    ),
    Scenario(
        "a Request-rate is so many seconds for each document",
        GateOptions(delay=1.0),
        comers("a", "b", "c"),
        [(0.0, "a"), (2.5, "b"), (5.0, "c")],
        known=asks("Request-rate: 4/10"),
    ),
    Scenario(
        "the slower of Crawl-delay and Request-rate holds",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "a"), (7.0, "b")],
        known=asks("Crawl-delay: 7", "Request-rate: 4/10"),
    ),
    Scenario(
        "a Request-rate holds at all hours, whatever hours it names",
        GateOptions(delay=1.0, max_delay=math.inf),
        comers("a", "b", "c"),
        [(0.0, "a"), (100.0, "b"), (200.0, "c")],
        known=asks("Request-rate: 1/100 0000-0001"),
    ),
    Scenario(
        "a slow host is given time in proportion, and no quick error shortens it",
        GateOptions(delay=1.0, latency_factor=2.0),
        (Comer("a", takes=3.0), Comer("b", status=500), Comer("c")),
        [(0.0, "a"), (9.0, "b"), (15.0, "c")],
    ),
]

HOURS_AND_QUOTAS: Final = [
    Scenario(
        "Visit-time: outside its hours the wait runs to their start",
        GateOptions(delay=1.0, obey_visit_time=True),
        comers("a", "b"),
        [(120.0, "a"), (121.0, "b")],
        known=asks("Visit-time: 0002-0010"),
    ),
    Scenario(
        "Visit-time: robots.txt is asked for at any hour",
        GateOptions(delay=1.0, obey_visit_time=True),
        comers("a"),
        [(0.0, "robots.txt"), (120.0, "a")],
        robots=asks("Visit-time: 0002-0010"),
    ),
    Scenario(
        "Visit-time: a start further off than max_block is refused at once",
        GateOptions(delay=1.0, obey_visit_time=True, max_block=300.0),
        (Comer("a", 59.0), Comer("b", 60.0), Comer("c", DAY - 301.0), Comer("d", DAY - 300.0)),
        [
            (59.0, "a"),
            (60.0, "b: HostUnavailableError"),
            (DAY - 301.0, "c: HostUnavailableError"),
            (DAY, "d"),
        ],
        known=asks("Visit-time: 0000-0000"),
    ),
    Scenario(
        "Visit-time is an option",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "a"), (1.0, "b")],
        known=asks("Visit-time: 0002-0010"),
    ),
    Scenario(
        "open_hours: robots.txt waits for them, too",
        GateOptions(delay=1.0, open_hours=OpenHours("00:02-00:10")),
        comers("a", "b"),
        [(120.0, "robots.txt"), (121.0, "a"), (122.0, "b")],
        robots="",
    ),
    Scenario(
        "open_hours and Visit-time are both kept",
        GateOptions(delay=1.0, obey_visit_time=True, open_hours=OpenHours("00:01-00:03,00:05-00:10")),
        (*comers("a", "b"), Comer("c", 210.0)),
        [(120.0, "a"), (121.0, "b"), (300.0, "c")],
        known=asks("Visit-time: 0002-0005"),
    ),
    Scenario(
        "a quota counts the starts of any such stretch of time",
        GateOptions(delay=0.0, rate=(2, 10.0)),
        (*comers("a", "b"), Comer("c", 4.0), Comer("d", 5.0), Comer("e", 6.0)),
        [(0.0, "a"), (0.0, "b"), (10.0, "c"), (10.0, "d"), (20.0, "e")],
    ),
    Scenario(
        "a quota over all hosts",
        GateOptions(delay=1.0, total_rate=(3, 60.0)),
        (*comers("a", "b"), Comer("c", site=OTHER_SITE), Comer("d", site=OTHER_SITE)),
        [(0.0, "a"), (0.0, "c"), (1.0, "b"), (60.0, "d")],
    ),
]

BLOCKS: Final = [
    Scenario(
        "429 with Retry-After in seconds",
        GateOptions(delay=1.0),
        (Comer("a", takes=0.5, status=429, retry_after="120"), *comers("b", "c")),
        [(0.0, "a"), (120.5, "b"), (121.5, "c")],
    ),
    Scenario(
        "429 with Retry-After as an HTTP date",
        GateOptions(delay=1.0),
        (Comer("a", takes=0.5, status=429, retry_after="Thu, 01 Jan 1970 00:02:00 GMT"), Comer("b")),
        [(0.0, "a"), (120.0, "b")],
    ),
    Scenario(
        "a Retry-After shorter than the delay does not shorten it",
        GateOptions(delay=10.0),
        (Comer("a", status=503, retry_after="3"), Comer("b")),
        [(0.0, "a"), (10.0, "b")],
    ),
    Scenario(
        "a Retry-After of more than a day is taken as a day",
        GateOptions(delay=1.0, max_block=math.inf),
        (Comer("a", status=503, retry_after="999999"), Comer("b")),
        [(0.0, "a"), (DAY, "b")],
    ),
    Scenario(
        "503 without Retry-After: a minute, and up to a tenth more",
        GateOptions(delay=1.0),
        (Comer("a", status=503), Comer("b")),
        [(0.0, "a"), (between(60.0, 66.0), "b")],
    ),
    Scenario(
        "twice in a row: two minutes",
        GateOptions(delay=1.0),
        (Comer("a", status=503), Comer("b", status=503), Comer("c")),
        [(0.0, "a"), (between(60.0, 66.0), "b"), (between(180.0, 198.0), "c")],
    ),
    Scenario(
        "a good answer between them forgives nothing",
        GateOptions(delay=1.0),
        (Comer("a", status=503), Comer("b", 100.0), Comer("c", 200.0, status=503), Comer("d", 201.0)),
        [(0.0, "a"), (100.0, "b"), (200.0, "c"), (between(320.0, 332.0), "d")],
    ),
    Scenario(
        "a block longer than max_block sends away who waits, at once, and who comes, while it is too long",
        GateOptions(delay=1.0, max_block=300.0),
        (
            Comer("a", takes=2.0, status=503, retry_after="1000"),
            *comers("b", "c"),
            Comer("d", 701.0),
            Comer("e", 702.0),
        ),
        [
            (0.0, "a"),
            (2.0, "b: HostUnavailableError"),
            (2.0, "c: HostUnavailableError"),
            (701.0, "d: HostUnavailableError"),
            (1002.0, "e"),
        ],
    ),
    Scenario(
        "and does so where the delay is longer than the block",
        GateOptions(delay=10.0, max_block=3.0),
        (Comer("a", takes=1.0, status=429, retry_after="5"), Comer("b")),
        [(0.0, "a"), (1.0, "b: HostUnavailableError")],
    ),
    Scenario(
        "a host that is given up: everybody is told at once, one tries again, and who comes then waits for that",
        GateOptions(delay=0.5, give_up_after=0.0),
        (
            Comer("a", takes=1.0, finds_nobody=True),
            *comers("b", "c"),
            Comer("d", 1.5),
            Comer("e", 2.5, takes=2.0),
            Comer("f", 3.0),
        ),
        [
            (0.0, "a"),
            (1.0, "b: HostUnavailableError"),
            (1.0, "c: HostUnavailableError"),
            (1.5, "d: HostUnavailableError"),
            (2.5, "e"),
            (5.0, "f"),
        ],
    ),
    Scenario(
        "a host that cannot be reached for a moment: everybody waits, one tries, and the others wait for that",
        GateOptions(delay=0.0, max_wait=30.0),
        (
            Comer("a", takes=1.0, finds_nobody=True),
            Comer("b", finds_nobody=True),
            Comer("c", takes=2.0),
            Comer("d", 1.5),
        ),
        [(0.0, "a"), (between(2.0, 2.1), "b"), (between(4.0, 4.3), "c"), (between(6.0, 6.3), "d")],
    ),
    Scenario(
        "who may not wait for the next try is told so",
        GateOptions(delay=0.0),
        (Comer("a", finds_nobody=True), Comer("b", 0.5, max_wait=0.4), Comer("c", 0.5, max_wait=0.7)),
        [(0.0, "a"), (0.5, "b: TooSoonError"), (between(1.0, 1.1), "c")],
    ),
    Scenario(
        "a late answer holds nobody back",
        GateOptions(delay=1.0),
        (Comer("a", takes=1.0, times_out=True), *comers("b", "c")),
        [(0.0, "a"), (2.0, "b"), (3.0, "c")],
    ),
]

ORDER_AND_PATIENCE: Final = [
    Scenario(
        "the higher priority first, then who came first",
        GateOptions(delay=1.0),
        (
            Comer("first"),
            Comer("low", 0.1, priority=-1),
            Comer("b", 0.2),
            Comer("high", 0.3, priority=5),
            Comer("c", 0.4),
            Comer("higher", 2.5, priority=6),
        ),
        [(0.0, "first"), (1.0, "high"), (2.0, "b"), (3.0, "higher"), (4.0, "c"), (5.0, "low")],
    ),
    Scenario(
        "who leaves leaves no gap",
        GateOptions(delay=1.0),
        (Comer("a"), Comer("b", leaves_at=0.5), Comer("c")),
        [(0.0, "a"), (1.0, "c")],
    ),
    Scenario(
        "who leaves in the middle of a turn has had it",
        GateOptions(delay=1.0),
        (Comer("a", takes=10.0, leaves_at=0.5), Comer("b")),
        [(0.0, "a"), (1.5, "b")],
    ),
    Scenario(
        "max_wait: refused at once where the delay alone takes longer",
        GateOptions(delay=10.0),
        (Comer("a"), Comer("b", 2.0, max_wait=7.5), Comer("c", 2.0, max_wait=8.0)),
        [(0.0, "a"), (2.0, "b: TooSoonError"), (10.0, "c")],
    ),
    Scenario(
        "max_wait: refused at once where those who go before take longer",
        GateOptions(delay=10.0),
        (*comers("a", "b", "c"), Comer("d", 1.0, max_wait=25.0), Comer("e", 1.0, max_wait=15.0, priority=1)),
        [(0.0, "a"), (1.0, "d: TooSoonError"), (10.0, "e"), (20.0, "b"), (30.0, "c")],
    ),
    Scenario(
        "max_wait: refused at its end where it might have done, without a place taken in vain",
        GateOptions(delay=1.0),
        (Comer("a", takes=5.0), Comer("b", max_wait=2.5), Comer("c")),
        [(0.0, "a"), (2.5, "b: TooSoonError"), (6.0, "c")],
    ),
    Scenario(
        "max_wait of nothing: now or not at all",
        GateOptions(delay=1.0),
        (Comer("a", max_wait=0.0), Comer("b", 0.5, max_wait=0.0), Comer("c", 1.0, max_wait=0.0)),
        [(0.0, "a"), (0.5, "b: TooSoonError"), (1.0, "c")],
    ),
]

OPERATOR: Final = [
    Scenario(
        "a host is left alone until an instant, and who waits waits for it",
        GateOptions(delay=1.0),
        comers("a", "b", "c"),
        [(0.0, "a"), (50.0, "b"), (51.0, "c")],
        acts=((0.5, lambda gate: gate.block("a.example", 50.0)),),
    ),
    Scenario(
        "until that is lifted",
        GateOptions(delay=1.0),
        comers("a", "b"),
        [(0.0, "a"), (20.0, "b")],
        acts=((0.5, lambda gate: gate.block("*", 200.0)), (20.0, lambda gate: gate.unblock("*"))),
    ),
    Scenario(
        "for longer than max_block: everybody is told so at once",
        GateOptions(delay=1.0),
        (*comers("a", "b"), Comer("c", 10.0)),
        [(0.0, "a"), (0.5, "b: HostUnavailableError"), (10.0, "c: HostUnavailableError")],
        acts=((0.5, lambda gate: gate.block("a.example")),),
    ),
    Scenario(
        "a longer delay holds for who waits already",
        GateOptions(delay=1.0),
        comers("a", "b", "c"),
        [(0.0, "a"), (1.0, "b"), (6.0, "c")],
        acts=((1.5, lambda gate: gate.override("*.example", HostOverride(delay=5.0))),),
    ),
    Scenario(
        "a shorter delay takes back nothing that was promised",
        GateOptions(delay=5.0),
        comers("a", "b", "c"),
        [(0.0, "a"), (5.0, "b"), (6.0, "c")],
        acts=((1.5, lambda gate: gate.override("a.example", HostOverride(delay=1.0))),),
    ),
    Scenario(
        "more at a time, at once",
        GateOptions(delay=0.0),
        comers("a", "b", "c", takes=10.0),
        [(0.0, "a"), (3.0, "b"), (10.0, "c")],
        acts=((3.0, lambda gate: gate.override("a.example", HostOverride(concurrency_per_host=2))),),
    ),
    Scenario(
        "rules that are learnt hold for who waits already",
        GateOptions(delay=1.0),
        comers("a", "b", "c"),
        [(0.0, "a"), (1.0, "b"), (8.0, "c")],
        acts=((1.5, lambda gate: gate.learn(SITE, asks("Crawl-delay: 7").encode())),),
    ),
    Scenario(
        "rules that refuse who waits take no turn for it",
        GateOptions(delay=1.0),
        (*comers("a", "b"), Comer("c", 1.0, site=OTHER_SITE)),
        [(0.0, "a"), (1.0, "c"), (1.0, "b: DisallowedError")],
        acts=((0.5, lambda gate: gate.learn(SITE, asks("Disallow: /").encode())),),
    ),
]

TABLE: Final = [*SPACING, *HOURS_AND_QUOTAS, *BLOCKS, *ORDER_AND_PATIENCE, *OPERATOR]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
async def test_scenario(row: Scenario) -> None:
    """What happens is what the row says, to the instant, and no task is left waiting."""
    sites = {} if row.robots is None else {SITE: row.robots}
    fetcher = scripted(sites, latency=row.robots_takes)
    log: list[tuple[float, str]] = []
    async with make_gate(fetcher, **row.options) as gate:
        if row.robots is None:
            gate.learn(SITE, row.known.encode(), fresh_until=FOR_EVER)
            gate.learn(OTHER_SITE, row.known.encode(), fresh_until=FOR_EVER)
        loop = asyncio.get_running_loop()
        for at, act in row.acts:
            if at <= loop.time():
                act(gate)
            else:
                loop.call_at(at, act, gate)
        tasks = [asyncio.create_task(comer.come(gate, log)) for comer in row.comers]
        for task, comer in zip(tasks, row.comers, strict=True):
            if comer.leaves_at is not None:
                loop.call_at(comer.leaves_at, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    unexpected = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert unexpected == []
    asked_at = [(at, url.removeprefix(f"{SITE}/")) for at, url in fetcher.requests]
    assert sorted([*asked_at, *log], key=lambda entry: entry[0]) == row.happens
