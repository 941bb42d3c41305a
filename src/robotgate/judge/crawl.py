"""robotgate's own crawler of the sites, in one or more processes, for ``robotgate demo``.

``python -m robotgate.judge.crawl`` is one of these processes. Its argument is its `Share`, as JSON; the environment has
the rest. It ends at once when its standard input does, because then its parent has ended.
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
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process has to crawl."""

    workers: int = 1
    """How many processes there are."""
    worker: int = 1
    """Which one this is, from 1."""
    store: str | None = None
    """What the processes share: the path of a file, or the URL of a server; None: the gate remembers in memory."""
    prefix: str | None = None
    """Of the keys in a server; None for a file."""


@asynccontextmanager
async def crawlers(workers: int = 1, store: str | None = None) -> AsyncIterator[Sequence[Sequence[str]]]:
    """The commands of a crawl, with a store in which nothing is known yet, if it needs one. Afterwards it is removed.

    Raises:
        OptionError: the store is not one that can be used.
        StoreError: the store does not answer.
    """
    async with AsyncExitStack() as stack:
        whole = await _shared(Share(workers=workers, store=store), stack)
        shares = (replace(whole, worker=number) for number in range(1, workers + 1))
        yield [[sys.executable, "-m", "robotgate.judge.crawl", json.dumps(asdict(share))] for share in shares]


async def _shared(share: Share, stack: AsyncExitStack) -> Share:
    """The share with a store. What is in it is removed by the stack."""
    if share.store is None and share.workers > 1:
        folder = TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True)
        return replace(share, store=str(Path(stack.enter_context(folder)) / "demo.db"))
    if share.store is None or "://" not in share.store:
        return share
    # Installed only with the extra.
    from robotgate.stores.redis import RedisStore  # noqa: PLC0415
    from robotgate.stores.redis.client import client_of  # noqa: PLC0415

    # No other program uses such keys.
    prefix = f"robotgate-demo:{secrets.token_hex(8)}:"
    client = client_of(share.store)
    stack.push_async_callback(client.aclose)

    async def delete_keys() -> None:
        async for key in client.scan_iter(match=f"{prefix}*"):
            await client.delete(key)

    # A server that does not answer is reported before anything starts.
    async with RedisStore(client, prefix=prefix, patience=PATIENCE):
        stack.push_async_callback(delete_keys)
    return replace(share, prefix=prefix)


async def _work(share: Share, urls: Sequence[str]) -> None:
    """Fetch this worker's share of the URLs, each in a task of its own."""
    from robotgate.signing import Ed25519Signer, SigningKey  # noqa: PLC0415 - installed only with the extra

    async with AsyncExitStack() as stack:
        store: RedisStore | str | None = share.store
        if share.store is not None and share.prefix is not None:
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415 - installed only with the extra

            store = await stack.enter_async_context(RedisStore(share.store, prefix=share.prefix))
        agent, proxy = servers.agent_of(share.worker), os.environ["ROBOTGATE_JUDGE_PROXY"]
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
    share = Share(**json.loads(sys.argv[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        urls = Path(os.environ["ROBOTGATE_JUDGE_URLS"]).read_text(encoding="utf-8").splitlines()
        # With N workers, each takes every Nth URL, so that it has some of every larger site.
        asyncio.run(_work(share, urls[share.worker - 1 :: share.workers]))
    except StoreError as error:
        sys.exit(f"worker {share.worker}: {error}")


if __name__ == "__main__":
    main()
