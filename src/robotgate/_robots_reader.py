"""One robots.txt read over the network: through its redirects, each hop in its own host's turn."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate._access import Answer, Ending, Failure
from robotgate._attempts import Attempts
from robotgate._decode import whole_lines
from robotgate._errors import HostUnavailableError, InvalidURLError, NonPublicAddressError
from robotgate._follow import conditions, follow, is_beside_the_point
from robotgate._lines import MAX_BYTES
from robotgate._status import Outcome
from robotgate._urls import ROBOTS_PATH, Origin, split_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate._access import RobotsRecord
    from robotgate._admission import Admission
    from robotgate._bound import Bound
    from robotgate._flight import Flight
    from robotgate._identity import Identity
    from robotgate._lane import Lane
    from robotgate._lanes import Lanes
    from robotgate._ports import Clock, Fetcher

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a budget that is spent still has to be a time-out, not the lack of one."""


class RobotsReader:
    """Asks for robots.txt files, ahead of the pages of their hosts.

    Args:
        bound: what limits these requests over all hosts.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        allow_private_addresses: bool,
        clock: Clock,
        lanes: Lanes,
        fetcher: Fetcher,
        bound: Bound,
    ) -> None:
        self._identity = identity
        self._allow_private_addresses = allow_private_addresses
        self._clock = clock
        self._lanes = lanes
        self._fetcher = fetcher
        self._bound = bound

    async def read(self, origin: Origin, flight: Flight, known: RobotsRecord | None) -> Ending:
        """Ask, follow redirects, and say how it ended.

        Args:
            flight: told what is waited for.
            known: has the copy that is only to be confirmed, where it still lies where it was.

        Raises:
            GateClosedError, HostUnavailableError, StoreError.
        """
        url = origin.robots_url
        hop, target = origin, ROBOTS_PATH
        redirects: tuple[str, ...] = ()
        left = ROBOTS_TIMEOUT
        while True:
            unless = conditions(known, url)
            answer, took = await self._ask(hop, target, flight, unless=unless, timeout=left)
            left = max(left - took, MIN_HOP_TIMEOUT)
            if unless and known is not None and is_beside_the_point(known, answer):
                # Once more, as if nothing were known.
                known = None
                continue
            step = follow(url, redirects, answer, is_conditional=bool(unless))
            if isinstance(step, Ending):
                return step
            redirects = (*redirects, url)
            url = step
            try:
                hop, target = self._next_hop(url)
            except NonPublicAddressError as error:
                return Ending(Outcome.NON_PUBLIC, Failure(f"redirected to {error}"), url, redirects)
            except InvalidURLError as error:
                return Ending(Outcome.LOST, Failure(f"redirected to {error}"), url, redirects)

    def _next_hop(self, url: str) -> tuple[Origin, str]:
        hop, target = split_url(url)
        if not (hop.is_public or self._allow_private_addresses):
            raise NonPublicAddressError(url)
        return hop, target

    async def _turn(self, lane: Lane, hop: Origin, flight: Flight) -> Admission:
        """The host's turn, which is to be had at once where nobody was before us."""
        admission = lane.try_admit(hop, self._bound, self._clock.now())
        if admission is not None:
            return admission
        with flight.waiting_for(lane, self._bound):
            return await lane.admit(hop, bound=self._bound, ahead=True)

    async def _ask(
        self, hop: Origin, target: str, flight: Flight, *, unless: Mapping[str, str], timeout: float
    ) -> tuple[Answer | Failure, float]:
        """One request, in the host's turn and ahead of its pages; and the seconds it took."""
        url = f"{hop}{target}"
        lane = await self._lanes.lane(self._lanes.pace_key(hop, target))
        try:
            admission = await self._turn(lane, hop, flight)
        except HostUnavailableError as error:
            if self._lanes.blocked_until_at(hop.host) > self._clock.now():
                # That says nothing of the site, and nothing of it is to be remembered.
                raise
            return Failure(str(error)), 0.0

        async def again() -> None:
            nonlocal admission
            admission.end()
            admission = await lane.admit(hop, bound=self._bound, ahead=True, arrival=admission.arrival)

        began_at = self._clock.now()
        try:
            with flight.asking(), Attempts(url, again):
                answer = await self._fetcher.fetch(
                    # One more than counts tells whether there is more.
                    url,
                    headers={**self._identity.headers, **unless},
                    max_bytes=MAX_BYTES + 1,
                    timeout=timeout,
                )
            if isinstance(answer, Answer):
                if len(answer.body) > MAX_BYTES:
                    answer = replace(answer, body=whole_lines(answer.body, max_bytes=MAX_BYTES))
                admission.report(answer.status, answer.retry_after, len(answer.body))
            elif answer.is_outage:
                admission.fail(answer.cause)
        finally:
            admission.end()
        took = self._clock.now() - began_at
        # Other hosts' answers may have come as well: their delays begin when they are looked at, and reading rules can
        # wait.
        await asyncio.sleep(0)
        return answer, took
