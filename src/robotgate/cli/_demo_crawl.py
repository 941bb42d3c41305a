"""Crawls the demonstration's sites through one gate."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate import DisallowedError, HostUnavailableError, Origin, RobotGate, StoreError, TooSoonError
from robotgate.cli._demo_sites import FLOOR_DELAY, agent_of
from robotgate.cli._progress import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from robotgate import Store

CONTACT: Final = "demo@robotgate.example"


class DemoResolver(AbstractResolver):
    """Knows the demonstration's names and no others: each port of each is some port of 127.0.0.1."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The loopback address of a site.

        Raises:
            OSError: there is no such site.
        """
        real_port = self._ports.get(host if port == 80 else f"{host}:{port}")
        if real_port is None:
            raise OSError(f"{host}:{port} is no site of the demonstration")
        return [
            ResolveResult(
                hostname=host,
                host="127.0.0.1",
                port=real_port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def crawl(
    urls: Iterable[str],
    ports: Mapping[str, int],
    done: Callable[[str, Outcome], None],
    *,
    worker: int = 1,
    store: Store | None = None,
) -> None:
    """Fetch all URLs, each in a task of its own.

    Args:
        ports: where each site of the plan really listens.
        done: told of each URL's host when it has ended, and how.
        worker: the number that the requests bear.
        store: what the gate remembers in; memory if None.

    Raises:
        StoreError: (in a group) the store is lost.
    """
    connector = aiohttp.TCPConnector(resolver=DemoResolver(ports), limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        RobotGate(agent_of(worker), contact=CONTACT, session=session, delay=FLOOR_DELAY, store=store) as gate,
        asyncio.TaskGroup() as tasks,
    ):
        for url in urls:
            tasks.create_task(_fetch_one(gate, url, done))


async def _fetch_one(gate: RobotGate, url: str, done: Callable[[str, Outcome], None]) -> None:
    outcome = Outcome.FETCHED
    try:
        await gate.fetch(url)
    except StoreError:
        # Without a store there is nothing to show.
        raise
    except DisallowedError:
        outcome = Outcome.BLOCKED
    except TooSoonError:
        outcome = Outcome.TOO_SOON
    except HostUnavailableError:
        outcome = Outcome.UNAVAILABLE
    except (aiohttp.ClientError, TimeoutError):
        outcome = Outcome.FAILED
    done(Origin.of(url).host, outcome)
