"""Twenty hosts crawled at once over real connections: the pace of each, measured at its server.

What the delay is promised for is the time from the end of one answer to the next request of that host, the one for
robots.txt included.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web as aioweb
from tests.gate.crawlers import crawler, text
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.conftest import OpenGate
    from tests.gate.servers import Visit, Web


HOSTS: Final = [f"{number}.example" for number in range(20)]
DELAY: Final = 0.1
GRAIN: Final = 1e-6
"""Seconds; what the gate takes for the same instant."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A crawl."""

    pages: int
    """Of each host."""
    takes: tuple[float, float] = (0.0, 0.0)
    """Seconds that a page takes its server: from, to."""
    left_out: float = 0.0
    """The share of requests that are cancelled, at random moments."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """What came of a plan."""

    served: set[str]
    """URLs whose reader had the whole page."""
    gave_up_at: dict[str, float]
    """When the task that asked for a URL was cancelled, on the clock of the servers."""


PLANS: Final = {
    "quick": ("fetch", Plan(pages=6)),
    "storm": ("fetch", Plan(pages=12, left_out=0.5)),
    "slow storm, by the middleware": ("middleware", Plan(pages=8, takes=(0.05, 0.15), left_out=0.5)),
}
"""By which door, and what."""


def serve_pages(web: Web, plan: Plan) -> None:
    """Have each host's page take the time it takes."""

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await asyncio.sleep(pauses.uniform(*plan.takes))
        return aioweb.Response(text="a page")

    pauses = random.Random(4)
    for name in HOSTS:
        web.handle(f"http://{name}/page", answer)


async def crawl(plan: Plan, read: Callable[[str], Awaitable[object]]) -> Crawl:
    """Request every page at once, and cancel the tasks that the plan names; return when all tasks have ended."""
    crawl = Crawl(set(), {})
    chances = random.Random(50)
    loop = asyncio.get_running_loop()

    async def visit(url: str) -> None:
        await read(url)
        crawl.served.add(url)

    def give_up(url: str) -> None:
        crawl.gave_up_at[url] = time.monotonic()
        tasks[url].cancel()

    urls = [f"http://{name}/page?{page}" for page in range(plan.pages) for name in HOSTS]
    tasks = {url: asyncio.create_task(visit(url)) for url in urls}
    mean = DELAY + sum(plan.takes) / 2
    for url in chances.sample(urls, int(len(urls) * plan.left_out)):
        loop.call_later(chances.uniform(0.0, plan.pages * (1 - plan.left_out) * mean), give_up, url)
    outcomes = await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), asyncio.CancelledError}
    return crawl


def short_gaps(visits: Sequence[Visit], crawl: Crawl) -> list[float]:
    """The times between an answer's end and the next request that are less than the delay, of one host.

    An answer ends for whoever hangs up when he does; his server hears of it later.
    """
    gaps = []
    for earlier, later in pairwise(visits):
        assert earlier.ended_at is not None
        end = min(earlier.ended_at, crawl.gave_up_at.get(earlier.url, earlier.ended_at))
        gaps.append(later.began_at - end)
    return [gap for gap in gaps if gap < DELAY - GRAIN]


@pytest.mark.parametrize(("door", "plan"), PLANS.values(), ids=PLANS)
async def test_twenty_hosts(web: Web, open_gate: OpenGate, door: str, plan: Plan) -> None:
    """No request comes too soon after the answer before it, and all who stay are served."""
    gate = await open_gate(delay=DELAY)
    serve_pages(web, plan)
    async with crawler(web, gate.middleware) as session:
        result = await crawl(plan, lambda url: text(gate, url, door, session))
    # Whoever hung up last: his server may not have noticed yet.
    await until(lambda: all(visit.ended_at is not None for visit in web.visits))
    for name in HOSTS:
        visits = [visit for visit in web.visits if visit.host == name]
        assert visits[0].url == f"http://{name}/robots.txt"
        assert short_gaps(visits, result) == []
        view = gate.host(f"http://{name}/")
        assert (view.waiting, view.open_turns) == (0, 0)
        # Who is cancelled with a turn in hand may not have sent anything yet.
        assert view.visits >= len(visits) if result.gave_up_at else view.visits == len(visits)
    assert len(result.served | set(result.gave_up_at)) == len(HOSTS) * plan.pages
    assert {visit.url for visit in web.visits} >= result.served
