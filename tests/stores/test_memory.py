"""The store in memory, and the suite that every store has to pass."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from robotgate._access import RobotsRecord
from robotgate._check_store import check_store
from robotgate._pacing import HostState
from robotgate._status import Outcome
from robotgate._urls import Origin
from robotgate._virtual import VirtualTimeLoop
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ORIGIN = Origin("http", "a.example", 80)


async def test_memory_store_passes_the_suite() -> None:
    """Everything a gate asks of a store, it does."""
    await check_store(MemoryStore)


async def test_suite_takes_stores_that_open_asynchronously() -> None:
    """A store of a server or a file is made by a coroutine."""

    async def make_store() -> MemoryStore:
        await asyncio.sleep(0)
        return MemoryStore()

    await check_store(make_store)


class Forgets(MemoryStore):
    """Keeps no record."""

    async def save_record(self, record: RobotsRecord) -> None:
        """Nothing is kept."""


class LosesBodies(MemoryStore):
    """Keeps records without what matters."""

    async def save_record(self, record: RobotsRecord) -> None:
        """All is kept but the body."""
        await super().save_record(replace(record, body=b""))


class MixesPorts(MemoryStore):
    """Takes all origins of a host for one."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The host's record."""
        return next((kept for known, kept in self._records.items() if known.host == origin.host), None)


class NoLease(MemoryStore):
    """Lets everybody in."""

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """Nobody waits."""
        await self.load_record(origin)
        yield


class LeaseKeptOnFailure(MemoryStore):
    """Gives a lease back only when all went well."""

    def __init__(self) -> None:
        super().__init__()
        self._locks: defaultdict[Origin, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """Without a `finally`."""
        await self._locks[origin].acquire()
        yield
        self._locks[origin].release()


class OneLease(MemoryStore):
    """Has one lease for all origins."""

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """The same for everybody."""
        async with super().lease(replace(origin, scheme="http", host="any", port=80)):
            yield


class RecallsLate(MemoryStore):
    """Takes host state in no sooner than it is written down."""

    def recall_host(self, pace_key: str) -> HostState | None:
        """Nothing is known here."""
        return None if pace_key else HostState()


class LeaksTasks(MemoryStore):
    """Leaves something running."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: set[asyncio.Task[bool]] = set()

    async def aclose(self) -> None:
        """Starts where it should end."""
        self.tasks.add(asyncio.create_task(asyncio.Event().wait()))


@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        (Forgets, "load_record: not what was saved last"),
        (LosesBodies, "load_record: not what was saved last"),
        (MixesPorts, "got the record of"),
        (NoLease, "lease: two hold the lease"),
        (RecallsLate, "recall_host: not what was just remembered"),
        (LeaksTasks, "aclose: tasks of the store still run"),
    ],
)
async def test_suite_finds_what_is_wrong(store: type[MemoryStore], complaint: str) -> None:
    """A store that does not keep its word is told so in words."""
    with pytest.raises(AssertionError, match=complaint):
        await check_store(store)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        (LeaseKeptOnFailure, "lease: .* is not given back when its holder fails"),
        (OneLease, "lease: https://shop.example excludes"),
    ],
)
def test_suite_does_not_hang_with_the_store(store: type[MemoryStore], complaint: str) -> None:
    """A lease that never comes is a failure, not an endless test; on virtual time it takes none."""
    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
        pytest.raises(AssertionError, match=complaint),
    ):
        runner.run(check_store(store))


async def test_leases_leave_nothing_behind() -> None:
    """However many origins are asked, and however it ends, no lease is kept."""
    store = MemoryStore()

    async def take(number: int) -> None:
        async with store.lease(Origin("http", f"{number % 7}.example", 80)):
            await asyncio.sleep(0)
            if number % 3 == 0:
                raise ValueError

    tasks = [asyncio.create_task(take(number)) for number in range(200)]
    await asyncio.sleep(0)
    for task in tasks[::5]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert store._leases == {}


async def test_tells_how_much_it_knows() -> None:
    """Its repr counts what it holds."""
    store = MemoryStore()
    await store.save_record(
        RobotsRecord(origin=ORIGIN, outcome=Outcome.MISSING, checked_at=0.0, fresh_until_at=1.0)
    )
    store.remember_host("a.example", HostState())
    store.remember_host("b.example", HostState())
    assert repr(store) == "<MemoryStore records=1 hosts=2>"
