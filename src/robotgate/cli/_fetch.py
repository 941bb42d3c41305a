"""``robotgate fetch``: any number of URLs through one gate, in bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate import InvalidURLError, Origin
from robotgate.cli import _rows
from robotgate.cli._input import MAX_URL_OCTETS, read_urls
from robotgate.cli._progress import Outcome, Tally, progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from robotgate import RobotGate
    from robotgate.cli._rows import RowWriter

MAX_IN_HAND: Final = 20_000
"""URLs that are held in memory: enough that a list sorted by host still keeps many hosts busy."""
MAX_WORKERS: Final = 1000
"""Tasks, each with one host: a task spends most of its time waiting for its host's turn."""
PLAIN_PERIOD: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class HostQueues:
    """URLs in hand, by host. A host goes to one worker at a time: more could only wait for one another."""

    def __init__(self, max_in_hand: int) -> None:
        self._room = asyncio.Semaphore(max_in_hand)
        self._urls: dict[str, deque[str]] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()

    async def add(self, host: str, url: str) -> None:
        """Take in a URL, when there is room."""
        await self._room.acquire()
        urls = self._urls.get(host)
        if urls is not None:
            urls.append(url)
            return
        self._urls[host] = deque([url])
        self._ready.put_nowait(host)

    async def take(self) -> tuple[str, str]:
        """A host that no worker has, and its next URL."""
        host = await self._ready.get()
        return host, self._urls[host].popleft()

    def give_back(self, host: str) -> None:
        """The URL that was taken is done; the host goes to the end of the line."""
        self._room.release()
        if self._urls[host]:
            self._ready.put_nowait(host)
        else:
            del self._urls[host]
        self._ready.task_done()

    async def all_done(self) -> None:
        """Wait until nothing is left in hand."""
        await self._ready.join()


class Crawl:
    """One run of ``robotgate fetch``; its tally can be read whenever the run ends."""

    def __init__(
        self, gate: RobotGate, writer: RowWriter, *, timeout: float, max_workers: int = MAX_WORKERS
    ) -> None:
        self.tally = Tally()
        self._gate = gate
        self._writer = writer
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._max_workers = max_workers
        self._queues = HostQueues(MAX_IN_HAND)
        self._workers: set[asyncio.Task[None]] = set()

    async def run(self, urls: Iterable[str], descriptor: int | None, console: Console | None) -> None:
        """Fetch the URLs, and those that are read from the descriptor; progress goes to the console.

        Raises:
            OutputError: a row could not be written.
            OSError: the descriptor could not be read.
        """
        if console is None:
            await self._fetch(urls, descriptor)
            return
        async with progress(console, self.tally, plain_period=PLAIN_PERIOD):
            await self._fetch(urls, descriptor)

    async def _fetch(self, urls: Iterable[str], descriptor: int | None) -> None:
        try:
            async with self._gate, asyncio.TaskGroup() as tasks:
                await self._take_in(urls, tasks)
                if descriptor is not None:
                    await self._take_in_all(descriptor, tasks)
                await self._queues.all_done()
                for worker in self._workers:
                    worker.cancel()
        except BaseExceptionGroup as group:
            # Whichever of the workers failed first says it all.
            error = _leaf(group)
            raise error from error.__cause__

    async def _take_in_all(self, descriptor: int, tasks: asyncio.TaskGroup) -> None:
        async with aclosing(read_urls(descriptor)) as batches:
            async for batch in batches:
                await self._take_in(batch, tasks)
                await asyncio.sleep(0)

    async def _take_in(self, urls: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        for url in urls:
            try:
                host = _host(url)
            except InvalidURLError as error:
                self.tally.refuse(Outcome.INVALID)
                self._writer.write(_rows.invalid(url[:MAX_URL_OCTETS], error))
                continue
            await self._queues.add(host, url)
            self.tally.take(host)
            if len(self._workers) < self._max_workers:
                self._workers.add(tasks.create_task(self._work()))

    async def _work(self) -> None:
        while True:
            host, url = await self._queues.take()
            outcome, row = await self._fetch_one(url)
            self._writer.write(row)
            self.tally.finish(host, outcome)
            self._queues.give_back(host)

    async def _fetch_one(self, url: str) -> tuple[Outcome, _rows.Row]:
        try:
            response = await self._gate.fetch(url, timeout=self._timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return _rows.refused(url, error)
        return Outcome.FETCHED, _rows.fetched(url, response)


def _host(url: str) -> str:
    if len(url) > MAX_URL_OCTETS:
        raise InvalidURLError(url, f"the URL is longer than {MAX_URL_OCTETS} octets")
    return Origin.of(url).host


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
