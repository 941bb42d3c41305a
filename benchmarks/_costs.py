"""The costs whose growth is looked at: each measures all of its sizes, ours and a peer's, in the same rounds."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks._client import alone
from benchmarks._hard_files import plain
from benchmarks._known_hosts import learnt
from benchmarks._libraries import OURS, PROTEGO, Library
from benchmarks._queues import Queue, gate_of, learn
from benchmarks._report import Effort, Figure
from benchmarks._rounds import figures_of, interleaved
from benchmarks._small_site import ROBOTS_TXT, site, urls_over
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

ROUNDS: Final = {Effort.QUICK: 1, Effort.FULL: 3}
LEAST_TIME: Final = {Effort.QUICK: 0.005, Effort.FULL: 0.1}
"""CPU seconds for which what is short is done again and again."""
RULES: Final = {Effort.QUICK: (10, 100, 1_000), Effort.FULL: (10, 100, 1_000, 10_000)}
"""A file of more than ten thousand of them would be cut off."""
HOSTS: Final = {Effort.QUICK: (1, 10, 100), Effort.FULL: (1, 10, 100, 1_000, 10_000, 100_000)}
KNOWN: Final = {Effort.QUICK: (1_000, 2_000), Effort.FULL: (1_000, 10_000)}
"""Fewer find room in what others have left."""
WAITERS: Final = {Effort.QUICK: (10, 100, 1_000), Effort.FULL: (10, 100, 1_000, 10_000, 100_000)}
GIVING_UP: Final = {Effort.QUICK: (10, 100, 1_000), Effort.FULL: (10, 100, 1_000, 10_000)}
"""A waiter that gives up a lock is searched for among all of its waiters."""
CALLS: Final = {Effort.QUICK: 2_000, Effort.FULL: 50_000}
PAGE: Final = "/section-%d/page/x"
LOCK: Final = "lock"
DICT: Final = "dict"


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


def match(effort: Effort) -> dict[int, dict[str, Figure]]:
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


def parse(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Microseconds of a file, ready for its first question's rules to be looked up."""

    def work(library: Library, rules: int) -> Callable[[], float]:
        body = plain(rules)
        url = library.asked("/about/us.html")
        return lambda: _again(lambda: library.parse(body)(url), LEAST_TIME[effort]) * 1e6

    works = {
        (rules, library.name): work(library, rules) for rules in RULES[effort] for library in (OURS, PROTEGO)
    }
    return _by_size(ROUNDS[effort], works)


def allowed(effort: Effort) -> dict[int, dict[str, Figure]]:
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
                rounds[hosts].append({OURS.name: ours / len(urls) * 1e9, DICT: bare / len(urls) * 1e9})
    return {hosts: figures_of(each) for hosts, each in rounds.items()}


async def _ask_all(gate: RobotGate, urls: Iterable[str]) -> None:
    for url in urls:
        await gate.allowed(url)


def _host_of(url: str) -> str:
    return url.split("/", 3)[2]


def grant(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Microseconds for each of those who wait at one host, from the first turn that is given to the last."""
    return _of_queues(effort, WAITERS[effort], is_given_up=False)


def cancel(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Microseconds for each of those who wait at one host, from the first that is cancelled until all are gone."""
    return _of_queues(effort, GIVING_UP[effort], is_given_up=True)


def _of_queues(effort: Effort, sizes: Iterable[int], *, is_given_up: bool) -> dict[int, dict[str, Figure]]:
    works: dict[tuple[int, str], Callable[[], float]] = {}
    for waiters in sizes:
        for name, one in ((OURS.name, _turns), (LOCK, _locks)):
            works[waiters, name] = partial(_mean, partial(one, waiters, is_given_up=is_given_up), waiters)
    return _by_size(ROUNDS[effort], works)


def _mean(one: Callable[[], Coroutine[object, None, float]], waiters: int) -> float:
    """Microseconds for each of the waiters, of as many queues as make up a thousand of them."""
    queues = max(1, 1_000 // waiters)
    return sum(asyncio.run(one()) for _ in range(queues)) / queues / waiters * 1e6


async def _turns(waiters: int, *, is_given_up: bool) -> float:
    async with gate_of(0.0) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            queue = Queue(gate, waiters * [url])
            await queue.form()
            began = time.process_time()
            if is_given_up:
                await _give_up(queue.tasks)
                return time.process_time() - began
        await queue.empty(is_one=True)
        return time.process_time() - began


async def _locks(waiters: int, *, is_given_up: bool) -> float:
    lock = asyncio.Lock()

    async def take() -> None:
        async with lock:
            pass

    async with lock:
        tasks = [asyncio.create_task(take()) for _ in range(waiters)]
        await asyncio.sleep(0)
        began = time.process_time()
        if is_given_up:
            await _give_up(tasks)
            return time.process_time() - began
    await asyncio.wait(tasks)
    return time.process_time() - began


async def _give_up(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)


def memory(effort: Effort) -> dict[int, dict[str, Figure]]:
    """Bytes of each host that was learnt, and of one that was asked just now."""
    return {hosts: _bytes_each(hosts) for hosts in KNOWN[effort]}


def _bytes_each(hosts: int) -> dict[str, Figure]:
    merely, asked, _ = alone(learnt, hosts, is_traced=True)
    return {"asked": Figure((asked,)), "learnt": Figure((merely,))}
