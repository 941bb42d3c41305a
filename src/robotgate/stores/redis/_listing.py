"""What there is in the server, by name and in order."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from redis.exceptions import RedisError, ResponseError

from robotgate._errors import InvalidURLError
from robotgate._urls import Origin
from robotgate.stores.redis._client import server_name
from robotgate.stores.redis._faults import explained, fault
from robotgate.stores.redis._line import Line, packed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from robotgate.stores.redis._keys import Keys

COMMANDS: Final = ("scan",)
"""What is asked of the server, and only where all that it keeps is listed."""
TIMEOUT: Final = 5.0
"""Seconds for the server to look at some of its keys."""
_LOOKED_AT: Final = b"1000"
"""Keys that it looks at before it serves somebody else."""
_PLACE: Final = attrgetter("host", "port", "scheme")


class Listing:
    """The names of all that a fleet keeps.

    The server knows no order: it is walked through whole, beside its other work, and the names are put in order here.

    Args:
        client: whose connections are copied.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._server = server_name(client)

    async def origins(self, *, host: str | None = None) -> list[Origin]:
        """The origins of which there is a record, or those of one host: by host, port and scheme.

        Raises:
            StoreError: the server cannot be asked.
        """
        pattern = self._keys.pattern("robots", containing=host or "")
        found = {origin async for key in self._scanned(pattern) if (origin := self._origin(key)) is not None}
        return sorted((origin for origin in found if host in (None, origin.host)), key=_PLACE)

    async def pace_keys(self) -> list[str]:
        """The pace keys of which there is a state, in order.

        Raises:
            StoreError: the server cannot be asked.
        """
        pattern = self._keys.pattern("host")
        found = {name async for key in self._scanned(pattern) if (name := self._pace_key(key)) is not None}
        return sorted(found)

    def _origin(self, key: bytes) -> Origin | None:
        """The origin whose record a key holds; None where it only looks like one."""
        try:
            origin = Origin.of(self._keys.name_in(key))
        except (InvalidURLError, UnicodeDecodeError):
            return None
        return origin if self._keys.record(origin) == key else None

    def _pace_key(self, key: bytes) -> str | None:
        """The host whose state a key holds; None where it only looks like one."""
        try:
            name = self._keys.name_in(key)
        except UnicodeDecodeError:
            return None
        return name if self._keys.host(name) == key else None

    async def _scanned(self, pattern: bytes) -> AsyncIterator[bytes]:
        """Keys, some perhaps twice; what comes or goes meanwhile may be among them or not."""
        line = Line(self._client)
        cursor = b"0"
        try:
            while True:
                cursor, keys = await self._page(line, cursor, pattern)
                for key in keys:
                    yield key
                if cursor == b"0":
                    return
        finally:
            await line.aclose()

    async def _page(self, line: Line, cursor: bytes, pattern: bytes) -> tuple[bytes, list[bytes]]:
        command = packed((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", _LOOKED_AT))
        try:
            async with asyncio.timeout(TIMEOUT):
                (reply,) = await line.run([command])
            if isinstance(reply, ResponseError):
                raise reply
        except (RedisError, OSError) as error:
            raise explained(self._server, error).error from error
        match reply:
            case [bytes(following), list(keys)]:
                return following, keys
        raise fault(self._server, "ANSWER", said=repr(reply)[:100]).error
