"""`gate.fetch`: a page, its redirects included, each hop judged and paced as a request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
from multidict import CIMultiDict

from robotgate._attempts import attempts
from robotgate._errors import GateClosedError, ResponseTooLargeError
from robotgate._page import CREDENTIAL_HEADERS
from robotgate._redirect import Redirect, page_redirect
from robotgate._response import Hop, Response
from robotgate._turn import finish

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from robotgate._identity import Identity
    from robotgate._page import PageRequest, RequestOptions
    from robotgate._ports import Clock
    from robotgate._turn import Turn
    from robotgate._turns import Turns

    Ask: TypeAlias = Callable[[], PageRequest]


MAX_UNWANTED_BYTES: Final = 64 * 1024
"""The longest body of a redirect that is read to its end; behind it, closing the connection is cheaper."""
UNWANTED_TIMEOUT: Final = 1.0
"""Seconds for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPage:
    """A page whose headers have come, in its turn."""

    request: PageRequest
    """Of the last hop."""
    response: aiohttp.ClientResponse
    turn: Turn
    history: tuple[Hop, ...]
    waited: float
    sent_at: float


class PageFetch(Coroutine[object, None, Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response."""

    __slots__ = ("_ask", "_coroutine", "_fetcher", "_page")

    def __init__(self, fetcher: PageFetcher, ask: Ask) -> None:
        self._fetcher = fetcher
        self._ask = ask
        self._coroutine = fetcher.read(ask)
        self._page: AbstractAsyncContextManager[OpenPage] | None = None

    def __await__(self) -> Generator[object, None, Response]:
        return self._coroutine.__await__()

    def send(self, value: None, /) -> object:
        """Run until the next suspension, as any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: object) -> object:
        """Raise where the coroutine is suspended, as any coroutine."""
        return self._coroutine.throw(*error)  # type: ignore[call-overload]

    def close(self) -> None:
        """Abandon it, as any coroutine."""
        self._coroutine.close()

    async def __aenter__(self) -> aiohttp.ClientResponse:
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        self._page = self._fetcher.stream(self._ask)
        return (await self._page.__aenter__()).response

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if self._page is None:
            return None
        return await self._page.__aexit__(error_type, error, traceback)


class PageFetcher:
    """Fetches pages in their turns."""

    def __init__(
        self, *, turns: Turns, session: aiohttp.ClientSession, identity: Identity, clock: Clock
    ) -> None:
        self._turns = turns
        self._session = session
        self._identity = identity
        self._clock = clock
        self._pages: set[aiohttp.ClientResponse] = set()

    async def read(self, ask: Ask) -> Response:
        """The page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.TooManyRedirects: more than `max_redirects`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `Turns.begin`.
        """
        async with self.stream(ask) as page:
            body = await _read_body(page.response, page.request.max_bytes)
            return Response(
                status=page.response.status,
                headers=page.response.headers,
                url=str(page.response.url),
                history=page.history,
                body=body,
                verdict=page.turn.verdict,
                waited=page.waited,
                elapsed=self._clock.now() - page.sent_at,
            )

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[OpenPage]:
        """The page at its headers; its turn ends with its body or with the block, whichever comes first.

        Raises:
            as `read`.
        """
        with ExitStack() as ending:
            page = await self._open(self._identified(ask()), ending)
            response = page.response
            over = partial(finish, page.turn, response)
            ending.callback(over)
            self._pages.add(response)
            ending.callback(self._pages.discard, response)
            async with response:
                await _raise_for_status(response, page.request, self._session)
                if response.connection is None:
                    over()
                else:
                    response.connection.add_callback(over)
                yield page

    def close(self) -> None:
        """Break off what is being read; whoever reads it gets `GateClosedError`."""
        for response in self._pages:
            response.content.set_exception(GateClosedError("the gate was closed"))
            response.close()

    async def _open(self, request: PageRequest, ending: ExitStack) -> OpenPage:
        """Follow redirects to the page; its turn ends with `ending`, those on the way have ended."""
        history: tuple[Hop, ...] = ()
        responses: list[aiohttp.ClientResponse] = []
        waited = 0.0
        while True:
            turn = await self._turns.begin(
                request.url,
                priority=request.priority,
                max_wait=request.max_wait,
                chain=tuple(hop.url for hop in history),
            )
            waited += turn.waited
            with ExitStack() as hop:
                hop.callback(turn.end)
                sent_at = self._clock.now()
                try:
                    response = await self._send(request, turn)
                except (aiohttp.ClientError, OSError) as error:
                    turn.report(error=error)
                    raise
                hop.callback(response.close)
                turn.report(status=response.status, headers=response.headers)
                redirect = self._redirect(request, response)
                if redirect is None:
                    ending.push(hop.pop_all())
                    return OpenPage(
                        request=request,
                        response=response,
                        turn=turn,
                        history=history,
                        waited=waited,
                        sent_at=sent_at,
                    )
                await _let_go(response)
            responses.append(response)
            if len(responses) > (request.max_redirects or 0):
                raise aiohttp.TooManyRedirects(response.request_info, tuple(responses))
            history = (*history, Hop(request.shown_url, response.status))
            request = request.after(redirect)

    def _redirect(self, request: PageRequest, response: aiohttp.ClientResponse) -> Redirect | None:
        if request.max_redirects is None:
            return None
        location = response.headers.get("Location") or response.headers.get("URI")
        return page_redirect(request.method, request.url, status=response.status, location=location)

    def _identified(self, request: PageRequest) -> PageRequest:
        """The request with our name on it; that it bears another costs no turn."""
        options = request.options.copy()
        headers = CIMultiDict(options.get("headers") or ())
        self._identity.complete(headers)
        options["headers"] = headers
        return replace(request, options=options)

    async def _send(self, request: PageRequest, turn: Turn) -> aiohttp.ClientResponse:
        options = request.options.copy()
        options["raise_for_status"] = False
        if request.has_left_origin:
            options = _without_credentials_of(self._session, options)
        with attempts(request.url, turn.again):
            return await self._session.request(request.method, request.url, allow_redirects=False, **options)


def _without_credentials_of(session: aiohttp.ClientSession, options: RequestOptions) -> RequestOptions:
    """Options that keep the session's own credentials from another origin than the first.

    aiohttp has no way to leave a session's header out: an empty one goes in its place.
    """
    headers = CIMultiDict(options.get("headers") or ())
    for name in CREDENTIAL_HEADERS:
        if name in session.headers:
            headers[name] = ""
    options["headers"] = headers
    if getattr(session, "auth", None) is not None:
        options["auth"] = aiohttp.BasicAuth("")
    return options


async def _let_go(response: aiohttp.ClientResponse) -> None:
    """Read an answer that nobody wants, so that its turn ends with it and its connection serves again."""
    try:
        async with asyncio.timeout(UNWANTED_TIMEOUT):
            async for _ in response.content.iter_any():
                if response.content.total_bytes > MAX_UNWANTED_BYTES:
                    break
    except (aiohttp.ClientError, TimeoutError):
        # What the redirect says stands in its headers; its body may end as it likes.
        pass
    # With octets left unread, this closes the connection.
    response.release()


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            response.close()
            raise ResponseTooLargeError(str(response.url), max_bytes)
    return bytes(body)


async def _raise_for_status(
    response: aiohttp.ClientResponse, request: PageRequest, session: aiohttp.ClientSession
) -> None:
    asked = request.options.get("raise_for_status")
    rule = session.raise_for_status if asked is None else asked
    if callable(rule):
        await rule(response)
    elif rule:
        response.raise_for_status()
