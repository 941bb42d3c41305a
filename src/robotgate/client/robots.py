"""One robots.txt over the network: the request, its body, and the callers that wait for it.

`AiohttpFetcher` sends a single GET within bounds, without what belongs to the session's pages; whatever a server sends,
it returns an `Answer` or a `Failure`. A `Flight` is the task that finds out about an origin, however many tasks wait
for the result. `outage_of` tells which errors of a request, for a page as well, mean that its host cannot be reached.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from robotgate.client.proxy import (
    MAX_FAULT,
    WAY_STATUSES,
    Route,
    fault_of_answer,
    fault_of_error,
    named,
    proxy_of,
)
from robotgate.errors import GateClosedError, NestedTurnError, NonPublicAddressError, RobotGateError
from robotgate.pace.scheduler import STORE_TIMEOUT, Scheduler
from robotgate.pace.state import GOOD_BELOW
from robotgate.rules.decode import Inflater, decoded, is_text
from robotgate.sites.record import Answer, Failure, RobotsRecord
from robotgate.sites.status_table import REDIRECT_STATUSES, REQUEST_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from multidict import MultiMapping

    from robotgate.pace.host import PacedTurn

    Work: TypeAlias = Callable[["Flight"], Coroutine[object, None, None]]
    """Finds out about an origin."""

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
CONNECT_TIMEOUT: Final = 5.0
"""Seconds for the TCP connection: other requests for robots.txt wait meanwhile."""
CHUNK_BYTES: Final = 64 * 1024
ASKED_FOR: Final = {
    "Accept": "text/plain,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    # A cache on the way may hold a file for days, and gives it without a word to the site.
    "Cache-Control": "max-age=0",
}
"""The headers of a request for robots.txt, besides those that identify the crawler."""
NEEDED_HEADERS: Final = frozenset({"host", "accept", "accept-encoding", "user-agent", "from"})
"""In lower case. Of the session's own headers, only these are sent."""

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
NOT_ASKED_FOR: Final = CODINGS | {
    *("aes128gcm", "br", "compress", "dcb", "dcz", "exi", "pack200-gzip", "x-compress", "zstd", "*")
}
"""Names of codings (the registry of RFC 9110 §16.6.1), here with parameters as well."""
MAX_CODINGS: Final = 4
"""Of one body; each costs as much as the body."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS


@runtime_checkable
class Fetcher(Protocol):
    """Requests one robots.txt, once. The gate follows redirects, reads the rules and keeps the pace."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, with at most `max_bytes` of its decoded body; or why there is none within `timeout` seconds."""


@dataclass(frozen=True, slots=True)
class AiohttpFetcher:
    """The `Fetcher` of a gate.

    Its requests carry none of the session's headers, credentials and cookies, and leave no cookies behind.
    """

    session: aiohttp.ClientSession
    """Its connector, default proxy and TLS settings are used, but none of its middlewares."""
    route: Route | None = None

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """As `Fetcher.fetch`."""
        if self.session.closed:
            return Failure("the session was closed")
        wanted, route, has_begun = ASKED_FOR | dict(headers), self.route, False
        host: str | None = None
        anonymous = _Anonymous(wanted)
        try:
            target = URL(url)
            host = target.raw_host
            async with self.session.get(
                target,
                headers=wanted,
                allow_redirects=False,
                raise_for_status=False,
                auto_decompress=False,
                proxy=None if route is None else route.proxy,
                # A copy: aiohttp writes into it.
                proxy_headers=None if route is None else route.proxy_headers.copy(),
                ssl=True if route is None else route.ssl,
                server_hostname=None if route is None else route.server_hostname,
                middlewares=(anonymous,),
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
            ) as response:
                has_begun = True
                body = await _read(response, max_bytes) if 200 <= response.status <= 299 else b""
                return answer_of(response.status, response.headers, body, proxy=anonymous.proxy)
        except _AnotherAttemptError as error:
            through = anonymous.proxy
            who = "the server" if through is None else named(through)
            return Failure(f"{who} {error}", is_stale=True, is_of_proxy=through is not None)
        except NonPublicAddressError as error:
            return Failure(error.problem, is_non_public=True)
        except Exception as error:
            # Proxy libraries raise any kind.
            through, connector = anonymous.proxy, self.session.connector
            fault = (
                None if has_begun else fault_of_error(error, host=host, proxy=through, connector=connector)
            )
            if fault is None and not isinstance(error, aiohttp.ClientError | OSError | ValueError):
                raise
            # A host that has begun to answer can be reached, however the rest goes.
            outage = None if has_begun else outage_of(error, host=host)
            is_garbled = isinstance(error, aiohttp.ClientResponseError)
            return failure_of(cause_of(error, timeout), outage, fault=fault, is_garbled=is_garbled)


