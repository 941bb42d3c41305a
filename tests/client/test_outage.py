"""Outages: told from the errors that aiohttp really raises, met on the loopback interface."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.client.hostile_answers import listening
from tests.gate.servers import LOOPBACK, unused_port

from robotgate.client.connector import AddressInfo, ThreadPerNameResolver
from robotgate.client.robots import OWN_ERRNOS, AiohttpFetcher, Silence, outage_of
from robotgate.errors import GateClosedError, HostUnavailableError
from robotgate.sites.record import Failure

if TYPE_CHECKING:
    from tests.client.hostile_answers import Talk
    from tests.gate.servers import Web

SHORT: Final = 0.05
"""Seconds; what is waited for never comes."""
REFUSED: Final = "it refuses connections"
NO_NAME: Final = "its name cannot be resolved"
NO_ANSWER: Final = "it does not answer in time"
NO_CONNECTION: Final = "it takes no connection in time"
NO_TLS: Final = "its TLS handshake fails ("
HALF: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
HUNG_UP: Final = "it closes the connection without an answer"


def unresolved(reason: OSError) -> aiohttp.TCPConnector:
    """Finds no name, for this reason."""

    def look_up(*_: object) -> list[AddressInfo]:
        raise reason

    return aiohttp.TCPConnector(resolver=ThreadPerNameResolver(max_threads=1, look_up=look_up))


async def error_of(
    url: str,
    connector: aiohttp.TCPConnector | None = None,
    *,
    proxy: str | None = None,
    timeout: aiohttp.ClientTimeout | None = None,
) -> BaseException:
    """What aiohttp raises for this request."""
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.get(url, proxy=proxy, timeout=timeout) as response:
                await response.read()
        except (aiohttp.ClientError, OSError) as error:
            return error
    raise AssertionError(url)


async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Listen until the other is gone."""
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """End the conversation where it should begin."""
    await reader.read(1)


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Break the conversation off."""
    await reader.readuntil(b"\r\n\r\n")
    own: socket.socket = writer.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def saying(octets: bytes) -> Talk:
    """Say this to whatever is asked, and no more."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(octets)
        await writer.drain()

    return talk


@pytest.mark.parametrize(
    "reason",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        OSError(None, "DNS lookup failed"),
    ],
)
async def test_name_without_an_address(reason: OSError) -> None:
    """The look-up failed, in the system's words or another resolver's."""
    error = await error_of("http://site.example/", unresolved(reason))
    for host in (None, "site.example", "Site.Example."):
        assert outage_of(error, host=host) == NO_NAME


@pytest.mark.parametrize(
    ("talk", "scheme", "options", "outage"),
    [
        (keep_silent, "http", {"total": SHORT}, NO_ANSWER),
        (keep_silent, "http", {"sock_read": SHORT}, NO_ANSWER),
        # It says nothing to a TLS handshake, which is a part of connecting.
        (keep_silent, "https", {"connect": SHORT}, NO_CONNECTION),
        (keep_silent, "https", {"sock_connect": SHORT}, NO_CONNECTION),
        (hang_up, "http", {}, HUNG_UP),
        (reset, "http", {}, HUNG_UP),
        (hang_up, "https", {}, ""),
        (saying(b"HTTP/1.1 400 Bad\r\n\r\n"), "https", {}, NO_TLS),
        (saying(HALF), "http", {}, None),
        (saying(b"no HTTP at all\r\n\r\n"), "http", {}, None),
    ],
)
async def test_server_that_is_there_and_gives_no_answer(
    *, talk: Talk, scheme: str, options: dict[str, float], outage: str | None
) -> None:
    """What is no outage was reached, or is silent: a kept connection that was closed meanwhile looks the same."""
    async with listening(talk) as port:
        error = await error_of(f"{scheme}://{LOOPBACK}:{port}/", timeout=aiohttp.ClientTimeout(**options))
    told = outage_of(error, host=LOOPBACK)
    assert told is None if outage is None else told is not None and told.startswith(outage)
    assert isinstance(outage_of(error), Silence) == (outage in {NO_ANSWER, HUNG_UP})


async def test_certificate_that_nobody_trusts(web: Web) -> None:
    """Nothing can be asked of this host over TLS."""
    error = await error_of(f"https://{LOOPBACK}:{web.tls_port}/")
    outage = outage_of(error, host=LOOPBACK)
    assert outage is not None
    assert "self-signed certificate" in outage.replace("self signed", "self-signed")


