"""From a site to the URLs of its sitemaps: which files are fetched, and what happens where one is broken.

A file is read to its end before its first entry is given out, because its host's turn lasts until then. A loop that
fetches a page of the same host would otherwise wait for its own turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate.client.robots import broken_chunks
from robotgate.errors import GateClosedError, InvalidURLError, NestedTurnError, StoreError
from robotgate.events import logger, one_line
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.sitemaps.parse import PIECE_BYTES, BrokenSitemapError, SitemapEntry, SitemapFile
from robotgate.urls import Origin, parse_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from robotgate.client.fetch import PageFetch
    from robotgate.sites.record import RobotsRecord

HEADERS: Final = {"Accept": "application/xml,text/xml,text/plain;q=0.9,*/*;q=0.5", "Accept-Encoding": "gzip"}
"""Of a request for a sitemap, besides those that identify the crawler."""
MAX_INDEX_DEPTH: Final = 3
"""Of indexes within indexes, which sitemaps.org does not have, but sites do."""


@dataclass(frozen=True, slots=True)
class SitemapFault:
    """A sitemap that could not be read, or not to its end; or a robots.txt that names none."""

    url: str
    """Of the sitemap, or of the robots.txt that should name some."""
    cause: str
    """What is wrong, in words."""
    error: Exception | None = None
    """What `RobotGate.fetch` raised, if it did."""

    def __str__(self) -> str:
        return one_line(f"{self.url}: {self.cause}")


def log_fault(fault: SitemapFault) -> None:
    """Log a fault."""
    logger.warning("%s", fault)


@dataclass(slots=True)
class SitemapWalk:
    """One walk over the sitemaps of a site."""

    fetch: Callable[[str], PageFetch]
    """Begins to fetch a sitemap, with `HEADERS`, and leaves its Content-Encoding as it is."""
    max_sitemaps: int
    """Files that are fetched at most."""
    on_fault: Callable[[SitemapFault], object]
    """Called with each file that cannot be read."""
    _seen: set[str] = field(default_factory=set)
    _pending: list[tuple[str, int]] = field(default_factory=list)
    """URLs, and how many indexes led there; the next is the last."""

    async def of_site(
        self, robots: Callable[[], Awaitable[RobotsRecord]]
    ) -> AsyncGenerator[SitemapEntry, None]:
        """The entries of all sitemaps that a robots.txt names."""
        record = await robots()
        robots_url = record.origin.robots_url
        if record.failures and record.fetched_at is None:
            self._tell(robots_url, record.cause or "it cannot be read")
        elif not (named := RobotsTxt.parse(record.body).sitemaps):
            self._tell(robots_url, "it names no sitemap")
        else:
            self._add(named, robots_url)
        async for entry in self._entries():
            yield entry

    def of_sitemap(self, url: str) -> AsyncGenerator[SitemapEntry, None]:
        """The entries of one sitemap, or of all that an index names."""
        self._add([url], url)
        return self._entries()

    def _tell(self, url: str, cause: str, error: Exception | None = None) -> None:
        self.on_fault(SitemapFault(url, cause, error))

    async def _entries(self) -> AsyncGenerator[SitemapEntry, None]:
        while self._pending:
            url, depth = self._pending.pop()
            file = SitemapFile(url)
            origins = await self._read(file)
            if not file.is_index:
                for entry in file.entries:
                    yield entry
            elif depth == MAX_INDEX_DEPTH:
                self._tell(url, f"an index within {depth} others is not followed")
            else:
                self._add([entry.loc for entry in file.entries], url, depth + 1, origins)

    def _add(
        self, urls: Iterable[str], where: str, depth: int = 0, origins: set[Origin] | None = None
    ) -> None:
        """Take sitemaps to be fetched next, each once.

        Args:
            where: the URL of the file that names them.
            origins: those that they may be of; by default, of any.
        """
        found: list[tuple[str, int]] = []
        refused: list[str] = []
        for url in urls:
            try:
                key = str(parse_url(url).with_fragment(None))
                origin = Origin.of(key)
            except InvalidURLError:
                refused.append(url)
                continue
            if key in self._seen:
                continue
            if origins is not None and origin not in origins:
                refused.append(url)
            elif len(self._seen) >= self.max_sitemaps:
                self._tell(
                    where, f"more than {self.max_sitemaps:,} sitemaps (max_sitemaps): the rest is left out"
                )
                break
            else:
                self._seen.add(key)
                found.append((url, depth))
        if refused:
            kind = "no http or https URLs" if origins is None else "of another origin"
            self._tell(where, f"{len(refused)} sitemaps are {kind}, the first: {refused[0]!r:.300}")
        self._pending += reversed(found)

    async def _read(self, file: SitemapFile) -> set[Origin]:
        """Fetch a file, as far as it can be read; return the origins that it is of, before and after redirects.

        Raises:
            GateClosedError, NestedTurnError, StoreError: as `RobotGate.fetch`.
        """
        origins = {Origin.of(file.url)}
        try:
            async with self.fetch(file.url) as response:
                origins.add(Origin.of(response.url))
                await _feed(file, response)
        except (GateClosedError, NestedTurnError, StoreError):
            raise
        except BrokenSitemapError as error:
            file.break_off()
            self._tell(file.url, str(error))
        except (aiohttp.ClientError, OSError) as error:
            file.break_off()
            self._tell(file.url, f"{type(error).__name__}: {error}", error)
        if file.damaged:
            self._tell(
                file.url, f"{file.damaged:,} entries are damaged and left out, the first: {file.first_damage}"
            )
        if file.skipped:
            cause = f"entries without a usable URL: {file.skipped:,}, the first {file.first_skipped!r:.300}"
            self._tell(file.url, cause)
        return origins


async def _feed(file: SitemapFile, response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise BrokenSitemapError(f"HTTP status {response.status}")
    with broken_chunks():
        async for chunk in response.content.iter_chunked(PIECE_BYTES):
            for _ in file.feed(chunk):
                await asyncio.sleep(0)
    file.end()
