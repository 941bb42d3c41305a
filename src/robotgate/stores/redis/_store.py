"""The store in a Redis or Valkey server, which a fleet shares."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from robotgate._clock import SystemClock
from robotgate._errors import StoreError
from robotgate._ports import Pruned
from robotgate.stores._managed import Managed
from robotgate.stores.memory import MemoryStore
from robotgate.stores.redis._blocks import Blocks
from robotgate.stores.redis._client import client_of, given_client
from robotgate.stores.redis._contents import Contents
from robotgate.stores.redis._keys import FLEET_BUCKET, Keys
from robotgate.stores.redis._lease import Leases
from robotgate.stores.redis._link import CLOSING, Link
from robotgate.stores.redis._listing import Listing
from robotgate.stores.redis._records import Records
from robotgate.stores.redis._reports import Reports
from robotgate.stores.redis._server_clock import ServerClock
from robotgate.stores.redis._settings import (
    LEASE,
    MAX_AGE,
    MAX_HOSTS,
    PATIENCE,
    ROBOTS_LEASE,
    Degraded,
    check_settings,
    degraded_of,
)
from robotgate.stores.redis._signals import Signals
from robotgate.stores.redis._turns import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from redis.asyncio import Redis

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._ports import Clock, Postponed
    from robotgate._urls import Origin

_logger: Final = logging.getLogger("robotgate.stores")


class RedisStore(Managed):
    """Remembers in a Redis or Valkey server, and keeps one pace for all processes that use it with the same prefix.

    It is reached by the first use, by `open` or by ``async with``, which closes the store.

    Args:
        client_or_url: of the server, or a client of it, which stays open when the store is closed.
        prefix: before all keys; fleets with different ones know nothing of each other.
        lease: seconds after which a request under way is taken to have ended whose process gives no sign of life; 1
            at least. For the right to ask for a robots.txt, 30 at most.
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
        check_settings(prefix=prefix, lease=lease, patience=patience, max_age=max_age, max_hosts=max_hosts)
        self.degraded = degraded_of(degraded)
        self._owns_client = isinstance(client_or_url, str)
        self._client = (
            client_of(client_or_url, option="client_or_url")
            if isinstance(client_or_url, str)
            else given_client(client_or_url, option="client_or_url")
        )
        self._link = Link(self._client, patience=patience)
        self._reports = Reports(self._link)
        keys = Keys(prefix)
        clock = clock if clock is not None else SystemClock()
        self._records = Records(self._link, keys, max_age=max_age)
        self._signals = Signals(self._client, keys.fleet("signals"))
        self._leases = Leases(
            self._link,
            self._signals,
            keys,
            lease=min(lease, ROBOTS_LEASE),
            goes_on_alone=self.degraded is Degraded.LOCAL,
        )
        self._listing = Listing(self._client, keys)
        self._turns = Turns(
            self._link,
            keys,
            clock=clock,
            lease=lease,
            max_age=max_age,
            max_hosts=max_hosts,
            goes_on=self.degraded is Degraded.LOCAL,
        )
        self._contents = Contents(self._listing, self._records, self._turns)
        self._blocks = Blocks(self._link, keys, clock=ServerClock(), now=clock.now, keep=max_age)
        self._turns.calls.on_epoch = self._renewed
        self._memory = MemoryStore(max_hosts=max_hosts)
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = False
        self._is_closed = False

    async def open(self) -> None:
        """Reach the server now rather than at the first use.

        Raises:
            StoreError: it cannot be reached, and ours alone is not enough; or the store was closed.
        """
        self._check()
        self._bind()
        async with self._opening:
            if self._is_open:
                return
            try:
                await self._turns.start()
            except StoreError:
                if not self._turns.is_alone:
                    raise
                return
            self._is_open = True

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not.

        Raises:
            StoreError: the server cannot be reached, and ours alone are not enough.
        """
        self._check()
        try:
            return await self._records.load(origin)
        except StoreError:
            if not self._goes_on_alone:
                raise
            return await self._memory.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one. What was learnt by a lease that somebody else has had
        since is not kept, if that one has told what he learnt.

        Raises:
            StoreError: the server cannot be reached, and ours alone are not enough.
        """
        self._check()
        try:
            await self._records.save(record, token=self._leases.token(record.origin))
        except StoreError:
            if not self._goes_on_alone:
                raise
            await self._memory.save_record(record)

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt, among all processes of the fleet."""
        self._check()
        return self._leases.lease(origin)

    def lease_or_news(self, origin: Origin) -> AbstractAsyncContextManager[bool]:
        """As `lease`, and True; False, and no right, for who had to wait while somebody saved a record."""
        self._check()
        return self._leases.lease_or_news(origin)

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
        # As `_opened`, without a coroutine more for every turn.
        if not self._is_at_hand():
            await self.open()
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

    def subscribe_losses(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """As `ReportingStore` has it."""
        return self._reports.subscribe(callback)

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Tell all gates of the fleet, those of this process at once and the others within two seconds."""
        self._blocks.publish(pattern, until_at)

    def subscribe_blocks(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """As `SharedBlocks` has it. From here on the server is looked at each second, visits or not."""
        return self._blocks.subscribe(callback)

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """All records, by host, port and scheme.

        Raises:
            StoreError: the server cannot be reached.
        """
        self._check()
        async for record in self._contents.records():
            yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """All hosts with their states, by pace key.

        Raises:
            StoreError: the server cannot be reached.
        """
        await self._opened()
        async for host in self._contents.hosts():
            yield host

    async def origins_of(self, host: str) -> list[Origin]:
        """The origins of one host of which there is a record, by port and scheme.

        Raises:
            StoreError: the server cannot be reached.
        """
        self._check()
        return await self._listing.origins(host=host)

    async def host(self, pace_key: str) -> HostState | None:
        """What the server has of a host.

        Raises:
            StoreError: it cannot be reached.
        """
        await self._opened()
        return await self._turns.written(pace_key)

    async def forget_record(self, origin: Origin) -> bool:
        """Let go of an origin's record. Returns whether there was one.

        Raises:
            StoreError: the server cannot be reached.
        """
        return await self._records.forget(origin)

    async def forget_host(self, pace_key: str) -> bool:
        """Let go of a host's state, its wait unserved or not. Returns whether there was any.

        Raises:
            StoreError: the server cannot be reached.
        """
        await self._opened()
        return await self._contents.forget_host(pace_key)

    async def prune(self, *, now: float) -> Pruned:
        """Nothing: each key has its own end in the server, and goes by itself."""
        return Pruned(records=0, hosts=0)

    async def aclose(self) -> None:
        """Tell the server what it has yet to hear, and let go of the connection."""
        if not self._is_closed:
            if not self._is_open and self._turns.publishing.news:
                with suppress(StoreError, TimeoutError):
                    async with asyncio.timeout(CLOSING):
                        await self.open()
            self._is_closed = True
            self._turns.close()
            await self._blocks.aclose()
        await self._signals.aclose()
        await self._leases.aclose()
        await self._link.aclose()
        news = self._turns.publishing.news
        if news:
            _logger.warning("%s: %d messages are lost, for the store was closed", self._link.server, news)
        if self._owns_client:
            await self._client.aclose()

    def _bind(self) -> None:
        """Go on in this event loop; in one that was closed, nothing is under way any more."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and self._loop.is_closed():
            self._opening = asyncio.Lock()
            self._is_open = False
            self._turns.rebind()
        self._loop = loop

    def _is_at_hand(self) -> bool:
        """Whether the server was reached before, or need not be."""
        self._check()
        self._bind()
        return self._is_open or self._turns.is_alone

    async def _opened(self) -> None:
        if not self._is_at_hand():
            await self.open()

    def _renewed(self, bucket: int) -> None:
        """What the server knew of a bucket may be lost."""
        self._turns.publishing.renewed(bucket)
        if bucket == FLEET_BUCKET:
            self._blocks.publish_again()

    @property
    def _goes_on_alone(self) -> bool:
        """Whether what this process knows has to do while the server cannot be reached."""
        return self.degraded is Degraded.LOCAL and not self._is_closed

    def _check(self) -> None:
        if self._is_closed:
            raise StoreError("the store was closed; make another")
