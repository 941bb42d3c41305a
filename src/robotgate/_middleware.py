"""`gate.middleware`: the gate inside an aiohttp session, for crawlers whose call sites should not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, ClientTimeout, hdrs
from aiohttp.http import SERVER_SOFTWARE

from robotgate._attempts import Passage, passage_to
from robotgate._credentials import leave_out_blank_credentials
from robotgate._holds import Holds
from robotgate._robots_proxy import robots_proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from multidict import CIMultiDict
    from yarl import URL

    from robotgate._identity import Identity
    from robotgate._turn import OwnTurn

    TurnAtOnce = Callable[[URL, float | None], OwnTurn | None]
    TurnInTime = Callable[[URL, float | None], Awaitable[OwnTurn]]

SWITCHING_PROTOCOLS: Final = 101
"""The answer to the handshake of a websocket: what follows is no response."""
HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
"""By which scheme the rules of a websocket's host are found: its handshake is a GET (RFC 6455 §4.1)."""


class GateMiddleware:
    """Judges and paces every hop, and every attempt, of every request of a session."""

    def __init__(
        self, at_once: TurnAtOnce, in_time: TurnInTime, identity: Identity, *, timeout: float | None
    ) -> None:
        self._at_once = at_once
        self._in_time = in_time
        self._identity = identity
        self._timeout = timeout
        self._holds = Holds()

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        passage = passage_to(request.url)
        if passage is not None:
            if passage.is_used:
                with robots_proxy(request.proxy, auth=request.proxy_auth, headers=request.proxy_headers):
                    await passage.attempts.again()
            passage.is_used = True
            leave_out_blank_credentials(request.headers)
            with Passage(passage.attempts):
                response = await handler(request)
                passage.attempts.answered(response)
            return response
        self._identify(request.headers)
        # A retry middleware sends the same request again, and may never read the first answer.
        self._holds.break_off(request)
        url, timeout = request.url, self._total_timeout(request)
        if url.scheme in HTTP_SCHEMES:
            url = url.with_scheme(HTTP_SCHEMES[url.scheme])
        turn = self._at_once(url, timeout) or await self._begin(url, timeout, request)
        is_kept = False
        try:
            response = await handler(request)
            connection = response.connection
            if connection is None or response.status == SWITCHING_PROTOCOLS:
                turn.report(response.status, response.headers, response.content.total_bytes)
            else:
                turn.report(response.status, response.headers)
                self._holds.keep(turn, request, response, connection)
                is_kept = True
        except (ClientError, OSError) as error:
            turn.report(error=error)
            raise
        finally:
            if not is_kept:
                turn.end()
        return response

    async def _begin(self, url: URL, timeout: float | None, request: ClientRequest) -> OwnTurn:
        """Wait for the turn of a request, judged by this URL."""
        with robots_proxy(request.proxy, auth=request.proxy_auth, headers=request.proxy_headers):
            return await self._in_time(url, timeout)

    def _identify(self, headers: CIMultiDict[str]) -> None:
        if self._identity.is_complete(headers):
            return
        if headers.get(hdrs.USER_AGENT) == SERVER_SOFTWARE:
            # aiohttp's own, which says nothing of who crawls.
            headers[hdrs.USER_AGENT] = self._identity.user_agent
        self._identity.complete(headers)

    def _total_timeout(self, request: ClientRequest) -> float | None:
        """Seconds that the request may take in all, as far as anybody tells.

        aiohttp does in its development branch, and in no release up to 3.14: the option stands in for it. What earlier
        hops of the same call have used of them it does not tell.
        """
        told: object = getattr(request, "timeout", None)
        total = told.total if isinstance(told, ClientTimeout) else self._timeout
        # To aiohttp 0 is no limit.
        return total or None
