"""What a gate does about the use of pages: refuses responses by its declared purposes, and requests tdmrep.json.

A file is requested once for each origin, in a turn of its host, by the first task that needs it; the others wait for
that. What fails is requested again after some minutes, and until then is no reservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate.errors import (
    DisallowedError,
    GateClosedError,
    NestedTurnError,
    ResponseTooLargeError,
    UsageError,
)
from robotgate.options import check_kind
from robotgate.urls import Origin
from robotgate.web.fetch import PageFetch
from robotgate.web.response import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate.usage import TdmRep
    from robotgate.web.fetch import PageFetcher, RequestOptions
    from robotgate.web.turns import Turns

TDMREP_LIFETIME: Final = 86_400.0
"""Seconds for which a file is used, or known to be absent."""
RETRY_DELAY: Final = 300.0
"""Seconds until a file that could not be had is requested again."""
_MAX_WAIT: Final = 300.0
"""Seconds that its turn may wait."""
_PRIORITY: Final = 1_000_000
_MAX_REDIRECTS: Final = 5
_PASSED_ON: Final = ("proxy", "proxy_auth", "proxy_headers", "ssl", "timeout")
"""Options of a page's request that its file is requested with: how its host is reached."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file, and until when it is used."""

    file: TdmRep
    until_at: float


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

    def __init__(self, purposes: object, *, tdmrep: bool, max_origins: int) -> None:
        from robotgate.usage.statement import purposes_of  # noqa: PLC0415  # Few gates look at the use of pages.
        from robotgate.usage.values import structured_fields  # noqa: PLC0415  # As above.

        self._purposes = tuple(sorted(purposes_of(purposes)))
        structured_fields()
        self._tdmrep = tdmrep
        self._max_origins = max_origins
        self._kept: dict[str, _Kept] = {}
        self._under_way: dict[str, asyncio.Future[None]] = {}
        """For each origin whose file is requested, a future that ends with that."""
        self._fetcher: PageFetcher | None = None
        self._turns: Turns | None = None

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

    def open(self, fetcher: PageFetcher, turns: Turns) -> None:
        """Begin to work."""
        self._fetcher, self._turns = fetcher, turns

    async def fetched(self, read: Callable[[PageFetch], Awaitable[Response]], fetch: PageFetch) -> Response:
        """Return a page, with the file of its origin, if its response disallows none of the purposes.

        Raises:
            UsageError: it does; the body is withheld.
            whatever `read` raises.
        """
        options: RequestOptions = {}
        for name in _PASSED_ON:
            if name in fetch.options:
                options[name] = fetch.options[name]
        if self._tdmrep:
            await self._file_of(str(fetch.given), options)
        response = await read(fetch)
        if self._tdmrep:
            response.tdmrep = await self._file_of(response.verdict.url, options)
        self._check(response)
        return response

    def check_headers(self, fetch: PageFetch, response: aiohttp.ClientResponse) -> None:
        """Check a response whose body has not been read.

        Raises:
            UsageError: its robots.txt or headers disallow one of the purposes.
        """
        verdict = fetch.turn.verdict
        self._check(Response(response.status, response.headers, response.url, (), b"", 0.0, 0.0, verdict))

    def _check(self, response: Response) -> None:
        if not self._purposes:
            return
        from robotgate.usage import Preference  # noqa: PLC0415  # As above.
        from robotgate.usage.read import usage_of_response  # noqa: PLC0415  # As above.

        # The rules have refused what robots.txt disallows.
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
        """
        from robotgate.usage.tdmrep import TDMREP_PATH  # noqa: PLC0415  # As above.

        fetcher, turns = self._fetcher, self._turns
        if fetcher is None or turns is None:
            raise GateClosedError
        origin = Origin.of(url).text
        file_url = f"{origin}{TDMREP_PATH}"
        while True:
            kept = self._kept.get(origin)
            if kept is not None and turns.now() < kept.until_at:
                return kept.file
            nested = turns.scheduler.nested(turns.make(file_url), asyncio.current_task())
            if nested is not None:
                raise nested
            under_way = self._under_way.get(origin)
            if under_way is not None:
                # If the task that requests it is cancelled, one of those that wait goes on.
                await asyncio.shield(under_way)
                continue
            done = self._under_way[origin] = asyncio.get_running_loop().create_future()
            try:
                file, lifetime = await self._requested(fetcher, file_url, options)
                self._keep(origin, _Kept(file, turns.now() + lifetime))
                return file
            finally:
                del self._under_way[origin]
                done.set_result(None)

    def _keep(self, origin: str, kept: _Kept) -> None:
        self._kept.pop(origin, None)
        self._kept[origin] = kept
        if len(self._kept) > self._max_origins:
            del self._kept[next(iter(self._kept))]

    async def _requested(
        self, fetcher: PageFetcher, url: str, options: RequestOptions
    ) -> tuple[TdmRep, float]:
        """Request a file. Return it, and for how many seconds it is used."""
        from robotgate.usage.tdmrep import MAX_TDMREP_BYTES, TdmRep  # noqa: PLC0415  # As above.

        fetch = PageFetch(
            fetcher, url, "GET", options, _PRIORITY, _MAX_WAIT, MAX_TDMREP_BYTES, _MAX_REDIRECTS + 1
        )
        # It is read without a look at its own use.
        fetch.close()
        try:
            response = await fetcher.read_page(fetch)
        except DisallowedError:
            return TdmRep(problem="robots.txt disallows the file"), TDMREP_LIFETIME
        except ResponseTooLargeError:
            return TdmRep(
                problem=f"longer than {MAX_TDMREP_BYTES:,} bytes, so it is not read"
            ), TDMREP_LIFETIME
        except (GateClosedError, NestedTurnError):
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return TdmRep(problem=f"it could not be had: {type(error).__name__}"), RETRY_DELAY
        if response.status == 200:
            return TdmRep.parse(response.body), TDMREP_LIFETIME
        if 400 <= response.status < 500 and response.status != 429:
            return TdmRep(), TDMREP_LIFETIME
        return TdmRep(problem=f"it was answered with status {response.status}"), RETRY_DELAY
