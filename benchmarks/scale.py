"""How costs grow with rules, bytes, hosts and waiters: sizes ten times apart, and the exponent fitted to them.

An exponent of 0 is a cost that stays the same, of 1 one that grows as the size does. All sizes of one cost, ours and
a peer's, are measured in the same rounds, in a process of its own; times are of CPU.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks._bench import alone, alone_in_loop, figures_of, interleaved
from benchmarks._hard_files import plain
from benchmarks._known import Queue, known_gate, learn, waiting_gate
from benchmarks._libraries import OURS, PROTEGO, Library
from benchmarks._plots import exponent
from benchmarks._report import Column, Effort, Findings
from benchmarks._site import SMALL, urls_over
from benchmarks.memory import MERELY, learnt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from benchmarks._report import Figure
    from robotgate import RobotGate

    Work = Callable[[], dict[str, float]]
    Sizes = dict[int, dict[str, Figure]]
    """Figures by size and column."""

PACKAGES: Final = ("robotgate", "aiolimiter", "protego")


@dataclass(frozen=True, slots=True)
class Cost:
    """Something that takes time or memory, and what its growth is held to."""

    key: str
    title: str
    what: str
    """What the sizes are of: ``rules``."""
    names: tuple[str, str]
    """Ours, and the peer's."""
    unit: Column
    """Of the figures."""
    measure: Callable[[Effort], Sizes]
    at_most: float
    """Our exponent."""
    note: str


def measure(effort: Effort) -> Findings:
    """Every cost, and the exponents of all."""
    findings = Findings()
    fitted: dict[str, dict[str, Figure]] = {}
    for cost in COSTS:
        sizes = alone(cost.measure, effort)
        rows = {f"{size:,} {cost.what}": figures for size, figures in sizes.items()}
        title = cost.title[:1].upper() + cost.title[1:]
        keys = dict(zip(("ours", "peer"), cost.names, strict=True))
        columns = [
            replace(cost.unit, key=key, title=f"{name}, {cost.unit.title}") for key, name in keys.items()
        ]
        findings.table(cost.key, title, columns, rows, sizes=sizes, note=cost.note)
        for key, name in keys.items():
            rounds = zip(*(figures[key] for figures in sizes.values()), strict=True)
            slopes = [exponent(dict(zip(sizes, costs, strict=True))) for costs in rounds]
            fitted[f"{cost.title}, in {cost.what}: {name}"] = {"exponent": slopes}
            if key == "ours":
                findings.goal(f"exponent of {cost.title}, in {cost.what}", slopes, at_most=cost.at_most)
    column = Column("exponent", "exponent", 2, shows_spread=True)
    note = "0: stays the same; 1: grows as the size does."
    findings.table("exponents", "Exponents", (column,), fitted, ours=[*fitted][::2], note=note)
    return findings


def _by_size(effort: Effort, works: dict[tuple[int, str], Work]) -> Sizes:
    """What interleaved works find."""
    sizes: Sizes = {}
    for (size, name), figures in interleaved(effort.pick(1, 3), works).items():
        sizes.setdefault(size, {})[name] = figures["cost"]
    return sizes


def _again(effort: Effort, work: Callable[[], object]) -> float:
    """CPU seconds of one call, of as many as fill some time."""
    count, began = 0, time.process_time()
    while (elapsed := time.process_time() - began) < effort.pick(0.005, 0.1):
        work()
        count += 1
    return elapsed / count


def match(effort: Effort) -> Sizes:
    """Nanoseconds of a question: rules at all places of the file, and none. More than ten thousand would be cut off."""

    def work(library: Library, rules: int) -> Work:
        ask = library.parse(plain(rules))
        urls = [library.asked(f"/section-{rules * tenth // 10}/page/x") for tenth in range(10)]
        urls += [library.asked(f"/about/{tenth}.html") for tenth in range(10)]
        ask(urls[0])
        return lambda: {"cost": _again(effort, lambda: [ask(url) for url in urls]) / len(urls) * 1e9}

    sizes = effort.pick((10, 100, 1_000), (10, 100, 1_000, 10_000))
    both = {"ours": OURS, "peer": PROTEGO}
    return _by_size(effort, {(size, key): work(each, size) for size in sizes for key, each in both.items()})


