"""Bytes: of a host that is known; of a waiter; of a host's pace.

Each figure comes from a process of its own, and is taken on the virtual clock, where no turn comes due while things are
counted: *allocated* by `tracemalloc`, *resident* by what the process has in memory, without tracing. A known host
has a robots.txt of its own, of the median size of real ones, and is not waited for: a minute after the last question,
caches for recent ones have been dropped, and what is left is what the gate must not forget.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.robotparser import RobotFileParser

from protego import Protego

from benchmarks import _known as known
from benchmarks._bench import alone_in_loop, memory, resident_memory, say
from benchmarks._report import Column, Effort, Findings
from robotgate import MemoryStore, RobotGate
from robotgate.stores import HostState
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from benchmarks._report import Figure

    Values = dict[str, float]
    Work = Callable[..., Coroutine[object, None, Values]]

PACKAGES: Final = ("robotgate", "aiolimiter", "protego")
LIMIT: Final = 650
"""Bytes of a known host, beside those of its file, which are the store's."""
WARMING: Final = 1_000
"""Hosts that come first, so that what is there once does not count: caches of yarl's, for one, that hold so many."""
AT_ONCE: Final = 100
AFTERWARDS: Final = 60.0
"""Virtual seconds after which the caches for recent questions have been dropped."""
DELAY: Final = 60.0
"""Seconds, virtual; longer than any real pause of the program, as no time passes between two sleeps."""
VISITED: Final = "robotgate: visited a minute ago"
MERELY: Final = "robotgate: merely learnt"
BYTES_EACH: Final = (Column("allocated", "bytes each, allocated"), Column("resident", "bytes each, resident"))


def measure(effort: Effort) -> Findings:
    """Everything about memory."""
    findings = Findings()
    both = effort.pick([True], [True, False])
    for hosts in effort.pick((300,), (1_000, 100_000, 1_000_000)):
        # Tracing takes long: of many hosts, only what is resident is measured.
        _known(findings, hosts, both if hosts <= 1_000 else [False])
    _waiters(findings, effort.pick(300, 10_000), both)
    if effort is Effort.FULL:
        _flat(findings, 20_000, max_hosts=1_000, at_once=5)
    return findings


def _rows(hosts: int, traced: Iterable[bool], works: Iterable[Work]) -> dict[str, dict[str, Figure]]:
    """What works find, each in a process of its own for each way to count.

    Args:
        traced: whether bytes are counted by tracing.
    """
    rows: dict[str, dict[str, Figure]] = {}
    for is_traced in traced:
        for work in works:
            for name, measured in alone_in_loop("virtual", work, hosts, is_traced=is_traced).items():
                rows.setdefault(name, {})["allocated" if is_traced else "resident"] = [measured]
    return rows


def _known(findings: Findings, hosts: int, traced: Iterable[bool]) -> None:
    """A host that is known; a million would take long to be visited, and have no room in dicts of the peers."""
    say(f"{hosts:,} known hosts")
    peers: list[Work] = [partial(in_dict, peer) for peer in PEERS]
    rows = _rows(hosts, traced, [visited, learnt, *peers] if hosts < 1_000_000 else [learnt])
    findings.table(
        f"known-{hosts}",
        f"A known host, one of {hosts:,}",
        BYTES_EACH,
        rows,
        ours=rows.keys() - PEERS.keys(),
        sizes=[hosts] * len(rows),
        note=f"{known.MEDIAN_BYTES} bytes are its file, which gate and store share. *Visited*: the gate fetched it, "
        "and a page. *Learnt*: it was given to the gate, which was then asked, and the store was given a state of "
        "visits. The dicts know neither text nor state.",
    )
    for key, figure in [*rows.get(VISITED, {}).items()][:1]:
        text = f"a host visited a minute ago, one of {hosts:,}: bytes beside its file, {key}"
        findings.goal(text, [figure[0] - known.MEDIAN_BYTES], at_most=LIMIT)


def _waiters(findings: Findings, count: int, traced: Iterable[bool]) -> None:
    say(f"{count:,} waiters")
    rows = _rows(count, traced, [many_hosts, one_host])
    findings.table(
        "waiters",
        "Paces and waiters",
        BYTES_EACH,
        rows,
        ours=rows,
        sizes=[count] * len(rows),
        note="A waiter is a task in `async with gate.turn(url)`: its task, its coroutines and its place are counted. "
        "A host's pace is what its first visit adds to what is known of it.",
    )


def _flat(findings: Findings, hosts: int, *, max_hosts: int, at_once: int) -> None:
    """A store forgets no host that was visited within ten minutes, so some thousands more are kept than `max_hosts`."""
    say(f"{hosts:,} hosts through a gate for {max_hosts:,}")
    seen = alone_in_loop("virtual", through, hosts, max_hosts, at_once)
    rows: dict[str, dict[str, Figure]] = {
        f"{so_far:,} hosts": {"resident": [resident / 1e6]} for so_far, resident in seen.items()
    }
    findings.table(
        "flat",
        f"{hosts:,} hosts, one after another, through a gate and a store of max_hosts={max_hosts:,}",
        (Column("resident", "resident, MB", 1),),
        rows,
        ours=rows,
        sizes=seen,
        note=f"{at_once} a second; the store forgets no host that was visited in the last ten minutes.",
    )


def trace(*, is_traced: bool) -> None:
    """Count what Python allocates from now on, if asked to."""
    if is_traced:
        tracemalloc.start()


def gate_of(max_hosts: int, *, at_once: int = AT_ONCE, store: MemoryStore | None = None) -> RobotGate:
    """A gate for so many hosts; by default it has no store, as gates are unless they are given one."""
    return RobotGate(
        known.AGENT,
        contact=known.CONTACT,
        max_hosts=max_hosts,
        store=store,
        clock=VirtualClock(),
        fetcher=known.EverySite(),
        concurrency=at_once,
    )


