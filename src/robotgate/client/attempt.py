"""What is asked of `gate.fetch`, and one attempt at it: the turns of its hops, within one total timeout.

`client.fetch` makes attempts. The middleware gives each later hop of one its turn.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate.client.proxy import Route, RouteOptions
from robotgate.options import check_names, check_seconds, check_whole
from robotgate.pace.timer import Timer
from robotgate.pace.turn import OPEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    import aiohttp
    from yarl import URL

    from robotgate.client.turns import PageTurn

MAX_PAGE_REDIRECTS: Final = 10
IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods whose request may be sent twice (RFC 9110 §9.2.2)."""


class RequestOptions(RouteOptions, total=False):
    """The options of `aiohttp.ClientSession.request`, without those of redirects."""

    params: str | Mapping[str, str | int | float] | Sequence[tuple[str, str | int | float]] | None
    data: object
    json: object
    cookies: Mapping[str, str] | None
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None
    skip_auto_headers: Iterable[str] | None
    auth: aiohttp.BasicAuth | None
    compress: str | bool | None
    chunked: bool | None
    expect100: bool
    raise_for_status: bool | Callable[[aiohttp.ClientResponse], Awaitable[None]] | None
    read_until_eof: bool
    timeout: aiohttp.ClientTimeout
    trace_request_ctx: object
    read_bufsize: int | None
    auto_decompress: bool | None
    max_line_size: int | None
    max_field_size: int | None
    max_headers: int | None
    middlewares: Sequence[aiohttp.ClientMiddlewareType] | None


@dataclass(slots=True, eq=False)
class PageRequest:
    """What a caller asks for.

    Raises:
        OptionError, TypeError: an argument makes no sense.
    """

    url: str | URL
    method: str
    options: RequestOptions
    max_bytes: int | None = None
    """None: as the gate's."""
    allow_redirects: bool = True
    max_redirects: int = MAX_PAGE_REDIRECTS
    priority: int = 0
    max_wait: float | None = None
    retries: int = 0
    """Attempts after the first, at most; none where the method, or a body that is a stream, can be sent once only."""
    turn: PageTurn | None = None
    """One that has begun, for the first hop; None: the fetch takes its own."""
    is_page: bool = True
    """Whether the purposes of the gate bind it: not for a file that states rules or lists URLs."""

    def __post_init__(self) -> None:
        # Tests of the defaults are quicker than calls.
        if self.priority != 0:
            check_whole("priority", self.priority)
        if self.max_wait is not None:
            check_seconds("max_wait", self.max_wait)
        if self.max_bytes is not None:
            check_whole("max_bytes", self.max_bytes, least=1)
        if self.max_redirects != MAX_PAGE_REDIRECTS:
            check_whole("max_redirects", self.max_redirects, least=0)
        if self.options:
            known = RequestOptions.__annotations__.keys()
            # The URL of a turn has been judged as it is.
            check_names(self.options, known if self.turn is None else known - {"params"})
        if self.retries:
            check_whole("retries", self.retries, least=0)
            has_stream = not isinstance(self.options.get("data"), bytes | str | dict | None)
            if has_stream or self.method.upper() not in IDEMPOTENT:
                self.retries = 0


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt at a page, of those that `retries` allows: its turns, one after the other, within one total timeout.

    Each hop has a turn, and so has each attempt of aiohttp's or of a retry middleware.
    """

    request: PageRequest
    url: URL
    """What is requested first."""
    options: RequestOptions
    turn: PageTurn
    """That of the last hop."""
    total: float
    """Seconds that it may take, without the waits."""
    timeouts: TotalTimeouts
    waited: float = field(default=0.0, init=False)
    """Seconds spent waiting for turns, and before an earlier attempt of ours was repeated."""
    turn_is_unused: bool = field(default=True, init=False)
    """Whether no request has used the turn of `url` yet."""
    chain: tuple[str, ...] = field(default=(), init=False)
    """The URLs that redirected, first to last."""
    has_expired: bool = field(default=False, init=False)
    """Whether the timeout has cancelled its task."""
    is_repeated: bool = field(default=False, init=False)
    """Whether a request was lost: aiohttp sends one again, if it may be, and no second one."""
    stream: aiohttp.ClientResponse | None = field(default=None, init=False)
    """The response, if its body has not come with its headers: the timeout breaks it off, and cancels no task."""

    async def next_turn(self, url: URL, route: Route | None) -> PageTurn:
        """End the last turn, and return one of a later hop or another attempt of aiohttp's, begun."""
        last, turns = self.turn, self.turn.turns
        last.end()
        turn = turns.make(url, last.priority, last.max_wait, route, is_page=last.is_page)
        turn.chain = self.chain
        if not turns.try_begin(turn):
            left = self.timeouts.stop(self) - self.timeouts.now()
            await turns.begin(turn)
            self.timeouts.start(self, left)
        self.turn = turn
        self.waited += turn.waited
        return turn

    async def wait_again(self) -> None:
        """As `PageTurn.wait_again`, of the present turn; the timeout does not run meanwhile."""
        turn = self.turn
        left, began_at = self.timeouts.stop(self) - self.timeouts.now(), turn.began_at
        await turn.wait_again()
        self.timeouts.start(self, left)
        self.waited += turn.began_at - began_at

    def end(self, response: aiohttp.ClientResponse | None = None) -> None:
        """End the timeout and the turn: the response has been read or released, or there is none."""
        self.timeouts.stop(self)
        if self.turn.state is OPEN:
            self.turn.turns.end(self.turn, response)

    def expire(self) -> None:
        """The total timeout has passed."""
        if self.stream is not None:
            self.stream.content.set_exception(TimeoutError())
            self.stream.close()
        elif self.turn.holder is not None:
            self.has_expired = True
            self.turn.holder.cancel()


class TotalTimeouts:
    """The total timeouts of all attempts, on one timer: a timer for each is a tenth of what the gate adds to a page."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = asyncio.get_running_loop().time
        self._expires_at: dict[Attempt, float] = {}
        """Of those that run, by the loop's clock. While an attempt waits for a turn, its timeout does not run."""
        self._timer = Timer(self._expire)

    def start(self, attempt: Attempt, left: float) -> None:
        """Let an attempt expire after so many seconds."""
        expires_at = self._expires_at[attempt] = self.now() + left
        if expires_at < self._timer.fires_at:
            self._timer.set(left)

    def stop(self, attempt: Attempt) -> float:
        """Stop an attempt's timeout; return when it would have expired."""
        return self._expires_at.pop(attempt, math.inf)

    def _expire(self) -> None:
        now = self.now()
        for attempt in [each for each, expires_at in self._expires_at.items() if expires_at <= now]:
            self.stop(attempt)
            attempt.expire()
        expires_at = min(self._expires_at.values(), default=math.inf)
        if expires_at < math.inf:
            self._timer.set(expires_at - now)
