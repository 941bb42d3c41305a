"""Crawlee, over hosts that are addresses; and behind a gate.

Its client is written in Rust and asks the system for names, which a program cannot answer in the system's place. So
its hosts are addresses of the loopback network, which no name service is asked for; that is kind to it. Behind a gate,
the gate's session sends its requests, to the hosts of all others.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import HttpClient, ImpitHttpClient
from crawlee.request_loaders import RequestList
from crawlee.storage_clients import MemoryStorageClient

from benchmarks._bench import cost_of, in_loop
from benchmarks._clients import open_gate
from robotgate.integrations.crawlee import GateHttpClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._bench import Cost


def crawl(urls: Sequence[str], tasks: int, *, is_gated: bool) -> Cost:
    """What Crawlee takes for them, robots.txt obeyed by it or, by `GateHttpClient`, by a gate.

    Raises:
        RuntimeError: some page did not come.
    """
    logging.disable(logging.WARNING)
    work = partial(_behind_gate, urls, tasks) if is_gated else partial(_by_itself, urls, tasks)
    return cost_of(partial(in_loop, "asyncio", work))


async def _by_itself(urls: Sequence[str], tasks: int) -> None:
    await _crawl(urls, tasks, ImpitHttpClient(), respect=True)


async def _behind_gate(urls: Sequence[str], tasks: int) -> None:
    async with open_gate() as gate:
        await _crawl(urls, tasks, GateHttpClient(gate), respect=False)


async def _crawl(urls: Sequence[str], tasks: int, client: HttpClient, *, respect: bool) -> None:
    async def handle(context: HttpCrawlingContext) -> None:
        await context.http_response.read()

    crawler = HttpCrawler(
        request_handler=handle,
        http_client=client,
        respect_robots_txt_file=respect,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=tasks, desired_concurrency=tasks, max_concurrency=tasks
        ),
        storage_client=MemoryStorageClient(),
        configure_logging=False,
    )
    statistics = await crawler.run(list(urls))
    if statistics.requests_finished != len(urls):
        raise RuntimeError(f"{statistics.requests_finished} pages of {len(urls)} came")


async def crawl_hosts(hosts: Sequence[str], rate: float) -> None:
    """Crawl hosts until the process is ended, so many pages a second of each at most."""
    logging.disable(logging.CRITICAL)
    service_locator.set_storage_client(MemoryStorageClient())

    async def handle(context: HttpCrawlingContext) -> None:
        await context.http_response.read()

    pages = (f"{host}/page/{page}" for page in count() for host in hosts)
    crawler = HttpCrawler(
        request_handler=handle,
        request_manager=await RequestList(pages).to_tandem(),
        respect_robots_txt_file=True,
        concurrency_settings=ConcurrencySettings(max_tasks_per_minute=60 * rate * len(hosts)),
        configure_logging=False,
    )
    await crawler.run()
