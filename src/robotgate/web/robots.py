"""One robots.txt read over the network: through its redirects, each hop in its own host's turn, ahead of its pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from robotgate.errors import HostUnavailableError, InvalidURLError, NonPublicAddressError
from robotgate.pace.host import Turn
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
    from collections.abc import Callable, Mapping

    from robotgate.identity import Identity
    from robotgate.pace.scheduler import Scheduler
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import Site
    from robotgate.urls import Origin
    from robotgate.web.cache import Flight
    from robotgate.web.fetcher import Fetcher, Proxy

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a spent budget still has to be a time-out, not the lack of one."""


class RobotsReader:
    """Requests robots.txt files.

    Args:
        fetcher: sends each request; the gate's own takes a proxy besides.
        site_of: returns the site of an origin that a redirect names.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        allow_private_addresses: bool,
        scheduler: Scheduler,
        fetcher: Fetcher,
        site_of: Callable[[Origin], Site],
    ) -> None:
        self._identity = identity
        self._allow_private_addresses = allow_private_addresses
        self._scheduler = scheduler
        self._fetcher = fetcher
        self._site_of = site_of

    async def read(self, site: Site, flight: Flight, known: RobotsRecord | None) -> FetchResult:
        """Request a site's robots.txt, follow redirects, and say how it ended.

        Args:
            flight: told what it waits for; has the proxy.
            known: the copy that is only to be confirmed, where it still lies where it was.

        Raises:
            GateClosedError, HostUnavailableError, StoreError.
        """
        url = site.origin.robots_url
        hop = site
        redirects: tuple[str, ...] = ()
        left = ROBOTS_TIMEOUT
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
            redirects = (*redirects, url)
            url = step
            try:
                origin, target = split_url(url)
                if not (origin.is_public or self._allow_private_addresses):
                    raise NonPublicAddressError(url)  # noqa: TRY301  # Handled as the same error of `_site_of`.
                url = f"{origin.text}{target}"
                hop = self._site_of(origin)
            except NonPublicAddressError as error:
                return FetchResult(Outcome.NON_PUBLIC, Failure(f"redirected to {error}"), url, redirects)
            except InvalidURLError as error:
                return FetchResult(Outcome.LOST, Failure(f"redirected to {error}"), url, redirects)

    async def _ask(
        self,
        hop: Site,
        url: str,
        flight: Flight,
        *,
        unless: Mapping[str, str],
        timeout: float,
    ) -> tuple[Answer | Failure, float]:
        """Send one request in the host's turn; return the answer and the seconds it took."""
        scheduler = self._scheduler
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
            answer = await self._fetch(url, {**self._identity.headers, **unless}, timeout, flight.proxy)
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
        fetcher, max_bytes = self._fetcher, MAX_BYTES + 1
        if isinstance(fetcher, AiohttpFetcher):
            return await fetcher.fetch(
                url, headers=headers, max_bytes=max_bytes, timeout=timeout, proxy=proxy
            )
        return await fetcher.fetch(url, headers=headers, max_bytes=max_bytes, timeout=timeout)
