"""The store in a Redis or Valkey server, which a fleet shares."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from robotgate._checks import check_patience, check_seconds, check_text, check_whole
from robotgate._clock import SystemClock
from robotgate._errors import OptionError, StoreError
from robotgate.stores.memory import MemoryStore
from robotgate.stores.redis._client import client_of, given_client
from robotgate.stores.redis._keys import Keys
from robotgate.stores.redis._link import Link
from robotgate.stores.redis._turns import Turns

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from redis.asyncio import Redis

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._ports import Clock, Postponed
    from robotgate._urls import Origin

LEASE: Final = 60.0
LEAST_LEASE: Final = 1.0
PATIENCE: Final = 30.0
MAX_AGE: Final = 31 * 24 * 3600.0
LEAST_MAX_AGE: Final = 3600.0
MAX_HOSTS: Final = 100_000


class Degraded(StrEnum):
    """What a store does while its server cannot be reached."""

    WAIT = "wait"
    """Turns wait, for as long as `patience`, and then fail with `StoreError`."""
    LOCAL = "local"
    """Each process goes on by itself, at the delay times the number of workers there were: together they keep the mean
    rate, but not every gap."""


class RedisStore:
    """Remembers in a Redis or Valkey server, and keeps one pace for all processes that use it with the same prefix.

    Args:
        client_or_url: of the server, or a client of it, which stays open when the store is closed.
        prefix: before all keys; fleets with different ones know nothing of each other.
        lease: seconds after which a request under way is taken to have ended whose process gives no sign of life; 1
            at least.
        patience: seconds for which a call is tried again once the server cannot be reached.
        max_age: seconds for which the server keeps what nobody asks for; an hour at least.
        max_hosts: how many hosts are kept in this process's memory.
        degraded: what to do while the server cannot be reached.
        clock: tells the time, as the gate's own does.

    Raises:
        OptionError: an option makes no sense.
    """

    def __init__(
        self,
        client_or_url: Redis | str,
        *,
        prefix: str = "robotgate:",
        lease: float = LEASE,
        patience: float = PATIENCE,
        max_age: float = MAX_AGE,
        max_hosts: int = MAX_HOSTS,
        degraded: Degraded | str = Degraded.WAIT,
        clock: Clock | None = None,
    ) -> None:
        check_text("prefix", prefix)
        _check_at_least("lease", lease, LEAST_LEASE)
        check_patience("patience", patience)
        _check_at_least("max_age", max_age, LEAST_MAX_AGE)
        check_whole("max_hosts", max_hosts, least=1)
        self.degraded = _degraded(degraded)
        self._owns_client = isinstance(client_or_url, str)
        self._client = (
            client_of(client_or_url, option="client_or_url")
            if isinstance(client_or_url, str)
            else given_client(client_or_url, option="client_or_url")
        )
        self._link = Link(self._client, patience=patience)
        self._turns = Turns(
            self._link,
            Keys(prefix),
            clock=clock if clock is not None else SystemClock(),
            lease=lease,
            max_age=max_age,
            max_hosts=max_hosts,
            goes_on=self.degraded is Degraded.LOCAL,
        )
        self._memory = MemoryStore(max_hosts=max_hosts)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._is_closed = False

    async def open(self) -> None:
        """Reach the server now rather than at the first use.

        Raises:
            StoreError: it cannot be reached, or the store was closed.
        """
        self._check()
        async with self._opening:
            if self._is_open:
                return
            await self._turns.start()
            self._is_open = True

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not."""
        return await self._memory.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        await self._memory.save_record(record)

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt."""
        return self._memory.lease(origin)

    async def load_host(self, pace_key: str) -> HostState | None:
        """The host's state, from memory or from the server.

        Raises:
            StoreError: the server cannot be reached.
        """
        await self._opened()
        return await self._turns.load(pace_key)

    def recall_host(self, pace_key: str) -> HostState | None:
        """The host's state, as far as it is in memory."""
        return self._turns.memory.states.get(pace_key)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state; the server is told what of it is news.

        Raises:
            StoreError: the store was closed.
        """
        self._check()
        self._turns.remember(pace_key, state)

    @property
    def is_shared(self) -> bool:
        """Always: nobody can tell who else comes."""
        return True

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Take one of a host's slots, if it is due as far as all processes know. Cancelled, it leaves nothing taken.

        Raises:
            StoreError: the server cannot be reached.
        """
        await self._opened()
        return await self._turns.reserve(pace_key, slots=slots, delay=delay)

    def withdraw(self, pace_key: str) -> None:
        """Our place in the host's line is somebody else's."""
        if not self._is_closed:
            self._turns.withdraw(pace_key)

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """As `remember_host`, of a request that is sent.

        Raises:
            StoreError: as `remember_host`.
        """
        self._check()
        self._turns.begin(pace_key, state)

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """As `remember_host`, of a request that has ended, or will not be sent after all.

        Raises:
            StoreError: as `remember_host`.
        """
        self._check()
        self._turns.end(pace_key, state)

    async def aclose(self) -> None:
        """Tell the server what it has yet to hear, and let go of the connection."""
        if not self._is_closed:
            if not self._is_open and self._turns.publishing.has_news:
                with suppress(StoreError):
                    await self.open()
            self._is_closed = True
            self._turns.close()
        await self._link.aclose()
        if self._owns_client:
            await self._client.aclose()

    async def _opened(self) -> None:
        self._check()
        if self._is_open or self._turns.is_alone:
            return
        try:
            await self.open()
        except StoreError:
            if not self._turns.is_alone:
                raise

    def _check(self) -> None:
        if self._is_closed:
            raise StoreError("the store was closed; make another")


def _check_at_least(name: str, value: float, least: float) -> None:
    check_seconds(name, value)
    if value < least:
        raise OptionError(f"{name}={value!r}: give {least:g} seconds or more")


def _degraded(value: Degraded | str) -> Degraded:
    try:
        return Degraded(value)
    except ValueError:
        choices = ", ".join(repr(choice.value) for choice in Degraded)
        raise OptionError(f"degraded={value!r}: give one of {choices}") from None
