"""One connection to the server, of the client's own kind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.asyncio import Redis

_LEAVING: Final = 1.0
"""Seconds for a connection to close in order."""
_HEADS: Final = tuple(b"$%d\r\n" % length for length in range(512))
"""How a string of so many octets begins."""


class _Connection(Protocol):
    """What is used of the client's connections, of whatever class."""

    retry: Retry

    @property
    def is_connected(self) -> bool: ...

    async def connect(self) -> None: ...

    async def send_packed_command(self, command: bytes, check_health: bool = ...) -> None: ...  # noqa: FBT001

    async def read_response(self, disable_decoding: bool = ...) -> object: ...  # noqa: FBT001

    async def disconnect(self, nowait: bool = ...) -> None: ...  # noqa: FBT001


class _Pool(Protocol):
    def make_connection(self) -> _Connection: ...


class Line:
    """A connection of our own. It is made as the client makes its own (address, Sentinel, TLS, credentials), but stands
    beside its pool: nobody else's calls delay ours, and who closes it here closes nothing for others.

    Args:
        client: whose connections are copied.
    """

    def __init__(self, client: Redis) -> None:
        self._pool: _Pool = client.connection_pool
        self._connection: _Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_amid = False
        """Whether replies are still to be read."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and self._connection.is_connected

    async def run(self, commands: Sequence[bytes]) -> list[object]:
        """Send packed commands at once, and read their replies, which are octets. What the server says of one of them
        alone stands in the place of its reply.

        Raises:
            RedisError: there is no connection, or no more.
            OSError: likewise.
        """
        loop = asyncio.get_running_loop()
        if self._is_amid or loop is not self._loop:
            # Whoever was cancelled, or failed, has left replies that are nobody's; so has a loop that was closed.
            await self.drop()
            self._loop = loop
        connection = self._connection
        if connection is None:
            connection = self._connection = self._pool.make_connection()
            # The link tries again, and knows for how long.
            connection.retry = Retry(NoBackoff(), 0)
        if not connection.is_connected:
            await connection.connect()
        self._is_amid = True
        await connection.send_packed_command(b"".join(commands), check_health=False)
        replies = [await _read(connection) for _ in commands]
        self._is_amid = False
        return replies

    async def drop(self) -> None:
        """Let go of the connection: the next `run` makes one, and asks anew where the server is."""
        connection, self._connection = self._connection, None
        self._is_amid = False
        if connection is not None:
            # A connection that was made in a loop that has been closed since cannot even be closed.
            with suppress(RedisError, OSError, RuntimeError):
                await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close the connection, and wait a moment until it is."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                async with asyncio.timeout(_LEAVING):
                    await connection.disconnect()


def packed(parts: Iterable[bytes]) -> bytes:
    """A command as it is sent."""
    pieces = pieces_of(parts)
    return b"".join((b"*%d\r\n" % (len(pieces) // 3), *pieces))


def pieces_of(parts: Iterable[bytes]) -> list[bytes]:
    """Words of a command as they are sent, in three pieces each."""
    pieces: list[bytes] = []
    for part in parts:
        length = len(part)
        pieces += (_HEADS[length] if length < len(_HEADS) else b"$%d\r\n" % length, part, b"\r\n")
    return pieces


async def _read(connection: _Connection) -> object:
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error
