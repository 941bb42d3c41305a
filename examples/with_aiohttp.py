"""Fetches URLs with an aiohttp session, a task for each; prints how many came to which end.

python examples/with_aiohttp.py --contact you@example.org < urls.txt
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

from aiohttp import ClientError, ClientSession

from robotgate import RobotGate, gated_session


async def visit(session: ClientSession, url: str) -> str:
    """Fetch a URL as without a gate; return how it ended."""
    try:
        async with session.get(url) as response:
            await response.read()  # your own processing goes here
            return str(response.status)
    except (ClientError, TimeoutError) as error:
        return type(error).__name__


async def main(options: argparse.Namespace) -> None:
    """Begin all tasks at once: the gate orders them."""
    async with (
        RobotGate("ExampleClient/1.0", contact=options.contact, delay=options.delay) as gate,
        gated_session(gate) as session,
    ):
        ends = await asyncio.gather(*(visit(session, url) for url in sys.stdin.read().split()))
    for end, count in Counter(ends).most_common():
        print(f"{end}: {count}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--delay", type=float, default=1.0, help="seconds between two requests to a host")
    asyncio.run(main(parser.parse_args()))
