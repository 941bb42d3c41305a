"""Fetches pages by Crawlee, behind a gate: robots.txt is requested once, each host is paced.

python examples/with_crawlee.py --contact you@example.org https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import timedelta

from crawlee.crawlers import HttpCrawler, HttpCrawlingContext

from robotgate import RobotGate
from robotgate.integrations.crawlee import GateHttpClient


async def main(options: argparse.Namespace) -> None:
    """Fetch all URLs; Crawlee's timeout counts the waits for turns."""

    async def skipped(url: str, reason: str) -> None:
        print(f"{url}: {reason}")

    async with RobotGate("ExampleCrawlee/1.0", contact=options.contact) as gate:
        client = GateHttpClient(gate, on_skipped_request=skipped)
        crawler = HttpCrawler(
            http_client=client,
            navigation_timeout=timedelta(hours=1),  # type: ignore[call-arg]
            retry_on_blocked=False,
        )

        @crawler.router.default_handler
        async def visit(context: HttpCrawlingContext) -> None:
            print(f"{context.request.url}: {context.http_response.status_code}")

        await crawler.run(options.urls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    asyncio.run(main(parser.parse_args()))