async def visit_together(gate: RobotGate, numbers: Iterable[int], *, at_once: int = AT_ONCE) -> None:
    """Take hosts as they come, so many at once, and look at one page of each for a second."""
    left = iter(numbers)

    async def visit(left: Iterator[int]) -> None:
        for number in left:
            async with gate.turn(known.url_of(number)):
                await asyncio.sleep(1.0)

    await asyncio.gather(*(visit(left) for _ in range(at_once)))


async def visited(hosts: int, *, is_traced: bool) -> Values:
    """Bytes for each host whose robots.txt was fetched, whose rules were asked, and a page of which was looked at."""
    trace(is_traced=is_traced)
    async with gate_of(10 * hosts) as gate:
        await visit_together(gate, range(WARMING))
        await asyncio.sleep(AFTERWARDS)
        before = memory()
        await visit_together(gate, range(WARMING, WARMING + hosts))
        await asyncio.sleep(AFTERWARDS)
        return {VISITED: (memory() - before) / hosts}


async def learnt(hosts: int, *, is_traced: bool) -> Values:
    """Bytes for each host whose robots.txt was merely learnt; just after its rules were asked and its visits became
    known; and when nobody has asked for a minute.

    The state of visits is put into the store: a million visits would take ten minutes.
    """
    trace(is_traced=is_traced)
    store = MemoryStore(max_hosts=10 * hosts)
    async with gate_of(10 * hosts, store=store) as gate:
        now = time.time()

        def learn(number: int) -> None:
            gate.learn(known.url_of(number), known.file_of(number))

        def ask(number: int) -> None:
            gate.allowed_nowait(known.url_of(number))
            at = now + number / 7
            state = HostState(
                last_visit_at=at,
                next_allowed_at=at + 1,
                visits=2,
                bytes_read=known.MEDIAN_BYTES + 1,
                latency=at % 1,
            )
            store._grants.keep(known.host_of(number), state)  # noqa: SLF001 - without an await

        for number in range(WARMING):
            learn(number)
            ask(number)
        numbers = range(WARMING, WARMING + hosts)
        await asyncio.sleep(AFTERWARDS)
        marks = [memory()]
        for number in numbers:
            learn(number)
        await asyncio.sleep(AFTERWARDS)
        marks.append(memory())
        for number in numbers:
            ask(number)
        marks.append(memory())
        await asyncio.sleep(AFTERWARDS)
        merely, warm, afterwards = ((mark - marks[0]) / hosts for mark in (*marks[1:], memory()))
        return {
            "robotgate: learnt, and asked just now": warm,
            "robotgate: learnt, and asked a minute ago": afterwards,
            MERELY: merely,
        }


async def in_dict(peer: str, hosts: int, *, is_traced: bool) -> Values:
    """Bytes for each host of a dict that knows a peer's rules by host, once they were asked."""
    trace(is_traced=is_traced)
    kept = {known.host_of(number): PEERS[peer](number) for number in range(WARMING)}
    before = memory()
    for number in range(WARMING, WARMING + hosts):
        kept[known.host_of(number)] = PEERS[peer](number)
    return {peer: (memory() - before) / hosts}


def _of_protego(number: int) -> Protego:
    robots = Protego.parse(known.file_of(number).decode())
    robots.can_fetch(known.url_of(number), known.AGENT)
    return robots


def _of_urllib(number: int) -> RobotFileParser:
    robots = RobotFileParser()
    robots.parse(known.file_of(number).decode().splitlines())
    robots.can_fetch(known.AGENT, known.url_of(number))
    return robots


PEERS: Final[dict[str, Callable[[int], object]]] = {
    "Protego, in a dict": _of_protego,
    "urllib.robotparser, in a dict": _of_urllib,
}


async def through(hosts: int, max_hosts: int, at_once: int) -> dict[int, int]:
    """Hosts without end through a gate, and a store, for so many: what is resident at each tenth of them."""
    seen = {}
    async with gate_of(max_hosts, at_once=at_once, store=MemoryStore(max_hosts=max_hosts)) as gate:
        for tenth in range(10):
            so_far = range(hosts * tenth // 10, hosts * (tenth + 1) // 10)
            await visit_together(gate, so_far, at_once=at_once)
            gc.collect()
            seen[so_far.stop] = resident_memory()
    return seen


async def many_hosts(hosts: int, *, is_traced: bool) -> Values:
    """Bytes of a host's pace, and of a waiter at each host."""
    trace(is_traced=is_traced)
    async with known.waiting_gate(DELAY, clock=VirtualClock()) as gate:
        urls = await known.learn(gate, hosts)
        before = memory()
        for url in urls:
            async with gate.turn(url):
                pass
        paced = memory()
        queue = known.Queue(gate, urls)
        await queue.form()
        queued = memory()
        await queue.empty(is_one=False)
    return {
        "a host's pace, nobody waiting": (paced - before) / hosts,
        f"a waiter, one at each of {hosts:,} hosts": (queued - paced) / hosts,
    }


async def one_host(waiters: int, *, is_traced: bool) -> Values:
    """Bytes of a waiter among many."""
    trace(is_traced=is_traced)
    async with known.waiting_gate(0.1, clock=VirtualClock()) as gate:
        (url,) = await known.learn(gate, 1)
        async with gate.turn(url):
            pass
        before = memory()
        queue = known.Queue(gate, waiters * [url])
        await queue.form()
        after = memory()
        await queue.empty(is_one=True)
    return {f"a waiter, {waiters:,} at one host": (after - before) / waiters}
