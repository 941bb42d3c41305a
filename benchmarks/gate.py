"""The gate's answers: what one costs when the rules are known, and many tasks at once on new hosts.

*Warm*: distinct URLs, one after another. Beside the gate, awaiting a coroutine that does nothing, which is the floor;
looking the URL itself up in a dict; and Protego's ``can_fetch`` on one parsed copy of the same file, which has no host
to look up. All numbers of hosts are measured in the same rounds.

*Storm*: ten thousand tasks ask at once. A real aiohttp server in another process counts the requests for robots.txt;
each answer takes it 50 ms. The hosts are names, which a resolver of our own sends to the loopback interface.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from protego import Protego

from benchmarks._client import LoopbackResolver, alone
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import figures_of, interleaved, say
from benchmarks._server import noting_site
from benchmarks._small_site import ROBOTS_TXT, site, urls_over
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from benchmarks._server import NotingSite

PACKAGES: Final = ("robotgate", "aiohttp", "protego", "yarl")
AGENT: Final = "ExampleBot/1.0"
ROUNDS: Final = {Effort.QUICK: 2, Effort.FULL: 5}
HOSTS: Final = {Effort.QUICK: (1, 1_000), Effort.FULL: (1, 1_000, 100_000)}
CALLS: Final = {Effort.QUICK: 5_000, Effort.FULL: 50_000}
"""Per round; also how many distinct URLs there are."""
STORMS: Final = {Effort.QUICK: 1, Effort.FULL: 5}
STORM_TASKS: Final = {Effort.QUICK: 1_000, Effort.FULL: 10_000}
STORM_HOSTS: Final = {Effort.QUICK: (1, 100), Effort.FULL: (1, 1_000)}
LATENCY: Final = 0.05
"""Seconds."""

OURS: Final = "await gate.allowed"
OURS_NOWAIT: Final = "gate.allowed_nowait"
PROTEGO: Final = "Protego.can_fetch"
COROUTINE: Final = "bare coroutine"
DICT: Final = "bare dict look-up"
WAYS: Final = (OURS, OURS_NOWAIT, PROTEGO, COROUTINE, DICT)
FLAT: Final = 1.5
"""What an answer among a hundred thousand hosts may take of one among a single host. The work is the same; but the
rules of one host stay in the processor's caches, and those of a hundred thousand, some 100 MB, are fetched from memory,
each time a few things that lie apart."""

WARM_COLUMNS: Final = (
    Column(key="mean", title="mean, ns", shows_spread=True),
    Column(key="p99", title="p99, ns"),
    Column(key="ratio", title="mean, of Protego's", decimals=2, shows_spread=True),
)
STORM_COLUMNS: Final = (
    Column(key="requests", title="robots.txt requests at the server"),
    Column(key="most", title="most for one host"),
    Column(key="last", title="last answer, s", decimals=2, shows_spread=True),
)


def measure(effort: Effort) -> Findings:
    """Warm answers and storms, each in processes of their own."""
    say("warm answers")
    warm = alone(_warm, effort)
    say("storms")
    with noting_site(LATENCY) as server:
        works = {hosts: _Storm(server.port, hosts, STORM_TASKS[effort]) for hosts in STORM_HOSTS[effort]}
        storms = interleaved(STORMS[effort], {hosts: _counted(work, server) for hosts, work in works.items()})
    tables = [_warm_table(hosts, ways) for hosts, ways in warm.items()]
    return Findings(
        tables=(*tables, _storm_table(storms, STORM_TASKS[effort])),
        goals=(*_warm_goals(warm), *storm_goals(storms)),
    )


def _warm_table(hosts: int, ways: Mapping[str, Mapping[str, Figure]]) -> Table:
    return Table(
        key=f"warm-{hosts}",
        title=f"A warm answer, {hosts:,} host{'s' if hosts > 1 else ''}",
        columns=WARM_COLUMNS,
        rows=tuple(
            Row(
                name=name,
                figures={**ways[name], "ratio": ways[name]["mean"].over(ways[PROTEGO]["mean"])},
                is_ours=name in {OURS, OURS_NOWAIT},
                size=hosts,
            )
            for name in WAYS
        ),
        note="Protego has one parsed file and is not asked which host it is; the gate finds the host's.",
    )


def _warm_goals(warm: Mapping[int, Mapping[str, Mapping[str, Figure]]]) -> list[Goal]:
    few, *_, many = warm
    thirds = [
        Goal(
            text=f"{OURS}, warm, {hosts:,} host{'s' if hosts > 1 else ''}: of the time of {PROTEGO}",
            figure=ways[OURS]["mean"].over(ways[PROTEGO]["mean"]),
            at_most=0.35,
        )
        for hosts, ways in warm.items()
    ]
    flat = Goal(
        text=f"{OURS}, warm: time at {many:,} hosts, of that at {few:,}",
        figure=warm[many][OURS]["mean"].over(warm[few][OURS]["mean"]),
        at_most=FLAT,
    )
    return [*thirds, flat]


def _storm_table(storms: Mapping[int, Mapping[str, Figure]], tasks: int) -> Table:
    return Table(
        key="storm",
        title=f"{tasks:,} tasks ask at once, nothing being known",
        columns=STORM_COLUMNS,
        rows=tuple(
            Row(
                name=f"{hosts:,} cold host{'s' if hosts > 1 else ''}",
                figures=figures,
                is_ours=True,
                size=hosts,
            )
            for hosts, figures in storms.items()
        ),
        note=f"The server takes {LATENCY * 1e3:.0f} ms for each robots.txt.",
    )


def storm_goals(storms: Mapping[int, Mapping[str, Figure]]) -> list[Goal]:
    """One request for each host's robots.txt, however many ask."""
    return [
        Goal(
            text=f"storm on {hosts:,} cold host{'s' if hosts > 1 else ''}: robots.txt requests for a host, at most",
            # Not twice in any round.
            figure=Figure((max(figures["most"].rounds),)),
            at_most=1,
        )
        for hosts, figures in storms.items()
    ]


