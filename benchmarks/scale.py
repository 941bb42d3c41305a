"""How costs grow with rules, octets, hosts and waiters: sizes ten times apart, and the exponent fitted to them.

An exponent of 0 is a cost that stays the same, of 1 one that grows as the size does. All sizes of one cost, ours and
a peer's, are measured in the same rounds, in a process of its own; times are of CPU.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks._client import alone
from benchmarks._fit import exponents
from benchmarks._hard_files import plain
from benchmarks._known_hosts import learnt
from benchmarks._libraries import OURS, PROTEGO, Library
from benchmarks._queues import Queue, gate_of, learn
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import figures_of, interleaved, say
from benchmarks._small_site import ROBOTS_TXT, site, urls_over
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Work = Callable[[], Mapping[str, float]]

PACKAGES: Final = ("robotgate", "aiolimiter", "protego")
ROUNDS: Final = {Effort.QUICK: 1, Effort.FULL: 5}
LEAST_TIME: Final = {Effort.QUICK: 0.005, Effort.FULL: 0.1}
"""CPU seconds for which what is short is done again and again."""
RULES: Final = {Effort.QUICK: (10, 100, 1_000), Effort.FULL: (10, 100, 1_000, 10_000)}
"""A file of more than ten thousand of them would be cut off."""
HOSTS: Final = {Effort.QUICK: (1, 10, 100), Effort.FULL: (1, 10, 100, 1_000, 10_000, 100_000)}
KNOWN: Final = {Effort.QUICK: (100, 1_000), Effort.FULL: (100, 1_000, 10_000)}
WAITERS: Final = {Effort.QUICK: (10, 100, 1_000), Effort.FULL: (10, 100, 1_000, 10_000, 100_000)}
CALLS: Final = {Effort.QUICK: 2_000, Effort.FULL: 100_000}
PAGE: Final = "/section-%d/page/x"
OURS_NAME: Final = "robotgate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Something that takes time or memory, and what its growth is held to."""

    key: str
    title: str
    what: str
    """What the sizes are of: ``rules``."""
    columns: tuple[Column, ...]
    """Ours is the first."""
    measure: Callable[[Effort], dict[int, dict[str, Figure]]]
    """Figures by size and column."""
    at_most: float
    """Our exponent."""
    note: str = ""


def measure(effort: Effort) -> Findings:
    """Every cost, and the exponents of all."""
    found: dict[str, dict[int, dict[str, Figure]]] = {}
    for cost in COSTS:
        say(cost.title)
        found[cost.key] = alone(cost.measure, effort)
    fitted = {cost.key: _fitted(cost, found[cost.key]) for cost in COSTS}
    tables = [_table(cost, found[cost.key]) for cost in COSTS]
    goals = [
        Goal(
            text=f"exponent of {cost.title}, in {cost.what}",
            figure=fitted[cost.key][cost.columns[0].key],
            at_most=cost.at_most,
        )
        for cost in COSTS
    ]
    return Findings(tables=(*tables, _exponents(fitted)), goals=tuple(goals))


def _fitted(cost: Cost, sizes: Mapping[int, Mapping[str, Figure]]) -> dict[str, Figure]:
    """Exponents, by column."""
    return {
        column.key: exponents({size: figures[column.key] for size, figures in sizes.items()})
        for column in cost.columns
    }


def _table(cost: Cost, sizes: Mapping[int, Mapping[str, Figure]]) -> Table:
    return Table(
        key=cost.key,
        title=cost.title[:1].upper() + cost.title[1:],
        columns=cost.columns,
        rows=tuple(
            Row(name=f"{size:,} {cost.what}", figures=figures, size=size) for size, figures in sizes.items()
        ),
        note=cost.note,
    )


