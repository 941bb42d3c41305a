"""Follows the links of one site, politely: ``python examples/spider.py https://example.org/ you@example.org 50``."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Final
from urllib.parse import urldefrag, urljoin, urlsplit

from aiohttp import ClientError

from robotgate import DisallowedError, HostUnavailableError, Response, RobotGate

LINK: Final = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"'<>]+)["']""", re.IGNORECASE)


class Spider:
    """Visits what it finds on one site, until there is nothing new or the limit is reached.

    Every page is a task of its own, started as soon as its link is seen: the gate sees to their order and pace.
    """

    def __init__(self, gate: RobotGate, start: str, limit: int) -> None:
        self._gate = gate
        self._start = start
        self._limit = limit
        self._seen: set[str] = set()
        self._visits = asyncio.TaskGroup()

    async def run(self) -> None:
        """Return when every page found has been dealt with."""
        async with self._visits:
            self._add(self._start)

    def _add(self, url: str) -> None:
        new = url not in self._seen and len(self._seen) < self._limit
        if new and urlsplit(url).netloc == urlsplit(self._start).netloc:
            self._seen.add(url)
            self._visits.create_task(self._visit(url))

    async def _visit(self, url: str) -> None:
        try:
            response = await self._gate.fetch(url)
        except DisallowedError as refused:
            print("not for us:", refused)
        except HostUnavailableError as down:
            print(f"{url}: come back in {down.retry_after:.0f} s ({down.cause})")
        except (ClientError, TimeoutError) as failed:
            print(f"{url}: {failed!r}")
        else:
            print(
                f"{response.status} {response.url} ({len(response.body)} bytes, waited {response.waited:.1f} s)"
            )
            self._follow(response)

    def _follow(self, response: Response) -> None:
        if response.status != 200 or "html" not in response.headers.get("Content-Type", ""):
            return
        for href in LINK.findall(response.text):
            try:
                self._add(urldefrag(urljoin(response.url, href)).url)
            except ValueError:
                continue  # Not every href is a URL.


async def main(start: str, contact: str, limit: int) -> None:
    """Crawl one site."""
    async with RobotGate("ExampleSpider/1.0", contact=contact) as gate:
        await Spider(gate, start, limit).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