class _AnotherAttemptError(aiohttp.ClientConnectionError):
    """aiohttp would send the request again, because a kept connection was closed. That takes another turn."""


class _Anonymous:
    """A middleware that removes what the session and a netrc file add to a request, and the cookies of its response."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._needed = NEEDED_HEADERS.union(map(str.lower, wanted))
        self._is_sent = False
        self.proxy: str | None = None
        """What the request goes through, by whatever option of its session, and who may fail in the site's place."""

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._is_sent:
            raise _AnotherAttemptError("closed the connection before it answered")
        self._is_sent = True
        if request.proxy is not None:
            self.proxy = proxy_of(Route.of_request(request))
        for name in {*map(str.lower, request.headers)} - self._needed:
            request.headers.popall(name)
        try:
            response = await handler(request)
        finally:
            # aiohttp sets a request's response when it is sent. Through TLS only the site answers, or fails to.
            sent: object = request.response
            if sent is not None and request.is_ssl():
                self.proxy = None
        if "Set-Cookie" in response.headers:
            response.cookies = SimpleCookie()
        return response


def cause_of(error: Exception, timeout: float) -> str:
    """Why there is no answer, in words."""
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_TIMEOUT:.3g} s, or no answer within {timeout:.3g} s"
    kind = "the body was cut off" if isinstance(error, aiohttp.ClientPayloadError) else type(error).__name__
    return f"{kind}: {error}"[:MAX_FAULT]


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The first bytes of a body, decoded.

    Raises:
        ValueError: it is not encoded as its headers say.
        aiohttp.ClientError, TimeoutError: it was cut off.
    """
    headers, content = response.headers, response.content
    if len(set(headers.getall("Content-Length", ()))) > 1:
        raise ValueError("there are several Content-Lengths")
    for coding in headers.getall("Transfer-Encoding", ()):
        # We asked for none, and aiohttp decodes none (RFC 9110 §10.1.4).
        if coding.strip().lower() != "chunked":
            raise ValueError(f"the Transfer-Encoding {coding!r} was not asked for")
    body = BoundedBody(", ".join(headers.getall("Content-Encoding", ())), max_bytes=max_bytes)
    with broken_chunks():
        while not (body.is_full or content.at_eof()):
            body.feed(await content.read(CHUNK_BYTES))
            if not content.at_eof():
                # A body that arrives faster than it is decoded would let no other task run.
                await asyncio.sleep(0)
    if body.is_full:
        # The rest may be endless, and a connection with unread bytes cannot be used again.
        response.close()
    return body.end()


@contextmanager
def broken_chunks() -> Iterator[None]:
    """Within it, what aiohttp's two parsers raise for a broken chunk of a body is raised as for any broken body."""
    try:
        yield
    except (RuntimeError, HttpProcessingError) as error:
        raise aiohttp.ClientPayloadError(f"the body is not what its headers say ({error})") from error