def allowed(effort: Effort) -> Sizes:
    """Nanoseconds of a warm answer."""
    return asyncio.run(_allowed_rounds(effort))


async def _allowed_rounds(effort: Effort) -> Sizes:
    rounds: dict[int, list[dict[str, float]]] = {}
    async with AsyncExitStack() as opened:
        known = {
            hosts: (await known_gate(hosts, opened, SMALL), urls_over(hosts, effort.pick(2_000, 50_000)))
            for hosts in effort.pick((1, 10, 100), (1, 10, 100, 1_000, 10_000, 100_000))
        }
        for gate, urls in known.values():
            await _ask_all(gate, urls)
        for _ in range(effort.pick(1, 3)):
            for hosts, (gate, urls) in known.items():
                answers = dict.fromkeys(map(_host_of, urls), True)
                began = time.process_time()
                await _ask_all(gate, urls)
                ours = time.process_time() - began
                began = time.process_time()
                for url in urls:
                    answers[_host_of(url)]
                bare = time.process_time() - began
                costs = {"ours": ours / len(urls) * 1e9, "peer": bare / len(urls) * 1e9}
                rounds.setdefault(hosts, []).append(costs)
    return {hosts: figures_of(each) for hosts, each in rounds.items()}


async def _ask_all(gate: RobotGate, urls: Iterable[str]) -> None:
    for url in urls:
        await gate.allowed(url)


def _host_of(url: str) -> str:
    return url.split("/", 3)[2]


def grant(effort: Effort) -> Sizes:
    """Microseconds for each of those who wait at one host, from the first turn that is given to the last."""

    def mean(one: Callable[[int], Coroutine[object, None, float]], waiters: int) -> dict[str, float]:
        """For each of the waiters, of as many queues as make up a thousand of them."""
        queues = max(1, 1_000 // waiters)
        return {"cost": sum(asyncio.run(one(waiters)) for _ in range(queues)) / queues / waiters * 1e6}

    sizes = effort.pick((10, 100, 1_000), (10, 100, 1_000, 10_000, 100_000))
    ways = {"ours": _turns, "peer": _locks}
    return _by_size(
        effort, {(size, name): partial(mean, one, size) for size in sizes for name, one in ways.items()}
    )


async def _turns(waiters: int) -> float:
    async with waiting_gate(0.0) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            queue = Queue(gate, waiters * [url])
            await queue.form()
            began = time.process_time()
        await queue.empty(is_one=True)
        return time.process_time() - began


async def _locks(waiters: int) -> float:
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


def memory(effort: Effort) -> Sizes:
    """Bytes of each host that was learnt, and of one that was asked just now; fewer find room in what others left."""
    sizes: Sizes = {}
    for hosts in effort.pick((1_000, 2_000), (1_000, 10_000)):
        found = alone_in_loop("virtual", learnt, hosts, is_traced=True)
        sizes[hosts] = {"ours": [next(iter(found.values()))], "peer": [found[MERELY]]}
    return sizes


COSTS: Final = (
    Cost(
        "match",
        "time of a question",
        "rules",
        ("robotgate", "Protego"),
        Column("", "ns"),
        match,
        at_most=0.1,
        note="Ten URLs that a rule matches, from the first rule to one of the last, and ten that none does.",
    ),
    Cost(
        "allowed",
        "time of a warm answer",
        "hosts",
        ("gate.allowed", "host in a dict"),
        Column("", "ns"),
        allowed,
        at_most=0.1,
        note="The host is cut from the URL and looked up. A hundred thousand hosts do not fit into the processor's "
        "caches, in a dict or in a gate.",
    ),
    Cost(
        "grant",
        "time of a turn",
        "waiters at one host",
        ("gate.turn", "asyncio.Lock"),
        Column("", "µs", 1),
        grant,
        at_most=0.15,
        note="With a delay of 0, and all waiting before the first is let in; asyncio's loop is in both figures.",
    ),
    Cost(
        "memory",
        "memory of a known host",
        "hosts",
        ("learnt and asked just now", "merely learnt"),
        Column("", "bytes"),
        memory,
        at_most=0.1,
        note="By `tracemalloc`.",
    ),
)
