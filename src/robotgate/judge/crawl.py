"""robotgate's own crawler of the sites, in one or more processes, for ``robotgate demo``.

``python -m robotgate.judge.crawl WORKER WORKERS [STORE PREFIX]`` is one of these processes: its number from 1, how many
there are, and what they share. The environment has the rest. It ends at once when its standard input does, because then
its parent has ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
import threading
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate import RobotGate, RobotGateError, StoreError
from robotgate.judge import servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

FLOOR_DELAY: Final = 0.15
"""Seconds: the gate's own ``delay`` in the demonstration."""
CONTACT: Final = "demo@robotgate.example"
USES: Final = {"ai_train"}
"""What the crawler declares to do with pages: some sites refuse it."""
PATIENCE: Final = 2.0
"""Seconds for which a Redis server may not answer before the crawl begins."""


@asynccontextmanager
async def crawlers(workers: int = 1, store: str | None = None) -> AsyncIterator[Sequence[Sequence[str]]]:
    """The commands of a crawl, with a store in which nothing is known yet, if it needs one. Afterwards it is removed.

    Raises:
        OptionError: the store is not one that can be used.
        StoreError: the store does not answer.
    """
    # No other program uses such keys.
    prefix = f"robotgate-demo:{secrets.token_hex(8)}:"
    async with AsyncExitStack() as stack:
        if store is not None and "://" in store:
            await stack.enter_async_context(_keys(store, prefix))
        elif store is None and workers > 1:
            folder = TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True)
            store = str(Path(stack.enter_context(folder)) / "demo.db")
        shared = [] if store is None else [store, prefix]
        program = (sys.executable, "-m", "robotgate.judge.crawl")
        yield [[*program, str(worker), str(workers), *shared] for worker in range(1, workers + 1)]


@asynccontextmanager
async def _keys(url: str, prefix: str) -> AsyncIterator[None]:
    """Delete the keys with a prefix from a Redis server in the end. One that does not answer is reported first."""
    # Installed only with the extra.
    from robotgate.stores.redis import RedisStore  # noqa: PLC0415
    from robotgate.stores.redis.client import client_of  # noqa: PLC0415

    async with aclosing(client_of(url)) as client:
        async with RedisStore(client, prefix=prefix, patience=PATIENCE):
            pass
        try:
            yield
        finally:
            async for key in client.scan_iter(match=f"{prefix}*"):
                await client.delete(key)


async def _work(worker: str, urls: Sequence[str], path: str | None = None, prefix: str = "") -> None:
    """Fetch this worker's share of the URLs, each in a task of its own."""
    from robotgate.signing import Ed25519Signer, SigningKey  # noqa: PLC0415 - installed only with the extra

    async with AsyncExitStack() as stack:
        store: RedisStore | str | None = path
        if path is not None and "://" in path:
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415 - installed only with the extra

            store = await stack.enter_async_context(RedisStore(path, prefix=prefix))
        agent, proxy = servers.CRAWLER + worker, os.environ["ROBOTGATE_JUDGE_PROXY"]
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
    except StoreError:
        raise
    except RobotGateError:
        # It is refused, or its site is closed.
        pass
    except (aiohttp.ClientError, TimeoutError) as error:
        sys.stderr.write(f"{url}: {error}\n")


def _end_with_parent() -> None:
    # Not through `sys.stdin`: a thread must not hold its lock when the interpreter ends.
    while os.read(0, 1024):
        pass
    os._exit(1)


def main() -> None:
    """Crawl what the environment names."""
    # Where Ctrl-C reaches all processes of a terminal, the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Some sites are broken on purpose: no warnings.
    logging.getLogger("robotgate").setLevel(logging.ERROR)
    worker, workers, *store = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        urls = Path(os.environ["ROBOTGATE_JUDGE_URLS"]).read_text(encoding="utf-8").splitlines()
        # With N workers, each takes every Nth URL, so that it has some of every larger site.
        asyncio.run(_work(worker, urls[int(worker) - 1 :: int(workers)], *store))
    except StoreError as error:
        sys.exit(f"worker {worker}: {error}")


if __name__ == "__main__":
    main()
