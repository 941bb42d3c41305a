"""Between the gate and its store: states go out in batches, hosts are obtained and handed on, news comes in.

Nothing here is called per page while no other process asks for the host. The scheduler collects hosts that changed,
that have to be obtained first, and that another process asks for. One task saves, one moves hosts, and each host that
is obtained has a task of its own.

A process obtains a host of a `RedisStore` by these steps; sessions of other stores send their requests otherwise::

    Scheduler.dispatch        case 1: turns wait for a host that this process may not pace
    Scheduler._look_again     case 1: turns stand in the line of a scope that it may not pace
    StoreWork.obtain          wakes `_transfer_hosts`, which begins a task for the host: `_obtain`
    Session.obtain            RedisSession, TagSession, BaseSession: a future for the task, `Waiter.obtained`
    TagSession.run            sends requests, of which this or a later one asks for the host: Link.call, which has it
                              made by SessionSide.request; at the server, lua/grants.lua
    BaseSession.receive       takes in a reply, to this request or to a later one: the future gets a Grant
    Scheduler.own             `_obtain` has merged the last owner's state: the turns are granted, or refused as late

The owner hands it on by these::

    BaseSession.receive       the reply to any request says that others want the host. One is sent every few seconds,
                              and whenever states are saved: RedisSession.look
    Scheduler.note_wanted     from `_hear`, which reads the session's news
    StoreWork.hand_on         from `Scheduler.dispatch`, once no turn here uses the host; of a scope from `_look_again`,
                              `serve` and `_hand_on_unused`; wakes `_transfer_hosts`
    Session.leave             with the host's state; the next request carries it
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from robotgate.errors import StoreError
from robotgate.events import Events, StoreLost, StoreRecovered
from robotgate.pace.lease import NOT_OWNED, NotOwned
from robotgate.pace.scope import TOTAL, Scope
from robotgate.pace.shares import LOOKS, Share
from robotgate.stores.base import Grant, Lost, OperatorBlock, Recovered, Session, SharedStore, Store, Wanted
from robotgate.stores.grants import ROBOTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from robotgate.client.robots import Flight
    from robotgate.pace.host import Host, PacedTurn
    from robotgate.pace.scheduler import Scheduler
    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin

Work: TypeAlias = Literal["reach", "load", "save record", "save hosts"]

T = TypeVar("T")

SAVE_DELAY: Final = 0.5
"""Seconds for which changes are collected. After a crash, which loses them, the store assumes a visit."""

PROVEN_BY: Final[Mapping[Work, frozenset[Work]]] = {
    "reach": frozenset({"reach", "load", "save record", "save hosts"}),
    "save hosts": frozenset({"load", "save record", "save hosts"}),
}
"""The kinds of work that count as possible again after one of them succeeded. A kind that is missing proves itself."""


class Persistence:
    """A gate's use of its store. Without a store, nothing is kept and this process alone has each host."""

    def __init__(self, store: Store | None, *, scheduler: Scheduler, events: Events) -> None:
        self._store = store
        self.first_lease: NotOwned | None = None if store is None else NOT_OWNED
        """Of a host which was not in memory: `NOT_OWNED` where there is a store, for its state has to be loaded."""
        self._scheduler = scheduler
        self._events = events
        self.session: Session | None = None
        """This gate's; None where the store is no `SharedStore`."""
        self._failing: set[Work] = set()
        """What the store failed at when it was last asked to; "reach": it says itself that it cannot be reached."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._saves: set[asyncio.Task[None]] = set()
        """Records that are saved in the background."""
        self._obtaining: dict[str, bool] = {}
        """Hosts whose state is asked for, and whether another process wants them already."""

    async def open(self, on_block: Callable[[str, float], None]) -> None:
        """Join the store, and begin to work.

        Args:
            on_block: takes the operator's blocks in, those of this gate included, which the store repeats.

        Raises:
            StoreError: it cannot be reached.
        """
        if isinstance(self._store, SharedStore):
            self.session = await self._store.session()
            self._begin(self._hear(self.session, on_block), self._tasks)
        if self._store is not None:
            await self._load_total(self._store)
            self._begin(self._transfer_hosts(self._store), self._tasks)
            self._begin(self._save_hosts(), self._tasks)

    async def aclose(self) -> None:
        """Hand all hosts on, and save what is known.

        Raises:
            StoreError: it could not be saved.
        """
        caller = asyncio.current_task()
        # Records are waited for, unless the store is lost or the caller is cancelled.
        gives_up = "reach" in self._failing or (caller is not None and caller.cancelling() > 0)
        for task in (*self._tasks, *(self._saves if gives_up else ())):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._saves, return_exceptions=True)
        if self.session is None:
            await self._save()
            return
        # Each host is handed on together with its state.
        self._hand_on_leaving()
        for host in self._scheduler.hosts.values():
            self.hand_on(host)
        for scope in self._scheduler.scopes.values():
            if scope.key != TOTAL:
                self.hand_on(scope)
        try:
            if not gives_up:
                await self._save_total()
        finally:
            await self.session.aclose()

    # Records.

    @asynccontextmanager
    async def alone_in_fleet(self, origin: Origin, flight: Flight, turn: PacedTurn) -> AsyncIterator[bool]:
        """Within this block no other process requests a file; its value is whether one may have done so just before.

        Args:
            flight, turn: while another process is waited for, which may need the same host for its own request, callers
                of the flight that hold what this turn of the request would wait for are refused.

        Raises:
            StoreError: the store failed.
        """
        session = self.session
        if session is None:
            yield False
            return
        key = f"{ROBOTS}{origin}"
        with flight.waiting_for(turn, self._scheduler):
            await session.obtain(key)
        try:
            yield True
        finally:
            session.leave(key, None)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As `Store.load_record`; a failure is reported as an event, too."""
        return None if self._store is None else await self._report("load", self._store.load_record(origin))

    async def save_record(self, record: RobotsRecord) -> None:
        """As `Store.save_record`; a failure is reported as an event, too."""
        if self._store is not None:
            await self._report("save record", self._store.save_record(record))

    def save_record_soon(self, record: RobotsRecord) -> None:
        """Save a record in the background; a failure is reported as an event."""

        async def save() -> None:
            with suppress(StoreError):
                await self.save_record(record)

        if self._store is not None:
            self._begin(save(), self._saves)

    # Hosts.

    async def load_host(self, host: Host) -> None:
        """Load what the store knows of a host that this process does not pace: for views, `wait_time`, and with rules.

        If the store is not shared, the host is this process's own from then on.

        Raises:
            StoreError: the store failed.
        """
        if self._store is None or host.may_pace():
            return
        host.merge(await self._store.load_host(host.key))
        if self.session is None and host.lease is not None:
            host.lease = None
            self._scheduler.own(host)

    def hand_on(self, host: Host | Scope) -> None:
        """Hand a host on with its state, if this process has it."""
        if self.session is not None and host.lease is not NOT_OWNED:
            self.session.leave(host.key, host.snapshot())

    async def _transfer_hosts(self, store: Store) -> None:
        """Hand hosts on, and obtain others, as the scheduler says."""
        work = self._scheduler.work
        while True:
            await work.has_transfers.wait()
            work.has_transfers.clear()
            self._hand_on_leaving()
            for host in [host for host in work.unowned if host.key not in self._obtaining]:
                work.unowned.discard(host)
                if host.may_pace():
                    # Its lease was renewed meanwhile.
                    self._scheduler.look_at(host, self._scheduler.now())
                else:
                    # If its lease has ended, the store is told of the visits under it.
                    self.hand_on(host)
                    host.lease = NOT_OWNED
                    self._obtaining[host.key] = False
                    self._begin(self._obtain(store, host.key, _look_pace(host)), self._tasks)

    async def _obtain(self, store: Store, key: str, pace: float) -> None:
        """Load the state of a host or a scope; where the store is shared, wait for the right to pace it."""
        scheduler, session = self._scheduler, self.session
        found: Grant | HostState | StoreError | None
        try:
            share = scheduler.find(key)
            if isinstance(share, Share) and share.budget is not None:
                share.merge(await self._report("load", store.load_host(key)))
                if scheduler.is_useless(share):
                    del self._obtaining[key]
                    return
            call = store.load_host(key) if session is None else session.obtain(key, pace=pace)
            found = await self._report("load", call)
        except StoreError as error:
            found = error
        is_wanted = self._obtaining.pop(key)
        # It may have been evicted, and be another object by now.
        host = scheduler.find(key)
        if host is None:
            if session is not None:
                session.leave(key, None)
            return
        scheduler.work.unowned.discard(host)
        if isinstance(found, StoreError):
            scheduler.refuse_all(host, found)
            return
        host.lease = None
        if isinstance(found, Grant):
            host.lease = found.lease
            # The state says the same where the store is ours.
            host.next_allowed_at = max(host.next_allowed_at, found.not_before_at)
            found = found.state
        host.merge(found)
        scheduler.own(host)
        if is_wanted:
            scheduler.note_wanted(host)

    async def _save_hosts(self) -> None:
        """Save what has changed, in batches."""
        scheduler = self._scheduler
        while True:
            await scheduler.work.batch(SAVE_DELAY)
            try:
                await self._save()
            except StoreError as error:
                if self.session is None:
                    scheduler.fail(error)
                # In a shared store a crash forgets nothing: hosts of a process that has ended count as just visited.
                scheduler.work.has_changed.set()

    def _hand_on_leaving(self) -> None:
        work = self._scheduler.work
        leaving, work.leaving = work.leaving, []
        if self.session is not None:
            for host in leaving:
                self.session.leave(host.key, host.snapshot())

    async def _save(self) -> None:
        work = self._scheduler.work
        if self._store is None or not work.changed:
            return
        hosts = work.saving = frozenset(work.changed)
        work.changed.clear()
        counted = [(host, host.window.tell()) for host in hosts if host.window is not None]
        states = {host.key: host.snapshot() for host in hosts}
        try:
            await self._report("save hosts", self._store.save_hosts(states))
        except (StoreError, asyncio.CancelledError):
            work.changed.update(hosts)
            raise
        finally:
            work.saving = frozenset()
        work.save_error = None
        for host, count in counted:
            self._scheduler.note_saved(host, count)

    # The scope of all hosts is this gate's own, and granted to none: others with the store have one each.

    async def _load_total(self, store: Store) -> None:
        total = self._scheduler.scopes.get(TOTAL)
        if total is not None and total.is_kept:
            total.merge(await self._report("load", store.load_host(TOTAL)))

    async def _save_total(self) -> None:
        total = self._scheduler.scopes.get(TOTAL)
        if self._store is not None and total is not None and total in self._scheduler.work.changed:
            await self._report("save hosts", self._store.save_hosts({TOTAL: total.snapshot()}))

    # News of a shared store.

    async def _hear(self, session: Session, on_block: Callable[[str, float], None]) -> None:
        while True:
            for news in await session.news():
                match news:
                    case Wanted(keys):
                        for key in keys:
                            host = self._scheduler.find(key)
                            if key in self._obtaining:
                                self._obtaining[key] = True
                            elif host is not None and host.lease is not NOT_OWNED:
                                self._scheduler.note_wanted(host)
                    case OperatorBlock(pattern, until_at):
                        on_block(pattern, until_at)
                    case Lost(error, is_partial):
                        self._scheduler.note_lost(error, is_partial=is_partial)
                        self._failed("reach", error)
                    case Recovered():
                        self._scheduler.note_found()
                        self._worked("reach")

    # Whether it works. A store may fail at one thing and do another: each has to work again.

    async def _report(self, work: Work, call: Awaitable[T]) -> T:
        """Await a call of the store, and report whether it fails."""
        try:
            result = await call
        except StoreError as error:
            self._failed(work, error)
            raise
        self._worked(work)
        return result

    def _failed(self, work: Work, error: StoreError) -> None:
        if not self._failing:
            self._events.emit(StoreLost(at=self._scheduler.now(), error=error))
        self._failing.add(work)

    def _worked(self, work: Work) -> None:
        if work in self._failing:
            self._failing -= PROVEN_BY.get(work, {work})
            if not self._failing:
                self._events.emit(StoreRecovered(at=self._scheduler.now()))

    def _begin(self, work: Coroutine[object, None, None], among: set[asyncio.Task[None]]) -> None:
        # Not by the loop's task factory, which may begin a task at once.
        task = asyncio.Task(work)
        among.add(task)
        task.add_done_callback(among.discard)


def _look_pace(host: Host | Scope) -> float:
    """Return the seconds in which a grant need not be looked for more often than a few times.

    Of a host whose scope is slower, most looks would be in vain: benchmarks/scopes_model.py.
    """
    if isinstance(host, Share):
        return LOOKS
    if isinstance(host, Scope):
        return 2 * host.delay
    return 2 * max((scope.delay for paced in host.waiting_origins for scope in paced.scopes), default=0.0)
