"""Fetches URLs with requests, in threads: each waits for its host's turn.

python examples/with_requests.py --contact you@example.org https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio
from concurrent.futures import ThreadPoolExecutor

import requests

from robotgate import RobotGate, RobotGateError


def visit(gate: RobotGate, url: str) -> None:
    """Fetch a URL, in a thread."""
    try:
        with gate.threadsafe.turn(url) as turn:
            try:
                page = requests.get(turn.url, headers=turn.headers(), timeout=60, allow_redirects=False)
            except requests.exceptions.ConnectionError:
                turn.report_unreachable("no connection")
                raise
            except requests.exceptions.Timeout:
                turn.report(error=TimeoutError())
                raise
            turn.report(page.status_code, page.headers, len(page.content))
        print(f"{url}: {page.status_code}, {len(page.content)} bytes")
    except (RobotGateError, requests.exceptions.RequestException) as error:
        print(f"{url}: {error}")


async def main(options: argparse.Namespace) -> None:
    """Run the gate while threads visit the URLs."""
    loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(20)
    async with RobotGate("ExampleThreads/1.0", contact=options.contact) as gate:
        visits = [loop.run_in_executor(pool, visit, gate, url) for url in options.urls]
        await asyncio.gather(*visits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    asyncio.run(main(parser.parse_args()))