class BoundedBody:
    """The first bytes of a body, decoded (RFC 9110 §8.4) in bounded time and memory.

    A gigabyte of one letter is a megabyte of gzip, and a megabyte of gzip can hold nothing: both the decoded bytes and
    those that they are decoded from are bounded.

    A name of no coding, such as ``utf-8`` or ``none``, changes nothing, as for most clients: there are servers that
    name a charset here. A body that is then no text is an error.

    Args:
        content_encoding: all lines of the header, joined with commas.
        max_bytes: how many decoded bytes are kept.

    Raises:
        ValueError: a coding that was not asked for.
    """

    def __init__(self, content_encoding: str | None, *, max_bytes: int) -> None:
        named = [coding.strip().lower() for coding in (content_encoding or "").split(",")]
        codings = [coding for coding in named if coding in CODINGS]
        others = {coding.partition(";")[0].strip() for coding in named if coding not in CODINGS}
        if len(codings) > MAX_CODINGS or others & NOT_ASKED_FOR:
            raise ValueError(f"the Content-Encoding {content_encoding!r} was not asked for")
        self._unknown = content_encoding if others - {"", "identity"} else None
        """The header, if it has a name of no coding."""
        self._decoders = [_Decoder(coding) for coding in reversed(codings)]
        """The last coding that was applied first."""
        self._max_bytes = max_bytes
        # Compression can make short files longer, by far less than this.
        self._max_encoded_bytes = 2 * max_bytes + CHUNK_BYTES
        self._body = bytearray()
        self.is_full: bool = False
        """Whether the body is longer than `max_bytes`: feed nothing more."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the encoded body.

        Raises:
            ValueError: they are not what Content-Encoding says, or decode to next to nothing.
        """
        is_costly = False
        for decoder in self._decoders:
            chunk = decoder.decode(chunk, self._max_encoded_bytes + 1)
            is_costly = is_costly or decoder.taken > self._max_encoded_bytes
        self._body += chunk
        self.is_full = len(self._body) > self._max_bytes
        if is_costly and not self.is_full:
            raise ValueError("the compressed body is longer than what it holds")

    def end(self) -> bytes:
        """The body, up to `max_bytes`.

        Raises:
            ValueError: it is not complete, or not what it seems to be.
        """
        for decoder in self._decoders:
            if not (decoder.is_complete or self.is_full):
                raise ValueError("the compressed body breaks off")
        body = bytes(self._body[: self._max_bytes])
        text, problem = decoded(body, self._max_bytes)
        if problem is not None:
            raise ValueError(problem)
        if self._unknown is not None and not is_text(text):
            raise ValueError(f"the body is no text, and its Content-Encoding {self._unknown!r} unknown")
        return body


class _Decoder(Inflater):
    """Undoes one content coding. A body without any bytes is complete in every coding."""

    def __init__(self, coding: str) -> None:
        super().__init__()
        self._is_deflate = coding == "deflate"
        self.taken = 0
        """Encoded bytes."""

    def decode(self, encoded: bytes, room: int) -> bytes:
        """The next decoded bytes, at most `room`. The rest of what was given is then lost.

        Raises:
            ValueError: the coding is broken.
        """
        self.taken += len(encoded)
        decoded = bytearray()
        while encoded and len(decoded) < room:
            # Many servers send "deflate" without its zlib header (RFC 9110 §8.4.1.2 notes it; RFC 1950 §2.2).
            is_raw = self._is_deflate and encoded[0] & 0x0F != zlib.DEFLATED
            window = _RAW_DEFLATE if is_raw else _GZIP_OR_ZLIB
            try:
                piece, encoded = self.inflate(encoded, room - len(decoded), window=window)
            except ValueError as error:
                raise ValueError(f"the body {error}") from error
            decoded += piece
        return bytes(decoded)


