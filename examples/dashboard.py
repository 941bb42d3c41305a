"""Fetches URLs, and serves a page with the state of every host meanwhile, at http://127.0.0.1:8099/.

python examples/dashboard.py --contact you@example.org --port 8099 https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio

from robotgate import RobotGate
from robotgate.dashboard import serve


async def main(options: argparse.Namespace) -> None:
    """Fetch all URLs; the page has buttons, as only this machine can open it."""
    async with (
        RobotGate("ExampleStatus/1.0", contact=options.contact) as gate,
        serve(gate, port=options.port, controls=True) as page,
    ):
        print(f"dashboard: {page}")
        fetches = [gate.fetch(url) for url in options.urls]
        answers = await asyncio.gather(*fetches, return_exceptions=True)
    for url, answer in zip(options.urls, answers, strict=True):
        print(f"{url}: {answer if isinstance(answer, BaseException) else answer.status}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--port", type=int, default=8099, help="where the page is served")
    asyncio.run(main(parser.parse_args()))
