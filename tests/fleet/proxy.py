"""What lies between a worker and its store's server, and may fail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

CHUNK: Final = 65_536


class Proxy:
    """Passes octets on to a port of this machine, until told otherwise.

    Args:
        target: the port of the server; it need not be there.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.accepted = 0
        """Connections so far."""
        self.lag = 0.0
        """Seconds by which each chunk is late, in either direction."""
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._listener: asyncio.Server | None = None
        self._transports: set[asyncio.WriteTransport] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._listener.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.resume()
        self.cut()
        await self._listener.wait_closed()
        # Or they would be cancelled at the loop's end, which it would tell of.
        await asyncio.gather(*self._serving)

    @property
    def url(self) -> str:
        """As a client is told it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Break all connections off; new ones are taken."""
        for transport in self._transports:
            transport.abort()

    def stall(self) -> None:
        """Pass nothing on, and lose nothing."""
        self._open.clear()

    def resume(self) -> None:
        """Pass on what has gathered, and what comes."""
        self._open.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer.transport, onward.transport}
        self._transports |= ends
        await asyncio.gather(self._pass_on(reader, onward), self._pass_on(there, writer))
        self._transports -= ends

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while octets := await source.read(CHUNK):
                if self.lag:
                    await asyncio.sleep(self.lag)
                await self._open.wait()
                sink.write(octets)
                await sink.drain()
        except ConnectionError:
            pass
        # One end gone, the other has nobody to speak to.
        sink.transport.abort()
