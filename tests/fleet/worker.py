"""One process of a fleet: a gate on a store that the others share, and pages that they may want as well.

It runs until it has fetched them, or until somebody ends it, and says by a pipe what became of each.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, ClientSession, TCPConnector
from tests.gate.servers import EverywhereHere

from robotgate import Budget, GateOptions, Group, RobotGate, SQLiteStore, TooSoonError
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker is to crawl, and how."""

    number: int
    """Which one it is; its requests bear it as the minor version of the agent."""
    store: str
    """The URL of a server, or the path of a file."""
    port: int
    """On which all hosts are."""
    hosts: tuple[str, ...]
    pages: tuple[str, ...]
    """The paths that it wants of each host, in no order that it shares with others."""
    delay: float
    rate: tuple[int, float] | None = None
    """Its quota at each host, as the gate takes it."""
    budget: int | None = None
    """Its pages at each host."""
    total: GateOptions = field(default_factory=GateOptions)
    """What holds for all workers together."""
    groups: int = 0
    """Into how many groups the hosts fall, by their names."""
    group_delay: float = 0.0
    group_rate: tuple[int, float] | None = None
    lease: float = 20.0
    """Seconds after which a server takes it to have ended when it is silent; files have their own."""
    patience: float = 30.0
    tries: bool = False
    """Whether each page is a task that does not wait for its turn, but comes back when it is told to."""
    tells_all: bool = True
    """Whether it says of each page that it has ended, for whoever counts; else only of those that it did not get."""


@dataclass(frozen=True, slots=True)
class Ready:
    """It has its store open and waits for the word."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page has ended."""

    url: str
    outcome: str
    """The status, or the error."""


@dataclass(frozen=True, slots=True)
class Done:
    """It has no more pages, and has closed everything."""

    pages: int
    """That it got."""
    cpu: float
    """Seconds of processor time."""
    seconds: float
    """Since the word."""
    vain: int
    """How often a task was told to come again."""


Said = Ready | Fetched | Done
GOT: Final = "200"
"""How a page ends that is got."""


def run(order: Order, pipe: Connection) -> None:
    """The whole life of a worker."""
    asyncio.run(_crawl(order, pipe))
    pipe.close()


async def _crawl(order: Order, pipe: Connection) -> None:
    store = _store(order)
    await store.open()
    pipe.send(Ready())
    await asyncio.to_thread(pipe.recv)
    began_at, cpu = time.monotonic(), time.process_time()
    connector = TCPConnector(resolver=EverywhereHere(order.port), limit=0)
    async with (
        ClientSession(connector=connector) as session,
        RobotGate(
            f"ExampleBot/1.{order.number}", contact="bot@example.org", **_options(order, session, store)
        ) as gate,
    ):
        vain = 0

        async def get(url: str) -> int:
            nonlocal vain
            while order.tries:
                try:
                    async with gate.try_turn(url) as turn:
                        return (await turn.fetch()).status
                except TooSoonError as error:
                    vain += 1
                    await asyncio.sleep(error.retry_after)
            return (await gate.fetch(url)).status

        async def fetch(url: str) -> str:
            try:
                outcome = str(await get(url))
            except ClientError as error:
                outcome = f"{type(error).__name__}: {error}"
            if order.tells_all or outcome != GOT:
                pipe.send(Fetched(url, outcome))
            return outcome

        outcomes = await asyncio.gather(*map(fetch, _urls(order)))
    await store.aclose()
    pipe.send(Done(outcomes.count(GOT), time.process_time() - cpu, time.monotonic() - began_at, vain))


def group_of(host: str, groups: int) -> str:
    """The name of a host's group."""
    return str(zlib.crc32(host.encode()) % groups)


def _options(order: Order, session: ClientSession, store: RedisStore | SQLiteStore) -> GateOptions:
    options = GateOptions(
        session=session,
        store=store,
        delay=order.delay,
        rate=order.rate,
        budget=None if order.budget is None else Budget(pages=order.budget),
        groups={
            host: Group(group_of(host, order.groups), delay=order.group_delay, rate=order.group_rate)
            for host in order.hosts
        }
        if order.groups
        else {},
    )
    options.update(order.total)
    return options


def _urls(order: Order) -> list[str]:
    urls = [f"http://{host}{page}" for page in order.pages for host in order.hosts]
    random.Random(order.number).shuffle(urls)
    return urls


def _store(order: Order) -> RedisStore | SQLiteStore:
    if "://" not in order.store:
        return SQLiteStore(order.store)
    return RedisStore(order.store, lease=order.lease, patience=order.patience)
