"""Two processes on one file, and a real server that sees what they do between them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web as aioweb
from tests.stores.crawl import Task

from robotgate import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gate.servers import Web

PROGRAM: Final = Path(__file__).with_name("crawl.py")
PATIENCE: Final = 60.0
TARDY: Final = 0.05
"""Seconds after which the server, which shares the machine with two crawlers, may note an end that they have seen."""
ANSWER: Final = 0.03
"""Seconds that a page takes."""


class Crawler:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def says(self, what: str) -> None:
        """Wait until it says so."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while what not in self.lines:
                line = await self.process.stdout.readline()
                assert line, f"it ended before it said {what}, after {self.lines}"
                self.lines.append(line.decode().strip())

    async def pages(self, count: int) -> None:
        """Wait until it has so many pages."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while sum(line.startswith("200 ") for line in self.lines) < count:
                line = await self.process.stdout.readline()
                assert line, f"it ended after {self.lines}"
                self.lines.append(line.decode().strip())

    async def kill(self) -> None:
        """Leave it no time for anything."""
        self.process.kill()
        await self.process.wait()

    @property
    def statuses(self) -> list[str]:
        """What became of its pages."""
        return [line.split()[0] for line in self.lines if len(line.split()) == 2]


@asynccontextmanager
async def crawler(task: Task) -> AsyncIterator[Crawler]:
    """A process that crawls; whatever is left of it when the test is over is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        json.dumps(asdict(task)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Crawler(process)
    finally:
        if process.returncode is None:
            process.kill()
        # Its output is read to the end, or the pipe would stay open.
        await process.communicate()


def pages(host: str, count: int, name: str = "page") -> list[str]:
    """So many pages of a host."""
    return [f"http://{host}/{name}{number}" for number in range(count)]


def serve(web: Web, urls: list[str], *, takes: float = ANSWER) -> None:
    """Pages that take a moment."""
    for url in urls:
        web.serve(url, b"a page", takes=takes)


def robots_txt(host: str) -> str:
    """The URL of a host's."""
    return f"http://{host}/robots.txt"


async def both_done(*crawlers: Crawler) -> None:
    """Wait for all of them."""
    await asyncio.gather(*(crawler.says("done") for crawler in crawlers))


@pytest.mark.parametrize("delay", [0.15, 0.02])
async def test_contending_processes_keep_the_pace_between_them(
    web: Web, tmp_path: Path, delay: float
) -> None:
    """At no host is a gap short, whoever was there before; every page comes, and one robots.txt serves both."""
    hosts = ["a.example", "b.example", "c.example"]
    tasks = []
    for name in ("one", "two"):
        urls = [url for host in hosts for url in pages(host, 6, name)]
        serve(web, urls)
        tasks.append(Task(file=str(tmp_path / "s.db"), port=web.port, urls=urls, delay=delay))
    async with crawler(tasks[0]) as one, crawler(tasks[1]) as two:
        await both_done(one, two)
    assert one.statuses + two.statuses == ["200"] * 36
    assert set(web.counts().values()) == {1}
    for host in hosts:
        assert web.count(robots_txt(host)) == 1
        gaps = web.gaps(host)
        assert len(gaps) == 12
        assert min(gaps) >= delay - TARDY
    store = SQLiteStore(tmp_path / "s.db")
    assert {key: state.visits async for key, state in store.hosts()} == dict.fromkeys(hosts, 13)
    await store.aclose()


@pytest.mark.slow
async def test_second_process_joins_one_that_is_at_work(web: Web, tmp_path: Path) -> None:
    """What the first has under way when the second comes is waited for, to its end and the delay after it."""
    file, delay = str(tmp_path / "s.db"), 0.2
    slow, late = "http://a.example/slow", pages("a.example", 3, "late")
    released = asyncio.Event()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await released.wait()
        return aioweb.Response(text="at last")

    web.handle(slow, answer)
    serve(web, late)
    async with crawler(Task(file=file, port=web.port, urls=[slow], delay=delay)) as one:
        await one.says("ready")
        await web.arrivals(2)
        async with crawler(Task(file=file, port=web.port, urls=late, delay=delay)) as two:
            await two.says("ready")
            # Longer than it takes the first to greet the second, and longer than the delay.
            await asyncio.sleep(2.0)
            assert len(web.visits) == 2
            released.set()
            await both_done(one, two)
    assert min(web.gaps("a.example")) >= delay - TARDY
    assert web.peak() == 1


@pytest.mark.slow
async def test_several_slots_are_shared(web: Web, tmp_path: Path) -> None:
    """Two at a time means two between them, and starts are a delay apart wherever they come from."""
    file, delay = str(tmp_path / "s.db"), 0.1
    tasks = []
    for name in ("one", "two"):
        urls = pages("a.example", 8, name)
        serve(web, urls, takes=0.35)
        tasks.append(Task(file=file, port=web.port, urls=urls, delay=delay, slots=2))
    async with crawler(tasks[0]) as one, crawler(tasks[1]) as two:
        await both_done(one, two)
    assert web.peak() == 2
    starts = sorted(visit.began_at for visit in web.visits)
    # Measured at the send; what the network adds differs from one request to the next.
    assert min(later - sooner for sooner, later in pairwise(starts)) >= delay - 0.03


@pytest.mark.slow
async def test_block_of_one_keeps_the_other_away(web: Web, tmp_path: Path) -> None:
    """A 429 that one is given is the other's as well, from the next request on."""
    file = str(tmp_path / "s.db")
    limited = "http://a.example/limited"
    web.serve(limited, status=429, headers={"Retry-After": "2"})
    others = pages("a.example", 100, "other")
    serve(web, others)
    async with crawler(Task(file=file, port=web.port, urls=others, delay=0.1)) as one:
        await one.pages(2)
        async with crawler(Task(file=file, port=web.port, urls=[limited], delay=0.1)) as two:
            await two.says("done")
            await one.says("done")
    (at,) = (visit.ended_at for visit in web.visits if visit.url == limited)
    assert at is not None
    following = [visit.began_at for visit in web.visits if visit.began_at > at]
    assert following
    assert min(following) >= at + 2.0


@pytest.mark.slow
async def test_killed_process_is_outlived(web: Web, tmp_path: Path) -> None:
    """The other goes on, at once where it can tell that it is gone, and leaves the delay to what that had under way."""
    file, delay = str(tmp_path / "s.db"), 0.2
    mine, its = pages("a.example", 12, "mine"), pages("a.example", 50, "its")
    serve(web, mine + its)
    async with (
        crawler(Task(file=file, port=web.port, urls=its, delay=delay)) as doomed,
        crawler(Task(file=file, port=web.port, urls=mine, delay=delay)) as one,
    ):
        await asyncio.gather(doomed.pages(3), one.pages(3))
        await doomed.kill()
        await one.says("done")
    assert one.statuses == ["200"] * 12
    assert min(web.gaps("a.example")) >= delay - TARDY
    assert web.count(robots_txt("a.example")) == 1


@pytest.mark.slow
async def test_both_killed_and_restarted(web: Web, tmp_path: Path) -> None:
    """Nothing is fetched sooner for it, and robots.txt is not fetched again."""
    file, delay = str(tmp_path / "s.db"), 0.3
    counts = {"one": 50, "two": 50, "three": 4, "four": 4}
    urls = {name: pages("a.example", count, name) for name, count in counts.items()}
    serve(web, [url for some in urls.values() for url in some])
    tasks = {name: Task(file=file, port=web.port, urls=some, delay=delay) for name, some in urls.items()}
    async with crawler(tasks["one"]) as one, crawler(tasks["two"]) as two:
        await asyncio.gather(one.pages(1), two.pages(1))
        await asyncio.gather(one.kill(), two.kill())
    async with crawler(tasks["three"]) as three, crawler(tasks["four"]) as four:
        await both_done(three, four)
    assert three.statuses + four.statuses == ["200"] * 8
    assert min(web.gaps("a.example")) >= delay - TARDY
    assert web.count(robots_txt("a.example")) == 1


@pytest.mark.slow
async def test_suspended_process_does_not_believe_that_it_is_alone(web: Web, tmp_path: Path) -> None:
    """Taken for gone, and awake again, it asks before it goes on; no gap is short, and nothing is forgotten."""
    file, delay = str(tmp_path / "s.db"), 0.5
    its, mine = pages("a.example", 6, "its"), pages("a.example", 6, "mine")
    serve(web, its + mine)
    async with AsyncExitStack() as stack:
        sleeper = await stack.enter_async_context(
            crawler(Task(file=file, port=web.port, urls=its, delay=delay))
        )
        await sleeper.pages(2)
        sleeper.process.send_signal(signal.SIGSTOP)
        one = await stack.enter_async_context(crawler(Task(file=file, port=web.port, urls=mine, delay=delay)))
        await one.pages(2)
        sleeper.process.send_signal(signal.SIGCONT)
        await both_done(sleeper, one)
    # What was under way when it was suspended ended whenever it liked; whatever began since keeps the delay.
    assert sleeper.statuses + one.statuses == ["200"] * 12
    assert min(web.gaps("a.example")) >= delay - TARDY
