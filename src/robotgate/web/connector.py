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
so that open sockets never exceed `SocketBudget.limit` and the requests under way.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import threading
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypedDict, Unpack
from weakref import WeakSet, ref

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate.errors import PERMITS, NonPublicAddressError
from robotgate.options import check_kind
from robotgate.urls import is_public_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from aiohttp import AddrInfoType, ClientRequest, ClientTimeout, SocketFactoryType
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    LookUp: TypeAlias = Callable[[str, int, socket.AddressFamily], list["AddressInfo"]]

try:
    import resource
except ImportError:  # pragma: no cover - Windows has no such limit.
    resource = None  # type: ignore[assignment]


MAX_ADDRESSES: Final = 16
"""Of one name. An answer can hold thousands, and aiohttp tries them over and over."""
DNS_TTL: Final = 30
"""Seconds for which aiohttp caches a name: a few pages of a host. The system caches too, and does not tell the TTL."""
MAX_CACHED_NAMES: Final = 4096
MIN_IDLE: Final = 16
MAX_IDLE: Final = 4096
"""More would be kept for seconds only, and for hosts that are not due within seconds."""
USUAL_DESCRIPTORS: Final = 1024
"""Where the system does not say how many a process may have."""

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
    """

    def __init__(self, *, max_threads: int, look_up: LookUp = system_look_up) -> None:
        self._permits = asyncio.Semaphore(max_threads)
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
        answer: asyncio.Future[list[AddressInfo]] = loop.create_future()
        thread = threading.Thread(
            target=self._work, args=(loop, answer, host, port, family), name=f"resolve {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._permits.release()
            raise OSError(errno.EAGAIN, f"{host} cannot be looked up: {error}") from error
        return [_result(host, info) for info in (await answer)[:MAX_ADDRESSES]]

    async def close(self) -> None:
        """Do nothing: threads under way end by themselves."""

    def _work(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[list[AddressInfo]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        infos: list[AddressInfo] = []
        error: OSError | None = None
        try:
            infos = self._look_up(host, port, family)
        except OSError as failed:
            error = failed
        except (ValueError, OverflowError) as failed:
            # Names and ports that `getaddrinfo` refuses to look up.
            error = OSError(f"{host} cannot be looked up: {failed}")
        try:
            loop.call_soon_threadsafe(self._deliver, answer, infos, error)
        except RuntimeError:
            return  # The loop is closed.

    def _deliver(
        self, answer: asyncio.Future[list[AddressInfo]], infos: list[AddressInfo], error: OSError | None
    ) -> None:
        # Only now: a cancelled look-up still occupies its thread.
        self._permits.release()
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(infos)


def _result(host: str, info: AddressInfo) -> ResolveResult:
    family, _, proto, _, address = info
    return ResolveResult(
        hostname=host,
        host=str(address[0]),
        port=int(str(address[1])),
        family=family,
        proto=proto,
        flags=_NUMERIC,
    )


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
        socket_factory: SocketFactoryType | None = None,
        **options: Unpack[ConnectorOptions],
    ) -> None:
        check_kind("allow_private_addresses", allow_private_addresses, bool)
        make = _plain_socket if socket_factory is None else socket_factory
        super().__init__(
            socket_factory=make if allow_private_addresses else _PublicSocketFactory(make), **options
        )

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> ResponseHandler:
        """Make a new connection; aiohttp calls this where it has none that was kept.

        Raises:
            NonPublicAddressError: the host has no public address.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
        """
        attempt = _Attempt(is_to_proxy=req.proxy is not None)
        token = _current.set(attempt)
        try:
            return await super()._create_connection(req, traces, timeout)
        except aiohttp.ClientConnectorError as error:
            if not attempt.refused or attempt.has_public:
                raise
            url = str(req.url)
            if error.host in attempt.refused:
                raise NonPublicAddressError(url, f"not a public address ({self._remedy})") from error
            raise NonPublicAddressError.of_name(
                url, error.host, list(attempt.refused), permits=self._remedy
            ) from error
        finally:
            _current.reset(token)


class _Attempt:
    """The addresses tried for one connection. Tasks that try several at once share it."""

    __slots__ = ("has_public", "is_to_proxy", "refused")

    def __init__(self, *, is_to_proxy: bool) -> None:
        self.is_to_proxy = is_to_proxy
        self.has_public = False
        self.refused: dict[str, None] = {}
        """In the order of the attempts, each address once."""


_current: ContextVar[_Attempt | None] = ContextVar("robotgate_connection_attempt", default=None)


class _RefusedAddressError(OSError):
    """An address that is not connected to. aiohttp goes on to the host's next address, as if this one were down."""

    def __init__(self, address: str) -> None:
        super().__init__(errno.EHOSTUNREACH, f"{address} is not a public address")


