"""What one ``await gate.allowed(url)`` costs when the rules are known: mean nanoseconds, at 1 to 100,000 hosts.

Beside it, in interleaved rounds of the same run: awaiting a coroutine that does nothing, which is the floor, and
Protego's ``can_fetch`` on one parsed copy of the same file, which has no host to look up.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from typing import TYPE_CHECKING, Final

from protego import Protego

from benchmarks._machine import describe
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AGENT: Final = "ExampleBot/1.0"
HOSTS: Final = (1, 1_000, 100_000)
ROUNDS: Final = 5
CALLS: Final = 100_000
"""Per round; also how many distinct URLs there are."""
ROBOTS_TXT: Final = b"""\
User-agent: GreedyBot
Disallow: /

User-agent: *
Allow: /search/about
Allow: /account/help$
Disallow: /search
Disallow: /account
Disallow: /cart
Disallow: /checkout/
Disallow: /internal/
Disallow: /print/
Disallow: /cgi-bin/
Disallow: /*?sort=
Disallow: /*.json$
Disallow: /*/reviews/

Sitemap: https://site.example/sitemap.xml
"""
PATHS: Final = (
    "/",
    "/search?q=a",
    "/search/about",
    "/item/%d",
    "/item/%d?sort=price",
    "/news/2026/%d.html",
    "/cart",
)


async def nothing(url: str) -> bool:
    """The least that an awaited answer can cost."""
    return bool(url)


def urls_over(hosts: int) -> list[str]:
    """As many URLs as there are calls, spread over the hosts in no order."""
    chance = random.Random(hosts)
    paths = [path % number if "%d" in path else path for number in range(1000) for path in PATHS]
    return [f"https://{chance.randrange(hosts)}.site.example{chance.choice(paths)}" for _ in range(CALLS)]


async def time_awaits(ask: Callable[[str], Awaitable[bool]], urls: list[str]) -> float:
    """Mean nanoseconds of one await, the loop's own cost included."""
    start = time.perf_counter_ns()
    for url in urls:
        await ask(url)
    return (time.perf_counter_ns() - start) / len(urls)


def time_calls(ask: Callable[[str, str], bool], urls: list[str]) -> float:
    """Mean nanoseconds of one call, the loop's own cost included."""
    start = time.perf_counter_ns()
    for url in urls:
        ask(url, AGENT)
    return (time.perf_counter_ns() - start) / len(urls)


async def measure(hosts: int) -> tuple[float, float, float]:
    """Medians over the rounds: gate, bare coroutine, Protego."""
    protego = Protego.parse(ROBOTS_TXT.decode())
    urls = urls_over(hosts)
    rounds: list[tuple[float, float, float]] = []
    async with RobotGate(AGENT, contact="bot@example.org") as gate:
        for number in range(hosts):
            gate.learn(f"https://{number}.site.example/", ROBOTS_TXT)
        await time_awaits(gate.allowed, urls)
        for _ in range(ROUNDS):
            ours = await time_awaits(gate.allowed, urls)
            bare = await time_awaits(nothing, urls)
            rounds.append((ours, bare, time_calls(protego.can_fetch, urls)))
    columns = zip(*rounds, strict=True)
    ours, bare, protegos = (statistics.median(column) for column in columns)
    return ours, bare, protegos


async def main() -> None:
    """Measures at each number of hosts."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(describe("robotgate", "protego", "yarl"))
    print(f"mean ns of {CALLS:,} calls, median of {ROUNDS} interleaved rounds")
    print(f"{'hosts':>8}  {'gate.allowed':>12}  {'bare await':>10}  {'Protego':>8}  {'gate/Protego':>12}")
    for hosts in HOSTS:
        ours, bare, protegos = await measure(hosts)
        print(f"{hosts:8,}  {ours:12,.0f}  {bare:10,.0f}  {protegos:8,.0f}  {ours / protegos:12.2f}")


if __name__ == "__main__":
    asyncio.run(main())
