"""A small crawler, to be run as a process of its own: every name leads to one port, and the store is a file.

It is told what to do as JSON, its only argument, and says line by line what it does: ``ready``, then for each page its
status and URL, then ``done``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate import RobotGate, RobotGateError, SQLiteStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to crawl, and how."""

    file: str
    port: int
    urls: list[str]
    delay: float
    slots: int = 1
    max_block: float = 300.0


class Everywhere(AbstractResolver):
    """Every name is on one port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The one there is."""
        del port, family
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=self._port, family=socket.AF_INET, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing to do."""


def say(what: str) -> None:
    """Tell whoever started us."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def crawl(task: Task) -> None:
    """Fetch all pages."""
    store = SQLiteStore(task.file)
    connector = aiohttp.TCPConnector(resolver=Everywhere(task.port), limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        RobotGate(
            "ExampleBot/1.0",
            contact="bot@example.org",
            session=session,
            store=store,
            delay=task.delay,
            concurrency_per_host=task.slots,
            max_block=task.max_block,
        ) as gate,
    ):
        await store.open()
        say("ready")

        async def fetch(url: str) -> None:
            try:
                response = await gate.fetch(url)
                say(f"{response.status} {url}")
            except RobotGateError as error:
                say(f"{type(error).__name__} {url}")

        await asyncio.gather(*map(fetch, task.urls))
    await store.aclose()
    say("done")


if __name__ == "__main__":
    asyncio.run(crawl(Task(**json.loads(sys.argv[1]))))
