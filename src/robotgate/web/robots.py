"""One robots.txt read over the network: through its redirects, each hop in its own host's turn, ahead of its pages.

A `Flight` is the task that does it, however many tasks wait for the result.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.errors import HostUnavailableError, InvalidURLError, NonPublicAddressError
from robotgate.pace.host import Turn, TurnState
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites.record import (
    Answer,
    Failure,
    FetchResult,
    conditions,
    follow,
    needs_unconditional_request,
)
from robotgate.sites.status import Outcome
from robotgate.urls import split_url
from robotgate.web.fetcher import AiohttpFetcher

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from robotgate.identity import Identity
    from robotgate.pace.scheduler import Scheduler
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import Site
    from robotgate.urls import Origin
    from robotgate.web.fetcher import Fetcher, Proxy

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a spent budget still has to be a time-out, not the lack of one."""


class Flight:
    """One task that finds out about an origin, and a future for each caller that waits for it.

    A cancelled caller cancels nothing, a failure is shared instead of repeated, and a caller that would wait for itself
    is refused alone.
    """

    __slots__ = ("_waits_for", "callers", "is_asking", "proxy", "task")

    def __init__(
        self, work: Callable[[Flight], Coroutine[object, None, None]], name: str, proxy: Proxy | None
    ) -> None:
        self.proxy = proxy
        """What the first caller's page goes through, and so robots.txt as well."""
        self.is_asking = False
        """Whether a request is under way."""
        self.callers: dict[asyncio.Future[None], asyncio.Task[object] | None] = {}
        self._waits_for: tuple[Turn, Scheduler] | None = None
        self.task = asyncio.get_running_loop().create_task(work(self), name=name)

    async def join(self) -> None:
        """Wait until it has ended.

        Raises:
            GateClosedError: it was cancelled.
            NestedTurnError: it waits for a turn that only this task can end.
            StoreError, HostUnavailableError: it failed.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieve the error even if the caller is cancelled at the same moment: asyncio would report it.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.callers[answer] = asyncio.current_task()
        self._refuse_holders()
        try:
            await answer
        finally:
            del self.callers[answer]

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a turn of this process."""
        return self._waits_for is not None and self._waits_for[0].state is TurnState.WAITING

    @contextmanager
    def waiting_for(self, turn: Turn, scheduler: Scheduler) -> Iterator[None]:
        """Within this block, callers that hold what the turn waits for, here or in another process, are refused."""
        self._waits_for = turn, scheduler
        try:
            self._refuse_holders()
            yield
        finally:
            self._waits_for = None

    async def acquire(self, turn: Turn, scheduler: Scheduler) -> None:
        """Wait for a turn and begin it; callers that hold what it waits for are refused."""
        while not scheduler.start_now(turn, scheduler.now()):
            with self.waiting_for(turn, scheduler):
                await scheduler.wait(turn)
            if scheduler.begin(turn):
                break
        limiter = turn.paced.host.limiter
        if limiter is not None:
            await limiter.acquire()

    def end(self, error: BaseException | None) -> None:
        """Resolve the callers' futures."""
        for answer in self.callers:
            if answer.done():
                continue
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

    def _refuse_holders(self) -> None:
        if self._waits_for is None:
            return
        turn, scheduler = self._waits_for
        for answer, caller in self.callers.items():
            error = None if answer.done() else scheduler.nested(turn, caller)
            if error is not None:
                answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class RobotsReader:
    """Requests robots.txt files."""

    identity: Identity
    allow_private_addresses: bool
    scheduler: Scheduler
    fetcher: Fetcher
    """Sends each request; the gate's own takes a proxy besides."""
    site_of: Callable[[Origin], Site]
    """Returns the site of an origin that a redirect names."""

    async def read(self, site: Site, flight: Flight, known: RobotsRecord | None) -> FetchResult:
        """Request a site's robots.txt, follow redirects, and say how it ended.

        Args:
            flight: told what it waits for; has the proxy.
            known: the copy that is only to be confirmed, where it still lies where it was.

        Raises:
            GateClosedError, HostUnavailableError, StoreError.
        """
        hop, url, left = site, site.origin.robots_url, ROBOTS_TIMEOUT
        redirects: tuple[str, ...] = ()
        while True:
            unless = conditions(known, url)
            answer, took = await self._ask(hop, url, flight, unless=unless, timeout=left)
            if isinstance(answer, Failure) and answer.is_stale:
                answer, took = await self._ask(hop, url, flight, unless=unless, timeout=left)
            left = max(left - took, MIN_HOP_TIMEOUT)
            if unless and known is not None and needs_unconditional_request(known, answer):
                known = None
                continue
            step = follow(url, redirects, answer, is_conditional=bool(unless))
            if isinstance(step, FetchResult):
                return step
            redirects, url = (*redirects, url), step
            try:
                origin, target = split_url(url)
                if not (origin.is_public or self.allow_private_addresses):
                    raise NonPublicAddressError(url)  # Handled as the same error of `split_url`.
            except InvalidURLError as error:
                outcome = Outcome.NON_PUBLIC if isinstance(error, NonPublicAddressError) else Outcome.LOST
                return FetchResult(outcome, Failure(f"redirected to {error}"), url, redirects)
            hop, url = self.site_of(origin), f"{origin.text}{target}"

    async def _ask(
        self, hop: Site, url: str, flight: Flight, *, unless: Mapping[str, str], timeout: float
    ) -> tuple[Answer | Failure, float]:
        """Send one request in the host's turn; return the answer and the seconds it took."""
        scheduler = self.scheduler
        turn = Turn(hop, ahead=True)
        try:
            await flight.acquire(turn, scheduler)
        except HostUnavailableError as error:
            if hop.operator_until_at > scheduler.now():
                # The operator's word says nothing of the site, so there is nothing to remember.
                raise
            return Failure(str(error)), 0.0
        try:
            flight.is_asking = True
            answer = await self._fetch(url, {**self.identity.headers, **unless}, timeout, flight.proxy)
            if isinstance(answer, Answer):
                turn.bytes_read = len(answer.body)
                scheduler.note_answer(turn, answer.status, answer.retry_after)
            elif answer.is_outage:
                scheduler.note_outage(turn, answer.cause)
        finally:
            flight.is_asking = False
            scheduler.end(turn)
        took = scheduler.now() - turn.began_at
        # Answers of other hosts may have come as well: note their ends before this file is parsed.
        await asyncio.sleep(0)
        return answer, took

    async def _fetch(
        self, url: str, headers: Mapping[str, str], timeout: float, proxy: Proxy | None
    ) -> Answer | Failure:
        # One byte more than counts tells whether there is more.
        fetcher, size = self.fetcher, MAX_BYTES + 1
        if isinstance(fetcher, AiohttpFetcher):
            return await fetcher.fetch(url, headers=headers, max_bytes=size, timeout=timeout, proxy=proxy)
        return await fetcher.fetch(url, headers=headers, max_bytes=size, timeout=timeout)
