"""`gate.fetch`: a page, its redirects included, each hop judged and paced as a request of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from multidict import CIMultiDict

from robotgate._errors import ResponseTooLargeError
from robotgate._middleware import past_the_gate
from robotgate._page import CREDENTIAL_HEADERS
from robotgate._redirect import Redirect, page_redirect
from robotgate._response import Hop, Response
from robotgate._turns import finish

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from robotgate._identity import Identity
    from robotgate._page import PageRequest
    from robotgate._ports import Clock
    from robotgate._turns import Turn, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPage:
    """A page whose headers have come, in its turn."""

    response: aiohttp.ClientResponse
    turn: Turn
    history: tuple[Hop, ...]
    waited: float
    sent_at: float


class PageFetch(Coroutine[object, None, Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response."""

    __slots__ = ("_coroutine", "_fetcher", "_page", "_request")

    def __init__(self, fetcher: PageFetcher, request: PageRequest) -> None:
        self._fetcher = fetcher
        self._request = request
        self._coroutine = fetcher.read(request)
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
        self._page = self._fetcher.stream(self._request)
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
        self._stranger: aiohttp.ClientSession | None = None

    async def read(self, request: PageRequest) -> Response:
        """The page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.TooManyRedirects: more than `max_redirects`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `Turns.begin`.
        """
        async with self.stream(request) as page:
            body = await _read_body(page.response, request.max_bytes)
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
    async def stream(self, request: PageRequest) -> AsyncIterator[OpenPage]:
        """The page at its headers; its turn ends with its body or with the block, whichever comes first.

        Raises:
            as `read`.
        """
        with ExitStack() as ending:
            page = await self._open(request, ending)
            response = page.response
            over = partial(finish, page.turn, response)
            ending.callback(over)
            async with response:
                await _raise_for_status(response, request, self._session)
                response.content.on_eof(over)
                yield page

    async def aclose(self) -> None:
        """Let go of the session for other origins, if there is one."""
        if self._stranger is not None:
            await self._stranger.close()

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
                response = await self._send(request)
                turn.report(status=response.status, headers=response.headers)
                redirect = self._redirect(request, response)
                if redirect is None:
                    ending.push(hop.pop_all())
                    return OpenPage(
                        response=response, turn=turn, history=history, waited=waited, sent_at=sent_at
                    )
                response.release()
            responses.append(response)
            if len(responses) > (request.max_redirects or 0):
                raise aiohttp.TooManyRedirects(response.request_info, tuple(responses))
            history = (*history, Hop(str(request.url), response.status))
            request = request.after(redirect)

    def _redirect(self, request: PageRequest, response: aiohttp.ClientResponse) -> Redirect | None:
        if request.max_redirects is None:
            return None
        with ExitStack() as failing:
            failing.callback(response.close)
            location = response.headers.get("Location") or response.headers.get("URI")
            redirect = page_redirect(request.method, response.url, status=response.status, location=location)
            failing.pop_all()
        return redirect

    async def _send(self, request: PageRequest) -> aiohttp.ClientResponse:
        session = self._session_for(request)
        options = request.options.copy()
        headers = CIMultiDict(request.options.get("headers") or ())
        self._identity.complete(headers)
        options["headers"] = headers
        options["raise_for_status"] = False
        with past_the_gate():
            return await session.request(request.method, request.url, allow_redirects=False, **options)

    def _session_for(self, request: PageRequest) -> aiohttp.ClientSession:
        """The session; or for another origin than the first, one without the session's own credentials."""
        session = self._session
        if not request.has_left_origin:
            return session
        if session.auth is None and not any(name in session.headers for name in CREDENTIAL_HEADERS):
            return session
        if self._stranger is None:
            headers = CIMultiDict(session.headers)
            for name in CREDENTIAL_HEADERS:
                headers.popall(name, None)
            self._stranger = aiohttp.ClientSession(
                connector=session.connector,
                connector_owner=False,
                cookie_jar=session.cookie_jar,
                headers=headers,
                timeout=session.timeout,
                trust_env=session.trust_env,
            )
        return self._stranger


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
