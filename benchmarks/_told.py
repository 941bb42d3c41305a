"""Figures by name; each is printed as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from benchmarks._rounds import say

if TYPE_CHECKING:
    from collections.abc import Callable

Values: TypeAlias = dict[str, float]
"""By column."""


def told(what: str, work: Callable[[], Values]) -> Values:
    """What some work finds."""
    values = work()
    say(f"{what}: {', '.join(f'{key} {value:,.4g}' for key, value in values.items())}")
    return values
