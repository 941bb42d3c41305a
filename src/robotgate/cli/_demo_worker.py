"""One of the demonstration's crawlers: a process of its own, which shares its store, and its sites, with the others.

Run as ``python -m robotgate.cli._demo_worker``. It writes a line to standard output when it is ready, reads its `Order`
as a line of JSON from standard input, writes a line of JSON for each URL that has ended, with its host and how it
ended, and is gone; or gone at once when its standard input ends, for then its parent is.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from robotgate import StoreError
from robotgate.cli._demo_crawl import crawl
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_process import end_with_parent, tell
from robotgate.cli._demo_store import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate.cli._progress import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one worker has to do."""

    seed: int
    page_count: int
    worker: int
    """Which one it is, from 1."""
    workers: int
    """How many there are."""
    ports: Mapping[str, int]
    """Where each site listens."""
    store: Place

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: bytes) -> Order:
        """What `to_json` wrote."""
        document = json.loads(line)
        return cls(**{**document, "store": Place(**document["store"])})

    def urls(self) -> tuple[str, ...]:
        """This worker's share: the URLs are dealt one by one, so that every worker has some of every larger site."""
        return draw_plan(self.seed, self.page_count).urls[self.worker - 1 :: self.workers]


async def _work(order: Order) -> None:
    store = order.store.store()
    try:
        await crawl(order.urls(), order.ports, _tell_of, worker=order.worker, store=store)
    finally:
        await store.aclose()


def _tell_of(host: str, outcome: Outcome) -> None:
    tell([host, outcome.value])


def main() -> int:
    """Work as ordered; the exit status."""
    # Where Ctrl-C reaches all processes of a terminal whatever their group, it is the parent that ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell("ready")
    order = Order.from_json(sys.stdin.buffer.readline())
    end_with_parent()
    status = 0
    try:
        asyncio.run(_work(order))
    except* StoreError as group:
        sys.stderr.write(f"worker {order.worker}: {group.exceptions[0]}\n")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
