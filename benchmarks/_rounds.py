"""Rounds in which all that is measured takes its turn, so that what else the machine does meets all alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks._report import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import TypeVar

    Name = TypeVar("Name", bound=Hashable)
    One = TypeVar("One")


def say(text: str) -> None:
    """Print the progress to standard error; results go to standard output."""
    print(f"  {text}", file=sys.stderr, flush=True)


def interleaved(
    rounds: int, works: Mapping[Name, Callable[[], Mapping[str, float]]]
) -> dict[Name, dict[str, Figure]]:
    """What each of several works finds, by the names it gives its figures.

    In every round each is called once. What a work does not find in every round is no figure.
    """
    order = list(works)
    found: dict[Name, list[Mapping[str, float]]] = {name: [] for name in order}
    for number in range(rounds):
        for name in in_turn(order, number):
            found[name].append(works[name]())
    return {name: figures_of(each) for name, each in found.items()}


def in_turn(order: Sequence[One], number: int) -> Sequence[One]:
    """All of one round: each round begins with the next one, so that none is always first."""
    first = number % len(order)
    return [*order[first:], *order[:first]]


def figures_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """What was found in every round, by its name."""
    return {
        key: Figure(tuple(one[key] for one in rounds))
        for key in rounds[0]
        if all(key in one for one in rounds)
    }
