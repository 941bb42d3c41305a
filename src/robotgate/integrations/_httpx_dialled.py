"""Which errors of httpx say that a host cannot be reached, as `_outage` tells for those of aiohttp."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, cast

import httpx

from robotgate._outage import outage_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Trace = Callable[[str, Mapping[str, object]], Awaitable[None]]


class Dialled:
    """A request as the inner transport gets it, which tells whom it makes a connection to: it may be a proxy."""

    def __init__(self, request: httpx.Request) -> None:
        self._host = request.url.raw_host.decode("ascii")
        self._asked_first = cast("Trace | None", request.extensions.get("trace"))
        self._peer = self._host
        # A request of its own: the caller's goes on to the next hop, and would take this trace along.
        self.request = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "trace": self._trace},
        )

    async def _trace(self, event: str, info: Mapping[str, object]) -> None:
        if event.endswith(".started"):
            peer = info.get("server_hostname") or info.get("host")
            self._peer = peer if isinstance(peer, str) else self._peer
        if self._asked_first is not None:
            await self._asked_first(event, info)

    def outage(self, error: Exception) -> str | None:
        """Why the host cannot be reached; None when the error says nothing of that."""
        if isinstance(error, httpx.PoolTimeout | httpx.ProxyError):
            # No connection was free, or the proxy has said something: the host was not asked.
            return None
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and self._peer != self._host:
            return None
        if isinstance(error, httpx.ConnectTimeout):
            return "it takes no connection in time"
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return "it does not answer in time"
        return _failed_connection(error) if isinstance(error, httpx.ConnectError) else None


def _failed_connection(error: httpx.ConnectError) -> str | None:
    # httpcore cuts its chain of causes, but not that of contexts. Behind the error of the system, contexts may be what
    # the caller was at: from there on, causes alone are followed.
    origin: BaseException = error
    while not isinstance(origin, OSError):
        behind = origin.__cause__ or origin.__context__
        if behind is None:
            return "it takes no connection"
        origin = behind
    for cause in _single(origin):
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLCertVerificationError):
            return "its TLS handshake fails"
        if (outage := outage_of(cause)) is not None:
            return outage
    return None


def _single(error: BaseException | None) -> list[BaseException]:
    """An error and what it was explicitly raised for, groups resolved: one for each address that was tried."""
    if isinstance(error, BaseExceptionGroup):
        return [single for inner in error.exceptions for single in _single(inner)]
    return [] if error is None else [error, *_single(error.__cause__)]
