"""A crawler that runs in a process of its own until somebody ends it, for tests that do so without asking it."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate import RobotGate, SQLiteStore

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from pathlib import Path

PROCESSES: Final = multiprocessing.get_context("forkserver")
"""Importing takes half a second, which a process that lives for less had better not spend so."""
PROCESSES.set_forkserver_preload(["robotgate", "tests.stores.crawler"])


class _Here(AbstractResolver):
    """Every name is this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The loopback address."""
        del family
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing is held."""


def start(path: Path, *, life: int, hosts: list[str], delay: float, pages: int | None = None) -> BaseProcess:
    """A crawler that visits all these hosts over and over, or each so many times.

    Args:
        life: a number that its requests bear, as the minor version of the agent.
        hosts: with port.
    """
    process = PROCESSES.Process(target=_run, args=(path, life, hosts, delay, pages), daemon=True)
    process.start()
    return process


def _run(path: Path, life: int, hosts: list[str], delay: float, pages: int | None) -> None:
    asyncio.run(_crawl(path, life, hosts, delay, pages))


async def _crawl(path: Path, life: int, hosts: list[str], delay: float, pages: int | None) -> None:
    store = SQLiteStore(path)
    async with (
        ClientSession(connector=TCPConnector(resolver=_Here(), limit=0)) as session,
        RobotGate(
            f"ExampleBot/1.{life}", contact="bot@example.org", session=session, store=store, delay=delay
        ) as gate,
    ):

        async def visit(host: str) -> None:
            number = 0
            while pages is None or number < pages:
                await gate.fetch(f"http://{host}/page/{number}")
                number += 1

        await asyncio.gather(*(visit(host) for host in hosts))
    await store.aclose()
