"""`gate.middleware`: the gate inside an aiohttp session, for crawlers whose call sites should not change."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from aiohttp.http import SERVER_SOFTWARE

from robotgate._turns import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from robotgate._identity import Identity
    from robotgate._turns import Turn

    BeginTurn = Callable[[str], Awaitable[Turn]]

MAX_HOLD: Final = 60.0
"""Seconds after which a turn ends though its response is neither read nor released: whoever holds it may be waiting
for the very next turn."""
HOLD_CHECK: Final = 0.5
"""Seconds between looks at whether an unread response has been let go of."""

_is_past_the_gate: ContextVar[bool] = ContextVar("robotgate_is_past_the_gate", default=False)


@contextmanager
def past_the_gate() -> Iterator[None]:
    """Within this block requests have had their turn already, should they meet the middleware."""
    token = _is_past_the_gate.set(True)
    try:
        yield
    finally:
        _is_past_the_gate.reset(token)


class GateMiddleware:
    """Judges and paces every hop of every request of a session."""

    def __init__(self, begin: BeginTurn, identity: Identity) -> None:
        self._begin = begin
        self._identity = identity

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        if _is_past_the_gate.get():
            return await handler(request)
        self._identify(request)
        turn = await self._begin(str(request.url))
        with ExitStack() as failing:
            failing.callback(turn.end)
            response = await handler(request)
            turn.report(status=response.status, headers=response.headers)
            failing.pop_all()
        _Hold(turn, response)
        return response

    def _identify(self, request: ClientRequest) -> None:
        if request.headers.get("User-Agent") == SERVER_SOFTWARE:
            # aiohttp's own, which says nothing of who crawls.
            del request.headers["User-Agent"]
        self._identity.complete(request.headers)


class _Hold:
    """Ends a turn once its response is read to the end, or let go of."""

    def __init__(self, turn: Turn, response: ClientResponse) -> None:
        self._turn = turn
        self._response = response
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + MAX_HOLD
        self._check: asyncio.TimerHandle | None = None
        self._look()
        response.content.on_eof(self._end)

    def _look(self) -> None:
        if self._response.connection is None or self._loop.time() >= self._until:
            self._end()
            return
        self._check = self._loop.call_later(HOLD_CHECK, self._look)

    def _end(self) -> None:
        if self._check is not None:
            self._check.cancel()
        finish(self._turn, self._response)
