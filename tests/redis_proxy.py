"""A network between a client and a server that can be cut, stalled, slowed, and closed to newcomers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Self

CHUNK = 65536


class Proxy:
    """Passes bytes on, both ways.

    Args:
        port: the server's, on loopback.
        tls: what newcomers have to speak; nothing by default. The server is spoken to without.
    """

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self.target = port
        self.tls = tls
        self.port = 0
        self.connections = 0
        """How many there have been."""
        self.is_refusing = False
        """Whether newcomers find the door shut."""
        self.delay = 0.0
        """Seconds that each chunk of bytes takes longer."""
        self.cut_at: bytes | None = None
        """The next chunk from a client that has this in it is delivered, and its connection cut before the reply."""
        self.cut_inside: int | None = None
        """Of the next reply, so many bytes are delivered, and the connection is cut."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """As a client is told it."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        self.flow()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """End all connections, as if a cable were cut and the far end told so."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Pass nothing on, and say nothing."""
        self._flows.clear()

    def flow(self) -> None:
        """Pass on what has gathered, and go on."""
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        try:
            if not self.is_refusing:
                await self._join(reader, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers.add(far_writer)
        ways = [
            asyncio.create_task(self._pass_on(reader, far_writer, is_reply=False)),
            asyncio.create_task(self._pass_on(far_reader, writer, is_reply=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            far_writer.transport.abort()
            self._writers.discard(far_writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        has_asked = False
        with suppress(OSError):
            while octets := await reader.read(CHUNK):
                await self._flows.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if is_reply and self.cut_inside is not None:
                    octets, self.cut_inside, has_asked = octets[: self.cut_inside], None, True
                elif not is_reply and self.cut_at is not None and self.cut_at in octets:
                    self.cut_at, has_asked = None, True
                writer.write(octets)
                await writer.drain()
                if has_asked:
                    return
