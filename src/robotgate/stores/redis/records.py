"""Robots.txt records as the server keeps them."""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Final

from robotgate.sites.status import DAY, MAX_STALE_AGE
from robotgate.stores.codec import moved_record, pack_record, unpack_record
from robotgate.stores.redis.link import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.sites.record import RobotsRecord
    from robotgate.stores.redis.link import Link
    from robotgate.stores.redis.messages import Keys
    from robotgate.urls import Origin

_AGE_BYTES: Final = 24
_LARGE: Final = 64 * 1024
"""Bytes from which on packing and reading are done in a thread: they would keep the event loop for too long."""
_SAME_CLOCK: Final = 1.0
"""Seconds by which the clocks of two machines may differ before a record's instants are moved."""

_logger: Final = logging.getLogger("robotgate.stores")


class Records:
    """The records of a fleet. An answer that comes late, by a day at most, does not replace a later one.

    Args:
        max_age: seconds; no record is kept for longer.
        now: tells the time in seconds since the epoch.
    """

    def __init__(self, link: Link, keys: Keys, *, max_age: float, now: Callable[[], float]) -> None:
        self._link = link
        self._keys = keys
        self._max_age = max_age
        self._now = now

    async def load(self, origin: Origin) -> RobotsRecord | None:
        """Return the record of an origin.

        One that cannot be read counts as none, which the log says: robots.txt is fetched again, and replaces it. So a
        fleet of which a part runs a newer version goes on, too.

        Raises:
            StoreError: the server was lost for too long, or refuses.
        """
        reply = await self._call(origin, lambda: b"L")
        if not reply:
            return None
        try:
            checked_at = self._now() - float(reply[:_AGE_BYTES])
            if len(reply) < _LARGE:
                record = unpack_record(origin, reply[_AGE_BYTES:])
            else:
                record = await asyncio.to_thread(unpack_record, origin, reply[_AGE_BYTES:])
        except ValueError as error:
            _logger.warning("the record of %s cannot be read (%s); it is fetched again", origin, error)
            return None
        shift = checked_at - record.checked_at
        return record if abs(shift) < _SAME_CLOCK else moved_record(record, shift)

    async def save(self, record: RobotsRecord) -> None:
        """Keep a record in place of the origin's earlier one.

        Raises:
            StoreError: the server was lost for too long, or refuses.
        """
        is_large = len(record.body) >= _LARGE
        value = await asyncio.to_thread(pack_record, record) if is_large else pack_record(record)
        ttl = max(min(useful_for(record), self._max_age) * 1000.0 // 1, 1.0)

        def encode() -> bytes:
            return struct.pack("<cdd", b"S", self._now() - record.checked_at, ttl) + value

        await self._call(record.origin, encode)

    async def forget(self, origin: Origin) -> bool:
        """Remove the record of an origin. Returns whether there was one.

        Raises:
            StoreError: the server was lost for too long, or refuses.
        """
        return await self._call(origin, lambda: b"F") == b"1"

    async def _call(self, origin: Origin, encode: Callable[[], bytes]) -> bytes:
        tag = self._keys.tag_of(origin.text)
        return await self._link.call(RECORDS, tag, self._keys.named("robots", origin.text), encode)


def useful_for(record: RobotsRecord) -> float:
    """Return for how many seconds from its last check a record can be used.

    That is as long as its copy may be used stale. How often and since when a site has failed says when to try it next,
    for some hours after the answer itself has expired: a day covers them.
    """
    until_at = record.fresh_until_at + DAY
    if record.fetched_at is not None:
        until_at = max(until_at, record.fetched_at + MAX_STALE_AGE)
    return max(until_at - record.checked_at, DAY)
