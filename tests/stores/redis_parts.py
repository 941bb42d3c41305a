"""Parts of a store in Redis, put together as processes would each have them, for tests of these parts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis

from robotgate.stores.redis._keys import Keys
from robotgate.stores.redis._lease import Leases
from robotgate.stores.redis._link import Link
from robotgate.stores.redis._records import Records
from robotgate.stores.redis._signals import Signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DAY: Final = 86_400.0
_NUMBERS: Final = count()


def fresh_prefix() -> str:
    """One that no other test has had: what they keep in one server is apart."""
    return f"test{next(_NUMBERS)}:"


@dataclass(frozen=True, slots=True)
class Member:
    """What one process of a fleet has."""

    client: Redis
    keys: Keys
    link: Link
    signals: Signals
    records: Records
    leases: Leases

    async def aclose(self) -> None:
        """End it in good order."""
        await self.signals.aclose()
        await self.leases.aclose()
        await self.link.aclose()
        await self.client.aclose()


@asynccontextmanager
async def member(
    url: str,
    prefix: str,
    *,
    lease: float = 30.0,
    patience: float = 5.0,
    max_age: float = 31 * DAY,
    goes_on_alone: bool = False,
    signals_url: str | None = None,
) -> AsyncIterator[Member]:
    """One more process; `signals_url` is where it tries to hear messages."""
    client, keys = Redis.from_url(url), Keys(prefix)
    link = Link(client, patience=patience)
    heard_by = client if signals_url is None else Redis.from_url(signals_url)
    signals = Signals(heard_by, keys.fleet("signals"))
    one = Member(
        client,
        keys,
        link,
        signals,
        Records(link, keys, max_age=max_age),
        Leases(link, signals, keys, lease=lease, goes_on_alone=goes_on_alone),
    )
    try:
        yield one
    finally:
        async with asyncio.timeout(10):
            await one.aclose()
            await heard_by.aclose()


async def becomes(is_so: Callable[[], Awaitable[object]]) -> None:
    """Wait until a question to the server has the answer that is waited for; in vain, it fails after ten seconds.

    Raises:
        TimeoutError: it never had.
    """
    async with asyncio.timeout(10):
        while not await is_so():  # noqa: ASYNC110  # What is waited for is another's state.
            await asyncio.sleep(0.002)
