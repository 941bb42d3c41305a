"""`gate.middleware`: each request of a session is judged, waits for its turn, and is reported here.

aiohttp calls a middleware once for each hop of a redirect and each time that it sends a request again, so each has a
turn of its own. The first turn of each `Attempt` of a `gate.fetch` has begun before; it is taken over here.
"""

from __future__ import annotations

import asyncio
import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import (
    ClientHandlerType,
    ClientPayloadError,
    ClientRequest,
    ClientResponse,
    ClientSSLError,
    ConnectionTimeoutError,
    ServerDisconnectedError,
    hdrs,
)
from aiohttp.http import SERVER_SOFTWARE

from robotgate.client.attempt import IDEMPOTENT
from robotgate.client.proxy import Route, fault_of_answer, proxy_of
from robotgate.errors import GateClosedError, ProxyUnavailableError
from robotgate.events import logger, one_line
from robotgate.pace.state import GOOD_BELOW
from robotgate.pace.timer import Timer
from robotgate.sites.status_table import REDIRECT_STATUSES, REQUEST_TIMEOUT

if TYPE_CHECKING:
    from robotgate.client.attempt import Attempt
    from robotgate.client.turns import PageTurn, Turns
    from robotgate.identity import Identity

    Requests: TypeAlias = "dict[ClientRequest, PageTurn | OpenResponse]"

SWITCHING_PROTOCOLS: Final = 101
"""The answer to the handshake of a websocket: what follows is no response."""
HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
"""A websocket's handshake is a GET of this scheme, by whose rules it is judged (RFC 6455 §4.1)."""
MAX_IDLE_READ: Final = 60.0
"""Seconds without a byte after which a turn ends though its response is neither read nor released: the task that holds
it may be waiting for the next turn."""
LOOK_DELAY: Final = 5.0
"""Seconds between two looks at the responses whose turns are open."""


@dataclass(slots=True, eq=False)
class OpenResponse:
    """A response whose body is neither read to its end nor released; its turn is open."""

    requests: Requests
    """The middleware's; this one is among them until its end."""
    request: ClientRequest
    response: ClientResponse
    turn: PageTurn
    is_of_fetch: bool
    """Whether `gate.fetch` reads it."""
    idle_at: float = math.inf
    """When its turn ends if no byte has come since the last look, by the loop's clock."""
    read_before: int = -1
    """The bytes that had come at the last look."""

    def end(self) -> None:
        """End the turn: the response has been read or released."""
        if self.requests.get(self.request) is self:
            del self.requests[self.request]
        self.turn.turns.end(self.turn, self.response)


def log_unread(turn: PageTurn) -> None:
    """Log that a turn ends because nobody reads its response, and for how long its host could not be visited."""
    logger.warning(
        "%s: its response is neither read to its end nor released, and no byte came for %.0f s. Its turn ends; %s stood"
        " still for %.0f s",
        one_line(turn.url),
        MAX_IDLE_READ,
        turn.paced.host.key,
        turn.turns.now() - turn.began_at,
    )


