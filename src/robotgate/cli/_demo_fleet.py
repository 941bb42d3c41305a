"""The demonstration's crawlers as processes that share the sites: starting them, and counting what they do."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from robotgate.cli._demo_process import DemoError, said, started
from robotgate.cli._demo_worker import Order
from robotgate.cli._progress import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from robotgate.cli._demo_store import Place

    class Done(Protocol):
        """Told of each URL's host when it has ended, and how."""

        def __call__(self, host: str, outcome: Outcome, /) -> None: ...


async def crawl_together(
    workers: int, *, seed: int, page_count: int, ports: Mapping[str, int], store: Place, done: Done
) -> None:
    """Have the pages of a plan fetched by so many processes, which begin together.

    Raises:
        DemoError: one of them did not start, or died; the others are ended.
    """
    async with AsyncExitStack() as stack:
        processes = await asyncio.gather(
            *(stack.enter_async_context(started("robotgate.cli._demo_worker")) for _ in range(workers))
        )
        for number, process in enumerate(processes, 1):
            if not await said(process):
                raise DemoError(f"worker {number} did not start")
        for number, process in enumerate(processes, 1):
            order = Order(
                seed=seed, page_count=page_count, worker=number, workers=workers, ports=ports, store=store
            )
            _send(process, order)
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, process in enumerate(processes, 1):
                    tasks.create_task(_follow(process, number, done))
        except ExceptionGroup as group:
            # Whichever died first says it all.
            raise group.exceptions[0] from None


def _send(process: asyncio.subprocess.Process, order: Order) -> None:
    # Standard input stays open: its end would tell the worker that we are gone.
    if process.stdin is not None:
        process.stdin.write(order.to_json().encode() + b"\n")


async def _follow(process: asyncio.subprocess.Process, number: int, done: Done) -> None:
    while line := await said(process):
        host, outcome = json.loads(line)
        done(host, Outcome(outcome))
    if await process.wait():
        raise DemoError(f"worker {number} of the demonstration died")