def answer_of(
    status: int, headers: MultiMapping[str], body: bytes, *, proxy: str | None = None
) -> Answer | Failure:
    """An answer, with the headers that matter. All lines of a header count. A proxy's own answer is a failure.

    Args:
        headers: names in any case.
        proxy: as for `fault_of_answer`.
    """
    # A test is quicker than a call.
    fault = None if status < GOOD_BELOW else fault_of_answer(status, headers, proxy)
    if fault is not None:
        return Failure(fault, is_of_proxy=True)
    # Some versions of aiohttp leave blanks at the end of a value.
    places = {value.strip() for value in headers.getall("Location", ())}
    if status in REDIRECT_STATUSES and len(places) > 1:
        return Failure(f"HTTP status {status} redirects to {len(places)} places")
    # Validators are sent back: none of which there are lines that differ.
    etags, dates = [set(headers.getall(name, ())) for name in ("ETag", "Last-Modified")]
    return Answer(
        status=status,
        body=body,
        location=headers.get("Location", "").strip() or None,
        # RFC 9110 §5.3.
        cache_control=", ".join(headers.getall("Cache-Control", ())) or None,
        headers=headers,
        etag=etags.pop() if len(etags) == 1 else None,
        last_modified=dates.pop() if len(dates) == 1 else None,
        expires=headers.get("Expires"),
        date=headers.get("Date"),
        age=headers.get("Age"),
        may_be_of_proxy=proxy is not None and status in WAY_STATUSES,
        is_stale=status == REQUEST_TIMEOUT and "Retry-After" not in headers,
    )


class Awaits(Enum):
    """What a flight waits for, with the seconds for which it is waited for beyond a turn's deadline.

    A request for robots.txt is not broken off, nor a question to the store. The wait for the request's turn is.
    """

    STORE = STORE_TIMEOUT
    TURN = 0.0
    """Or the end of a pause before it."""
    RESPONSE = ROBOTS_TIMEOUT

    @property
    def patience(self) -> float:
        """Those seconds."""
        return self.value


class Flight:
    """One task that finds out about an origin, and a future for each caller that waits for it.

    A cancelled caller does not cancel the task. All callers get the same failure. A caller that would wait for itself
    gets `NestedTurnError` at once.
    """

    __slots__ = ("_nested", "awaits", "callers", "elapsed", "route", "task", "unkept", "url")

    def __init__(self, work: Work, url: str, route: Route | None) -> None:
        self.url: str = url
        """What is requested first."""
        self.route: Route | None = route
        """What the first caller's page goes through, and so robots.txt as well."""
        self.unkept: RobotsRecord | None = None
        """What its callers are told where a proxy failed: that says nothing of the site, and is not kept."""
        self.elapsed: float = 0.0
        """Seconds that its requests took, waits for their turns left out."""
        self.awaits: Awaits = Awaits.STORE
        self.callers: dict[asyncio.Future[BaseException | None], asyncio.Task[object] | None] = {}
        """How it ended, for each. An error is a result: asyncio would report one that a cancelled caller left."""
        self._nested: Callable[[asyncio.Task[object] | None], NestedTurnError | None] | None = None
        """Why a caller's task would wait for itself; None while it waits for no turn."""
        # Not by the loop's task factory, which may begin a task at once: the first caller goes ahead of it.
        self.task: asyncio.Task[None] = asyncio.Task(work(self), name=url)

    async def join(self) -> None:
        """Wait until it has ended.

        Raises:
            GateClosedError: it was cancelled.
            NestedTurnError: it waits for a turn that only this task can end.
            StoreError, HostUnavailableError: it failed.
        """
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.callers[ended] = asyncio.current_task()
        if self._nested is not None:
            self._refuse_holders([ended])
        try:
            error = await ended
        finally:
            del self.callers[ended]
        if error is not None:
            raise error

    @contextmanager
    def waiting_for(self, turn: PacedTurn, scheduler: Scheduler) -> Iterator[None]:
        """Within this block, callers that hold what the turn waits for, here or in another process, are refused."""
        known, self._nested = self._nested, partial(scheduler.nested, turn)
        try:
            self._refuse_holders(self.callers)
            yield
        finally:
            self._nested = known

    def _refuse_holders(self, waiting: Iterable[asyncio.Future[BaseException | None]]) -> None:
        for ended in waiting:
            error = None if ended.done() or self._nested is None else self._nested(self.callers[ended])
            if error is not None:
                ended.set_result(error)


