"""The suite that every store has to pass: those of robotgate do, and it finds what is wrong with others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest

from robotgate import MemoryStore, Origin, SQLiteStore, WhenLost
from robotgate.stores import HostState, Pruned
from robotgate.stores.memory import MemorySession
from robotgate.testing import check_store, store_checks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from robotgate.sites import RobotsRecord
    from robotgate.stores import Grant, Store


async def make_full_store() -> MemoryStore:
    """One that is full from the second host on; a store of a server or a file may be made by a coroutine, too."""
    return MemoryStore(max_hosts=5)


@pytest.mark.parametrize("make", [MemoryStore, make_full_store])
async def test_memory_does_all_it_says(
    make: Callable[[], MemoryStore | Awaitable[MemoryStore]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is full."""
    monkeypatch.setattr(store_checks, "GLANCE", 0.01)
    await check_store(make)


@pytest.mark.parametrize("when_lost", [WhenLost.RAISE, pytest.param(WhenLost.MEMORY, marks=pytest.mark.slow)])
async def test_a_file_does_all_it_says(tmp_path: Path, when_lost: WhenLost) -> None:
    """Opened again, and beside another."""
    numbers = count()
    await check_store(
        lambda: SQLiteStore(tmp_path / f"{next(numbers)}.db", when_lost=when_lost),
        make_another=lambda store: SQLiteStore(store.path) if isinstance(store, SQLiteStore) else store,
    )


class OneForAll(MemoryStore):
    """Takes all origins of a host for one."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The host's record."""
        known = await self.origins(origin.host)
        return await super().load_record(known[0]) if known else None


class Cutting(MemoryStore):
    """Keeps the beginning of a file."""

    async def save_record(self, record: RobotsRecord) -> None:
        """64 KiB of it."""
        await super().save_record(replace(record, body=record.body[:65_536]))


class Careless(MemoryStore):
    """Keeps states without what their hosts have taught."""

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """All is kept but that."""
        await super().save_hosts({key: replace(state, learned_delay=0.0) for key, state in states.items()})


class Partial(MemoryStore):
    """Keeps one host of each batch."""

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """The first."""
        await super().save_hosts(dict(list(states.items())[:1]))


class Running(MemoryStore):
    """Leaves a task behind."""

    async def aclose(self) -> None:
        """Starts where it should end."""
        self.task: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0.2))


class Unsorted(MemoryStore):
    """Lists hosts in no order."""

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """The last first."""
        for host in reversed([host async for host in super().hosts()]):
            yield host


class Sloppy(MemoryStore):
    """Forgets everything that is pruned."""

    async def prune(self, *, now: float) -> Pruned:
        """Whoever must still wait."""
        gone, self._hosts = len(self._hosts), type(self._hosts)()
        return Pruned(records=0, hosts=gone)


class Thorough(MemoryStore):
    """Forgets the neighbours as well."""

    async def forget_record(self, origin: Origin) -> bool:
        """All origins."""
        known = await super().forget_record(origin)
        if known:
            self._records.clear()
        return known


class Generous(MemoryStore):
    """Grants a host to all who ask."""

    async def session(self) -> MemorySession:
        """Each has a medium of its own."""
        return await MemoryStore().session()


class StateLost(MemorySession):
    """Hands hosts on without their state."""

    def leave(self, key: str, state: HostState | None) -> None:
        """It is kept to itself."""
        super().leave(key, None)


class Clinging(MemorySession):
    """Keeps its hosts when it has ended."""

    async def aclose(self) -> None:
        """Nothing ends."""


class Silent(MemorySession):
    """Tells nobody of a block."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """It is kept to itself."""


class Invalid(MemorySession):
    """Grants hosts by leases that are not valid."""

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """Every host is given back at once."""
        grant = await super().obtain(key, pace=pace)
        self.side.leave(key, None)
        self.side.ask(key)
        self.send_soon()
        return grant


def joined_by(kind: type[MemorySession]) -> Callable[[], MemoryStore]:
    """A store whose sessions are of a kind."""

    class Store(MemoryStore):
        async def session(self) -> MemorySession:
            session = await super().session()
            session.__class__ = kind
            return session

    Store.__name__ = kind.__name__
    return Store


class Forgotten(MemoryStore):
    """Tells those who come later nothing of the blocks that stand."""

    async def session(self) -> MemorySession:
        """From now on."""
        self._grants.blocks.clear()
        return await super().session()


class Overwriting(MemoryStore):
    """Lets a late batch undo what the owner of a host said."""

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """The last word counts."""
        for key, state in states.items():
            self._grants.keep(key, state)


@pytest.mark.parametrize(
    ("make_store", "complaint"),
    [
        (OneForAll, "load_record: .* got the record of"),
        (Cutting, "load_record: not what was saved last"),
        (Careless, "load_host: not what was saved last"),
        (Partial, "load_host: the state is lost"),
        (Running, "aclose: tasks of the store still run"),
        (Unsorted, "hosts: not each host once"),
        (Sloppy, "prune: the wait of .* is lost"),
        (Thorough, "forget_record: others went, too"),
        (Generous, "obtain: not the state that was saved|news: the owner is never asked"),
        (joined_by(StateLost), "leave: not the state that was left"),
        (joined_by(Clinging), "never granted"),
        (joined_by(Silent), "publish_block: other sessions do not get the block"),
        (Forgotten, "session: it hears of no standing block"),
        (Overwriting, "save_hosts: a late batch undid"),
        (joined_by(Invalid), "obtain: the lease of a new grant is not valid"),
    ],
)
async def test_what_is_wrong_is_said(
    make_store: Callable[[], Store], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the method that is wrong, and without waiting for ever."""
    monkeypatch.setattr(store_checks, "PATIENCE", 0.3)
    monkeypatch.setattr(store_checks, "GLANCE", 0.01)
    with pytest.raises(AssertionError, match=complaint):
        await check_store(make_store)


async def test_what_does_not_come_back_is_found() -> None:
    """A store that says it can be opened again, and is empty then."""
    with pytest.raises(AssertionError, match="aclose: opened again, the record became None"):
        await store_checks._check_opened_again(lambda _: MemoryStore(), MemoryStore())


async def test_a_store_that_is_not_shared_is_not_asked_for_sessions() -> None:
    """The smallest store that a gate takes passes, too."""

    class Plain:
        def __init__(self) -> None:
            memory = MemoryStore()
            self.load_record, self.save_record = memory.load_record, memory.save_record
            self.load_host, self.save_hosts, self.aclose = memory.load_host, memory.save_hosts, memory.aclose

    await check_store(Plain)
