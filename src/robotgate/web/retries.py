"""`gate.fetch(url, retries=…)`: which outcomes of a request are worth another attempt, and when that may begin.

Nothing here sends or waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientPayloadError,
    ClientResponseError,
    ClientSSLError,
)

from robotgate.errors import HostUnavailableError
from robotgate.pace.scheduler import COARSEST_TIMER
from robotgate.pace.state import BLOCKING_STATUSES

if TYPE_CHECKING:
    from robotgate.pace.host import PacedOrigin

Result: TypeAlias = int | ClientError | TimeoutError
"""What comes of a request: the status of its response, or the error in its place."""

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods whose request may be sent twice (RFC 9110 §9.2.2)."""
GATEWAY_STATUSES: Final = frozenset({502, 504})
"""The server answers, but the one behind it does not."""
FIRST_PAUSE: Final = 1.0
"""Seconds before the second attempt, where the host does not say; doubled before each later one."""
MAX_PAUSE: Final = 60.0
PAUSE_JITTER: Final = 1.0
"""The share by which a pause is longer at most, so that many tasks do not come back together."""


def may_be_sent_twice(method: str, data: object) -> bool:
    """Return whether a request means the same when it is sent twice, and its body is no stream that is read once."""
    return method.upper() in IDEMPOTENT and (data is None or isinstance(data, bytes | str | dict))


def pause_before(
    attempt: int, told: Result, site: PacedOrigin, *, deadline_at: float, now: float, jitter: float
) -> float | None:
    """Return the seconds until another attempt should ask for its turn; None if there should be none.

    The turn itself waits for the end of a block. The longest wait is the host's `max_block`.

    Args:
        attempt: how many were made before.
        told: the outcome of the last one.
        site: the origin that it was sent to.
        deadline_at: when the next has to have its turn, in seconds since the epoch.
        jitter: a random number in [0, 1).
    """
    # The `status` of robotgate's own errors was sent by no server.
    status = told.status if isinstance(told, ClientResponseError) else told
    if isinstance(told, HostUnavailableError):
        pause = told.retry_after + COARSEST_TIMER
    elif status in BLOCKING_STATUSES:
        # The host asked for a pause.
        pause = 0.0
    elif status in GATEWAY_STATUSES or is_connection_lost(told):
        pause = min(FIRST_PAUSE * 2.0 ** min(attempt - 1, 16), MAX_PAUSE) * (1 + PAUSE_JITTER * jitter)
        # Until then all turns of an origin that could not be reached are refused.
        pause = max(pause, site.circuit.retry_at - now + COARSEST_TIMER)
    else:
        return None
    if max(pause, site.host.blocked_until_at - now) > site.options.max_block:
        return None
    return pause if max(now + pause, site.host.free_at(site, now, ahead=False)) <= deadline_at else None


def is_connection_lost(told: Result) -> bool:
    """Return whether there is no answer because the connection failed: the same request may well succeed later."""
    failures = (ClientConnectionError, ClientPayloadError, TimeoutError)
    return isinstance(told, failures) and not isinstance(told, ClientSSLError)