def _exponents(fitted: Mapping[str, Mapping[str, Figure]]) -> Table:
    """A row for each cost of each who was measured."""
    rows = []
    for cost in COSTS:
        for column in cost.columns:
            name = f"{cost.title}, in {cost.what}: {column.title.partition(',')[0]}"
            figures = {"exponent": fitted[cost.key][column.key]}
            rows.append(Row(name=name, figures=figures, is_ours=column is cost.columns[0]))
    return Table(
        key="exponents",
        title="Exponents",
        columns=(Column(key="exponent", title="exponent", decimals=2, shows_spread=True),),
        rows=tuple(rows),
        note="0: stays the same; 1: grows as the size does.",
    )


def _again(work: Callable[[], object], least: float) -> float:
    """CPU seconds of one call, of as many as fill so much time."""
    count, began = 0, time.process_time()
    while (elapsed := time.process_time() - began) < least:
        work()
        count += 1
    return elapsed / count


def _by_size(
    rounds: int, works: Mapping[tuple[int, str], Callable[[], float]]
) -> dict[int, dict[str, Figure]]:
    """What interleaved works find, by size and column."""
    found = interleaved(rounds, {key: partial(_named, work) for key, work in works.items()})
    sizes: dict[int, dict[str, Figure]] = {}
    for (size, name), figures in found.items():
        sizes.setdefault(size, {})[name] = figures["cost"]
    return sizes


def _named(work: Callable[[], float]) -> dict[str, float]:
    return {"cost": work()}