def _warm(effort: Effort) -> dict[int, dict[str, dict[str, Figure]]]:
    """What each way took, by number of hosts."""
    return asyncio.run(_warm_rounds(effort))


async def _warm_rounds(effort: Effort) -> dict[int, dict[str, dict[str, Figure]]]:
    async with AsyncExitStack() as opened:
        known = {hosts: await _Known.open(hosts, CALLS[effort], opened) for hosts in HOSTS[effort]}
        for one in known.values():
            await one.round()
        rounds: dict[int, list[dict[str, dict[str, float]]]] = {hosts: [] for hosts in known}
        for _ in range(ROUNDS[effort]):
            for hosts, one in known.items():
                rounds[hosts].append(await one.round())
    return {
        hosts: {name: figures_of([one[name] for one in each]) for name in WAYS}
        for hosts, each in rounds.items()
    }


class _Known:
    """A gate that knows so many hosts, and URLs to ask it for."""

    def __init__(self, gate: RobotGate, urls: list[str]) -> None:
        self._gate = gate
        self._urls = urls
        self._protego = Protego.parse(ROBOTS_TXT.decode())
        self._answers = dict.fromkeys(urls, True)

    @classmethod
    async def open(cls, hosts: int, calls: int, opened: AsyncExitStack) -> _Known:
        gate = await opened.enter_async_context(RobotGate(AGENT, contact="bot@example.org"))
        for number in range(hosts):
            gate.learn(site(number), ROBOTS_TXT)
        return cls(gate, urls_over(hosts, calls))

    async def round(self) -> dict[str, dict[str, float]]:
        """Each way once, over all URLs."""
        can_fetch = self._protego.can_fetch
        return {
            OURS: await _awaits(self._gate.allowed, self._urls),
            COROUTINE: await _awaits(_nothing, self._urls),
            PROTEGO: _calls(lambda url: can_fetch(url, AGENT), self._urls),
            OURS_NOWAIT: _calls(self._gate.allowed_nowait, self._urls),
            DICT: _calls(self._answers.__getitem__, self._urls),
        }


async def _nothing(url: str) -> bool:
    """The least that an awaited answer can cost."""
    return bool(url)


async def _awaits(ask: Callable[[str], Awaitable[bool]], urls: list[str]) -> dict[str, float]:
    """Nanoseconds: the mean, of CPU, the loop's own cost included; and the 99th of a hundred, the clock's taken off."""
    start = time.process_time_ns()
    for url in urls:
        await ask(url)
    mean = (time.process_time_ns() - start) / len(urls)
    clock = time.perf_counter_ns
    each = []
    for url in urls:
        begin = clock()
        await ask(url)
        each.append(clock() - begin)
    return {"mean": mean, "p99": _p99(each)}


def _calls(ask: Callable[[str], bool | None], urls: list[str]) -> dict[str, float]:
    """As `_awaits`."""
    start = time.process_time_ns()
    for url in urls:
        ask(url)
    mean = (time.process_time_ns() - start) / len(urls)
    clock = time.perf_counter_ns
    each = []
    for url in urls:
        begin = clock()
        ask(url)
        each.append(clock() - begin)
    return {"mean": mean, "p99": _p99(each)}


def _p99(each: list[int]) -> float:
    clock = time.perf_counter_ns
    tick = statistics.median(-(clock() - clock()) for _ in range(1_000))
    return sorted(each)[int(len(each) * 0.99)] - tick


class _Storm:
    """So many new hosts."""

    def __init__(self, port: int, hosts: int, tasks: int) -> None:
        self._urls = [f"http://{number % hosts}.site.example:{port}/page/{number}" for number in range(tasks)]

    def __call__(self) -> float:
        """Seconds until the last answer."""
        return asyncio.run(self._ask())

    async def _ask(self) -> float:
        async with (
            ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session,
            RobotGate(AGENT, contact="bot@example.org", session=session) as gate,
        ):
            start = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                answers = [tasks.create_task(gate.allowed(url)) for url in self._urls]
            elapsed = time.perf_counter() - start
        if not all(answer.result() for answer in answers):
            raise RuntimeError("the server allows everything that is asked for here")
        return elapsed


def _counted(storm: _Storm, server: NotingSite) -> Callable[[], Mapping[str, float]]:
    """A storm, and what the server has seen of it."""

    def work() -> Mapping[str, float]:
        last = alone(storm)
        counts = server.robots_requests()
        return {"requests": counts.total(), "most": max(counts.values()), "last": last}

    return work
