"""What spiders have that are written by hand: aiohttp, Protego, and a lock and a limiter for each host."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from protego import Protego

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import ClientSession
    from aiolimiter import AsyncLimiter

    Fetch = Callable[[str], Awaitable[object]]

AGENT: Final = "ExampleBot/1.0"


def fetch_by_hand(session: ClientSession, limiter: Callable[[], AsyncLimiter]) -> Fetch:
    """What fetches a page that its host's rules allow; they are asked for once, and at once.

    Args:
        limiter: makes that of a host's pages.
    """
    rules: dict[str, Protego] = {}
    locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
    limiters: defaultdict[str, AsyncLimiter] = defaultdict(limiter)

    async def fetch(url: str) -> None:
        origin = url.partition("/page/")[0]
        async with locks[origin]:
            if origin not in rules:
                body = await read(session, f"{origin}/robots.txt")
                rules[origin] = Protego.parse(body.decode(errors="replace"))
        if rules[origin].can_fetch(url, AGENT):
            async with limiters[origin]:
                await read(session, url)

    return fetch


async def read(session: ClientSession, url: str) -> bytes:
    """One page, to its end."""
    async with session.get(url) as response:
        return await response.read()
