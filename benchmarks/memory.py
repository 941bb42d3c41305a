"""Bytes: of a host that is known, in memory and on disk; of a waiter; of a host's pace.

Each figure comes from a process of its own, and is taken on the virtual clock, where no turn comes due while things are
counted: *allocated* by `tracemalloc`, *resident* by what the process has in memory, without tracing. A known host
has a robots.txt of its own, of the median size of real ones, and is not waited for.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks._client import LOOPS, alone
from benchmarks._known_hosts import (
    MEDIAN_BYTES,
    learnt,
    on_disk,
    protego_dict,
    through,
    urllib_dict,
    visited,
)
from benchmarks._queues import Queue, gate_of, learn, memory
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import say
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PACKAGES: Final = ("robotgate", "aiolimiter", "protego")
LIMIT: Final = 1_500
"""Bytes of a known host, beside those of its file, which are the store's."""
DELAY: Final = 60.0
"""Seconds, virtual; longer than any real pause of the program, as no time passes between two sleeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many hosts, or waiters, each figure is taken with."""

    traced: tuple[int, ...]
    visited: tuple[int, ...]
    peers: tuple[int, ...]
    hosts: tuple[int, ...]
    queue: int
    with_resident: bool
    through: tuple[int, int, int] | None
    """Hosts, how many are kept, and how many at once, of which each takes a second. The store forgets none that was
    visited within ten minutes."""

    def ways(self) -> dict[str, bool]:
        """How bytes are counted, and whether that is by tracing."""
        return {"allocated": True, "resident": False} if self.with_resident else {"allocated": True}


SIZES: Final = {
    Effort.QUICK: Sizes(
        traced=(300,),
        visited=(300,),
        peers=(300,),
        hosts=(300,),
        queue=300,
        with_resident=False,
        through=None,
    ),
    Effort.FULL: Sizes(
        traced=(1_000,),
        visited=(1_000, 100_000),
        peers=(1_000, 100_000),
        hosts=(1_000, 100_000, 1_000_000),
        queue=10_000,
        with_resident=True,
        through=(20_000, 1_000, 5),
    ),
}

VISITED: Final = "robotgate: visited a minute ago"
WARM: Final = "robotgate: learnt, and asked just now"
ASKED: Final = "robotgate: learnt, and asked a minute ago"
LEARNT: Final = "robotgate: merely learnt"
OURS: Final = (VISITED, WARM, ASKED, LEARNT)
PEERS: Final[dict[str, Callable[..., float]]] = {
    "Protego, in a dict": protego_dict,
    "urllib.robotparser, in a dict": urllib_dict,
}
BYTES_EACH: Final = (
    Column(key="allocated", title="bytes each, allocated"),
    Column(key="resident", title="bytes each, resident"),
)


def measure(effort: Effort) -> Findings:
    """Everything about memory."""
    sizes = SIZES[effort]
    known = [_known(sizes, hosts) for hosts in sizes.hosts]
    tables = [*known, _disk(sizes), _waiters(sizes)]
    if sizes.through:
        tables.append(_flat(*sizes.through))
    return Findings(tables=tuple(tables), goals=tuple(_goals(known)))


def _goals(known: list[Table]) -> list[Goal]:
    """Allocated where that is counted, and resident where there are enough hosts to tell."""
    goals = []
    for table in known:
        (figures,) = [row.figures for row in table.rows if row.name == VISITED]
        key = "allocated" if "allocated" in figures else "resident"
        if key in figures:
            text = (
                f"a host visited a minute ago, one of {table.rows[0].size:,.0f}: bytes beside its file, {key}"
            )
            beside = Figure(tuple(measured - MEDIAN_BYTES for measured in figures[key].rounds))
            goals.append(Goal(text=text, figure=beside, at_most=LIMIT))
    return goals


