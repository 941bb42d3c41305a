"""A server without a framework, for whatever is measured beside it: what it took would be taken from that."""

from __future__ import annotations

import asyncio
from typing import Final

HEAD_END: Final = b"\r\n\r\n"


class Heads(asyncio.Protocol):
    """A connection that reads GETs without a body, one after the other."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def asked(self, head: bytes) -> None:
        """Take in the head of a request."""
        raise NotImplementedError

    def answer(self, octets: bytes) -> None:
        """Send an answer, head and body, if the client is still connected."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(octets)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio has it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """As asyncio has it."""
        received = self._received + data if self._received else data
        while (end := received.find(HEAD_END)) >= 0:
            head, received = received[:end], received[end + len(HEAD_END) :]
            self.asked(head)
        self._received = received
