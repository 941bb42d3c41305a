"""One admitted request, as its user sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from aiohttp import ClientError

from robotgate._outage import outage_of
from robotgate._pacing import BLOCKING_STATUSES, parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from aiohttp import ClientResponse
    from yarl import URL

    from robotgate._admission import Admission, Interest
    from robotgate._ports import Clock
    from robotgate._site import Site
    from robotgate._urls import Origin
    from robotgate._verdict import Verdict


@dataclass(slots=True, eq=False, kw_only=True)
class Wish:
    """What a turn is asked for. Nobody changes it; not frozen, for that takes thrice as long to make."""

    origin: Origin
    target: str
    """Path and query."""
    priority: int
    max_wait: float | None
    asked_at: float
    chain: tuple[str, ...] = ()
    """The URLs that redirected here, first to last."""
    interest: Interest | None = None
    """Asked when the turn has come; no leaves it to the next."""

    @property
    def url(self) -> str:
        """Without fragment and credentials."""
        return f"{self.origin.text}{self.target}"


class TurnSource(Protocol):
    """Who admits requests: `Turns`."""

    async def begin(self, url: str | URL, *, priority: int, max_wait: float | None) -> Turn:
        """Judge, wait, and have a turn."""
        ...

    async def admit(self, wish: Wish, *, arrival: int | None = None) -> tuple[Site, Admission]:
        """Judge, and wait."""
        ...

    def tell_ended(self, wish: Wish, admission: Admission) -> None:
        """A turn is over."""


class Turn:
    """One admitted request. It may be sent now; its host waits for the end.

    ``async with turn:`` ends it with the block, as `RobotGate.turn` does; so does `end`. An error of aiohttp's that
    leaves the block is reported, as by ``report(error=…)``; others may be anybody's.
    """

    def __init__(
        self,
        turns: TurnSource,
        wish: Wish,
        site: Site,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._turns = turns
        self._wish = wish
        self._site = site
        self._admission = admission
        self._clock = clock

    async def __aenter__(self) -> Self:
        self._admission.adopt()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, ClientError):
                self.report(error=error)
        finally:
            self.end()

    @property
    def url(self) -> str:
        """What may be fetched, without fragment and credentials."""
        return self._wish.url

    @property
    def verdict(self) -> Verdict:
        """Why it may be fetched."""
        return self._site.verdict(self._wish.target, now=self._clock.now())

    @property
    def waited(self) -> float:
        """Seconds from asking for the turn to having it; asking for the site's rules is part of it."""
        return self._admission.began_at - self._wish.asked_at

    def report(
        self,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        bytes: int = 0,  # noqa: A002  # What is counted is octets; `bytes` is what a caller would write.
        *,
        error: BaseException | None = None,
    ) -> None:
        """Tell what came of the request: 429 and 503 block the host, for as long as Retry-After says.

        May be called as often as there is news, until the turn ends; later news is not heard.

        Args:
            status: the HTTP status. The time until it is first told counts as the host's response time.
            headers: the response's; only Retry-After is read.
            bytes: octets of body read since the last report.
            error: what the client raised instead of an answer; once there was a status it says nothing of the host.
                Refused connections, names that do not resolve and time-outs, as aiohttp and asyncio raise them, send
                away whoever waits for this origin, until one request finds it again; other errors do not.
                `report_unreachable` serves other clients.
        """
        retry_after = None
        if status in BLOCKING_STATUSES and headers is not None:
            retry_after = parse_retry_after(_retry_after(headers), now=self._clock.now())
        self._admission.report(status, retry_after, bytes)
        if error is not None and (outage := outage_of(error, host=self._wish.origin.host)) is not None:
            self.report_unreachable(outage)

    def report_unreachable(self, cause: str) -> None:
        """Tell that the host could not be reached: whoever waits for this origin is sent away.

        Once there was a status, it is not heard.

        Args:
            cause: in words, for their `HostUnavailableError`.
        """
        self._admission.fail(cause)

    async def again(self) -> None:
        """End the turn and wait for another, to send the same request once more.

        Raises:
            RobotGateError: as `RobotGate.turn`; the rules may have changed meanwhile.
        """
        self.end()
        wish = replace(self._wish, asked_at=self._clock.now())
        self._site, self._admission = await self._turns.admit(wish, arrival=self._admission.arrival)
        self._wish = wish

    def end(self) -> None:
        """The response has been read, or will not be. Ending twice is ending once."""
        admission = self._admission
        if not admission.is_open:
            return
        try:
            admission.end()
        finally:
            # It is over, whatever the store makes of it.
            self._turns.tell_ended(self._wish, admission)


class PendingTurn:
    """What `RobotGate.turn` returns: ``async with`` waits for the turn, and ends it with the block."""

    def __init__(self, turns: TurnSource, url: str | URL, *, priority: int, max_wait: float | None) -> None:
        self._turns = turns
        self._url = url
        self._priority = priority
        self._max_wait = max_wait
        self._turn: Turn | None = None
        self._is_entered = False

    async def __aenter__(self) -> Turn:
        if self._is_entered:
            raise RuntimeError("a turn is entered once: ask the gate for another")
        self._is_entered = True
        self._turn = await self._turns.begin(self._url, priority=self._priority, max_wait=self._max_wait)
        return self._turn

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._turn is not None:
            await self._turn.__aexit__(error_type, error, traceback)


class OwnTurn(Turn):
    """A turn as the gate's own doors have it, which tell of it in the words of their responses."""

    @property
    def began_at(self) -> float:
        """Since when it may be sent, in seconds since the epoch."""
        return self._admission.began_at

    def finish(self, response: ClientResponse) -> None:
        """A response has come to its end, or is let go of: its turn is over. Finishing twice is finishing once."""
        admission = self._admission
        if admission.is_open:
            admission.bytes_read += response.content.total_bytes
            self.end()

    def explain(self) -> Callable[[], Verdict]:
        """What works out the verdict of when the turn began, later, if anybody asks."""
        return partial(self._site.verdict, self._wish.target, now=self._admission.began_at)


def _retry_after(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