class _PublicSocketFactory:
    """A `socket_factory` that raises for an address that is not public."""

    def __init__(self, make: SocketFactoryType) -> None:
        self._make = make

    def __call__(self, info: AddrInfoType) -> socket.socket:
        attempt = _current.get()
        if attempt is not None and attempt.is_to_proxy:
            return self._make(info)
        address = str(info[4][0])
        if not _is_public(address):
            if attempt is not None:
                attempt.refused[address] = None
            raise _RefusedAddressError(address)
        if attempt is not None:
            attempt.has_public = True
        return self._make(info)


def _is_public(address: str) -> bool:
    try:
        return is_public_address(ipaddress.ip_address(address))
    except ValueError:
        # A name, or an unusual spelling of an address, which the system would resolve again.
        return False


def _plain_socket(info: AddrInfoType) -> socket.socket:
    family, kind, proto, _, _ = info
    return socket.socket(family, kind, proto)


def idle_limit() -> int:
    """How many idle sockets this process may keep: a quarter of its descriptors, within bounds."""
    allowed = USUAL_DESCRIPTORS
    if resource is not None:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed == resource.RLIM_INFINITY:
            return MAX_IDLE
    return min(max(allowed // 4, MIN_IDLE), MAX_IDLE)


class SocketBudget:
    """Counts the sockets of a connector.

    Args:
        limit: how many may be open without a request.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: WeakSet[socket.socket] = WeakSet()
        self._held: WeakSet[Connection] = WeakSet()

    @property
    def open_sockets(self) -> int:
        """How many sockets are open, those still connecting included."""
        return len(self._open)

    @property
    def is_spent(self) -> bool:
        """Whether more sockets are idle than may be kept. One that is still connecting counts as idle, to be safe."""
        return len(self._open) - len(self._held) > self.limit

    def make(self, address: AddrInfoType) -> socket.socket:
        """A new socket; the `socket_factory` of `aiohttp.TCPConnector`."""
        family, kind, proto, _, _ = address
        made = _CountedSocket(family, kind, proto)
        made.counted_in = self._open
        self._open.add(made)
        return made

    def hold(self, connection: Connection) -> None:
        """Count a connection as used by a request; when that ends, close the connection if the budget is spent."""
        self._held.add(connection)
        # A strong reference would make a cycle, and an abandoned response would be collected late.
        connection.add_callback(partial(self._release, ref(connection)))

    def _release(self, reference: ref[Connection]) -> None:
        connection = reference()
        if connection is None:
            return
        self._held.discard(connection)
        if len(self._open) - len(self._held) > self.limit and connection.protocol is not None:
            connection.protocol.force_close()


class BudgetedConnector(PublicConnector):
    """The connector of the gate's own session: requests under way are not limited, idle sockets are."""

    _remedy = PERMITS

    def __init__(
        self, budget: SocketBudget, *, resolver: AbstractResolver, allow_private_addresses: bool = False
    ) -> None:
        super().__init__(
            allow_private_addresses=allow_private_addresses,
            socket_factory=budget.make,
            resolver=resolver,
            ttl_dns_cache=DNS_TTL,
            dns_cache_max_size=MAX_CACHED_NAMES,
            limit=0,
        )
        self.budget = budget

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> ResponseHandler:
        if self.budget.is_spent:
            # Sockets are closed in the next iteration of the loop.
            await asyncio.sleep(0)
        return await super()._create_connection(req, traces, timeout)

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """A connection for one request, a kept one or a new one.

        Raises:
            as `PublicConnector`.
        """
        connection = await super().connect(req, traces, timeout)
        self.budget.hold(connection)
        return connection


class _CountedSocket(socket.socket):
    """A socket that leaves the set of open sockets when it is closed; garbage collection removes it by itself."""

    counted_in: WeakSet[socket.socket] | None = None

    def close(self) -> None:
        """Close the socket; asyncio calls this."""
        self._leave()
        super().close()

    def detach(self) -> int:
        """Give up the descriptor; uvloop calls this and closes it itself."""
        self._leave()
        return super().detach()

    def _leave(self) -> None:
        if self.counted_in is not None:
            self.counted_in.discard(self)
