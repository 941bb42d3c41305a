"""Checks the links of a site, to itself and to others: prints the broken ones by page, and exits with 1.

python examples/link_checker.py --contact you@example.org https://example.org/
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
from urllib.parse import urldefrag, urljoin, urlsplit

from aiohttp import ClientError

from robotgate import DisallowedError, RobotGate

LINK = re.compile(rb"""<\w+\s(?:[^<>]*?\s)?(?:href|src)\s*=\s*["']([^"'<>]+)["']""", re.IGNORECASE)


class LinkChecker(asyncio.TaskGroup):
    """One task for each URL, on however many pages it stands; the gate orders and paces them."""

    def __init__(self, gate: RobotGate, start: str, limit: int) -> None:
        super().__init__()
        self._gate, self._site, self._limit = gate, urlsplit(start).netloc, limit
        self.pages: dict[str, set[str]] = {}  # on which a URL stands
        self.fates: dict[str, str] = {}  # of URLs with a problem

    def add(self, link: str, page: str) -> None:
        """Check a link of a page, if it is new."""
        try:
            link = urldefrag(urljoin(page, html.unescape(link).strip())).url
            if link.startswith("http") and link not in self.pages and len(self.pages) < self._limit:
                self.create_task(self._check(link))
        except ValueError:
            self.fates[link] = "broken, not a URL"
        self.pages.setdefault(link, set()).add(page)

    async def _check(self, url: str) -> None:
        try:
            if urlsplit(url).netloc == self._site or await self._ask(url, "HEAD") in {400, 403, 405, 501}:
                await self._ask(url, "GET")  # Some servers do not support HEAD.
        except (ClientError, TimeoutError) as error:
            is_refused = isinstance(error, DisallowedError)
            self.fates[url] = "disallowed" if is_refused else f"unreachable, {type(error).__name__}"

    async def _ask(self, url: str, method: str) -> int:
        async with self._gate.fetch(url, method, max_redirects=3) as response:
            self.fates[url] = f"moved to {response.url}" if str(response.url) != url else ""
            if response.status >= 400:
                self.fates[url] = f"broken, {response.status}"
            elif response.url.raw_authority == self._site and "html" in response.content_type:
                body = b""
                while len(body) < 2_000_000 and not response.content.at_eof():
                    body += await response.content.readany()
                for link in LINK.findall(body):
                    self.add(link.decode(errors="replace"), str(response.url))
        return response.status


async def main(options: argparse.Namespace) -> bool:
    """Check and report; return whether a link is broken or unreachable."""
    gate = RobotGate("ExampleLinkChecker/1.0", contact=options.contact)
    async with gate, LinkChecker(gate, options.url, options.limit) as checker:
        checker.add(options.url, "the command line")
    amiss = {url: fate for url, fate in sorted(checker.fates.items()) if fate}
    for url, fate in amiss.items():
        print(f"{url}: {fate}; on {', '.join(sorted(checker.pages[url]))}")
    return any(fate.startswith(("broken", "unreachable")) for fate in amiss.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="a page of the site")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--limit", type=int, default=10_000, help="URLs to ask for, at most")
    sys.exit(asyncio.run(main(parser.parse_args())))
