"""Serves the demonstration's sites in this process, and crawls them through robotgate in one or more others.

``python -m robotgate.demo.crawl`` is one of these others. It reads its `Order` from standard input as a line of
JSON, and writes a line of one word for each URL that has ended. It ends at once when its standard input does, because
then its parent has ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate import DisallowedError, HostUnavailableError, RobotGate, StoreError, TooSoonError
from robotgate.demo import servers
from robotgate.demo.sites import FLOOR_DELAY, Plan, draw_plan

if TYPE_CHECKING:
    from collections.abc import Callable

CONTACT: Final = "demo@robotgate.example"
USES: Final = {"ai_train"}
"""What the crawler declares to do with pages: some sites refuse it."""
PATIENCE: Final = 2.0
"""Seconds for which a Redis server may not answer before the crawl begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one process has to crawl."""

    seed: int
    page_count: int
    workers: int = 1
    """How many processes there are."""
    worker: int = 1
    """Which one this is, from 1."""
    port: int = 0
    """Where the proxy to the sites listens."""
    store: str | None = None
    """What the processes share: the path of a file, or the URL of a server; None: the gate remembers in memory."""
    prefix: str | None = None
    """Of the keys in a server; None for a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A demonstration that has ended."""

    plan: Plan
    visits: tuple[servers.Visit, ...]
    """What the server logged."""
    worst_lag: float
    """Seconds by which the server's clock readings were late at worst."""
    elapsed: float
    """Seconds that the crawl took, the start of the processes included."""


async def run_demo(order: Order, done: Callable[[str], object]) -> Run:
    """Serve the sites, and fetch their pages.

    Args:
        order: for all processes.
        done: called when a URL has ended, with a word that says how.

    Raises:
        DemoError: a worker died.
        OptionError: the store is not one that can be used.
        StoreError: the store does not answer.
    """
    began_at = time.monotonic()
    plan, visits = draw_plan(order.seed, order.page_count), list[servers.Visit]()
    server = servers.SiteServer(plan, lambda _, visit: visits.append(visit))
    async with AsyncExitStack() as stack, servers.listening(server, 0) as port, servers.measured_lag() as lag:
        shared = await _shared(order, stack)
        try:
            async with asyncio.TaskGroup() as tasks:
                for worker in range(1, order.workers + 1):
                    tasks.create_task(_follow(replace(shared, worker=worker, port=port), done))
        except ExceptionGroup as group:
            # The first worker that died is the reason.
            raise group.exceptions[0] from None
        elapsed = time.monotonic() - began_at
    return Run(plan=plan, visits=tuple(visits), worst_lag=lag[0], elapsed=elapsed)


async def _follow(order: Order, done: Callable[[str], object]) -> None:
    """Start a worker, report what it does until it ends, and end it with this task."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "robotgate.demo.crawl"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C at a terminal reaches the parent alone, which decides when the others end.
        process_group=0,
    )
    try:
        if process.stdin is not None:
            # Standard input stays open: its end would end the worker.
            process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        while process.stdout is not None and (line := await process.stdout.readline()):
            done(line.decode().strip())
        if await process.wait():
            raise servers.DemoError(f"worker {order.worker} of the demonstration died")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _shared(order: Order, stack: AsyncExitStack) -> Order:
    """The order with a store in which nothing is known yet, if it needs one. What is in it is removed by the stack."""
    if order.store is None and order.workers > 1:
        folder = TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True)
        return replace(order, store=str(Path(stack.enter_context(folder)) / "demo.db"))
    if order.store is None or "://" not in order.store:
        return order
    # Installed only with the extra.
    from robotgate.stores.redis import RedisStore  # noqa: PLC0415
    from robotgate.stores.redis.client import client_of  # noqa: PLC0415

    # No other program uses such keys.
    prefix = f"robotgate-demo:{secrets.token_hex(8)}:"
    client = client_of(order.store)
    stack.push_async_callback(client.aclose)

    async def delete_keys() -> None:
        async for key in client.scan_iter(match=f"{prefix}*"):
            await client.delete(key)

    # A server that does not answer is reported before anything starts.
    async with RedisStore(client, prefix=prefix, patience=PATIENCE):
        stack.push_async_callback(delete_keys)
    return replace(order, prefix=prefix)


async def _work(order: Order) -> None:
    """Fetch this worker's share of the URLs, each in a task of its own."""
    # With N workers, each takes every Nth URL, so that it has some of every larger site.
    urls = draw_plan(order.seed, order.page_count).urls[order.worker - 1 :: order.workers]
    from robotgate.signing import Ed25519Signer, SigningKey  # noqa: PLC0415 - installed only with the extra

    async with AsyncExitStack() as stack:
        store: RedisStore | str | None = order.store
        if order.store is not None and order.prefix is not None:
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415 - installed only with the extra

            store = await stack.enter_async_context(RedisStore(order.store, prefix=order.prefix))
        agent, proxy = servers.agent_of(order.worker), f"http://{servers.LOOPBACK}:{order.port}"
        http = aiohttp.ClientSession(proxy=proxy, connector=aiohttp.TCPConnector(limit=0))
        signer = Ed25519Signer(SigningKey(servers.SECRET), agent_url="https://crawler.test")
        gate = RobotGate(
            agent, contact=CONTACT, session=http, delay=FLOOR_DELAY, store=store, signer=signer, purposes=USES
        )
        async with http, gate, asyncio.TaskGroup() as tasks:
            for url in urls:
                tasks.create_task(_fetch(gate, url))


async def _fetch(gate: RobotGate, url: str) -> None:
    try:
        await gate.fetch(url)
        outcome = "fetched"
    except DisallowedError:
        outcome = "blocked"
    except (HostUnavailableError, TooSoonError):
        outcome = "unavailable"
    except (aiohttp.ClientError, TimeoutError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        outcome = "failed"
    sys.stdout.write(f"{outcome}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    # Not through `sys.stdin`: a thread must not hold its lock when the interpreter ends.
    while os.read(0, 1024):
        pass
    os._exit(1)


def main() -> None:
    """Crawl what the order on standard input names."""
    # Where Ctrl-C reaches all processes of a terminal, the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Some sites are broken on purpose: no warnings.
    logging.getLogger("robotgate").setLevel(logging.ERROR)
    order = Order(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        asyncio.run(_work(order))
    except StoreError as error:
        sys.exit(f"worker {order.worker}: {error}")


if __name__ == "__main__":
    main()
