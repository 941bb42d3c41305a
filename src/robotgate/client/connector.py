"""Connections: how names are looked up, which addresses are connected to, and how many idle sockets are kept.

**Names.** The system's resolver blocks a thread for up to half a minute for a name whose servers do not answer, and
asyncio's default executor has a handful of threads for the whole program. `ThreadPerNameResolver` uses one daemon
thread per look-up, up to a bound, so that a few dead names stall no others.

**Addresses.** A name could be resolved and checked before its page is requested, but its owner can answer the second
look-up, that of the connection, differently ("DNS rebinding"). `PublicConnector` checks an address when it makes the
socket to connect to it, so that nothing lies between check and use. If a name has several addresses, those that are
refused are skipped like addresses that are down.

**Sockets.** aiohttp keeps every connection for some seconds after its response, and a crawl of a hundred thousand hosts
would run out of descriptors. `BudgetedConnector` closes a connection at the end of its response if too many are idle,
so that open sockets stay within its `max_idle` and the most requests that are under way at once.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypedDict, Unpack
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate.client.addresses import (
    DNS_TTL,
    MAX_ADDRESSES,
    MAX_CACHED_NAMES,
    AddressBook,
    answer_in_time,
)
from robotgate.errors import PERMITS, NonPublicAddressError
from robotgate.options import check_kind
from robotgate.urls import is_public_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    LookUp: TypeAlias = Callable[[str, int, socket.AddressFamily], list["AddressInfo"]]

MIN_IDLE: Final = 16
MAX_IDLE: Final = 4096
"""More would be kept for seconds only, and for hosts that are not due within seconds."""
USUAL_DESCRIPTORS: Final = 1024
"""Where the system does not say how many a process may have."""


class HeaderLimits(TypedDict):
    """What an `aiohttp.ClientSession` accepts of the head of a response."""

    max_line_size: int
    """Bytes of its first line."""
    max_field_size: int
    """Bytes of a header line."""
    max_headers: int
    """Header lines."""


HEADER_LIMITS: Final[HeaderLimits] = {
    "max_line_size": 64 * 1024,
    "max_field_size": 64 * 1024,
    "max_headers": 500,
}
"""Of the gate's own sessions: a long Content-Security-Policy closes no site. aiohttp has 8,190 bytes and 128 lines."""

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def system_look_up(host: str, port: int, family: socket.AddressFamily) -> list[AddressInfo]:
    """Ask the system's resolver, hosts file included; this blocks.

    Raises:
        OSError: the name has no address.
    """
    return list(
        socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    )


