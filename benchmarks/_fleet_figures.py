"""What turns and grants of several processes come to."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from benchmarks._fleet_measure import PACE_DELAY, PACE_HOSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._fleet_measure import Grants, Taken
    from benchmarks._told import Values

A_SECOND: Final = round(1 / PACE_DELAY)
"""Grants that a host may have in one."""
FORGIVING: Final = 0.98
"""Seconds of a stretch that forgives what the machine adds between the server and the program."""


def turn_values(processes: Sequence[Taken]) -> Values:
    """Turns a second of all together, quantiles of all waits in milliseconds, and microseconds of CPU a turn."""
    turns = sum(one.turns for one in processes)
    waits = sorted(each for one in processes for each in one.waits)
    return {
        # Who is done first leaves the others more.
        "rate": turns / max(one.seconds for one in processes),
        "p50": waits[len(waits) // 2] * 1e3,
        "p99": waits[len(waits) * 99 // 100] * 1e3,
        "cpu": sum(one.cpu for one in processes) / turns * 1e6,
    }


def pace_values(processes: Sequence[Grants], seconds: float) -> Values:
    """Grants while all were there, how many are too many, and the smallest gap in milliseconds."""
    hosts = [sorted(at for one in processes for at in one.by_host[number]) for number in range(PACE_HOSTS)]
    from_at = max(one.from_at for one in processes)
    grants = sum(from_at <= at < from_at + seconds for host in hosts for at in host)
    most, over = _stretches(hosts, 1.0)
    _, over_less = _stretches(hosts, FORGIVING)
    return {
        "grants": float(grants),
        "of_ideal": grants / (PACE_HOSTS * seconds / PACE_DELAY),
        "most": float(most),
        "over": float(over),
        "over_less": float(over_less),
        "least": min(late - early for host in hosts for early, late in pairwise(host)) * 1e3,
    }


def _stretches(hosts: Sequence[Sequence[float]], seconds: float) -> tuple[int, int]:
    """The most grants of a host in so many seconds from one of them on, and how many stretches have too many."""
    counts = [
        sum(first <= at < first + seconds for at in host[number:])
        for host in hosts
        for number, first in enumerate(host)
    ]
    return max(counts), sum(count > A_SECOND for count in counts)
