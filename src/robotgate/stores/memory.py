"""The store in memory, which ends with its process."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from robotgate.errors import StoreError
from robotgate.options import MAX_HOSTS, check_whole
from robotgate.pace.state import HostState, is_served, merged
from robotgate.sites.packed import Form, pack_record, packed, parts_of, unpack_record
from robotgate.stores.base import PLACE, OwnStore, Pruned
from robotgate.stores.grants import Grants, SessionSide
from robotgate.stores.session import BaseSession, NewsQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robotgate.sites.packed import Packed
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin

LOOKS: Final = 4
"""Hosts examined for each one that is saved while there are too many; some of them must stay."""
LONGEST_DELAY: Final = 600.0
"""Seconds after a visit for which its host stays. The state of a first visit may lack the delay that robots.txt asks
for, which counts from that visit. A gate refuses delays over its `max_delay`, which is a minute by default."""
_STATE: Final = Form(HostState)
# The types of the arguments are those of the fields.
_make_state: Final[Callable[..., HostState]] = HostState
_TIME: Final = 0.0
"""The lease clock of sessions in one event loop. It stands still: no session expires."""


class MemoryStore(OwnStore):
    """Keeps records and host states in dictionaries. Gates of one event loop may share it.

    Over `max_hosts`, the records and hosts that were saved longest ago are evicted. A host stays while its delay or
    block lasts, for ten minutes after its last visit, and until its blocks are forgiven. The store has no clock: the
    instants of saved visits tell the time.

    Only the number of entries is bounded: a robots.txt is kept whole, and may have 500 KiB.

    Args:
        max_hosts: how many records are kept, and how many hosts but for those that must stay.

    Raises:
        OptionError: `max_hosts` is no whole number from 1 on.
    """

    def __init__(self, *, max_hosts: int = MAX_HOSTS) -> None:
        check_whole("max_hosts", max_hosts, least=1)
        self._max_hosts = max_hosts
        self._records: OrderedDict[str, Packed] = OrderedDict()
        """By origin as text."""
        self._grants = PackedGrants("memory")
        self._hosts = self._grants.packed
        self._sessions: dict[str, MemorySession] = {}
        self._now = 0.0
        """The latest instant of the past in any saved state."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As `Store.load_record`."""
        packed = self._records.get(origin.text)
        return None if packed is None else unpack_record(packed)

    async def save_record(self, record: RobotsRecord) -> None:
        """As `Store.save_record`."""
        key = record.origin.text
        self._records[key] = pack_record(record)
        self._records.move_to_end(key)
        if len(self._records) > self._max_hosts:
            self._records.popitem(last=False)

    async def load_host(self, pace_key: str) -> HostState | None:
        """As `Store.load_host`."""
        return self._grants.known(pace_key)

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """As `Store.save_hosts`; among several sessions the later instants count."""
        is_shared = len(self._sessions) > 1
        for pace_key, state in states.items():
            known = self._grants.known(pace_key) if is_shared else None
            self._grants.keep(pace_key, state if known is None else merged(known, state))
            self._keep_bound()

    async def session(self) -> MemorySession:
        """As `SharedStore.session`."""
        loop = asyncio.get_running_loop()
        for session in list(self._sessions.values()):
            if session.loop.is_closed():
                self._end(session)
            elif session.loop is not loop:
                raise StoreError("another event loop uses this MemoryStore; make one for each event loop")
        session = MemorySession(self, uuid.uuid4().hex, loop)
        self._sessions[session.side.name] = session
        self._exchange()
        return session

    async def open(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing: the contents stay for the next gate."""

    async def origins(self, host: str | None = None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, by host, then port, then scheme."""
        there = (unpack_record(packed).origin for packed in self._records.values())
        return sorted((origin for origin in there if host in {None, origin.host}), key=PLACE)

    async def pace_keys(self) -> list[str]:
        """Return the pace keys of all hosts, in order."""
        return sorted(self._hosts)

    async def forget_record(self, origin: Origin) -> bool:
        """As `Catalogue.forget_record`."""
        return self._records.pop(origin.text, None) is not None

    async def forget_host(self, pace_key: str) -> bool:
        """As `Catalogue.forget_host`."""
        return self._hosts.pop(pace_key, None) is not None

    async def prune(self, *, now: float) -> Pruned:
        """As `Catalogue.prune`. There are never more than `max_hosts` records, so only hosts are removed."""
        return Pruned(records=0, hosts=self._evict_hosts(now=now, looks=len(self._hosts)))

    def _keep_bound(self) -> None:
        if len(self._hosts) > self._max_hosts:
            # These two instants are past; the others of the state may lie in the future.
            state = self._grants.known(next(reversed(self._hosts))) or HostState()
            self._now = max(self._now, state.last_visit_at or 0.0, state.blocked_at)
            self._evict_hosts(now=self._now, looks=LOOKS)

    def _evict_hosts(self, *, now: float, looks: int) -> int:
        """Examine the oldest `looks` hosts while there are too many. Returns how many were evicted."""
        gone = 0
        for _ in range(looks):
            if len(self._hosts) <= self._max_hosts:
                break
            pace_key = next(iter(self._hosts))
            state = self._grants.known(pace_key) or HostState()
            if state.last_visit_at is not None and state.last_visit_at + LONGEST_DELAY > now:
                # All other hosts were saved later.
                break
            if is_served(state, now):
                del self._hosts[pace_key]
                gone += 1
            else:
                self._grants.keep(pace_key, state)
        return gone

    def _exchange(self) -> None:
        """Exchange messages with every session that has some to send or to receive."""
        sessions = self._sessions.values()
        while behind := [session for session in sessions if session.is_behind(self._grants)]:
            for session in behind:
                session.exchange(self._grants)
        self._keep_bound()

    def _end(self, session: MemorySession) -> None:
        """End a session: its hosts are free."""
        if self._sessions.pop(session.side.name, None) is not None:
            session.exchange(self._grants, is_last=True)
            self._exchange()

    def __repr__(self) -> str:
        return f"<MemoryStore records={len(self._records)} hosts={len(self._hosts)}>"


class PackedGrants(Grants):
    """Keeps states in a small form."""

    def __init__(self, epoch: str) -> None:
        super().__init__(epoch)
        self.packed: dict[str, Packed] = {}

    def known(self, key: str) -> HostState | None:
        """As `Grants.known`."""
        if key not in self.packed:
            return None
        (part,), apart = parts_of(self.packed[key])
        return _make_state(**dict(_STATE.values(part, apart)))

    def keep(self, key: str, state: HostState) -> None:
        """As `Grants.keep`."""
        apart: list[object] = []
        self.packed.pop(key, None)
        self.packed[key] = packed([_STATE.part(state, apart)], apart)


class MemorySession(NewsQueue, BaseSession):
    """One gate of those that share a `MemoryStore`."""

    def __init__(self, store: MemoryStore, name: str, loop: asyncio.AbstractEventLoop) -> None:
        NewsQueue.__init__(self)
        BaseSession.__init__(self, SessionSide(name), self, lambda: _TIME)
        self.loop = loop
        self._store = store

    def send_soon(self) -> None:
        """Exchange messages at once."""
        self._store._exchange()

    async def aclose(self) -> None:
        """As `Session.aclose`."""
        self.is_closed = True
        self._store._end(self)

    def is_behind(self, grants: Grants) -> bool:
        """Whether there are messages to send or to receive."""
        if self.side.has_to_send:
            return True
        inbox = grants.sessions[self.side.name].inbox.values()
        return max([*inbox, *(block.number for block in grants.blocks.values())], default=0) > self.side.after

    def exchange(self, grants: Grants, *, is_last: bool = False) -> None:
        """Send a request, and process the reply."""
        self.receive(grants.exchange(self.side.request(now=_TIME, is_last=is_last), now=_TIME))