async def test_proxy_that_fails() -> None:
    """It is down, has no address, or refuses to connect: that says nothing of the host behind it."""
    no_name = unresolved(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    async with listening(saying(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")) as port:
        for scheme, proxy, connector, kind in (
            ("http", f"{LOOPBACK}:{unused_port()}", None, aiohttp.ClientProxyConnectionError),
            ("https", f"{LOOPBACK}:{unused_port()}", None, aiohttp.ClientProxyConnectionError),
            (
                "http",
                "proxy.example:1",
                no_name,
                aiohttp.ClientConnectorDNSError,
            ),
            ("https", f"{LOOPBACK}:{port}", None, aiohttp.ClientHttpProxyError),
        ):
            error = await error_of(f"{scheme}://site.example/", connector, proxy=f"http://{proxy}")
            assert isinstance(error, kind)
            assert outage_of(error, host="site.example") is None


class ProxyConnectionError(OSError):
    """As libraries for SOCKS proxies have one."""


async def test_proxy_of_another_library() -> None:
    """Its errors come wrapped into one of aiohttp's; the cause is looked at too."""

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *_: object, **__: object) -> aiohttp.connector.Connection:
            raise ProxyConnectionError(errno.ECONNREFUSED, "Couldn't connect to proxy")

    error = await error_of("http://site.example/", Connector())
    assert outage_of(error) is None
    assert error.__cause__ is not None
    assert outage_of(error.__cause__) is None


async def test_what_this_machine_has_run_out_of() -> None:
    """Descriptors, memory, ports, for a look-up or a connection: no host can do anything about that."""
    own = [OSError(number, os.strerror(number)) for number in sorted(OWN_ERRNOS)]
    for error in (
        *own,
        *(socket.gaierror(number, "ours") for number in (socket.EAI_MEMORY, socket.EAI_SYSTEM)),
    ):
        raised = await error_of("http://site.example/", unresolved(error))
        assert outage_of(raised) is None
    for error in own:

        def fail(_: object, error: OSError = error) -> socket.socket:
            raise error

        raised = await error_of(f"http://{LOOPBACK}/", aiohttp.TCPConnector(socket_factory=fail))
        assert outage_of(raised) is None


def test_plain_errors(subtests: pytest.Subtests) -> None:
    """Other clients raise the system's errors as they are; our own say nothing of hosts."""
    for error, outage in [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), REFUSED),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), NO_NAME),
        (socket.gaierror(socket.EAI_SYSTEM, "System error"), None),
        (TimeoutError(), NO_ANSWER),
        (OSError(errno.ETIMEDOUT, "Connection timed out"), NO_ANSWER),
        (
            OSError(errno.EHOSTUNREACH, "No route"),
            f"it takes no connection ({os.strerror(errno.EHOSTUNREACH)})",
        ),
        (aiohttp.ServerTimeoutError(), NO_ANSWER),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), HUNG_UP),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), HUNG_UP),
        (OSError(errno.EMFILE, "Too many open files"), None),
        (PermissionError(errno.EACCES, "a file of ours"), None),
        (OSError("nobody knows"), None),
        (ssl.SSLError("in the middle of a stream"), None),
        (aiohttp.InvalidURL("http:///"), None),
        (ValueError("ours"), None),
        (asyncio.CancelledError(), None),
        (KeyboardInterrupt(), None),
        (GateClosedError("the gate was closed"), None),
        (HostUnavailableError("site.example", 60.0, REFUSED), None),
    ]:
        with subtests.test(error=error, outage=outage):
            assert outage_of(error) == outage
            # The request may have been sent.
            assert isinstance(outage_of(error), Silence) == (outage in {NO_ANSWER, HUNG_UP})


async def failure_of(url: str, *, timeout: float = 5.0) -> Failure:
    """How asking for a robots.txt fails."""
    async with aiohttp.ClientSession() as session:
        fetcher = AiohttpFetcher(session)
        failure = await fetcher.fetch(url, headers={}, max_bytes=1000, timeout=timeout)
    assert isinstance(failure, Failure)
    return failure


async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin to answer, and never end."""
    writer.write(HALF)
    await reader.read()


@pytest.mark.parametrize(
    ("talk", "timeout", "is_silence"),
    [
        (keep_silent, SHORT, True),
        (hang_up, 5.0, False),
        (saying(HALF), 5.0, False),
        (begin, 4 * SHORT, False),
        (saying(b"no HTTP at all\r\n\r\n"), 5.0, False),
    ],
    ids=["silent", "hangs up", "half", "half and no end", "no HTTP"],
)
async def test_robots_txt_of_a_host_that_is_there(talk: Talk, *, timeout: float, is_silence: bool) -> None:
    """A failure, and no outage; where the request was sent and nothing came, it takes several to be one."""
    async with listening(talk) as port:
        failure = await failure_of(f"http://{LOOPBACK}:{port}/robots.txt", timeout=timeout)
    assert (failure.is_outage, failure.is_silence) == (False, is_silence)


async def test_robots_txt_that_cannot_be_asked_for() -> None:
    """A host that refuses connections has an outage; a URL that cannot be requested is none of the host."""
    failure = await failure_of(f"http://{LOOPBACK}:{unused_port()}/robots.txt")
    assert (failure.is_outage, failure.is_silence) == (True, False)
    for url in ("http:///robots.txt", "http://[bad/robots.txt", "no URL"):
        failure = await failure_of(url)
        assert (failure.is_outage, failure.is_silence) == (False, False)
