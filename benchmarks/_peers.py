"""What is measured beside robotgate: whether it is installed, and how to compare with it."""

from __future__ import annotations

import importlib.util

from benchmarks._report import Figure
from benchmarks._rounds import say


def found(module: str) -> bool:
    """Whether a package is installed; if not, it is said that its rows are missing."""
    is_there = importlib.util.find_spec(module) is not None
    if not is_there:
        say(f"not installed, and not measured: {module}")
    return is_there


def ratio(own: Figure, other: Figure) -> Figure:
    """Round by round where both had the same; where one had fewer, of the medians."""
    if len(own.rounds) == len(other.rounds):
        return own.over(other)
    return Figure((own.median / other.median,))