class GateMiddleware:
    """Judges and paces every hop, and every attempt, of every request of a session."""

    def __init__(self, identity: Identity, turns: Turns, *, max_wait: float | None) -> None:
        self.turns = turns
        self._identity = identity
        self._max_wait, self._priority = max_wait, 0
        self._measures_addresses = True
        self.attempts: dict[asyncio.Task[object] | None, Attempt] = {}
        """By task, the attempt of a `gate.fetch` that it makes.

        A middleware for each attempt would know its own. That was tried, and 16 tests failed: a session may call
        `gate.middleware` within a middleware of its own, as a closure, where only the task tells whose request it is.
        """
        self._requests: Requests = {}
        """Those whose turns are open: the turn until the response has come, then the response until it was read."""
        self._timer = Timer(self._look_at_responses)

    def with_options(
        self, *, max_wait: float | None, priority: int = 0, measures_addresses: bool = True
    ) -> GateMiddleware:
        """A middleware for another session. It shares with this one what is open: a request may pass through both.

        Args:
            measures_addresses: where addresses are paced, whether those of its connections have to be read, because its
                connector is no `AddressedConnector`.
        """
        other = copy(self)
        other._max_wait, other._priority = max_wait, priority
        other._measures_addresses = measures_addresses
        return other

    async def __call__(  # noqa: C901, PLR0912, PLR0915  # The steps of one request, in their order.
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
            ProxyUnavailableError: a proxy answered in the site's place.
            whatever aiohttp and its connector raise, for a proxy that cannot be reached, too.
        """
        turns = self.turns
        if not turns.is_open:
            raise GateClosedError("the gate is not open: send requests within `async with RobotGate(...)`")
        requests = self._requests
        earlier = requests.get(request)
        # None is the usual: a test of it is quicker than a call.
        if earlier is not None and isinstance(earlier, OpenResponse):
            # A retry middleware sends the request again, and has not read the first response.
            earlier.response.close()
            earlier.end()
            earlier = None
        if not self._identity.is_complete(request.headers):
            if request.headers.get(hdrs.USER_AGENT) == SERVER_SOFTWARE:
                # aiohttp's own, which does not name the crawler.
                request.headers[hdrs.USER_AGENT] = self._identity.user_agent
            self._identity.complete(request.headers)
        url = request.url
        if url.scheme in HTTP_SCHEMES:
            url = url.with_scheme(HTTP_SCHEMES[url.scheme])
        route = None
        if request.proxy is not None or request.ssl is not True or request.server_hostname is not None:
            route = Route.of_request(request)
        attempt = None
        if self.attempts:
            attempt = self.attempts.get(asyncio.current_task(turns.scheduler.loop))
            if attempt and attempt.turn_is_unused and url is not attempt.url and not attempt.turn.is_of(url):
                # A middleware of its session sends a request of its own first.
                attempt = None
        if earlier is not None:
            # The request is sent in the turn that was taken for it: this middleware stands in its chain twice, or has
            # waited again.
            turn = earlier
        elif attempt is None:
            turn = turns.make(url, self._priority, self._max_wait, route)
            if not turns.try_begin(turn):
                await turns.begin(turn)
        elif attempt.turn_is_unused:
            attempt.turn_is_unused, turn = False, attempt.turn
            turn.route = route
        else:
            turn = await attempt.next_turn(url, route)
        requests[request] = turn
        try:
            if self._identity.signer is not None:
                request.headers.update(self._identity.signature(request.method, turn.url, request.headers))
            addresses = turns.addresses
            if addresses is None:
                response = await handler(request)
            else:
                # None without a proxy before is the usual: a test of it is quicker than a call.
                if route is not None or turn.paced.proxy:
                    addresses.note_route(turn.paced, route)
                if self._measures_addresses:
                    addresses.measure(request)
                response = await handler(request)
                if self._measures_addresses:
                    addresses.note_peer(turn.paced, request, response)
            # A test is quicker than a call.
            if response.status >= GOOD_BELOW:
                fault = fault_of_answer(response.status, response.headers, proxy_of(route))
                if fault is not None:
                    response.close()
                    raise ProxyUnavailableError(turn.paced.origin.host, fault)  # noqa: TRY301  # Ended below.
                if attempt is not None and _is_stale(attempt, request, response):
                    response.close()
                    # aiohttp sends the request again, as where a kept connection turns out to be closed.
                    raise ServerDisconnectedError  # noqa: TRY301  # Ended below.
        except BaseException as error:
            if requests.get(request) is turn:
                del requests[request]
            if attempt is not None:
                attempt.is_repeated = True
            try:
                is_unsent = _note_error(turn, error, request, attempt)
            finally:
                turn.end()
            if not is_unsent:
                raise
            await (turn.wait_again() if attempt is None else attempt.wait_again())
            requests[request] = turn
            return await self(request, handler)
        if requests.get(request) is not turn:
            # The inner of the two has done the rest, perhaps for several attempts.
            return response
        if response.connection is None or response.status == SWITCHING_PROTOCOLS:
            del requests[request]
            turns.end(turn, response)
        else:
            turn.report(response.status, response.headers)
            unread = OpenResponse(requests, request, response, turn, is_of_fetch=attempt is not None)
            requests[request] = unread
            response.connection.add_callback(unread.end)
            # A test is quicker than a call.
            if self._timer.fires_at == math.inf:
                self._timer.set(LOOK_DELAY)
        if attempt is not None:
            if not self.turns.is_open:
                # The session was passed in, and stays open when the gate is closed.
                response.close()
                raise GateClosedError
            if response.status in REDIRECT_STATUSES:
                attempt.chain = (*attempt.chain, str(request.url))
        return response

    def _open_responses(self) -> list[OpenResponse]:
        return [each for each in self._requests.values() if isinstance(each, OpenResponse)]

    def _look_at_responses(self) -> None:
        """End the turns of responses whose connection is lost, or of which no byte has come for long."""
        now = asyncio.get_running_loop().time()
        for unread in self._open_responses():
            content, connection = unread.response.content, unread.response.connection
            if connection is not None and connection.transport is None:
                # aiohttp does not report a broken chunk that comes after the headers: a reader would wait forever.
                if content.exception() is None:
                    content.set_exception(ClientPayloadError("the body is not what its headers say"))
                unread.response.close()
                unread.end()
            elif content.total_bytes > unread.read_before:
                unread.idle_at, unread.read_before = now + MAX_IDLE_READ, content.total_bytes
            elif now >= unread.idle_at:
                log_unread(unread.turn)
                unread.end()
        if self._requests:
            self._timer.set(LOOK_DELAY)

    def close(self) -> None:
        """Break off what `gate.fetch` reads: its callers get `GateClosedError`."""
        self._timer.cancel()
        for unread in self._open_responses():
            if unread.is_of_fetch:
                unread.response.content.set_exception(GateClosedError())
                unread.response.close()


def _is_stale(attempt: Attempt, request: ClientRequest, response: ClientResponse) -> bool:
    """Return whether an answer may be meant for a connection that was idle, and the request sent once more."""
    is_meant = response.status == REQUEST_TIMEOUT and hdrs.RETRY_AFTER not in response.headers
    return is_meant and request.method in IDEMPOTENT and not attempt.is_repeated


def _note_error(
    turn: PageTurn, error: BaseException, request: ClientRequest, attempt: Attempt | None
) -> bool:
    """Report what came instead of an answer; return whether the request may wait for another turn."""
    # aiohttp sets a request's response when it is sent; mypy takes it for None, or not, by the order in which it reads
    # aiohttp's modules.
    response: object = request.response
    if response is not None and request.is_ssl():
        # Through TLS only the site answers, or fails to.
        turn.route = None
    if attempt is not None and attempt.has_expired:
        # The total timeout has cancelled the task.
        turn.report(error=ConnectionTimeoutError() if response is None else TimeoutError())
        return False
    is_unsent = turn.note_error(error)
    # A certificate does not change within seconds.
    return is_unsent and not isinstance(error, ClientSSLError)