class Flights(dict[str, Flight]):
    """The flights under way, by what they find out about."""

    is_closed: bool = False

    def begin(self, key: str, url: str, work: Work, route: Route | None = None) -> Flight:
        """Begin one for a key that has none.

        Args:
            url: what will be requested.

        Raises:
            GateClosedError: the gate was closed.
        """
        if self.is_closed:
            raise GateClosedError
        flight = self[key] = Flight(work, url, route)
        flight.task.add_done_callback(partial(self._ended, key))
        return flight

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        flight = self.pop(key)
        error = GateClosedError() if task.cancelled() else task.exception()
        if error is not None and not flight.callers and not isinstance(error, RobotGateError):
            # A fault of a fetcher or store that was passed in: no caller would get it.
            message = f"{task.get_name()} could not be requested"
            task.get_loop().call_exception_handler({"message": message, "exception": error, "task": task})
        for ended in flight.callers:
            if not ended.done():
                ended.set_result(error)

    async def aclose(self) -> None:
        """Cancel all and wait for them; callers get `GateClosedError`."""
        self.is_closed = True
        tasks = [flight.task for flight in self.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Which errors mean that a host cannot be reached: those of a request that was not sent. They open its circuit. After a
# `Silence` the request may have been sent, and only several in a row open it. Errors of a server that has begun to
# answer do not, nor do errors nearer to us than the host: of a proxy, or of this machine when it runs out of
# descriptors or ports.

OWN_ERRNOS: Final = frozenset(
    {
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)
"""This machine has run out of something."""
OWN_LOOK_UP_ERRNOS: Final = frozenset({socket.EAI_MEMORY, getattr(socket, "EAI_SYSTEM", None)})
"""The same for `socket.gaierror`, which has numbers of its own; not every system has both."""
UNREACHABLE_ERRNOS: Final = frozenset({errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH})
"""An outage whichever exception carries them. A reset means one only while a connection is being made."""
LOST_ERRNOS: Final = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.EPIPE})
"""The server closed a connection that had been made."""


class Silence(str):
    """Why a host gave no answer though the request may have been sent, in words that follow its name."""

    __slots__ = ()


NO_ANSWER: Final = Silence("it does not answer in time")
HUNG_UP: Final = Silence("it closes the connection without an answer")


def failure_of(
    cause: str, outage: str | None, *, fault: str | None = None, is_garbled: bool = False
) -> Failure:
    """Return the failure of a request for a robots.txt.

    Args:
        outage: what `outage_of` made of its error.
        fault: how a proxy failed, in words. Then nothing was heard of the site.
    """
    if fault is not None:
        return Failure(fault, is_of_proxy=True)
    is_silence = isinstance(outage, Silence)
    is_outage = outage is not None and not is_silence
    return Failure(cause, is_outage=is_outage, is_silence=is_silence, is_garbled=is_garbled)


def outage_of(error: BaseException, *, host: str | None = None) -> str | None:
    """Why a host cannot be reached, in words that follow its name; None when the error means something else.

    It is a `Silence` where the request may have been sent.

    Args:
        error: what a request raised; aiohttp's exceptions and plain ones.
        host: the host that was requested. An error that names another host, such as that of a proxy, is no outage of
            this one.
    """
    if isinstance(error, RobotGateError) or fault_of_error(error, host=host) is not None:
        return None
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLCertVerificationError):
        return f"its TLS handshake fails ({error.__cause__ or error})"
    if isinstance(error, TimeoutError):
        is_connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
        return "it takes no connection in time" if is_connecting else NO_ANSWER
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return None if cause.errno in OWN_LOOK_UP_ERRNOS else "its name cannot be resolved"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return HUNG_UP
    if not isinstance(cause, OSError) or cause.errno in OWN_ERRNOS:
        return None
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(cause, ConnectionRefusedError):
        return "it refuses connections"
    if isinstance(error, aiohttp.ClientConnectorError) or cause.errno in UNREACHABLE_ERRNOS:
        return f"it takes no connection ({os.strerror(cause.errno) if cause.errno else cause})"
    return HUNG_UP if cause.errno in LOST_ERRNOS else None
