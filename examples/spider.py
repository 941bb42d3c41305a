"""Follows the links of one or several sites: no page twice, and no host but those of the first URLs.

python examples/spider.py --contact you@example.org --limit 50 https://example.org/ https://www.example.org/
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
from typing import Final
from urllib.parse import urldefrag, urljoin, urlsplit

from aiohttp import ClientError, ClientTimeout

from robotgate import DisallowedError, Response, RobotGate

LINK: Final = re.compile(r"""<a\s(?:[^<>]*?\s)?href\s*=\s*["']([^"'<>]+)["']""", re.IGNORECASE)


class Spider:
    """Visits the links on the hosts of its first URLs, one task for each; the gate orders them."""

    def __init__(self, gate: RobotGate, starts: list[str], limit: int) -> None:
        self._gate, self._starts, self._limit = gate, starts, limit
        self._hosts = {urlsplit(start).netloc for start in starts}
        self._seen: set[str] = set()
        self._visits = asyncio.TaskGroup()

    async def run(self) -> None:
        """Visit all, and return."""
        async with self._visits:
            self._add("", self._starts)

    def _add(self, page: str, links: list[str]) -> None:
        for link in links:
            try:
                url = urldefrag(urljoin(page, html.unescape(link).strip())).url
                ours = urlsplit(url).netloc in self._hosts
            except ValueError:
                continue  # Not every href is a URL.
            if ours and url not in self._seen and len(self._seen) < self._limit:
                self._seen.add(url)
                self._visits.create_task(self._visit(url))

    async def _visit(self, url: str) -> None:
        try:
            response = await self._gate.fetch(url, allow_redirects=False, timeout=ClientTimeout(total=60))
        except DisallowedError as refused:
            print("not for us:", refused)
        except (ClientError, TimeoutError) as failed:
            print(f"{url}: {failed!r}")
        else:
            print(f"{response.status} {url} ({len(response.body)} bytes, waited {response.waited:.1f} s)")
            self._add(url, links_of(response))


def links_of(response: Response) -> list[str]:
    """The links of a page. A redirect is a link too, so that no page is visited twice."""
    if "Location" in response.headers:
        return [response.headers["Location"]]
    is_page = response.status == 200 and "html" in response.headers.get("Content-Type", "")
    return LINK.findall(response.text) if is_page else []


async def main(options: argparse.Namespace) -> None:
    """Crawl, within one gate."""
    async with RobotGate("ExampleSpider/1.0", contact=options.contact, max_bytes=2_000_000) as gate:
        await Spider(gate, options.urls, options.limit).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL", help="where to start")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--limit", type=int, default=100, help="URLs to ask for, at most")
    asyncio.run(main(parser.parse_args()))
