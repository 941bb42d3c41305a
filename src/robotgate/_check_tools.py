"""What the checks of a store share: origins, records and states to try it with, and how they complain."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate._access import RobotsRecord
from robotgate._pacing import HostState
from robotgate._status import Outcome
from robotgate._urls import Origin

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from robotgate._ports import Store

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds after which what should have happened is taken not to happen."""
GLANCE: Final = 0.05
"""Seconds in which what should not happen would have happened."""
PROBE_TASKS: Final = 20

ORIGIN: Final = Origin("https", "shop.example", 443)
OTHER_ORIGINS: Final = (
    Origin("http", "shop.example", 80),
    Origin("https", "shop.example", 8443),
    Origin("https", "www.shop.example", 443),
    Origin("https", "2001:db8::1", 443),
)
RECORD: Final = RobotsRecord(
    origin=ORIGIN,
    outcome=Outcome.FAILURE,
    status=503,
    cause="no answer within 10 s: naïve “quotes”, \U0001f577",
    checked_at=1_795_233_600.123456,
    fresh_until_at=1_795_233_660.654321,
    failures=3,
    failing_since_at=1_795_230_000.5,
    body=bytes(range(256)) * 2000,
    fetched_at=1_795_147_200.25,
    robots_url="https://cdn.example/robots.txt?v=1&w=é",
    redirects=("https://shop.example/robots.txt", "https://www.shop.example/robots.txt"),
    etag='W/"v1"',
    last_modified="Sat, 21 Nov 2026 00:00:00 GMT",
)
BARE_RECORD: Final = RobotsRecord(
    origin=ORIGIN, outcome=Outcome.MISSING, checked_at=1_795_240_000.0, fresh_until_at=1_795_326_400.0
)
STATE: Final = HostState(
    last_visit_at=1_795_233_600.123456,
    next_allowed_at=1_795_233_601.123456,
    blocked_at=1_795_233_590.75,
    blocked_until_at=1_795_233_900.5,
    failures=2,
    visits=41,
    bytes_read=2**40,
    latency=0.1234567,
)
OTHER_KEYS: Final = ("www.shop.example", "xn--bcher-kva.example", "2001:db8::1", "a" * 253)
KEY: Final = ORIGIN.host


OTHER_CLOCK: Final = 0.05
"""Seconds by which an instant may have moved that went through the clock of a server, and back:
no more than an answer takes."""


def is_alike(state: HostState, other: HostState) -> bool:
    """Whether two states are the same, but for what another clock may have done to their instants."""
    if (state.last_visit_at is None) != (other.last_visit_at is None):
        return False
    moved = [abs(at - also) for at, also in zip(_instants(state), _instants(other), strict=True)]
    same = replace(
        state,
        last_visit_at=other.last_visit_at,
        next_allowed_at=other.next_allowed_at,
        blocked_at=other.blocked_at,
        blocked_until_at=other.blocked_until_at,
    )
    return same == other and max(moved) <= OTHER_CLOCK


def _instants(state: HostState) -> tuple[float, ...]:
    last_visit_at = 0.0 if state.last_visit_at is None else state.last_visit_at
    return last_visit_at, state.next_allowed_at, state.blocked_at, state.blocked_until_at


async def take(store: Store, origin: Origin = ORIGIN) -> None:
    """Have an origin's lease, for no time."""
    async with store.lease(origin):
        pass


async def in_time(awaitable: Awaitable[T], complaint: str) -> T:
    """What comes of it; the complaint, where that takes too long."""
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise AssertionError(complaint) from None
        raise


def expect(condition: bool, complaint: str) -> None:  # noqa: FBT001 - the condition is what it is about
    """Complain unless it holds."""
    if not condition:
        raise AssertionError(complaint)
