"""All that the server has of a fleet, in order: what a `Catalogue` lists, and lets go of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate.stores.redis._listing import Listing
    from robotgate.stores.redis._records import Records
    from robotgate.stores.redis._turns import Turns

PAGE: Final = 100
"""Records or hosts that are asked for at once where all are."""


class Contents:
    """Looks up by page what a listing names. What is gone by then is passed over."""

    def __init__(self, listing: Listing, records: Records, turns: Turns) -> None:
        self._listing = listing
        self._records = records
        self._turns = turns

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """As `Catalogue.records`."""
        origins = await self._listing.origins()
        for start in range(0, len(origins), PAGE):
            for record in await asyncio.gather(*map(self._records.load, origins[start : start + PAGE])):
                if record is not None:
                    yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """As `Catalogue.hosts`."""
        await self._turns.caught_up()
        pace_keys = await self._listing.pace_keys()
        for start in range(0, len(pace_keys), PAGE):
            page = pace_keys[start : start + PAGE]
            states = await asyncio.gather(*map(self._turns.written, page))
            for pace_key, state in zip(page, states, strict=True):
                if state is not None:
                    yield pace_key, state

    async def forget_host(self, pace_key: str) -> bool:
        """As `Catalogue.forget_host`."""
        # Its reply comes behind all that was told of the host, which must not arrive after it is forgotten.
        was_written = await self._turns.written(pace_key) is not None
        was_known = self._turns.memory.forget(pace_key)
        return await self._records.forget_host(pace_key) or was_written or was_known
