"""The addresses of names: what is known of them for the connections, and what they are paced by.

A host name is not a machine: a thousand names may have one address. An address scope is what all requests to one
address have in common, whatever host they are for. Its name is made from the address by `AddressScopes`.

An `AddressBook` gives the connector and the scopes the same answers, so that a connection goes to an address that its
request was paced for. A session that is not the gate's may resolve names elsewhere. There its connector is asked
(`ConnectorResolver`), and the address of each response is read from the socket (`AddressScopes.measure`). It is never
guessed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aiohttp import ClientError, ClientResponse, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate.client.proxy import named
from robotgate.errors import OptionError
from robotgate.events import logger
from robotgate.urls import embedded_ipv4

if TYPE_CHECKING:
    # mypy takes a request's response for None where it comes to `aiohttp.connector` first.
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection

    Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
    Key: TypeAlias = tuple[str, int, int]
    """Of an answer: the name, the port and the family that were asked for."""

MAX_ADDRESSES: Final = 16
"""Of one name. An answer can hold thousands, and aiohttp tries them over and over."""
DNS_TTL: Final = 30
"""Seconds for which an answer counts: a few pages of a host. The system caches too, and does not tell the TTL."""
FAILURE_TTL: Final = 1.0
"""Seconds for which a failed look-up counts."""
GRACE: Final = 1.0
"""Seconds for which connections may still use an answer: a turn that begins just before its end connects after it."""
LOOK_UP_TIMEOUT: Final = 10.0
"""Seconds: as long as a request for robots.txt may take with its look-up. The system's resolver may take 30."""
MAX_LOOK_UPS: Final = 100
"""Of a connector that is not the gate's, at once: asyncio has a few threads for them."""
MAX_CACHED_NAMES: Final = 4096
IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that count: the rest names the interface (RFC 4291 §2.5.1), and one machine may have all."""
KIND: Final = "address|"
"""The beginning of the name of each address scope."""


def check_networks(name: str, value: object) -> None:
    """Check a collection of networks.

    Raises:
        OptionError: `value` is not one, or one of its members is no network.
    """
    _networks(name, value)


def _networks(name: str, given: object) -> dict[tuple[int, int], set[int]]:
    """The networks by version and number of bits that do not count. A list can have thousands."""
    if not isinstance(given, Collection) or isinstance(given, str | bytes):
        raise OptionError(f"{name}={given!r}: give a collection of networks, such as ['203.0.113.0/24']")
    found: dict[tuple[int, int], set[int]] = {}
    for text in given:
        try:
            if not isinstance(text, str):
                raise TypeError("it is no text")  # noqa: TRY301  # Numbers and bytes are addresses to `ip_network`.
            network = ipaddress.ip_network(text)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"{name}={text!r}: give networks as '203.0.113.0/24' or '2001:db8::/32' ({error})"
            ) from error
        unused = network.max_prefixlen - network.prefixlen
        found.setdefault((network.version, unused), set()).add(int(network.network_address) >> unused)
    return found


class Scopes(NamedTuple):
    """The address scopes of a host."""

    names: tuple[str, ...]
    """Each once, in a fixed order; none if the host has no address, or only such as are exempt."""
    until_at: float
    """When they are to be asked for again, by the clock of the `AddressBook`."""


class AddressScopes:
    """Names the scopes of addresses.

    Args:
        exempt: networks, as ``"203.0.113.0/24"``, whose addresses have no scope.

    Raises:
        OptionError: a network makes no sense.
    """

    def __init__(self, exempt: Collection[str] = ()) -> None:
        self._exempt = _networks("address_exempt", exempt)
        self.name: Callable[[str], str | None] = lru_cache(MAX_CACHED_NAMES)(self._named)
        """The name of the scope of an address; None if it is exempt, or no address. Each response asks for its own."""
        self._is_unknown_told = False
        self._noting: dict[type[ClientResponse], type[ClientResponse]] = {}
        """A class of responses that note where they come from, for each class of a session's."""

    def _named(self, address: str) -> str | None:
        parsed = _parsed(address)
        return None if parsed is None else self._name(parsed)

    def names(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """The names of the scopes of addresses, each once and sorted."""
        return tuple(sorted({name for address in addresses if (name := self.name(address)) is not None}))

    def _name(self, address: Address) -> str | None:
        version, number = address.version, int(address)
        if any(
            version == of_version and number >> unused in networks
            for (of_version, unused), networks in self._exempt.items()
        ):
            return None
        if version == 4:
            return f"{KIND}{address}"
        unused = ipaddress.IPV6LENGTH - IPV6_PREFIX
        return f"{KIND}{ipaddress.IPv6Address(number >> unused << unused)}/{IPV6_PREFIX}"

    def tell_unknown(self, host: str, proxy: str | None) -> None:
        """Log, once, that the address of a host is not known, and that so its requests are not paced by it.

        Args:
            proxy: what the host is requested through; None: a proxy that is not known.
        """
        if not self._is_unknown_told:
            self._is_unknown_told = True
            logger.warning(
                "%s is requested through %s, so its address is not known, and its requests are not paced by it. The"
                " same holds for all other hosts behind a proxy; this is logged once",
                host,
                named(proxy),
            )

    def measure(self, request: ClientRequest) -> None:
        """Have the response to a request note the address that it comes from, for `of_peer`.

        aiohttp lets go of the connection when the body has come, which it often has before the response is returned.
        """
        kind = request.response_class
        noting = self._noting.get(kind)
        if noting is None:
            noting = type(kind.__name__, (_NotingResponse, kind), {})
            # A request may be sent again.
            self._noting[kind] = self._noting[noting] = noting
        request.response_class = noting

    def of_peer(self, request: ClientRequest, response: ClientResponse) -> str | None:
        """The name of the scope of the address that a response came from.

        None if it is exempt or not known: the connection was lost at once, or leads to a proxy, which is logged.
        """
        if request.proxy is not None:
            self.tell_unknown(request.url.raw_host or "", str(request.proxy))
            return None
        if not isinstance(response, _NotingResponse):
            return None
        if response.is_by_proxy:
            self.tell_unknown(request.url.raw_host or "", None)
            return None
        return None if response.peer is None else self.name(response.peer)


class _NotingResponse(ClientResponse):
    """A response that knows the address that it came from."""

    peer: str | None = None
    """The address; None: not that of a socket of the internet."""
    is_by_proxy = False
    """Whether the connector has a proxy of its own, of which the request says nothing."""

    # No coroutine of its own: it would take as long as all that this does.
    def start(self, connection: Connection) -> Coroutine[object, object, ClientResponse]:
        """Begin to read; aiohttp calls this when the request was sent."""
        connector = connection._connector
        if type(connector) is not TCPConnector:
            # Those of aiohttp-socks have no public names for it.
            self.is_by_proxy = hasattr(connector, "_proxy_host") or hasattr(connector, "_proxy_infos")
        transport = connection.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = str(peer[0])
        return super().start(connection)


def _parsed(address: str) -> Address | None:
    """An address; one of IPv4 where an IPv6 address stands for it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return embedded_ipv4(parsed) or parsed


@dataclass(slots=True)
class _Answer:
    """What came of a look-up."""

    until_at: float
    addresses: deque[ResolveResult]
    """The first is the one to try first at the next connection."""
    names: tuple[str, ...]
    failure: tuple[type[OSError], tuple[object, ...]] | None = None
    """The kind and the arguments of the error: the error itself would keep all that was under way when it arose."""
    hosts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.hosts = frozenset(result["host"] for result in self.addresses)


@asynccontextmanager
async def answer_in_time(host: str, timeout: float | None) -> AsyncIterator[None]:
    """Let a look-up take so many seconds.

    Raises:
        socket.gaierror: it took longer; as the system's resolver says that no name server answers.
    """
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        raise socket.gaierror(socket.EAI_AGAIN, f"no answer about {host} within {timeout} s") from error


class ConnectorResolver(AbstractResolver):
    """Looks names up as a connector does for its own connections: by its resolver, and in its cache.

    It is for an `AddressBook` about a session that is not the gate's. What that finds holds for longer than in the
    connector, so that the address has still to be measured.
    """

    def __init__(self, connector: TCPConnector) -> None:
        self._connector = connector
        self._permits = asyncio.Semaphore(MAX_LOOK_UPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host, of the families that the connector uses. A proxy's connector may return the name.

        Raises:
            OSError: it has none, they are not found in time, or the connector is closed.
        """
        if self._connector.closed:
            # Older versions of aiohttp look names up nevertheless.
            raise OSError(f"{host} cannot be looked up: the connector is closed")
        try:
            async with self._permits, answer_in_time(host, LOOK_UP_TIMEOUT):
                return await self._connector._resolve_host(host, port)
        except ClientError as error:
            raise OSError(f"{host} cannot be looked up: {error}") from error

    async def close(self) -> None:
        """Do nothing: the connector is somebody else's."""


class AddressBook(AbstractResolver):
    """A resolver that remembers, for connections and for scopes.

    It is for an `AddressedConnector`. As aiohttp's cache does, it begins with the next address of a name at each
    connection.

    Args:
        resolver: looks names up. It is closed with the book.
        scopes: names the scopes.
        now: tells the time in seconds.
    """

    def __init__(
        self, resolver: AbstractResolver, *, scopes: AddressScopes, now: Callable[[], float]
    ) -> None:
        self._resolver = resolver
        self._scopes = scopes
        self._now = now
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()
        """That which was used last comes last."""
        self._asked: dict[Key, asyncio.Task[_Answer]] = {}
        """The look-ups under way."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host, for a connection: at most `MAX_ADDRESSES`.

        Raises:
            OSError: it has none.
        """
        answer = await self._answer(_key(host, port, family), grace=GRACE)
        if answer.failure is not None:
            kind, arguments = answer.failure
            raise kind(*arguments)
        addresses = list(answer.addresses)
        answer.addresses.rotate(-1)
        return addresses

    async def scopes_of(self, host: str, port: int) -> Scopes:
        """The address scopes of a host. An address that stands for itself is not looked up, and holds for ever.

        A host that has no address has no scope, for `FAILURE_TTL`: no connection to it is made in that time.
        """
        if _parsed(host) is not None:
            return Scopes(self._scopes.names([host]), math.inf)
        answer = await self._answer(_key(host, port))
        return Scopes(answer.names, answer.until_at)

    def has(self, host: str, port: int, address: str) -> bool:
        """Whether the last look-up of a host found an address. A host that is an address has itself."""
        # A host is mostly spelled as it is kept here.
        answer = self._answers.get((host, port, socket.AF_UNSPEC)) or self._answers.get(_key(host, port))
        return _parsed(host) is not None if answer is None else address in answer.hosts

    async def close(self) -> None:
        """Break off the look-ups under way: they fail. Close the resolver."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._resolver.close()

    async def _answer(self, key: Key, *, grace: float = 0.0) -> _Answer:
        answer = self._answers.get(key)
        if answer is not None and self._now() < answer.until_at + grace:
            self._answers.move_to_end(key)
            return answer
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._look_up(key))
            task.add_done_callback(lambda _: self._asked.pop(key))
        # A caller that is cancelled leaves the look-up to the others. They are not cancelled with a look-up.
        await asyncio.wait([task])
        if task.cancelled():
            return self._failed(key, OSError(f"{key[0]} is not looked up: the gate is closed"))
        return task.result()

    async def _look_up(self, key: Key) -> _Answer:
        host, port, family = key
        try:
            found = await self._resolver.resolve(host, port, socket.AddressFamily(family))
            if not found:
                raise OSError(f"{host} has no address")  # noqa: TRY301  # One place makes the answer of it.
        except OSError as error:
            answer = self._failed(key, error)
        else:
            # Connections are bound as well, so that each goes to an address with a scope.
            addresses = deque(found[:MAX_ADDRESSES])
            names = self._scopes.names(result["host"] for result in addresses)
            answer = _Answer(self._now() + DNS_TTL, addresses, names)
        self._answers[key] = answer
        self._answers.move_to_end(key)
        if len(self._answers) > MAX_CACHED_NAMES:
            self._answers.popitem(last=False)
        return answer

    def _failed(self, key: Key, error: OSError) -> _Answer:
        until_at = self._now() + FAILURE_TTL
        earlier = self._answers.get(key)
        kind = socket.gaierror if isinstance(error, socket.gaierror) else OSError
        if earlier is not None and kind is socket.gaierror and error.errno == socket.EAI_AGAIN:
            # The name servers do not answer, and what they said last still holds (RFC 8767). Without scopes, a site
            # whose connection is kept would not be looked up at all.
            return replace(earlier, until_at=until_at)
        return _Answer(until_at, deque(), (), (kind, error.args))


def _key(host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> Key:
    # The final dot is left out, as in an `Origin`.
    return host.lower().removesuffix("."), port, family
