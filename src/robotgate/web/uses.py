"""The use of pages at a gate: it refuses responses by its declared purposes, and requests tdmrep.json.

The file is kept like robots.txt: one request serves all tasks and processes, its record is also in the store and has
the same lifetime, and after a failure the last good copy holds. The request is that of a page: robots.txt may disallow
it, and it has the proxy of the page that needs the file.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate.errors import (
    DisallowedError,
    GateClosedError,
    NestedTurnError,
    ResponseTooLargeError,
    RobotGateError,
    UsageError,
)
from robotgate.options import StatusPolicy, check_kind
from robotgate.sites.record import Failure, FetchResult, Standing, is_fresh, newer, settle, standing
from robotgate.sites.status import Outcome, outcome_of
from robotgate.urls import Origin
from robotgate.web.fetch import PageRequest, release
from robotgate.web.persistence import alone
from robotgate.web.response import Response
from robotgate.web.robots import answer_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate.sites.record import RobotsRecord
    from robotgate.usage import TdmRep
    from robotgate.web.fetch import Attempt, PageFetcher, RequestOptions
    from robotgate.web.persistence import Persistence
    from robotgate.web.robots import Flight, Flights
    from robotgate.web.turns import Turns

_MAX_WAIT: Final = 300.0
"""Seconds that its turn may wait."""
_PRIORITY: Final = 1_000_000
_MAX_REDIRECTS: Final = 5
_PASSED_ON: Final = ("proxy", "proxy_auth", "proxy_headers", "ssl", "timeout")
"""Options of a page's request that its file is requested with: how its host is reached."""


