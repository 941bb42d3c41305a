"""`Turn`: what a crawler does with a turn. It hides the rest of a `PageTurn`, which is the gate's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self, Unpack

from aiohttp import ClientError
from multidict import CIMultiDict
from yarl import URL

from robotgate.client.attempt import MAX_PAGE_REDIRECTS, PageRequest, RequestOptions
from robotgate.client.fetch import PageFetch, PageFetcher
from robotgate.errors import GateClosedError
from robotgate.pace.turn import ENDED, NEW, OPEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate.client.turns import PageTurn
    from robotgate.rules.verdict import Verdict


class Turn:
    """One request: within ``async with turn:`` it may be sent, and its host waits for the end.

    Entering the block waits for the turn, unless it has begun, as those of `RobotGate.ready` have. The turn ends with
    the block, or by `end`. An error of aiohttp's that leaves the block is reported, as by ``report(error=…)``; the
    origin of other errors is not known.
    """

    __slots__ = ("_pages", "_turn")

    def __init__(self, turn: PageTurn, pages: PageFetcher) -> None:
        self._turn = turn
        self._pages = pages

    async def __aenter__(self) -> Self:
        turn, turns = self._turn, self._turn.turns
        turns.scheduler.check_loop()
        if turn.holder is not None or turn.state is ENDED:
            raise RuntimeError("a turn is entered once: ask the gate for another")
        turn.holder = asyncio.current_task()
        if turn.state is NEW and not turns.try_begin(turn):
            await turns.begin(turn)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, ClientError):
                self._turn.report(error=error)
        finally:
            self._turn.end()

    @property
    def url(self) -> str:
        """What may be fetched, without fragment and credentials."""
        return self._turn.url

    @property
    def began_at(self) -> float:
        """When it began, in seconds since the epoch."""
        return self._turn.began_at

    @property
    def waited(self) -> float:
        """Seconds from asking for the turn until it began, robots.txt included; 0 before it began."""
        return self._turn.waited

    @property
    def status(self) -> int | None:
        """The HTTP status that was reported last, by `fetch` that of the last hop; None before."""
        return self._turn.status

    @property
    def bytes_read(self) -> int:
        """The bytes of body that were reported."""
        return self._turn.bytes_read

    @property
    def verdict(self) -> Verdict:
        """Why it may be fetched."""
        return self._turn.verdict

    def fetch(
        self,
        method: str = "GET",
        *,
        max_bytes: int | None = None,
        allow_redirects: bool = True,
        max_redirects: int = MAX_PAGE_REDIRECTS,
        **options: Unpack[RequestOptions],
    ) -> PageFetch:
        """Fetch the turn's URL by the gate's session, as `RobotGate.fetch` does, in this turn that has begun.

        The turn ends with the fetch, whatever comes of it, and the host's answer or error is reported: nothing else has
        to be done with the turn. Each further hop of a redirect takes a turn of its own.

        Args:
            method, max_bytes, allow_redirects, max_redirects, options: as `RobotGate.fetch`, but for `params`: the URL
                has been judged as it is.

        Raises (when awaited or entered):
            RuntimeError: the turn has not begun or is over, or a request was sent in it.
            as `RobotGate.fetch`.

        Raises (at once):
            GateClosedError: the gate is not open.
            OptionError, TypeError: an argument that makes no sense.
        """
        if not self._turn.turns.is_open:
            raise GateClosedError
        # As it was judged.
        url = URL(self.url, encoded=True)
        request = PageRequest(
            url, method, options, max_bytes, allow_redirects, max_redirects, turn=self._turn
        )
        return PageFetch(self._pages, request)

    def headers(self, method: str = "GET", sent: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers of this request, for a client of yours: User-Agent, From, and with a signer a signature.

        Ask for them just before each attempt: a signature holds for a minute or so, and for this URL alone.

        Args:
            sent: headers of your own, for a signer that covers some of them. Send them as well.

        Raises:
            RuntimeError: the turn has not begun, or is over.
            OptionError: one of `sent` cannot be signed, or is a User-Agent that does not name the crawler.
        """
        if self._turn.state is not OPEN:
            raise RuntimeError("the turn has not begun, or is over: ask for headers within its block")
        identity = self._turn.turns.identity
        headers = CIMultiDict(sent or ())
        identity.complete(headers)
        return {**identity.headers, **identity.signature(method, self.url, headers)}

    def report(
        self,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        bytes: int = 0,  # noqa: A002  # The name that a caller would write.
        *,
        error: BaseException | None = None,
        body: bytes = b"",
    ) -> None:
        """Report what came of the request: an answer that tells us off, as 429 and 503 do, blocks the host.

        May be called as often as there is news, until the turn ends; of later calls, only `body` counts.

        Args:
            status: the HTTP status. The time until the first report counts as the host's response time.
            headers: the response's. What they ask about our speed and for money is read.
            bytes: bytes of body read since the last report.
            body: the whole body of an error, decoded, where you have read it: by its problem type (RFC 9457) it may say
                that we were too fast. Give `status` and `headers` with it.
            error: what the client raised instead of an answer; ignored after a status. After a connection that could
                not be made, as aiohttp and asyncio raise it, the other turns of this origin wait until a request
                reaches it again, or it is given up. After a timeout, or a connection that was closed without an
                answer, they do so only if several come in a row; other errors say nothing. For other clients, use
                `report_unreachable`, or ``error=TimeoutError()``.
        """
        self._turn.report(status, headers, bytes, error=error)
        if body and status is not None:
            self._turn.note_body(status, headers, body)

    def report_unreachable(self, cause: str) -> None:
        """Report that the origin could not be reached: its other turns wait, or are refused. Ignored after a status.

        Report it where the request was not sent. For a timeout after that, use ``report(error=TimeoutError())``.

        Args:
            cause: in words that follow the host's name, for their `HostUnavailableError`.
        """
        self._turn.note_outage(cause)

    async def again(self) -> None:
        """End the turn and wait for another, to send the same request once more.

        Raises:
            RobotGateError: as `RobotGate.turn`; the rules may have changed meanwhile.
        """
        self._turn.turns.scheduler.check_loop()
        await self._turn.again()

    def end(self) -> None:
        """The response has been read, or will not be. A second call does nothing."""
        self._turn.end()
