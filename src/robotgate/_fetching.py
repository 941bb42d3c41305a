"""`gate.fetch`: a page, its redirects included, each hop judged and paced as a request of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, TypeAlias

import aiohttp

from robotgate._attempts import Attempts
from robotgate._errors import GateClosedError
from robotgate._open_page import OpenPage, let_go, raise_for_status, read_body
from robotgate._redirect import REDIRECT_STATUSES, page_redirect
from robotgate._response import Hop, Response

if TYPE_CHECKING:
    from types import TracebackType

    from robotgate._page import PageRequest
    from robotgate._ports import Clock
    from robotgate._redirect import Redirect
    from robotgate._turn import OwnTurn
    from robotgate._turns import Turns

    Ask: TypeAlias = Callable[[], PageRequest]


class PageFetch(Coroutine[object, None, Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response."""

    __slots__ = ("_ask", "_coroutine", "_fetcher", "_page")

    def __init__(self, fetcher: PageFetcher, ask: Ask) -> None:
        self._fetcher = fetcher
        self._ask = ask
        self._coroutine = fetcher.read(ask)
        self._page: OpenPage | None = None

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
        if getcoroutinestate(self._coroutine) != CORO_CREATED:
            raise RuntimeError("a fetch is awaited or entered, and once: ask the gate for another")
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        self._page = await self._fetcher.open(self._ask)
        return self._page.response

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._page is not None:
            await self._page.aclose()


class PageFetcher:
    """Fetches pages in their turns."""

    def __init__(self, *, turns: Turns, session: aiohttp.ClientSession, clock: Clock) -> None:
        self._turns = turns
        self._session = session
        self._clock = clock
        self._responses: set[aiohttp.ClientResponse] = set()
        self._is_closed = False

    async def read(self, ask: Ask) -> Response:
        """The page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.TooManyRedirects: more than `max_redirects`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `Turns.begin`.
        """
        page = await self.open(ask)
        response, turn = page.response, page.turn
        try:
            body = await read_body(response, page.request.max_bytes)
            return Response(
                status=response.status,
                headers=response.headers,
                url=partial(str, response.url),
                history=page.history,
                body=body,
                waited=page.waited,
                elapsed=self._clock.now() - turn.began_at,
                verdict=turn.explain(),
            )
        finally:
            if response.connection is None:
                page.close()
            else:
                await page.aclose()

    async def open(self, ask: Ask) -> OpenPage:
        """The page at its headers, each hop on the way in a turn of its own.

        The turn of the page ends with its body or with `OpenPage.aclose`, whichever comes first.

        Raises:
            as `read`.
        """
        request = ask()
        history: tuple[Hop, ...] = ()
        chain: tuple[str, ...] = ()
        responses: list[aiohttp.ClientResponse] = []
        waited = 0.0
        while True:
            turn = self._turns.at_once(
                request.asked_url, priority=request.priority, max_wait=request.max_wait, chain=chain
            ) or await self._begin(request, chain)
            waited += turn.waited
            response, redirect = await self._send(request, turn)
            if redirect is None:
                page = OpenPage(
                    request=request,
                    response=response,
                    turn=turn,
                    history=history,
                    waited=waited,
                    among=self._responses,
                )
                rule = request.raise_for_status
                if rule is None:
                    rule = self._session.raise_for_status
                if rule:
                    await raise_for_status(page, rule)
                return page
            responses.append(response)
            if len(responses) > (request.max_redirects or 0):
                raise aiohttp.TooManyRedirects(response.request_info, tuple(responses))
            history = (*history, Hop(request.shown_url, response.status))
            chain = (*chain, request.shown_url)
            request = request.after(redirect)

    def close(self) -> None:
        """Break off what is being read; whoever reads it gets `GateClosedError`."""
        self._is_closed = True
        for response in list(self._responses):
            response.content.set_exception(GateClosedError())
            response.close()

    async def _begin(self, request: PageRequest, chain: tuple[str, ...]) -> OwnTurn:
        """Wait for the turn of one hop."""
        with request.robots_proxy():
            return await self._turns.in_time(
                request.asked_url,
                priority=request.priority,
                max_wait=request.max_wait,
                chain=chain,
            )

    async def _send(
        self, request: PageRequest, turn: OwnTurn
    ) -> tuple[aiohttp.ClientResponse, Redirect | None]:
        """One hop. A redirect is over when this returns; the turn of a page goes on, that of a failure does not."""
        response: aiohttp.ClientResponse | None = None
        is_page = False
        try:
            options = request.options_in(self._session)
            with Attempts(request.url, turn.again, turn.report) as attempts:
                response = await self._session.request(
                    request.method, request.url, allow_redirects=False, **options
                )
                attempts.answered(response)
            if self._is_closed:
                # On a session that was passed in, and stays open, an answer comes all the same.
                raise GateClosedError
            redirect = _redirect(request, response) if response.status in REDIRECT_STATUSES else None
            if redirect is not None:
                self._responses.add(response)
                await let_go(response)
            is_page = redirect is None
            return response, redirect
        finally:
            if response is None:
                turn.end()
            elif not is_page:
                self._responses.discard(response)
                response.close()
                turn.finish(response)


def _redirect(request: PageRequest, response: aiohttp.ClientResponse) -> Redirect | None:
    if request.max_redirects is None:
        return None
    location = response.headers.get("Location") or response.headers.get("URI")
    return page_redirect(request.method, request.url, status=response.status, location=location)