class Uses:
    """Looks at responses, and keeps the tdmrep.json of origins.

    Args:
        purposes: what the crawler declares.
        tdmrep: whether files are requested.
        max_origins: how many are kept.

    Raises:
        OptionError: an option makes no sense.
        ModuleNotFoundError: the extra ``usage`` is not installed.
    """

    _fetcher: PageFetcher
    _turns: Turns
    _flights: Flights
    _persistence: Persistence | None

    def __init__(self, purposes: object, *, tdmrep: bool, max_origins: int) -> None:
        from robotgate.usage.statement import purposes_of  # noqa: PLC0415  # Few gates look at the use of pages.
        from robotgate.usage.values import structured_fields  # noqa: PLC0415  # As above.

        self._purposes = tuple(sorted(purposes_of(purposes)))
        structured_fields()
        self._tdmrep = tdmrep
        self._max_origins = max_origins
        self._kept: dict[str, tuple[RobotsRecord, TdmRep]] = {}
        """The files in memory: by origin as text, each record and what it says."""

    def open(
        self, fetcher: PageFetcher, turns: Turns, flights: Flights, persistence: Persistence | None
    ) -> None:
        """Begin to work."""
        self._fetcher, self._turns = fetcher, turns
        self._flights, self._persistence = flights, persistence

    @classmethod
    def of(cls, purposes: object, *, tdmrep: bool, max_origins: int) -> Uses | None:
        """What a gate's options ask for; None for nothing.

        Raises:
            as the constructor.
        """
        check_kind("tdmrep", tdmrep, bool)
        if not tdmrep and isinstance(purposes, Collection) and not purposes:
            return None
        return cls(purposes, tdmrep=tdmrep, max_origins=max_origins)

    async def read(self, read: Callable[[Attempt], Awaitable[Response]], attempt: Attempt) -> Response:
        """Return a page, with the file of its origin, if its response disallows none of the purposes.

        Raises:
            UsageError: it does; the body is withheld.
            whatever `read` raises.
        """
        given = attempt.request.options
        options: RequestOptions = {}
        for name in _PASSED_ON:
            if name in given:
                options[name] = given[name]
        if self._tdmrep:
            await self._file_of(str(attempt.request.url), options)
        response = await read(attempt)
        if self._tdmrep:
            response.tdmrep = await self._file_of(response.verdict.url, options)
        self._check(response)
        return response

    async def stream(
        self, open_page: Callable[[Attempt], Awaitable[aiohttp.ClientResponse]], attempt: Attempt
    ) -> aiohttp.ClientResponse:
        """Return a page at its headers, if these disallow none of the purposes.

        Raises:
            UsageError: they do.
            whatever `open_page` raises.
        """
        stream = await open_page(attempt)
        try:
            self._check(Response(stream.status, stream.headers, stream.url, (), b"", 0.0, 0.0, attempt.turn))
        except UsageError:
            await release(stream)
            raise
        return stream

    def _check(self, response: Response) -> None:
        if not self._purposes:
            return
        from robotgate.usage import Preference  # noqa: PLC0415  # As above.
        from robotgate.usage.read import usage_of_response  # noqa: PLC0415  # As above.

        # Statements of robots.txt were checked with its rules.
        usage = usage_of_response(response, has_robots=False)
        refused = [name for name in self._purposes if usage.preference(name) is Preference.DISALLOWED]
        if refused:
            raise UsageError(response.url, response.usage, tuple(map(str, refused)))

    # The files.

    async def _file_of(self, url: str, options: RequestOptions) -> TdmRep:
        """Return the file of a URL's origin; wait for it if it is not known.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NestedTurnError: the request needs a turn that this task holds.
            GateClosedError: the gate was closed.
            StoreError: the store failed.
        """
        origin = Origin.of(url)
        while True:
            kept = self._kept.get(origin.text)
            if kept is not None and is_fresh(kept[0], self._turns.now()):
                return kept[1]
            key = origin.tdmrep.text
            flight = self._flights.get(key)
            if flight is None:
                work = partial(self._find_out, origin, options)
                flight = self._flights.begin(key, f"tdmrep.json of {origin}", work)
            await flight.join()

    async def _find_out(self, origin: Origin, options: RequestOptions, flight: Flight) -> None:
        """Load the record of a file, or request the file, as `SiteCache` does with robots.txt."""
        from robotgate.usage.tdmrep import MAX_TDMREP_BYTES, TDMREP_PATH  # noqa: PLC0415  # As above.

        key, turns, store = origin.tdmrep, self._turns, self._persistence
        url = f"{origin}{TDMREP_PATH}"
        kept = self._kept.get(origin.text)
        record, is_for_all = None if kept is None else kept[0], False
        async with AsyncExitStack() as stack:
            if store is not None:
                record = newer(await store.load_record(key), record)
            if record is None or not is_fresh(record, turns.now()):
                # Callers that hold the host's turn would wait for themselves.
                stack.enter_context(flight.waiting_for(turns.make(url), turns.scheduler))
                if store is not None and store.session is not None:
                    await stack.enter_async_context(alone(store.session, key))
                    # Another process may have requested it while this one waited.
                    record = newer(await store.load_record(key), record)
            if record is None or not is_fresh(record, turns.now()):
                result, is_for_all = await self._requested(url, options)
                now, jitter = turns.now(), random.random()
                record = settle(
                    key, result, previous=record, now=now, jitter=jitter, max_bytes=MAX_TDMREP_BYTES
                )
            self._keep(origin, record)
            if store is not None and is_for_all:
                await store.save_record(record)

    def _keep(self, origin: Origin, record: RobotsRecord) -> None:
        self._kept.pop(origin.text, None)
        self._kept[origin.text] = record, _file_in(record, self._turns.now())
        if len(self._kept) > self._max_origins:
            del self._kept[next(iter(self._kept))]

    async def _requested(self, url: str, options: RequestOptions) -> tuple[FetchResult, bool]:
        """Request a file. Return the result, and whether other crawlers that share the store would have it too."""
        from robotgate.usage.tdmrep import MAX_TDMREP_BYTES  # noqa: PLC0415  # As above.

        fetcher = self._fetcher
        request = PageRequest(
            url,
            "GET",
            options,
            MAX_TDMREP_BYTES,
            allow_redirects=True,
            max_redirects=_MAX_REDIRECTS,
            priority=_PRIORITY,
            max_wait=_MAX_WAIT,
        )
        try:
            # Its own use is not checked.
            response = await fetcher.answer(request, fetcher.read_page)
        except (GateClosedError, NestedTurnError):
            raise
        except DisallowedError:
            return FetchResult(Outcome.LOST, Failure("robots.txt disallows the file"), url), False
        except ResponseTooLargeError:
            cause = f"longer than {MAX_TDMREP_BYTES:,} bytes, so it is not read"
            return FetchResult(Outcome.LOST, Failure(cause), url), True
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure = Failure(f"it could not be had: {type(error).__name__}")
            return FetchResult(Outcome.FAILURE, failure, url), not isinstance(error, RobotGateError)
        answer = answer_of(response.status, response.headers, response.body, now=self._turns.now())
        redirects = tuple(hop.url for hop in response.history)
        return FetchResult(outcome_of(response.status), answer, response.url, redirects), True


def _file_in(record: RobotsRecord, now: float) -> TdmRep:
    """What the record of a file says: the last good copy, nothing where there is no file, or why that is not known."""
    from robotgate.usage.tdmrep import TdmRep  # noqa: PLC0415  # As above.

    position, _ = standing(record, StatusPolicy.RFC9309, now)
    if position in (Standing.RULES, Standing.STALE_RULES):
        return TdmRep.parse(record.body)
    if position is Standing.CLOSED or record.outcome is Outcome.LOST:
        return TdmRep(problem=record.cause)
    return TdmRep()
