"""A network of the tests' own, for what is decided by addresses: names mean what a test says, one answer after another,
and whatever address is connected to, public or private, it is the web of the test that listens there.

Nothing here refuses anything: what was not connected to, the code under test did not connect to.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict
from tests.gate.servers import LOOPBACK
from yarl import URL

if TYPE_CHECKING:
    from aiohttp import AddrInfoType
    from tests.gate.servers import Web

PUBLIC: Final = "93.184.215.14"
"""The address of every name that was given none."""


class Zone(AbstractResolver):
    """Names and their addresses, in whatever hands they are; that of those without is `otherwise`."""

    def __init__(self, otherwise: str = PUBLIC) -> None:
        self.asked: list[str] = []
        self._otherwise = otherwise
        self._answers: dict[str, list[tuple[str, ...]]] = {}

    def give(self, name: str, *answers: tuple[str, ...]) -> None:
        """Answer look-ups of a name with these addresses: each time the next, and the last from then on."""
        self._answers[name] = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """What the name means now."""
        self.asked.append(host)
        answers = self._answers.get(host, [(self._otherwise,)])
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """There is nothing to close."""


@dataclass
class Network:
    """A `socket_factory`: ports 80 and 443 of every address in the world are the web's; others are themselves."""

    web: Web
    dialled: list[str] = field(default_factory=list)
    """The addresses that were connected to."""
    down: set[str] = field(default_factory=set)
    """Addresses that refuse connections."""

    def __call__(self, info: AddrInfoType) -> socket.socket:
        """A socket that leads there."""
        made = _Line(info[0], socket.SOCK_STREAM)
        made.network = self
        made.address = str(info[4][0])
        return made

    def lead(self, address: str, port: int) -> int:
        """The port of loopback that connecting to an address leads to in truth.

        Raises:
            OSError: the address is down.
        """
        self.dialled.append(address)
        if address in self.down:
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return {80: self.web.port, 443: self.web.tls_port}.get(port, port)


class _Line(socket.socket):
    network: Network
    address: str

    def connect(self, address: socket._Address, /) -> None:
        """As ever, to where the network leads."""
        assert isinstance(address, tuple)
        here = LOOPBACK if self.family == socket.AF_INET else f"::ffff:{LOOPBACK}"
        super().connect((here, self.network.lead(self.address, address[1])))


ASKS: Final = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=p\r\n"
    b"Content-Length: 4\r\n\r\nno!\n"
)
"""What a proxy answers that wants credentials."""


@dataclass
class Proxy:
    """A forward proxy on loopback: takes absolute-form requests and CONNECT, and passes all of them to the web.

    It tells all sites from each other, as a proxy does; a connection serves one request.
    """

    web: Web
    served: list[str] = field(default_factory=list)
    """Method and target of each request line; of a tunnel, the host and the port."""
    heads: list[CIMultiDict[str]] = field(default_factory=list)
    """The headers it was asked with."""
    says: bytes | None = None
    """What it answers for itself, empty for nothing at all; None: it passes requests on."""
    refuses: str | None = None
    """A target for which it asks for credentials."""
    _server: asyncio.Server | None = None

    @property
    def asked(self) -> list[str]:
        """The targets."""
        return [line.partition(" ")[2] for line in self.served]

    @property
    def port(self) -> int:
        """Where it listens: at a private address."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The same, as a URL."""
        return f"http://{LOOPBACK}:{self.port}"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)

    async def close(self) -> None:
        """Stop listening. Its connections have ended with the sessions that made them."""
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            method, target, _ = first.split(" ")
            fields = [line.partition(": ") for line in lines]
            headers = CIMultiDict([(name, value) for name, _, value in fields])
            self.served.append(f"{method} {target}")
            self.heads.append(headers)
            says = ASKS if target == self.refuses else self.says
            if says is not None:
                writer.write(says)
                writer.close()
                return
            is_tunnel = method == "CONNECT"
            there = await asyncio.open_connection(LOOPBACK, self.web.tls_port if is_tunnel else self.web.port)
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                # One request for each connection, so that no second one needs its target read.
                ours = {"proxy-authorization", "proxy-connection", "connection"}
                kept = [f"{name}: {value}" for name, value in headers.items() if name.lower() not in ours]
                head = [f"{method} {URL(target).raw_path_qs} HTTP/1.1", *kept, "Connection: close", "", ""]
                there[1].write("\r\n".join(head).encode())
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while octets := await reader.read(65_536):
            writer.write(octets)
            await writer.drain()
    writer.close()
