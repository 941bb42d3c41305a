"""Declared purposes at a gate: the check of responses, and the tdmrep.json of origins.

The file is requested once an origin, however many tasks ask, and kept in memory with the site for as long as a
robots.txt would be; after a failure the last good copy holds. The request is that of a page: robots.txt may disallow
it, and it has the proxy of the page that needs the file. It serves no purpose, so the declared ones do not bind it, nor
requests for sitemaps.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate.client.attempt import Attempt, PageRequest, RequestOptions
from robotgate.client.fetch import PageFetcher, release
from robotgate.client.response import Response
from robotgate.client.robots import Flight, answer_of
from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    PreferenceError,
    ProxyUnavailableError,
    ResponseTooLargeError,
)
from robotgate.options import StatusPolicy
from robotgate.pace.host import PacedTurn
from robotgate.preferences.robots import purposes_of
from robotgate.preferences.tdmrep import MAX_TDMREP_BYTES, TdmRep
from robotgate.sites.record import Failure, FetchResult, RobotsRecord, Standing, is_fresh, settle, standing
from robotgate.sites.site import TDMREP_PATH
from robotgate.sites.status_table import MAX_REDIRECTS, Outcome, outcome_of
from robotgate.statements import Preference

if TYPE_CHECKING:
    from collections.abc import Collection

    from robotgate.client.cache import SiteCache
    from robotgate.sites.site import Site

_PRIORITY: Final = 1_000_000
_PASSED_ON: Final = ("proxy", "proxy_auth", "proxy_headers", "ssl", "server_hostname", "timeout")
"""Options of a page's request that its file is requested with: how its host is reached."""


class PurposeCheck:
    """The `ResponseCheck` of a gate with purposes, or with `tdmrep`.

    Args:
        purposes: what the crawler declares.
        tdmrep: whether files are requested.
        cache: keeps them with its sites.
    """

    def __init__(self, purposes: Collection[str], *, tdmrep: bool, cache: SiteCache) -> None:
        self._purposes = tuple(sorted(purposes_of(purposes)))
        self._tdmrep = tdmrep
        self._cache = cache

    async def read(self, pages: PageFetcher, attempt: Attempt) -> Response:
        """Return a page, with the file of its origin, if its response disallows none of the purposes.

        Raises:
            PreferenceError: it does; the body is withheld.
            as `PageFetcher.read_page`.
        """
        given = attempt.request.options
        options: RequestOptions = {}
        for name in _PASSED_ON:
            if name in given:
                options[name] = given[name]
        if self._tdmrep:
            await self._file_of(str(attempt.request.url), pages, options)
        response = await pages.read_page(attempt)
        if self._tdmrep:
            response.tdmrep = await self._file_of(response.verdict.url, pages, options)
        self._check(response)
        return response

    async def open(self, pages: PageFetcher, attempt: Attempt) -> aiohttp.ClientResponse:
        """Return a page at its headers, if these disallow none of the purposes.

        Raises:
            PreferenceError: they do.
            as `PageFetcher.open_page`.
        """
        stream = await pages.open_page(attempt)
        if not attempt.request.is_page:
            return stream
        try:
            self._check(Response(stream.status, stream.headers, stream.url, (), b"", 0.0, 0.0, attempt.turn))
        except PreferenceError:
            await release(stream)
            raise
        return stream

    def _check(self, response: Response) -> None:
        if not self._purposes:
            return
        # Statements of robots.txt were checked with its rules.
        preferences = response._preferences(has_robots=False)
        refused = [name for name in self._purposes if preferences.preference(name) is Preference.DISALLOWED]
        if refused:
            raise PreferenceError(response.url, response.preferences, tuple(map(str, refused)))

    # The files.

    async def _file_of(self, url: str, pages: PageFetcher, options: RequestOptions) -> TdmRep:
        """Return the file of a URL's origin; wait for it if it is not known.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NestedTurnError: the request needs a turn that this task holds.
            GateClosedError: the gate was closed.
            BudgetExceededError, ProxyUnavailableError: nothing is recorded of the site.
        """
        site, flights = self._cache.site_at(url)[0], self._cache.flights
        file = f"{site.key}{TDMREP_PATH}"
        while site.tdmrep is None or not is_fresh(site.tdmrep[0], self._cache.scheduler.now()):
            work = partial(self._request, site, file, pages, options)
            flight = flights.get(file) or flights.begin(file, file, work)
            await flight.join()
        return _said(*site.tdmrep, self._cache.scheduler.now())

    async def _request(
        self, site: Site, url: str, pages: PageFetcher, options: RequestOptions, flight: Flight
    ) -> None:
        """Request a site's file, and keep what it says."""
        scheduler = self._cache.scheduler
        known, copy = site.tdmrep or (None, TdmRep())
        # Callers that hold the host's turn would wait for themselves.
        with flight.waiting_for(PacedTurn(site), scheduler):
            response = await _response_of(url, pages, options)
        now = scheduler.now()
        if isinstance(response, FetchResult):
            result = response
        else:
            # Without the body: it is kept as rules alone.
            answer = answer_of(response.status, response.headers, b"")
            redirects = tuple(hop.url for hop in response.history)
            result = FetchResult(outcome_of(response.status), answer, response.url, redirects)
            if result.outcome is Outcome.SUCCESS:
                copy = TdmRep.parse(response.body)
        site.tdmrep = settle(site.origin, result, previous=known, now=now, jitter=random.random()), copy


async def _response_of(url: str, pages: PageFetcher, options: RequestOptions) -> Response | FetchResult:
    """Return the response for a file, or why there is none.

    Raises:
        BudgetExceededError: a budget is used up, and nothing is left for the page either.
        ProxyUnavailableError: a proxy failed.
    """
    request = PageRequest(
        url,
        "GET",
        options,
        MAX_TDMREP_BYTES,
        max_redirects=MAX_REDIRECTS,
        priority=_PRIORITY,
        is_page=False,
    )
    outcome = Outcome.LOST
    try:
        # Its own use is not checked.
        return await pages.fetch(request, pages.read_page)
    except (BudgetExceededError, ProxyUnavailableError):
        raise
    except DisallowedError:
        cause = "robots.txt disallows the file"
    except ResponseTooLargeError:
        cause = f"longer than {MAX_TDMREP_BYTES:,} bytes, so it is not read"
    except (aiohttp.ClientError, OSError) as error:
        outcome, cause = Outcome.FAILURE, f"it could not be had: {type(error).__name__}"
    return FetchResult(outcome, Failure(cause), url)


def _said(record: RobotsRecord, copy: TdmRep, now: float) -> TdmRep:
    """What a file says now: its last good copy, nothing where there is no file, or why that is not known."""
    position, _ = standing(record, StatusPolicy.RFC9309, now)
    if position in (Standing.RULES, Standing.STALE_RULES):
        return copy
    is_unknown = position is Standing.CLOSED or record.outcome is Outcome.LOST
    return TdmRep(problem=record.cause if is_unknown else None)