def _match(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Nanoseconds of a question: rules at all places of the file, and none."""

    def work(library: Library, rules: int) -> Callable[[], float]:
        ask = library.parse(plain(rules))
        urls = [library.asked(PAGE % (rules * tenth // 10)) for tenth in range(10)]
        urls += [library.asked(f"/about/{tenth}.html") for tenth in range(10)]
        ask(urls[0])
        return lambda: _again(lambda: [ask(url) for url in urls], LEAST_TIME[effort]) / len(urls) * 1e9

    works = {
        (rules, library.name): work(library, rules) for rules in RULES[effort] for library in (OURS, PROTEGO)
    }
    return _by_size(ROUNDS[effort], works)


def _parse(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Microseconds of a file, ready for its first question's rules to be looked up."""

    def work(library: Library, rules: int) -> Callable[[], float]:
        body = plain(rules)
        url = library.asked("/about/us.html")
        return lambda: _again(lambda: library.parse(body)(url), LEAST_TIME[effort]) * 1e6

    works = {
        (rules, library.name): work(library, rules) for rules in RULES[effort] for library in (OURS, PROTEGO)
    }
    return _by_size(ROUNDS[effort], works)


def _allowed(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Nanoseconds of a warm answer."""
    return asyncio.run(_allowed_rounds(effort))


async def _allowed_rounds(effort: Effort) -> dict[int, dict[str, Figure]]:
    rounds: dict[int, list[dict[str, float]]] = {hosts: [] for hosts in HOSTS[effort]}
    async with AsyncExitStack() as opened:
        known = {}
        for hosts in rounds:
            gate = await opened.enter_async_context(RobotGate("ExampleBot/1.0", contact="bot@example.org"))
            for number in range(hosts):
                gate.learn(site(number), ROBOTS_TXT)
            urls = urls_over(hosts, CALLS[effort])
            await _ask_all(gate, urls)
            known[hosts] = gate, urls, dict.fromkeys(map(_host_of, urls), True)
        for _ in range(ROUNDS[effort]):
            for hosts, (gate, urls, answers) in known.items():
                began = time.process_time()
                await _ask_all(gate, urls)
                ours = time.process_time() - began
                began = time.process_time()
                for url in urls:
                    answers[_host_of(url)]
                bare = time.process_time() - began
                rounds[hosts].append({OURS_NAME: ours / len(urls) * 1e9, "dict": bare / len(urls) * 1e9})
    return {hosts: figures_of(each) for hosts, each in rounds.items()}


async def _ask_all(gate: RobotGate, urls: Iterable[str]) -> None:
    for url in urls:
        await gate.allowed(url)


def _host_of(url: str) -> str:
    return url.split("/", 3)[2]


def _grant(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Microseconds for each of those who wait at one host, from the first turn that is given to the last."""
    works: dict[tuple[int, str], Callable[[], float]] = {}
    for waiters in WAITERS[effort]:
        works[waiters, OURS_NAME] = partial(_turns, waiters)
        works[waiters, "lock"] = partial(_locks, waiters)
    return _by_size(ROUNDS[effort], works)


def _enough(one: Callable[[int], float], waiters: int) -> float:
    """The mean of as many queues as make up a thousand waiters."""
    queues = max(1, 1_000 // waiters)
    return sum(one(waiters) for _ in range(queues)) / queues / waiters * 1e6


def _turns(waiters: int) -> float:
    return _enough(lambda count: asyncio.run(_turns_taken(count)), waiters)


async def _turns_taken(waiters: int) -> float:
    async with gate_of(0.0) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            queue = Queue(gate, waiters * [url])
            await queue.form()
            began = time.process_time()
        await queue.empty(is_one=True)
        return time.process_time() - began


def _locks(waiters: int) -> float:
    return _enough(lambda count: asyncio.run(_locks_taken(count)), waiters)


async def _locks_taken(waiters: int) -> float:
    lock = asyncio.Lock()

    async def take() -> None:
        async with lock:
            pass

    async with lock:
        tasks = [asyncio.create_task(take()) for _ in range(waiters)]
        await asyncio.sleep(0)
        began = time.process_time()
    await asyncio.wait(tasks)
    return time.process_time() - began


def _memory(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Octets of each host that was learnt and asked."""
    return {hosts: _octets(hosts) for hosts in KNOWN[effort]}


def _octets(hosts: int) -> dict[str, Figure]:
    merely, asked = alone(learnt, hosts, is_traced=True)
    return {"asked": Figure((asked,)), "learnt": Figure((merely,))}


COSTS: Final = (
    Cost(
        key="match",
        title="time of a question",
        what="rules",
        columns=(Column(key=OURS.name, title="robotgate, ns"), Column(key=PROTEGO.name, title="Protego, ns")),
        measure=_match,
        at_most=0.1,
        note="Ten URLs that a rule matches, from the first rule to one of the last, and ten that none does.",
    ),
    Cost(
        key="parse",
        title="time of parsing, first question included",
        what="rules",
        columns=(
            Column(key=OURS.name, title="robotgate, µs", decimals=1),
            Column(key=PROTEGO.name, title="Protego, µs", decimals=1),
        ),
        measure=_parse,
        at_most=1.1,
        note="Below a hundred rules, what a file costs that has none weighs, too: the exponent is then below 1.",
    ),
    Cost(
        key="allowed",
        title="time of a warm answer",
        what="hosts",
        columns=(
            Column(key=OURS_NAME, title="await gate.allowed, ns"),
            Column(key="dict", title="the host cut from the URL and looked up in a dict, ns"),
        ),
        measure=_allowed,
        at_most=0.1,
        note="A hundred thousand hosts do not fit into the processor's caches, in a dict or in a gate.",
    ),
    Cost(
        key="grant",
        title="time of a turn",
        what="waiters at one host",
        columns=(
            Column(key=OURS_NAME, title="gate.turn, µs", decimals=1),
            Column(key="lock", title="asyncio.Lock, µs", decimals=1),
        ),
        measure=_grant,
        at_most=0.15,
        note="With a delay of 0, and all waiting before the first is let in; asyncio's loop is in both figures.",
    ),
    Cost(
        key="memory",
        title="memory of a known host",
        what="hosts",
        columns=(
            Column(key="asked", title="learnt and asked, octets"),
            Column(key="learnt", title="merely learnt, octets"),
        ),
        measure=_memory,
        at_most=0.1,
        note="By `tracemalloc`.",
    ),
)
