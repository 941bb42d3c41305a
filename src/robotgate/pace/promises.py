"""Promises: when a task that asked too soon is to come again, for `RobotGate.try_turn`.

A task does not wait for its host: it is told when its own turn comes. The first has the next instant at which the host
is due, and each further one the instant behind the last that was promised. Tasks have no names. Whoever asks once a
promise is due redeems the oldest one: a task that comes back, or another in its place, whose promise it then has.

Some tasks come late, and turns take longer than expected. So a task for which a promise is due may wait a little. If it
would have to wait longer, it gets the place behind all others, and those that come after it find the host in time: to
keep it in front would make each of them come back once more. One without a promise does not wait. It has the turn if
the host is due, and will be due again before the next promise.

A task that never comes back leaves its place idle: the next one takes it, or it lapses.

benchmarks/promises_model.py compares this with other rules. Pure functions of what a `Promiser` has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from robotgate.pace.state import CLOCK_GRAIN

if TYPE_CHECKING:
    from robotgate.pace.lease import Lease
    from robotgate.pace.quota import StartWindow

MAX_WAIT: Final = 2.0
"""Seconds that a task waits at most for which a promise is due."""
DELAY_SPREAD: Final = 1.005
TURN_SPREAD: Final = 1.2
"""Times the delay and times the time that a turn takes, promises lie apart: so the host catches up when some turns take
longer, and when processes take it over."""
SAME: Final = 0.05
"""The share by which that time may change before promises lie farther apart, or less far."""
EARLY: Final = 0.1
"""Seconds by which a task may come before its promise: clocks and engines round."""
LATEST: Final = 10.0
"""Seconds after which a promise that nobody has redeemed lapses; or a few turns, where these take longer."""
LATEST_TURNS: Final = 3
MAX_TURN_TIME: Final = 10.0
"""Seconds; a turn that takes longer counts as taking so long in the average."""
AVERAGED: Final = 8
"""Turns of which the last ones count most in the average."""


class Promiser(Protocol):
    """A host or a scope."""

    delay: float
    slots: int
    lease: Lease | None
    window: StartWindow | None
    promised_from_at: float
    """When the first promise is due that was not redeemed; after `promised_until_at`: there is none."""
    promised_until_at: float
    """When the last one is due."""
    promised_step: float
    """Seconds from one to the next, at least; 0.0: none was ever promised."""
    admitted_until_at: float
    """When the next turn may start after those that were admitted, if these take as long as on average."""


def averaged(known: float | None, seconds: float, *, turns: int) -> float:
    """Return how long turns take on average after one more, which is the last of so many."""
    seconds = min(seconds, MAX_TURN_TIME)
    return seconds if known is None else known + (seconds - known) / min(max(turns, 2), AVERAGED)


def period(promiser: Promiser, turn_time: float) -> float:
    """Return the seconds from one turn to the next.

    Args:
        turn_time: seconds that a turn takes on average.
    """
    slots, delay, window, lease = promiser.slots, promiser.delay, promiser.window, promiser.lease
    if slots > 1 and lease is not None:
        # Only when none of its turns is open does a process hand it on.
        delay, slots = max(delay - turn_time, 0.0), 1
    seconds = delay + turn_time if slots == 1 else max(delay, turn_time / slots)
    if window is not None and window.rates:
        seconds = max(seconds, *(rate.seconds / rate.requests for rate in window.rates))
    return seconds


def is_due(promiser: Promiser, due_at: float, now: float, *, period: float, max_wait: float) -> bool:
    """Return whether a promise is due, which whoever asks now redeems; promises that nobody can redeem lapse.

    Args:
        due_at: when the next turn could start.
        period: as of `period`.
        max_wait: seconds that a task for which a promise is due may wait.
    """
    if not has_promised(promiser):
        return False
    lapsed_at = max(now - max(LATEST, LATEST_TURNS * period), due_at - max_wait)
    # By whole steps: the others are due when their tasks were told.
    lapsed = max((lapsed_at - promiser.promised_from_at) // promiser.promised_step, 0.0)
    _drop(promiser, math.inf if promiser.promised_until_at < lapsed_at else lapsed)
    return has_promised(promiser) and max(promiser.promised_from_at, lapsed_at) - now <= EARLY


def redeem(promiser: Promiser) -> None:
    """The oldest promise is kept."""
    _drop(promiser, 1)


def _drop(promiser: Promiser, count: float) -> None:
    """So many promises, the oldest ones, are kept or have lapsed."""
    # After the last one, the first of the next may be due sooner than a step later, and another process may promise it:
    # of two instants of a state the later one counts.
    none_at = promiser.promised_until_at + 2 * CLOCK_GRAIN
    promiser.promised_from_at = min(promiser.promised_from_at + count * promiser.promised_step, none_at)


def is_free(promiser: Promiser, at: float, *, period: float) -> bool:
    """Return whether a turn that starts at an instant is over before the first promise is due."""
    return not has_promised(promiser) or at + period <= promiser.promised_from_at


def has_promised(promiser: Promiser) -> bool:
    """Return whether any promise was neither redeemed nor has lapsed."""
    is_any = promiser.promised_from_at - promiser.promised_until_at <= CLOCK_GRAIN
    return is_any and promiser.promised_step > 0


def next_place(promiser: Promiser, due_at: float, now: float, *, period: float) -> float:
    """Return the instant behind all promises."""
    at = max(due_at, now)
    return max(at, promiser.promised_until_at + _step(promiser, period)) if has_promised(promiser) else at


def promise(promiser: Promiser, at: float, *, period: float) -> None:
    """Promise the place of an instant, which `next_place` has returned."""
    step = _step(promiser, period)
    if has_promised(promiser):
        # The oldest may be taken to be due earlier than it is, but not later.
        step = min(step, promiser.promised_step)
    else:
        promiser.promised_from_at = at
    promiser.promised_step, promiser.promised_until_at = step, at


def _step(promiser: Promiser, period: float) -> float:
    """Return how far promises lie apart: as far as those before, unless turns take much more or less time by now.

    Args:
        period: as of `period`; the delay at least.
    """
    delay, known = promiser.delay, promiser.promised_step
    step = delay * DELAY_SPREAD + (period - delay) * TURN_SPREAD
    return known if has_promised(promiser) and abs(step - known) <= SAME * known else step
