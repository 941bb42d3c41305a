"""What a gate expects of a store: `Store` keeps records and host states, `SharedStore` also hands out grants.

A grant is the exclusive right to pace one host. A process asks for a host once, paces it from memory as if it were
alone, and hands the host on after the turn under way as soon as another process asks for it. No method is called for
each page. `robotgate.stores.grants` is the protocol of grants without I/O.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from robotgate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import Self

    from robotgate.pace.host import Lease
    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin

PAGE: Final = 200
"""Records or hosts that are read at a time where all are listed."""


@runtime_checkable
class Store(Protocol):
    """Keeps robots.txt records and host states. A record of a tdmrep.json has its own key, `Origin.tdmrep`.

    Every failure is raised as `StoreError`; its message names the cause and the remedy.
    """

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Return what is known of an origin's robots.txt, fresh or not."""

    async def save_record(self, record: RobotsRecord) -> None:
        """Keep a record in place of the origin's earlier one."""

    async def load_host(self, pace_key: str) -> HostState | None:
        """Return the last state saved for a host."""

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """Keep the states of these hosts, by pace key. A gate calls it at most twice a second, with all changes."""

    async def aclose(self) -> None:
        """Write what is pending and release all resources. Closing twice is closing once."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The exclusive right to pace one host, until it is left or its lease is no longer valid."""

    lease: Lease
    state: HostState | None
    """What the previous owner left, by the clock of this process. None: the host was never visited."""
    not_before_at: float = 0.0
    """No request may start earlier (seconds since the epoch, by the clock of this process)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Other processes ask for these hosts (or ``robots|`` keys), for which this session has grants."""

    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class OperatorBlock:
    """Another process was told to leave hosts alone, or to visit them again."""

    pattern: str
    """As `RobotGate.block` takes it."""
    until_at: float
    """Seconds since the epoch, by the clock of this process; `math.inf`: until lifted; 0: lifted."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The store cannot be reached. Hosts with valid grants go on; all others wait."""

    error: StoreError


@dataclass(frozen=True, slots=True)
class Recovered:
    """The store can be reached again."""


News: TypeAlias = Wanted | OperatorBlock | Lost | Recovered


class Session(Protocol):
    """One gate's membership in a shared store. It keeps itself alive while it is open."""

    async def obtain(self, key: str) -> Grant:
        """Wait in line for a host and return the grant. Cancelled, it leaves the line, or hands the grant on.

        Raises:
            StoreError: the store cannot tell, and will not for a while.
        """

    def leave(self, key: str, state: HostState | None) -> None:
        """Hand a host on, with its state; the next session in line is granted. It is sent behind this call.

        A call for a grant that is not held any more changes nothing but instants, which it can only move later.
        """

    async def news(self) -> Sequence[News]:
        """Wait until there is something to tell, and return it. One task at a time may wait."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Tell every session to leave hosts alone until an instant; 0 lifts. It is sent behind this call, and kept
        until it can be sent. What was said last holds.
        """

    async def aclose(self) -> None:
        """Leave every host and every line. Hosts that were not left before are free as they were last saved."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several gates, in one process or in many, may use at the same time."""

    async def session(self) -> Session:
        """Join. A gate that uses the store has one session for as long as it is open.

        Raises:
            StoreError: the store cannot be reached.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What `Catalogue.prune` removed."""

    records: int
    hosts: int


@runtime_checkable
class Catalogue(Store, Protocol):
    """A store whose contents can be listed and pruned, however many there are. ``robotgate cache`` uses it.

    No record of a tdmrep.json is listed (`Origin.is_tdmrep`).
    """

    def records(self) -> AsyncIterator[RobotsRecord]:
        """Iterate over all records, by host, then port, then scheme."""

    def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """Iterate over all hosts with their states, by pace key."""

    async def origins_of(self, host: str) -> list[Origin]:
        """Return the origins of one host that have a record, by port and scheme."""

    async def host(self, pace_key: str) -> HostState | None:
        """Return the state that was saved for a host, without what is assumed after a crash."""

    async def forget_record(self, origin: Origin) -> bool:
        """Remove an origin's record. Returns whether there was one."""

    async def forget_host(self, pace_key: str) -> bool:
        """Remove a host's state, even if its wait is not over. Returns whether there was any."""

    async def prune(self, *, now: float) -> Pruned:
        """Remove the oldest entries over the store's bounds, but no host whose wait is not over."""


@runtime_checkable
class OwnStore(Catalogue, SharedStore, Protocol):
    """A store of ours: what is listed, and that its maker opens and closes it.

    ``async with`` opens it, if that was not done before, and closes it.
    """

    async def origins(self, host: str | None = None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, by host, then port, then scheme."""

    async def pace_keys(self) -> list[str]:
        """Return the pace keys of all hosts, in order."""

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """As `Catalogue.records`; those that come or go meanwhile may be among them or not."""
        origins = await self.origins()
        for start in range(0, len(origins), PAGE):
            for record in await asyncio.gather(*map(self.load_record, origins[start : start + PAGE])):
                if record is not None:
                    yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """As `Catalogue.hosts`; those that come or go meanwhile may be among them or not."""
        pace_keys = await self.pace_keys()
        for start in range(0, len(pace_keys), PAGE):
            page = pace_keys[start : start + PAGE]
            for pace_key, state in zip(page, await asyncio.gather(*map(self.host, page)), strict=True):
                if state is not None:
                    yield pace_key, state

    async def origins_of(self, host: str) -> list[Origin]:
        """As `Catalogue.origins_of`."""
        return await self.origins(host)

    async def open(self) -> None:
        """Reach the medium now rather than at the first use.

        Raises:
            StoreError: it cannot be reached.
        """

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # A store that cannot be opened may still try to. Why it cannot be closed either is no news.
            with suppress(StoreError):
                await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
