"""Connections to public addresses alone, whatever a name resolves to.

To resolve a name, look at its addresses and then ask for its page would be of no use: who owns the name answers the
second look-up, that of the connection, differently ("DNS rebinding"). Here an address is looked at when a socket is
made to connect to it, so that nothing lies between check and use: no cache, no second answer, no other task. Of
several addresses those that are refused are passed over, as if nobody listened there.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, TypedDict, Unpack

import aiohttp

from robotgate._checks import check_flag
from robotgate._errors import NonPublicAddressError
from robotgate._urls import is_public_address

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import AddrInfoType, ClientRequest, ClientTimeout, SocketFactoryType
    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


class ConnectorOptions(TypedDict, total=False):
    """What `aiohttp.TCPConnector` takes, in every version that we run with."""

    resolver: AbstractResolver | None
    use_dns_cache: bool
    ttl_dns_cache: int | None
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
    """An `aiohttp.TCPConnector` that connects to no address that no public site has.

    For sessions that are passed to a gate, or stand before `RobotGate.middleware`; the gate's own session has one. A
    request whose host has no other addresses raises `NonPublicAddressError`. A request by way of a proxy connects to
    the proxy, whose address is the operator's business, and leaves it to the proxy to resolve the host.

    Args:
        allow_private_addresses: whether any address will do, after all. The gate's option of this name is another: an
            address in a URL needs both, a name that resolves to one needs this.
        socket_factory: makes the sockets, as for `aiohttp.TCPConnector`, to the addresses that have passed.
        options: as for `aiohttp.TCPConnector`.

    Raises:
        OptionError: `allow_private_addresses` is neither True nor False.
    """

    _permits: ClassVar[str] = "PublicConnector(allow_private_addresses=True) permits it"
    """What would let a refused address pass, in words."""

    def __init__(
        self,
        *,
        allow_private_addresses: bool = False,
        socket_factory: SocketFactoryType | None = None,
        **options: Unpack[ConnectorOptions],
    ) -> None:
        check_flag("allow_private_addresses", allow_private_addresses)
        make = _plain_socket if socket_factory is None else socket_factory
        super().__init__(socket_factory=make if allow_private_addresses else _Checked(make), **options)

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """A connection for one request, kept or new.

        Raises:
            NonPublicAddressError: the host has no public address.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
        """
        dial = _Dial(is_to_proxy=req.proxy is not None)
        token = _current.set(dial)
        try:
            return await super().connect(req, traces, timeout)
        except aiohttp.ClientConnectorError as error:
            if not dial.refused or dial.has_public:
                raise
            url = str(req.url)
            if error.host in dial.refused:
                raise NonPublicAddressError(url, f"not a public address ({self._permits})") from error
            raise NonPublicAddressError.of_name(
                url, error.host, list(dial.refused), permits=self._permits
            ) from error
        finally:
            _current.reset(token)


class _Dial:
    """What becomes of one request's need for a connection. Tasks that try several addresses at once share it."""

    __slots__ = ("has_public", "is_to_proxy", "refused")

    def __init__(self, *, is_to_proxy: bool) -> None:
        self.is_to_proxy = is_to_proxy
        self.has_public = False
        self.refused: dict[str, None] = {}
        """In the order of the attempts; an address may be tried more than once."""


_current: ContextVar[_Dial | None] = ContextVar("robotgate_dial", default=None)


class _RefusedAddressError(OSError):
    """An address that is not connected to. aiohttp goes on to the host's next, as it does with one that is down.

    Where others were tried and failed, this says what they say: no way leads there.
    """

    def __init__(self, address: str) -> None:
        super().__init__(errno.EHOSTUNREACH, f"{address} is not a public address")


class _Checked:
    """A `socket_factory` that makes none for an address that is not public."""

    def __init__(self, make: SocketFactoryType) -> None:
        self._make = make

    def __call__(self, info: AddrInfoType) -> socket.socket:
        dial = _current.get()
        if dial is not None and dial.is_to_proxy:
            return self._make(info)
        address = str(info[4][0])
        if not _is_public(address):
            if dial is not None:
                dial.refused[address] = None
            raise _RefusedAddressError(address)
        if dial is not None:
            dial.has_public = True
        return self._make(info)


def _is_public(address: str) -> bool:
    try:
        return is_public_address(ipaddress.ip_address(address))
    except ValueError:
        # No address but a name, or a spelling of somebody's own: the system would resolve it once more.
        return False


def _plain_socket(info: AddrInfoType) -> socket.socket:
    family, kind, proto, _, _ = info
    return socket.socket(family, kind, proto)
