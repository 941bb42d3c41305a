"""The store that lives as long as its process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from robotgate._checks import check_whole
from robotgate._pacing import FORGIVEN_AFTER
from robotgate._ports import Pruned
from robotgate.stores._lease import Lease
from robotgate.stores._managed import Managed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._urls import Origin
    from robotgate.stores._lease import Lock

MAX_HOSTS: Final = 100_000
LOOKS: Final = 4
"""Hosts looked at for each that is remembered while there are too many: those that may not go are passed over."""
STRETCH: Final = 1000
"""Hosts looked at, when all are, before others may run."""
LONGEST_DELAY: Final = 600.0
"""Seconds for which a visit may bind beyond what its state says: what a site asks for is learnt by its first visit,
and counts from that. A gate refuses longer delays than its `max_delay`, a minute unless told otherwise."""


class MemoryStore(Managed):
    """Remembers in dictionaries. Gates of one event loop may share it.

    They then ask for each robots.txt once between them, heed each other's blocks, and leave the delay between any two
    starts. A response that is still under way at one gate does not keep the other from starting.

    Beyond `max_hosts` those go first of which nothing was heard for the longest: records, and hosts. No host goes that
    may not be visited yet, that was visited within the last ten minutes, or whose blocks are not forgiven. What time it
    is by then, the visits themselves tell.

    What they take is bounded by their number alone: a robots.txt is kept whole, and may have 500 KiB.

    Args:
        max_hosts: how many records are kept, and how many hosts but for those that may not go.

    Raises:
        OptionError: `max_hosts` is no whole number from 1 on.
    """

    def __init__(self, *, max_hosts: int = MAX_HOSTS) -> None:
        check_whole("max_hosts", max_hosts, least=1)
        self._max_hosts = max_hosts
        self._records: OrderedDict[Origin, RobotsRecord] = OrderedDict()
        self._hosts: OrderedDict[str, HostState] = OrderedDict()
        self._leases: dict[Origin, Lock] = {}
        self._now = 0.0
        """The latest instant at which anything is known to have happened."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not."""
        return self._records.get(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        self._records[record.origin] = record
        self._records.move_to_end(record.origin)
        if len(self._records) > self._max_hosts:
            self._records.popitem(last=False)

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt."""
        return Lease(self._leases, origin)

    async def load_host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        return self._hosts.get(pace_key)

    def recall_host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        return self._hosts.get(pace_key)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state."""
        self._hosts[pace_key] = state
        self._hosts.move_to_end(pace_key)
        # These have been; the other instants of a state are yet to come.
        self._now = max(self._now, state.last_visit_at or 0.0, state.blocked_at)
        if len(self._hosts) > self._max_hosts:
            self._let_go_of_hosts(now=self._now, looks=LOOKS)

    async def open(self) -> None:
        """Nothing to reach."""

    async def aclose(self) -> None:
        """Nothing to let go of: what is remembered serves the next gate."""

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """All records, by host, then port, then scheme; those that come or go meanwhile may be among them or not."""
        for record in sorted(self._records.values(), key=_place):
            yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """All hosts with their states, by pace key; those that come or go meanwhile may be among them or not."""
        for pace_key, state in sorted(self._hosts.items(), key=lambda host: host[0]):
            yield pace_key, state

    async def origins_of(self, host: str) -> list[Origin]:
        """The origins of one host of which there is a record, by port and scheme."""
        found = [origin for origin in self._records if origin.host == host]
        return sorted(found, key=lambda origin: (origin.port, origin.scheme))

    async def host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        return self._hosts.get(pace_key)

    async def forget_record(self, origin: Origin) -> bool:
        """Let go of an origin's record. Returns whether there was one."""
        return self._records.pop(origin, None) is not None

    async def forget_host(self, pace_key: str) -> bool:
        """Let go of a host's state, its wait unserved or not. Returns whether there was any."""
        return self._hosts.pop(pace_key, None) is not None

    async def prune(self, *, now: float) -> Pruned:
        """Keep `max_hosts`. Of records there are never more; of hosts, while they might not go."""
        before = len(self._hosts)
        gone = 0
        for looked in range(0, before, STRETCH):
            gone += self._let_go_of_hosts(now=now, looks=min(STRETCH, before - looked))
            await asyncio.sleep(0)
        return Pruned(records=0, hosts=gone)

    def _let_go_of_hosts(self, *, now: float, looks: int) -> int:
        """Look at so many, the oldest first, as long as there are too many. Returns how many have gone."""
        gone = 0
        for _ in range(looks):
            if len(self._hosts) <= self._max_hosts:
                break
            pace_key, state = next(iter(self._hosts.items()))
            if _is_recent(state, now=now):
                # So are those of which more was heard since.
                break
            if _may_bind(state, now=now):
                self._hosts.move_to_end(pace_key)
            else:
                del self._hosts[pace_key]
                gone += 1
        return gone

    def __repr__(self) -> str:
        return f"<MemoryStore records={len(self._records)} hosts={len(self._hosts)}>"


def _place(record: RobotsRecord) -> tuple[str, int, str]:
    return record.origin.host, record.origin.port, record.origin.scheme


def _is_recent(state: HostState, *, now: float) -> bool:
    """Whether a site that was just visited may yet ask for a delay that counts from that visit."""
    return state.last_visit_at is not None and state.last_visit_at + LONGEST_DELAY > now


def _may_bind(state: HostState, *, now: float) -> bool:
    """Whether a visit has to come later, or a block to be longer, for what is remembered here."""
    if state.next_allowed_at > now or state.blocked_until_at > now:
        return True
    return state.failures > 0 and state.blocked_until_at + FORGIVEN_AFTER > now
