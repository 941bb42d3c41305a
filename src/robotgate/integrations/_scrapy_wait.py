"""Waiting for a request's turn, and with it for a host that cannot be reached.

The gate sends whoever waits for such a host away, for others ask again. Scrapy never does: one page that timed out
would lose all the pages of its host.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate._errors import HostUnavailableError
from robotgate._pacing import MIN_RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate._gate import RobotGate
    from robotgate._turn import Turn

T = TypeVar("T")

OUTAGE_PATIENCE: Final = 60.0
"""Seconds that a request waits at a time for a host that cannot be reached; `_circuit` has 10, 20 and 40 for its
first."""


async def send_in_turn(
    gate: RobotGate, url: str, send: Callable[[Turn], Awaitable[T]], *, priority: int, max_wait: float | None
) -> T:
    """Send in a turn for a URL, waited for through outages of its host, but for nothing else that the gate refuses.

    Args:
        max_wait: seconds for all the waits together; None waits as long as it takes.

    Raises:
        RobotGateError: as entering `RobotGate.turn`.
    """
    clock = asyncio.get_running_loop().time
    deadline_at = math.inf if max_wait is None else clock() + max_wait
    while True:
        left = None if max_wait is None else max(0.0, deadline_at - clock())
        try:
            async with gate.turn(url, priority=priority, max_wait=left) as turn:
                return await send(turn)
        except HostUnavailableError as error:
            pause = max(error.retry_after, MIN_RETRY_AFTER)
            if not _is_outage(gate, url, error) or pause > min(OUTAGE_PATIENCE, deadline_at - clock()):
                raise
        await asyncio.sleep(pause)


def _is_outage(gate: RobotGate, url: str, error: HostUnavailableError) -> bool:
    """Whether nobody was found there: not an unreadable robots.txt, nor a host that wants to be left alone."""
    return error.verdict is None and gate.host(url).unreachable_until_at is not None
