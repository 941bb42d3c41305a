"""How costs grow with rules, bytes, hosts and waiters: sizes ten times apart, and the exponent fitted to them.

An exponent of 0 is a cost that stays the same, of 1 one that grows as the size does. All sizes of one cost, ours and
a peer's, are measured in the same rounds, in a process of its own; times are of CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks import _costs
from benchmarks._client import alone
from benchmarks._fit import exponents
from benchmarks._libraries import OURS, PROTEGO
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACKAGES: Final = ("robotgate", "aiolimiter", "protego")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Something that takes time or memory, and what its growth is held to."""

    key: str
    title: str
    what: str
    """What the sizes are of: ``rules``."""
    columns: tuple[Column, ...]
    """Ours is the first."""
    measure: Callable[[Effort], dict[int, dict[str, Figure]]]
    """Figures by size and column."""
    at_most: float
    """Our exponent."""
    note: str = ""


def measure(effort: Effort) -> Findings:
    """Every cost, and the exponents of all."""
    found: dict[str, dict[int, dict[str, Figure]]] = {}
    for cost in COSTS:
        say(cost.title)
        found[cost.key] = alone(cost.measure, effort)
    fitted = {cost.key: _fitted(cost, found[cost.key]) for cost in COSTS}
    tables = [_table(cost, found[cost.key]) for cost in COSTS]
    goals = [
        Goal(
            text=f"exponent of {cost.title}, in {cost.what}",
            figure=fitted[cost.key][cost.columns[0].key],
            at_most=cost.at_most,
        )
        for cost in COSTS
    ]
    return Findings(tables=(*tables, _exponents(fitted)), goals=tuple(goals))


def _fitted(cost: Cost, sizes: Mapping[int, Mapping[str, Figure]]) -> dict[str, Figure]:
    """Exponents, by column."""
    return {
        column.key: exponents({size: figures[column.key] for size, figures in sizes.items()})
        for column in cost.columns
    }


def _table(cost: Cost, sizes: Mapping[int, Mapping[str, Figure]]) -> Table:
    return Table(
        key=cost.key,
        title=cost.title[:1].upper() + cost.title[1:],
        columns=cost.columns,
        rows=tuple(
            Row(name=f"{size:,} {cost.what}", figures=figures, size=size) for size, figures in sizes.items()
        ),
        note=cost.note,
    )


def _exponents(fitted: Mapping[str, Mapping[str, Figure]]) -> Table:
    """A row for each cost of each who was measured."""
    rows = []
    for cost in COSTS:
        for column in cost.columns:
            name = f"{cost.title}, in {cost.what}: {column.title.partition(',')[0]}"
            figures = {"exponent": fitted[cost.key][column.key]}
            rows.append(Row(name=name, figures=figures, is_ours=column is cost.columns[0]))
    return Table(
        key="exponents",
        title="Exponents",
        columns=(Column(key="exponent", title="exponent", decimals=2, shows_spread=True),),
        rows=tuple(rows),
        note="0: stays the same; 1: grows as the size does.",
    )


COSTS: Final = (
    Cost(
        key="match",
        title="time of a question",
        what="rules",
        columns=(
            Column(key=OURS.name, title="robotgate, ns"),
            Column(key=PROTEGO.name, title="Protego, ns"),
        ),
        measure=_costs.match,
        at_most=0.1,
        note="Ten URLs that a rule matches, from the first rule to one of the last, and ten that none does.",
    ),
    Cost(
        key="parse",
        title="time of parsing, first question included",
        what="rules",
        columns=(
            Column(key=OURS.name, title="robotgate, µs", decimals=1),
            Column(key=PROTEGO.name, title="Protego, µs", decimals=1),
        ),
        measure=_costs.parse,
        at_most=1.1,
        note="Below a hundred rules, what a file costs that has none weighs, too: the exponent is then below 1.",
    ),
    Cost(
        key="allowed",
        title="time of a warm answer",
        what="hosts",
        columns=(
            Column(key=OURS.name, title="await gate.allowed, ns"),
            Column(key=_costs.DICT, title="the host cut from the URL and looked up in a dict, ns"),
        ),
        measure=_costs.allowed,
        at_most=0.1,
        note="A hundred thousand hosts do not fit into the processor's caches, in a dict or in a gate.",
    ),
    Cost(
        key="grant",
        title="time of a turn",
        what="waiters at one host",
        columns=(
            Column(key=OURS.name, title="gate.turn, µs", decimals=1),
            Column(key=_costs.LOCK, title="asyncio.Lock, µs", decimals=1),
        ),
        measure=_costs.grant,
        at_most=0.15,
        note="With a delay of 0, and all waiting before the first is let in; asyncio's loop is in both figures.",
    ),
    Cost(
        key="cancel",
        title="time of giving up",
        what="waiters at one host",
        columns=(
            Column(key=OURS.name, title="gate.turn, µs", decimals=1),
            Column(key=_costs.LOCK, title="asyncio.Lock, µs", decimals=1),
        ),
        measure=_costs.cancel,
        at_most=0.5,
        note="All are cancelled at once, the last to come first. What grows is the work of Python's garbage collector, "
        "which looks through all tasks that there are; without it, the time stays the same.",
    ),
    Cost(
        key="memory",
        title="memory of a known host",
        what="hosts",
        columns=(
            Column(key="asked", title="learnt, and asked just now, bytes"),
            Column(key="learnt", title="merely learnt, bytes"),
        ),
        measure=_costs.memory,
        at_most=0.1,
        note="By `tracemalloc`.",
    ),
)