class ThreadPerNameResolver(AbstractResolver):
    """An aiohttp resolver with a daemon thread for each look-up under way.

    The end of the program does not wait for these threads.

    Args:
        max_threads: how many look-ups run at once; others wait.
        timeout: seconds after which one has failed, though its thread is not free before it ends; None: never.
    """

    def __init__(
        self, *, max_threads: int, timeout: float | None = None, look_up: LookUp = system_look_up
    ) -> None:
        self._permits = asyncio.Semaphore(max_threads)
        self._timeout = timeout
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host, at most `MAX_ADDRESSES`.

        Raises:
            OSError: it has none.
        """
        await self._permits.acquire()
        loop = asyncio.get_running_loop()
        # An error is a result, too: asyncio logs an exception that a cancelled caller does not retrieve.
        answer: asyncio.Future[list[AddressInfo] | OSError] = loop.create_future()
        # A cancelled look-up still occupies its thread: the shield below keeps its permit until that ends.
        answer.add_done_callback(lambda _: self._permits.release())

        def work() -> None:
            found: list[AddressInfo] | OSError
            try:
                found = self._look_up(host, port, family)
            except OSError as error:
                found = error
            except (ValueError, OverflowError) as error:
                # There are names and ports that `getaddrinfo` refuses to look up.
                found = OSError(f"{host} cannot be looked up: {error}")
            with suppress(RuntimeError):
                # The loop may be closed.
                loop.call_soon_threadsafe(answer.set_result, found)

        try:
            threading.Thread(target=work, name=f"resolve {host}", daemon=True).start()
        except RuntimeError as error:
            answer.set_result(OSError(errno.EAGAIN, f"{host} cannot be looked up: {error}"))
        async with answer_in_time(host, self._timeout):
            found = await asyncio.shield(answer)
        if isinstance(found, OSError):
            raise found
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(str(address[1])),
                family=found_family,
                proto=proto,
                flags=_NUMERIC,
            )
            for found_family, _, proto, _, address in found[:MAX_ADDRESSES]
        ]

    async def close(self) -> None:
        """Do nothing: threads under way end by themselves."""


class ConnectorOptions(TypedDict, total=False):
    """The options of `aiohttp.TCPConnector` that `PublicConnector` passes on."""

    resolver: AbstractResolver | None
    use_dns_cache: bool
    ttl_dns_cache: int | None
    dns_cache_max_size: int
    family: socket.AddressFamily
    ssl: bool | aiohttp.Fingerprint | SSLContext
    local_addr: tuple[str, int] | None
    keepalive_timeout: float | None
    force_close: bool
    limit: int
    limit_per_host: int
    enable_cleanup_closed: bool
    happy_eyeballs_delay: float | None
    interleave: int | None


class PublicConnector(aiohttp.TCPConnector):
    """An `aiohttp.TCPConnector` that connects to public addresses only (IANA special-purpose registries).

    Use it in sessions that you pass to a gate or that use `RobotGate.middleware`; the gate's own session has one. A
    request whose host has no public address raises `NonPublicAddressError`. A request through a proxy connects to the
    proxy, whatever the proxy's address, and the proxy resolves the host.

    Args:
        allow_private_addresses: whether private addresses are permitted after all. The gate has another option of this
            name: an address in a URL needs both, a name that resolves to a private address needs only this one.
        socket_factory: makes the sockets for the permitted addresses, as in `aiohttp.TCPConnector`.
        options: as for `aiohttp.TCPConnector`.

    Raises:
        OptionError: `allow_private_addresses` is neither True nor False.
    """

    _remedy: ClassVar[str] = "PublicConnector(allow_private_addresses=True) permits it"
    """For the error: the option that permits a refused address."""

    def __init__(
        self,
        *,
        allow_private_addresses: bool = False,
        socket_factory: aiohttp.SocketFactoryType | None = None,
        **options: Unpack[ConnectorOptions],
    ) -> None:
        check_kind("allow_private_addresses", allow_private_addresses, bool)
        self._make_socket = socket_factory
        super().__init__(
            socket_factory=socket_factory if allow_private_addresses else self._public_socket, **options
        )

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """Make a new connection; aiohttp calls this where it has none that was kept.

        Raises:
            NonPublicAddressError: the host has no public address.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
        """
        tried: dict[str, bool] = {}
        token = _tried.set(None if req.proxy is not None else tried)
        try:
            return await super()._create_connection(req, traces, timeout)
        except aiohttp.ClientConnectorError as error:
            if not tried or any(tried.values()):
                raise
            url = str(req.url)
            if error.host in tried:
                raise NonPublicAddressError(url, f"not a public address ({self._remedy})") from error
            # A name may have hundreds.
            shown = f"{', '.join(list(tried)[:3])}{', ...' if len(tried) > 3 else ''}"
            problem = f"{error.host} resolves to {shown}, not to a public address ({self._remedy})"
            raise NonPublicAddressError(url, problem) from error
        finally:
            _tried.reset(token)

    def _public_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """Make a socket for an address; raise for one that is not public: aiohttp goes on to the next, as if down."""
        tried, address = _tried.get(), str(info[4][0])
        if tried is not None:
            tried[address] = _is_public(address)
            if not tried[address]:
                raise OSError(errno.EHOSTUNREACH, f"{address} is not a public address")
        return socket.socket(*info[:3]) if self._make_socket is None else self._make_socket(info)


_tried: ContextVar[dict[str, bool] | None] = ContextVar("robotgate_tried_addresses")
"""The addresses tried for the connection that is being made, and whether each is public. Tasks that try several at once
share it. None: the connection is to a proxy, whose address may be any."""


def _is_public(address: str) -> bool:
    try:
        return is_public_address(ipaddress.ip_address(address))
    except ValueError:
        # A name, or an unusual spelling of an address, which the system would resolve again.
        return False


def _idle_limit() -> int:
    """How many idle sockets this process may keep: a quarter of its descriptors, within bounds."""
    # Windows has no such limit. -1 stands for none elsewhere.
    allowed = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else USUAL_DESCRIPTORS
    return MAX_IDLE if allowed < 0 else min(max(allowed // 4, MIN_IDLE), MAX_IDLE)


class BudgetedConnector(PublicConnector):
    """The connector of the gate's own session: requests under way are not limited, idle sockets are.

    Args:
        max_look_ups: how many names it looks up at once.
        max_idle: how many sockets may be open without a request; None: a quarter of the process's descriptors, within
            bounds.
        resolver: looks names up; None: a thread for each name.
        use_dns_cache: whether what it finds is remembered here.
    """

    _remedy = PERMITS

    def __init__(
        self,
        *,
        max_look_ups: int,
        allow_private_addresses: bool = False,
        max_idle: int | None = None,
        resolver: AbstractResolver | None = None,
        use_dns_cache: bool = True,
    ) -> None:
        super().__init__(
            allow_private_addresses=allow_private_addresses,
            socket_factory=self._counted_socket,
            resolver=resolver or ThreadPerNameResolver(max_threads=max_look_ups),
            use_dns_cache=use_dns_cache,
            ttl_dns_cache=DNS_TTL,
            dns_cache_max_size=MAX_CACHED_NAMES,
            limit=0,
        )
        self._max_idle = _idle_limit() if max_idle is None else max_idle
        self.open_sockets: WeakSet[socket.socket] = WeakSet()
        """Those still connecting included."""

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        """Keep the connection of a request that has ended, or close it; aiohttp calls this."""
        # The connection itself is still among those that are acquired, with those that are only being made.
        idle = len(self.open_sockets) - len(self._acquired)
        super()._release(key, protocol, should_close=should_close or idle >= self._max_idle)

    def _counted_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        made = _CountedSocket(*info[:3])
        made.counted_in = self.open_sockets
        self.open_sockets.add(made)
        return made


class AddressedConnector(BudgetedConnector):
    """A `BudgetedConnector` whose connections go to addresses that their requests were paced for.

    Args:
        book: the only cache of addresses. A connection that was kept is used while its address is in the book.
    """

    def __init__(self, *, book: AddressBook, allow_private_addresses: bool = False) -> None:
        super().__init__(
            # How many names are looked up at once is up to the book.
            max_look_ups=1,
            allow_private_addresses=allow_private_addresses,
            resolver=book,
            use_dns_cache=False,
        )
        self._book = book

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        """Take a connection that was kept; aiohttp calls this before it makes one."""
        connection = await super()._get(key, traces)
        while connection is not None and self._leads_elsewhere(key, connection):
            connection.close()
            connection = await super()._get(key, traces)
        return connection

    def _leads_elsewhere(self, key: ConnectionKey, connection: Connection) -> bool:
        """Whether a connection leads to an address that its name had once: its request was not paced for that."""
        transport = connection.transport
        if key.proxy is not None or transport is None:
            return False
        address = str(transport.get_extra_info("peername")[0])
        return not self._book.has(key.host, key.port or 0, address)


def own_connector(
    book: AddressBook | None, *, max_look_ups: int, allow_private_addresses: bool
) -> BudgetedConnector:
    """Make the connector of a session of the gate's: an `AddressedConnector` where there is a book."""
    if book is not None:
        return AddressedConnector(book=book, allow_private_addresses=allow_private_addresses)
    return BudgetedConnector(max_look_ups=max_look_ups, allow_private_addresses=allow_private_addresses)


class _CountedSocket(socket.socket):
    """A socket that leaves the set of open sockets when it is closed; garbage collection removes it by itself."""

    counted_in: WeakSet[socket.socket] = WeakSet()  # noqa: RUF012  # Replaced where a socket is counted.

    def close(self) -> None:
        """Close the socket; asyncio calls this."""
        self.counted_in.discard(self)
        super().close()

    def detach(self) -> int:
        """Give up the descriptor; uvloop calls this and closes it itself."""
        self.counted_in.discard(self)
        return super().detach()
