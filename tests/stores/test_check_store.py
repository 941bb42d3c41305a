"""The suite for stores finds what is wrong with one that lists, forgets, prunes, comes back or shares."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.booked_store import Book, BookedStore

from robotgate import HostState, MemoryStore, Origin, RobotsRecord, SQLiteStore, _check_tools
from robotgate._check_shared import check_shared
from robotgate._ports import Postponed, Pruned, Store
from robotgate.testing import check_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path


def another(store: Store) -> SQLiteStore:
    """One more of the same file."""
    assert isinstance(store, SQLiteStore)
    return SQLiteStore(store.path)


async def test_a_file_does_all_that_it_says(tmp_path: Path) -> None:
    """Opened again, and beside another."""
    numbers = count()

    await check_store(lambda: SQLiteStore(tmp_path / f"{next(numbers)}.db"), make_another=another)


class LosesBlocks(MemoryStore):
    """Keeps of a block only until when it is."""

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """All is kept but when the host was blocked, and how slow it is."""
        super().remember_host(pace_key, replace(state, blocked_at=0.0))


class LosesLatency(MemoryStore):
    """Keeps states without it."""

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """All is kept but the latency."""
        super().remember_host(pace_key, replace(state, latency=None))


class ListsNoRecords(MemoryStore):
    """Shows nothing."""

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """None."""
        for record in list[RobotsRecord]():
            yield record


class ListsByUrl(MemoryStore):
    """In an order by which origins and hosts cannot be put side by side."""

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """By scheme first."""
        found = [record async for record in super().records()]
        for record in sorted(found, key=lambda record: record.origin.text):
            yield record


class ListsHostsAsTheyCame(MemoryStore):
    """In no order."""

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """The last first."""
        for host in reversed([host async for host in super().hosts()]):
            yield host


class KnowsOriginsOfOthers(MemoryStore):
    """Takes a name that begins alike for the host."""

    async def origins_of(self, host: str) -> list[Origin]:
        """Those of all hosts."""
        return [record.origin async for record in self.records()]


class MakesUpHosts(MemoryStore):
    """Takes a visit that may have been for one that was."""

    async def host(self, pace_key: str) -> HostState | None:
        """Always something."""
        return await super().host(pace_key) or HostState(last_visit_at=1.0)


class KeepsWhatIsForgotten(MemoryStore):
    """Says that it has gone."""

    async def forget_host(self, pace_key: str) -> bool:
        """Nothing goes."""
        return await self.load_host(pace_key) is not None


class ForgetsTooMuch(MemoryStore):
    """Lets go of all origins of a host."""

    async def forget_record(self, origin: Origin) -> bool:
        """This one, and its neighbours."""
        for other in await self.origins_of(origin.host):
            await super().forget_record(replace(origin, port=other.port, scheme=other.scheme))
        return True


class PrunesWaits(MemoryStore):
    """Lets go of everything."""

    async def prune(self, *, now: float) -> Pruned:
        """Whatever is unserved."""
        keys = [key async for key, _ in self.hosts()]
        return Pruned(records=0, hosts=sum([await self.forget_host(key) for key in keys]))


class TellsOfNoPruning(MemoryStore):
    """Lets go of a record in silence."""

    async def prune(self, *, now: float) -> Pruned:
        """One goes."""
        async for record in self.records():
            await self.forget_record(record.origin)
            break
        return await super().prune(now=now)


class MixesUpAnswers(MemoryStore):
    """Answers whoever asks at the same time with what the first one asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: asyncio.Future[HostState | None] | None = None

    async def load_host(self, pace_key: str) -> HostState | None:
        """As the first."""
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            await asyncio.sleep(0)
            self._asked.set_result(await super().load_host(pace_key))
            asked, self._asked = self._asked, None
            return asked.result()
        return await self._asked


