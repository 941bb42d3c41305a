"""The use of pages at a gate: it refuses responses by its declared purposes, and requests tdmrep.json.

The file is kept like robots.txt: one request serves all tasks and processes, its record is also in the store and has
the same lifetime, and after a failure the last good copy holds. The request is that of a page: robots.txt may disallow
it, and it has the proxy of the page that needs the file. It serves no purpose, so the declared ones do not bind it, nor
requests for sitemaps.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate.client.fetch import Attempt, PageFetcher, PageRequest, RequestOptions, release
from robotgate.client.response import Response
from robotgate.client.robots import Flight, answer_of
from robotgate.errors import (
    DisallowedError,
    PreferenceError,
    ProxyUnavailableError,
    ResponseTooLargeError,
    RobotGateError,
)
from robotgate.options import StatusPolicy
from robotgate.preferences.read import preferences_of_response
from robotgate.preferences.robots import with_purposes
from robotgate.preferences.statement import Preference, purposes_of
from robotgate.preferences.tdmrep import MAX_TDMREP_BYTES, TDMREP_PATH, TdmRep
from robotgate.preferences.values import structured_fields
from robotgate.sites.record import Failure, FetchResult, Standing, is_fresh, newer, settle, standing
from robotgate.sites.status_table import MAX_REDIRECTS, Outcome, outcome_of

if TYPE_CHECKING:
    from robotgate.client.cache import SiteCache
    from robotgate.client.turns import Turns
    from robotgate.rules.rules import Rules
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import RulesCompiler, Site
    from robotgate.urls import Origin

_PRIORITY: Final = 1_000_000
_PASSED_ON: Final = ("proxy", "proxy_auth", "proxy_headers", "ssl", "server_hostname", "timeout")
"""Options of a page's request that its file is requested with: how its host is reached."""


class Uses:
    """Looks at responses, and has the tdmrep.json of origins requested.

    Args:
        purposes: what the crawler declares.
        tdmrep: whether files are requested.
        compiler: makes the rules of a robots.txt that are about paths alone.

    Raises:
        OptionError: an option makes no sense.
        ModuleNotFoundError: the extra ``preferences`` is not installed.
    """

    _pages: PageFetcher
    _turns: Turns
    _cache: SiteCache

    def __init__(self, purposes: object, *, tdmrep: bool, compiler: RulesCompiler) -> None:
        self._purposes = tuple(sorted(purposes_of(purposes)))
        structured_fields()
        self._tdmrep = tdmrep
        self._compiler = compiler

    def open(self, pages: PageFetcher, turns: Turns, cache: SiteCache) -> None:
        """Look at all pages from now on."""
        self._pages, self._turns, self._cache = pages, turns, cache
        pages.read, pages.open = self.read, self.stream

    def compile_rules(self, body: bytes, token: str, origin: Origin) -> Rules:
        """Make the rules of a robots.txt for a crawler that declares the purposes."""
        rules = self._compiler(body, token, origin)
        return with_purposes(rules, body, f"{origin}/", token, self._purposes) if self._purposes else rules

    async def read(self, attempt: Attempt) -> Response:
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
            await self._file_of(str(attempt.request.url), options)
        response = await self._pages.read_page(attempt)
        if self._tdmrep:
            response.tdmrep = await self._file_of(response.verdict.url, options)
        self._check(response)
        return response

    async def stream(self, attempt: Attempt) -> aiohttp.ClientResponse:
        """Return a page at its headers, if these disallow none of the purposes.

        Raises:
            PreferenceError: they do.
            as `PageFetcher.open_page`.
        """
        stream = await self._pages.open_page(attempt)
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
        preferences = preferences_of_response(response, has_robots=False)
        refused = [name for name in self._purposes if preferences.preference(name) is Preference.DISALLOWED]
        if refused:
            raise PreferenceError(response.url, response.preferences, tuple(map(str, refused)))

    # The files.

    async def _file_of(self, url: str, options: RequestOptions) -> TdmRep:
        """Return the file of a URL's origin; wait for it if it is not known.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NestedTurnError: the request needs a turn that this task holds.
            GateClosedError: the gate was closed.
            ProxyUnavailableError: a proxy failed, of which nothing is recorded.
            StoreError: the store failed.
        """
        site, flights = self._cache.site_at(url)[0], self._cache.flights
        key = site.origin.tdmrep.text
        while site.tdmrep is None or not self._is_fresh(site.tdmrep[0]):
            work = partial(self._find_out, site, options)
            flight = flights.get(key) or flights.begin(key, f"tdmrep.json of {site.key}", work)
            await flight.join()
        return site.tdmrep[1]

    def _is_fresh(self, record: RobotsRecord | None) -> bool:
        return record is not None and is_fresh(record, self._turns.now())

    async def _find_out(self, site: Site, options: RequestOptions, flight: Flight) -> None:
        """Load the record of a file, or request the file, as `SiteCache` does with robots.txt."""
        origin, turns, persistence = site.origin.tdmrep, self._turns, self._cache.persistence
        url = f"{site.key}{TDMREP_PATH}"
        turn = turns.make(url)
        async with persistence.stored(origin, self._is_fresh, flight, turn) as found:
            record, is_for_all = newer(found, site.tdmrep and site.tdmrep[0]), False
            if record is None or not self._is_fresh(record):
                # Callers that hold the host's turn would wait for themselves.
                with flight.waiting_for(turn, turns.scheduler):
                    result, is_for_all = await self._requested(url, options, MAX_TDMREP_BYTES)
                now, jitter = turns.now(), random.random()
                record = settle(origin, result, previous=record, now=now, jitter=jitter)
            site.tdmrep = record, _file_in(record, turns.now())
            if is_for_all:
                await persistence.save_record(record)

    async def _requested(self, url: str, options: RequestOptions, size: int) -> tuple[FetchResult, bool]:
        """Request a file. Return the result, and whether other crawlers that share the store would have it too."""
        request = PageRequest(
            url,
            "GET",
            options,
            size,
            allow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            priority=_PRIORITY,
            is_page=False,
        )
        try:
            # Its own use is not checked.
            response = await self._pages.answer(request, self._pages.read_page)
        except DisallowedError:
            return FetchResult(Outcome.LOST, Failure("robots.txt disallows the file"), url), False
        except ResponseTooLargeError:
            return FetchResult(
                Outcome.LOST, Failure(f"longer than {size:,} bytes, so it is not read"), url
            ), True
        except ProxyUnavailableError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            failure = Failure(f"it could not be had: {type(error).__name__}")
            return FetchResult(Outcome.FAILURE, failure, url), not isinstance(error, RobotGateError)
        answer = answer_of(response.status, response.headers, response.body, now=self._turns.now())
        redirects = tuple(hop.url for hop in response.history)
        return FetchResult(outcome_of(response.status), answer, response.url, redirects), True


def _file_in(record: RobotsRecord, now: float) -> TdmRep:
    """What the record of a file says: the last good copy, nothing where there is no file, or why that is not known."""
    position, _ = standing(record, StatusPolicy.RFC9309, now)
    if position in (Standing.RULES, Standing.STALE_RULES):
        return TdmRep.parse(record.body)
    is_unknown = position is Standing.CLOSED or record.outcome is Outcome.LOST
    return TdmRep(problem=record.cause if is_unknown else None)
