"""An operator's quota: so many requests in so much time."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REQUESTS: Final = 1_000_000
"""Each start is remembered until it no longer counts: more would be a memory of nothing else."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many starts in any such stretch of time."""

    requests: int
    seconds: float


def rate_of(name: str, value: object) -> Rate | None:
    """The rate that an option gives, as ``(600, 3600)``; None gives none.

    Raises:
        OptionError: the value is neither; the message names the option.
    """
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise OptionError(
            f"{name}={value!r}: give a number of requests and of seconds, as (600, 3600), or None"
        )
    requests, seconds = value
    if isinstance(requests, bool) or not isinstance(requests, int) or not 1 <= requests <= MAX_REQUESTS:
        raise OptionError(f"{name}={value!r}: give a whole number of requests, 1 to {MAX_REQUESTS}")
    if not _is_duration(seconds):
        raise OptionError(f"{name}={value!r}: give a finite number of seconds, more than 0")
    return Rate(requests, float(seconds))


def due_at(starts: Sequence[float], rate: Rate) -> float:
    """The first instant at which one more start keeps the rate; 0 when it would at any.

    The starts themselves are counted, for no token bucket keeps a quota: one that is full at first and leaks at the
    rate lets a burst through and the rate on top, `AsyncLimiter(600, 3600)` 1,199 requests in its first hour.

    Args:
        starts: ascending; older ones than the last `rate.requests` do not matter.
    """
    return 0.0 if len(starts) < rate.requests else starts[-rate.requests] + rate.seconds


def _is_duration(value: object) -> bool:
    # Compared, not converted: an int may be beyond every float, and NaN is over nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max
