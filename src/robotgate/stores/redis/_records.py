"""Robots.txt records as they are kept in the server: shared octets, which are parsed where they are used."""

from __future__ import annotations

import asyncio
import logging
import struct
import zlib
from typing import TYPE_CHECKING, Final

from robotgate._access import RobotsRecord
from robotgate._jsonl import LineError, read_line, record_line
from robotgate._jsonl_fields import MAX_LINE_BYTES
from robotgate._status import DAY, MAX_STALE_AGE
from robotgate.stores.redis._script import load

if TYPE_CHECKING:
    from robotgate._urls import Origin
    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link

SCRIPT: Final = load("records", keys_per_call=3)

COMMANDS: Final = (
    "get",
    "set",
    "setrange",
    "del",
    "exists",
    "type",
    "hget",
    "hset",
    "pexpire",
    "pttl",
    "publish",
    "time",
)
"""What the script asks of the server. Who may not publish has others wait a moment longer."""

NO_TOKEN: Final = 0.0
"""Of a record that is saved by nobody's lease."""

_VERSION: Final = b"\x01"
_LARGE: Final = 64 * 1024
"""Octets from which on packing and reading are a thread's work: so many take longer than the event loop has time."""

_logger: Final = logging.getLogger("robotgate.stores")


def places(keys: Keys, origin: Origin) -> tuple[bytes, bytes, bytes]:
    """The keys of a call about one origin."""
    return keys.record(origin), keys.lease(origin), keys.tokens(origin)


class Records:
    """The records of a fleet.

    Args:
        max_age: in seconds; none is kept for longer after it was saved.
    """

    def __init__(self, link: Link, keys: Keys, *, max_age: float) -> None:
        self._link = link
        self._keys = keys
        self._max_age = max_age

    async def load(self, origin: Origin) -> RobotsRecord | None:
        """What is kept of an origin.

        What cannot be read counts as nothing, and is told of in the log: the site is asked again, once for the whole
        fleet, and its answer takes that place. Until then nothing is let through that the site might forbid. So a
        fleet of which a part runs a newer version goes on, too.

        Raises:
            StoreError: the server was away for too long, or refused it.
        """
        packed = await self._link.ask(SCRIPT, places(self._keys, origin), b"L")
        if not packed:
            return None
        try:
            if len(packed) < _LARGE:
                return unpacked(packed, origin)
            return await asyncio.to_thread(unpacked, packed, origin)
        except ValueError as error:
            _logger.warning("the record of %s cannot be read (%s); it is fetched again", origin, error)
            return None

    async def save(self, record: RobotsRecord, *, token: float = NO_TOKEN) -> bool:
        """Keep a record in place of the origin's earlier one. Returns whether it is kept.

        Args:
            token: of the lease by which it was asked for. It is not kept where somebody has come later: with a later
                lease, or with what he knew without asking.

        Raises:
            StoreError: the server was away for too long, or refused it.
        """
        is_large = len(record.body) >= _LARGE
        value = await asyncio.to_thread(packed, record) if is_large else packed(record)
        ttl = min(useful_for(record), self._max_age)
        head = struct.pack("<cdd", b"S", token, max(ttl * 1000.0 // 1, 1.0))
        return await self._link.ask(SCRIPT, places(self._keys, record.origin), head + value) == b"1"

    async def forget(self, origin: Origin) -> bool:
        """Let go of an origin's record. Returns whether there was one.

        Raises:
            StoreError: the server was away for too long, or refused it.
        """
        return await self._link.ask(SCRIPT, places(self._keys, origin), b"F") == b"1"

    async def forget_host(self, pace_key: str) -> bool:
        """Let go of a host's state. Returns whether there was any.

        Raises:
            StoreError: the server was away for too long, or refused it.
        """
        key = self._keys.host(pace_key)
        return await self._link.ask(SCRIPT, (key, key, key), b"F") == b"1"


def useful_for(record: RobotsRecord) -> float:
    """For how many seconds from its last attempt on a record can serve anybody.

    That is as long as its copy may be used stale. How often and since when a site has failed says when to try it next,
    for some hours after the answer itself has expired: a day covers them.
    """
    until_at = record.fresh_until_at + DAY
    if record.fetched_at is not None:
        until_at = max(until_at, record.fetched_at + MAX_STALE_AGE)
    return max(until_at - record.checked_at, DAY)


def packed(record: RobotsRecord) -> bytes:
    """A record as the server keeps it; the first octet is the version of the rest."""
    return _VERSION + zlib.compress(record_line(record).encode("ascii"))


def unpacked(value: bytes, origin: Origin) -> RobotsRecord:
    """The record of this origin that was kept.

    Raises:
        ValueError: it is none; or none that is known here.
    """
    if not value.startswith(_VERSION):
        raise ValueError("it is damaged, somebody else's, or a newer version's")
    unpacking = zlib.decompressobj()
    try:
        # However much it may come to: who can write to the server may have made it for that.
        line = unpacking.decompress(value[len(_VERSION) :], MAX_LINE_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if not unpacking.eof:
        raise ValueError("it is damaged: it is cut off, or too long")
    try:
        record = read_line(line, 1)
    except LineError as error:
        raise ValueError(
            error.problem if error.field is None else f"{error.field}: {error.problem}"
        ) from error
    if not isinstance(record, RobotsRecord) or record.origin != origin:
        raise ValueError("it is another's")
    return record