class FailsOnceClosed(MemoryStore):
    """Has nothing any more, and does not say so in our words."""

    is_closed = False

    async def aclose(self) -> None:
        """All is let go of."""
        self.is_closed = True

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As memory, while there is any."""
        if self.is_closed:
            raise AttributeError("NoneType")
        return await super().load_record(origin)


@pytest.mark.parametrize(
    ("make_store", "complaint"),
    [
        (LosesBlocks, "blocked_at"),
        (LosesLatency, "latency"),
        (ListsNoRecords, "^records: not each origin once"),
        (ListsByUrl, "^records: not each origin once"),
        (ListsHostsAsTheyCame, "^hosts: not each host once"),
        (KnowsOriginsOfOthers, "^origins_of: "),
        (MakesUpHosts, "^host: one that nobody met"),
        (KeepsWhatIsForgotten, "^forget_host: the state is still there"),
        (ForgetsTooMuch, "^forget_record: "),
        (PrunesWaits, "^prune: the wait of 'shop.example' is lost"),
        (TellsOfNoPruning, "^prune: it tells of 0 records, and 1 are gone"),
        (MixesUpAnswers, "^load_host: asked for at once"),
    ],
)
async def test_what_is_wrong_is_said(make_store: Callable[[], Store], complaint: str) -> None:
    """By the name of the method that is."""
    with pytest.raises(AssertionError, match=complaint):
        await check_store(make_store)


async def test_once_closed_only_a_store_error_will_do() -> None:
    """Whatever else comes, comes through."""
    with pytest.raises(AttributeError):
        await check_store(FailsOnceClosed)


async def test_what_does_not_come_back_is_found() -> None:
    """A store that says it can be opened again, and is empty then."""
    with pytest.raises(AssertionError, match=r"^aclose: opened again, the record became None"):
        await check_store(MemoryStore, make_another=lambda _: MemoryStore())


async def test_two_that_share_a_book_do_all_that_they_say() -> None:
    """However long a question takes."""
    book = Book()

    await check_shared(BookedStore(book, takes=0.001), BookedStore(book, takes=0.001))


class EverybodysTurn(BookedStore):
    """Asks nobody."""

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Yes."""
        return None


class KeepsDelayFromStart(BookedStore):
    """Tells nobody when a visit has ended."""

    def _tell(self, pace_key: str, state: HostState, *, visits: int) -> None:
        """Only what tells of a beginning."""
        if self.book.under_way[pace_key]:
            super()._tell(pace_key, state, visits=visits)


class KeepsBlocks(BookedStore):
    """Tells nobody of a block."""

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """All but that."""
        super().remember_host(pace_key, replace(state, blocked_at=0.0, blocked_until_at=0.0))


class KeepsTheUnused(BookedStore):
    """Gives back only what was sent."""

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """Of a request that was sent."""
        if self.book.under_way[pace_key]:
            super().end_visit(pace_key, state)


class KeepsTheCancelled(BookedStore):
    """Has a slot for nobody."""

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Whether or not anybody waits for the answer."""
        return await asyncio.shield(super().reserve(pace_key, state=state, now=now, slots=slots, delay=delay))


class KeepsItsLease(BookedStore):
    """Excludes its own tasks alone."""

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """One for each."""
        return MemoryStore.lease(self, origin)


class KeepsItsRecords(BookedStore):
    """Shows nobody what it has saved."""

    async def save_record(self, record: RobotsRecord) -> None:
        """For itself."""
        await MemoryStore.save_record(self, record)


@pytest.mark.parametrize(
    ("store_type", "complaint"),
    [
        (EverybodysTurn, "^reserve: the host's one slot is had by two"),
        (KeepsDelayFromStart, "^reserve: yes after"),
        (KeepsBlocks, "^remember_host: the other never hears of a block"),
        (KeepsTheUnused, "^end_visit: what was reserved and not sent"),
        (KeepsTheCancelled, "^reserve: who was cancelled keeps the slot"),
        (KeepsItsLease, "^lease: two stores hold the lease"),
        (KeepsItsRecords, "^load_record: the other has saved it"),
    ],
)
async def test_what_two_do_wrong_is_said(
    store_type: type[BookedStore], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the method that is."""
    monkeypatch.setattr(_check_tools, "PATIENCE", 1.0)
    book = Book()

    with pytest.raises(AssertionError, match=complaint):
        await check_shared(store_type(book, takes=0.001), store_type(book, takes=0.001))
