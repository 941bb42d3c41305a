"""Fetches robots.txt files with aiohttp, and nothing else."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Final

import aiohttp
from multidict import MultiMapping
from yarl import URL

from robotgate._access import Answer, Failure
from robotgate._decode import ACCEPTED, BoundedBody
from robotgate._errors import NonPublicAddressError
from robotgate._outage import outage_of
from robotgate._pacing import parse_retry_after
from robotgate._robots_proxy import proxy_of_robots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

    from robotgate._ports import Clock

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for the TCP connection: a host that does not answer by then keeps others waiting."""
CHUNK_BYTES: Final = 64 * 1024
ASKED_FOR: Final = {"Accept": "text/plain,*/*;q=0.5", "Accept-Encoding": ACCEPTED}
"""The headers of a request for robots.txt, besides those that say who asks."""
NEEDED_HEADERS: Final = frozenset({"host", "accept", "accept-encoding", "user-agent", "from"})
"""What a request for robots.txt says, in lower case."""


class AiohttpFetcher:
    """The `Fetcher` of a gate: one GET, which carries none of its session's credentials and leaves it no cookies.

    Args:
        session: whose connector, proxy and TLS serve. Its own middlewares do not.
        middlewares: in their place.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        middlewares: tuple[ClientMiddlewareType, ...] = (),
    ) -> None:
        self._session = session
        self._clock = clock
        self._middlewares = middlewares

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, or why there is none."""
        if self._session.closed:
            return Failure("the session was closed")
        host: str | None = None
        has_begun = False
        proxy = proxy_of_robots()
        try:
            host = URL(url).raw_host
            wanted = ASKED_FOR | dict(headers)
            request = self._session.get(
                url,
                headers=wanted,
                allow_redirects=False,
                raise_for_status=False,
                auto_decompress=False,
                proxy=None if proxy is None else proxy.url,
                proxy_headers=None if proxy is None else proxy.headers.copy(),
                middlewares=(*self._middlewares, _anonymous(wanted)),
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
            )
            async with request as response:
                has_begun = True
                body = await _read(response, max_bytes) if 200 <= response.status <= 299 else b""
                return answer_of(response.status, response.headers, body, now=self._clock.now())
        except NonPublicAddressError as error:
            return Failure(error.problem, is_non_public=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # A host that begins to answer is there, however the rest goes.
            is_outage = not has_begun and outage_of(error, host=host) is not None
            is_garbled = isinstance(error, aiohttp.ClientResponseError)
            return Failure(cause_of(error, timeout), is_outage=is_outage, is_garbled=is_garbled)


def _anonymous(wanted: Mapping[str, str]) -> ClientMiddlewareType:
    """Nobody's credentials are for robots.txt: not the session's, nor its cookies, nor those of a netrc file.

    Args:
        wanted: the headers that were asked for. A condition that is not among them is about some other copy.
    """
    needed = NEEDED_HEADERS.union(map(str.lower, wanted))

    async def send(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        for name in [name for name in request.headers if name.lower() not in needed]:
            request.headers.popall(name, None)
        response = await handler(request)
        # Nor is what a robots.txt sets for the session's pages.
        response.cookies = SimpleCookie()
        return response

    return send


def cause_of(error: Exception, timeout: float) -> str:
    """Why there is no answer, in words."""
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_TIMEOUT:.3g} s, or no answer within {timeout:.3g} s"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the body was cut off ({error})"
    return f"{type(error).__name__}: {error}"


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = BoundedBody(response.headers.get("Content-Encoding"), max_bytes=max_bytes)
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        body.feed(chunk)
        if body.is_full:
            # What is left may be endless, and a connection with unread octets cannot serve again.
            response.close()
            break
        if not response.content.at_eof():
            # A body that arrives faster than it is looked at never lets another task run.
            await asyncio.sleep(0)
    return body.end()


def answer_of(status: int, headers: Mapping[str, str], body: bytes, *, now: float) -> Answer:
    """An answer, with what matters of its headers; these compare names without case."""
    return Answer(
        status=status,
        body=body,
        location=headers.get("Location"),
        cache_control=_joined(headers, "Cache-Control"),
        retry_after=parse_retry_after(headers.get("Retry-After"), now=now),
        etag=headers.get("ETag"),
        last_modified=headers.get("Last-Modified"),
        expires=headers.get("Expires"),
        date=headers.get("Date"),
        age=headers.get("Age"),
    )


def _joined(headers: Mapping[str, str], name: str) -> str | None:
    """All lines of a header as one (RFC 9110 §5.3)."""
    if isinstance(headers, MultiMapping):
        return ", ".join(headers.getall(name, ())) or None
    return headers.get(name)