def _known(sizes: Sizes, hosts: int) -> Table:
    say(f"{hosts:,} known hosts")
    rows: dict[str, dict[str, Figure]] = {name: {} for name in (*OURS, *PEERS)}
    for key, is_traced in sizes.ways().items():
        if is_traced and hosts not in sizes.traced:
            continue
        found = alone(learnt, hosts, is_traced=is_traced)
        for name, measured in zip((LEARNT, WARM, ASKED), found, strict=True):
            rows[name][key] = Figure((measured,))
        if hosts in sizes.visited:
            rows[VISITED][key] = Figure((alone(visited, hosts, is_traced=is_traced),))
        if hosts in sizes.peers:
            for name, peer in PEERS.items():
                rows[name][key] = Figure((alone(peer, hosts, is_traced=is_traced),))
    return Table(
        key=f"known-{hosts}",
        title=f"A known host, one of {hosts:,}",
        columns=BYTES_EACH,
        rows=tuple(
            Row(name=name, figures=figures, is_ours=name in OURS, size=hosts)
            for name, figures in rows.items()
        ),
        note=f"{MEDIAN_BYTES} bytes are its file, which gate and store share. *Visited*: the gate fetched it, and a "
        "page. *Learnt*: it was given to the gate, which was then asked, and the store was given a state of visits. "
        "The dicts know neither text nor state.",
    )


def _disk(sizes: Sizes) -> Table:
    columns = (
        Column(key="state", title="bytes each, its state"),
        Column(key="both", title="with its robots.txt"),
    )
    rows = []
    for hosts in sizes.hosts:
        say(f"{hosts:,} hosts on disk")
        state, both = alone(on_disk, hosts)
        figures = {"state": Figure((state,)), "both": Figure((both,))}
        rows.append(Row(name=f"{hosts:,} hosts", figures=figures, size=hosts))
    note = f"A `SQLiteStore`, closed. Its file has {MEDIAN_BYTES} bytes, and is kept compressed."
    return Table(key="disk", title="A known host, on disk", columns=columns, rows=tuple(rows), note=note)


def _waiters(sizes: Sizes) -> Table:
    say(f"{sizes.queue:,} waiters")
    many, one = (
        {
            key: alone(_in_loop, work, sizes.queue, is_traced=is_traced)
            for key, is_traced in sizes.ways().items()
        }
        for work in (many_hosts, one_host)
    )
    rows = (
        ("a host's pace, nobody waiting", many, "pace"),
        (f"a waiter, one at each of {sizes.queue:,} hosts", many, "waiter"),
        (f"a waiter, {sizes.queue:,} at one host", one, "waiter"),
    )
    return Table(
        key="waiters",
        title="Paces and waiters",
        columns=BYTES_EACH,
        rows=tuple(
            Row(
                name=name,
                figures={key: Figure((of[key][what],)) for key in of},
                is_ours=True,
                size=sizes.queue,
            )
            for name, of, what in rows
        ),
        note="A waiter is a task in `async with gate.turn(url)`: its task, its coroutines and its place are counted. "
        "A host's pace is what its first visit adds to what is known of it.",
    )


def _flat(hosts: int, max_hosts: int, at_once: int) -> Table:
    say(f"{hosts:,} hosts through a gate for {max_hosts:,}")
    seen = alone(through, hosts, max_hosts, at_once)
    return Table(
        key="flat",
        title=f"{hosts:,} hosts, one after another, through a gate and a store of max_hosts={max_hosts:,}",
        columns=(Column(key="resident", title="resident, MB", decimals=1),),
        rows=tuple(
            Row(
                name=f"{so_far:,} hosts",
                figures={"resident": Figure((resident / 1e6,))},
                is_ours=True,
                size=so_far,
            )
            for so_far, resident in seen
        ),
        note=f"{at_once} a second; the store forgets no host that was visited in the last ten minutes.",
    )


def _in_loop(
    work: Callable[[int], Coroutine[object, None, dict[str, float]]], count: int, *, is_traced: bool
) -> dict[str, float]:
    if is_traced:
        tracemalloc.start()
    with asyncio.Runner(loop_factory=LOOPS["virtual"]) as runner:
        return runner.run(work(count))


async def many_hosts(hosts: int) -> dict[str, float]:
    """Bytes of a host's pace, and of a waiter at each host."""
    async with gate_of(DELAY, clock=VirtualClock()) as gate:
        urls = await learn(gate, hosts)
        marks = [memory()]
        for url in urls:
            async with gate.turn(url):
                pass
        marks.append(memory())
        queue = Queue(gate, urls)
        await queue.form()
        marks.append(memory())
        await queue.empty(is_one=False)
    return {"pace": (marks[1] - marks[0]) / hosts, "waiter": (marks[2] - marks[1]) / hosts}


async def one_host(waiters: int) -> dict[str, float]:
    """Bytes of a waiter among many."""
    async with gate_of(0.1, clock=VirtualClock()) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            pass
        before = memory()
        queue = Queue(gate, waiters * [url])
        await queue.form()
        after = memory()
        await queue.empty(is_one=True)
    return {"waiter": (after - before) / waiters}
