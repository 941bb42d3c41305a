"""How a cost grows: the exponent of the power law that is nearest to it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks._report import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping


def exponent(costs: Mapping[float, float]) -> float:
    """The slope of the line of least squares through the logarithms of sizes and costs: 0 for what stays the same, 1
    for what grows as the size does.

    Raises:
        ValueError: fewer than two sizes, or a size or a cost that is not positive.
    """
    if len(costs) < 2:
        raise ValueError("a line takes two points")
    if min(*costs, *costs.values()) <= 0:
        raise ValueError("sizes and costs have to be positive")
    across = [math.log(size) for size in costs]
    up = [math.log(cost) for cost in costs.values()]
    middle, height = math.fsum(across) / len(across), math.fsum(up) / len(up)
    leaning = math.fsum((x - middle) * (y - height) for x, y in zip(across, up, strict=True))
    return leaning / math.fsum((x - middle) ** 2 for x in across)


def exponents(figures: Mapping[float, Figure]) -> Figure:
    """As `exponent`, for each round of figures by size."""
    rounds = zip(*(figure.rounds for figure in figures.values()), strict=True)
    return Figure(tuple(exponent(dict(zip(figures, costs, strict=True))) for costs in rounds))
