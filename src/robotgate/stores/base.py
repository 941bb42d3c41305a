"""The protocols of stores: `Store` keeps records and host states, `SharedStore` also grants hosts.

A grant is the exclusive right to pace one host. (The scheduler grants turns to tasks; a store grants hosts to
processes.) A process asks for a host once and paces it from memory as if it were alone. When another process asks for
the host, it is handed on once it has had a turn for each slot since it was obtained, or earlier if no turn waits or may
begin; and once none is open. While no other process asks, no method is called per page. `robotgate.stores.grants` is
the protocol of grants without I/O.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from robotgate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from robotgate.pace.lease import Lease
    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin

K = TypeVar("K")
T = TypeVar("T")

logger: Final = logging.getLogger("robotgate.stores")
PAGE: Final = 200
"""Records or hosts that are read at a time where all are listed."""
PLACE: Final = attrgetter("host", "port", "scheme")
"""The order of origins in lists."""
PATIENCE: Final = 30.0
"""Seconds for which a server that cannot be reached is tried again."""
SERVERS: Final = re.compile(r"((redis|valkey)(s|\+[a-z+]+)?|unix)://", re.IGNORECASE)
"""The beginning of a URL of Redis or Valkey."""


@runtime_checkable
class Store(Protocol):
    """Keeps robots.txt records and host states.

    Every failure is raised as `StoreError`; its message names the cause and the remedy.
    """

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Return the record of an origin's robots.txt, fresh or not; None if there is none."""

    async def save_record(self, record: RobotsRecord) -> None:
        """Keep a record in place of the origin's earlier one."""

    async def load_host(self, pace_key: str) -> HostState | None:
        """Return the last state saved for a host."""

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """Keep the states of these hosts, by pace key.

        A gate calls it with all changes, twice a second at most, and at once for a new block.
        """

    async def aclose(self) -> None:
        """Write what is pending and release all resources. A second call does nothing."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The exclusive right to pace one host, until `Session.leave` or the end of its lease."""

    lease: Lease
    state: HostState | None
    """The state that the previous owner saved, by the clock of this process. None: the host was never visited."""
    not_before_at: float = 0.0
    """No request may start earlier (seconds since the epoch, by the clock of this process), whatever `state` says."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Other processes ask for these hosts (or ``robots|`` keys), for which this session has grants."""

    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class OperatorBlock:
    """The operator blocked hosts in another process, or lifted a block."""

    pattern: str
    """As `RobotGate.block` takes it."""
    until_at: float
    """Seconds since the epoch, by the clock of this process; `math.inf`: until lifted; 0: lifted."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The store cannot be reached. Hosts with valid grants are still visited; all others wait."""

    error: StoreError
    is_partial: bool = False
    """Whether other sessions may still obtain some hosts: a part of a cluster can be reached."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The store can be reached again."""


News: TypeAlias = Wanted | OperatorBlock | Lost | Recovered


class Session(Protocol):
    """One gate's membership in a shared store. It keeps itself alive while it is open."""

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """Wait in line for a host and return the grant. A cancelled task leaves the line, or hands the grant on.

        Args:
            pace: seconds; it need not be looked for more often than a few times in so many, where the host's own pace
                is quicker.

        Raises:
            StoreError: the store cannot be reached, or refuses.
        """

    def leave(self, key: str, state: HostState | None) -> None:
        """Hand a host on, with its state, to the next session in line. The message is sent in the background.

        Where the grant is not held any more, the state only moves the host's instants later.
        """

    async def news(self) -> Sequence[News]:
        """Wait for news, and return them. One task at a time may wait."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Block hosts for every session until an instant; 0 lifts the block. The message is sent in the background,
        and repeated until it is acknowledged. Of two messages about one pattern, the later counts.
        """

    async def aclose(self) -> None:
        """Leave every host and every line. Hosts that were not left before keep the state that was saved last."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several gates, in one process or in many, may use at the same time."""

    async def session(self) -> Session:
        """Open a session. A gate has one session for as long as it is open.

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
    """A store whose contents can be listed and pruned, however many there are. ``robotgate cache`` uses it."""

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
        """Remove a host's state, even if its delay or block is not over. Returns whether there was any."""

    async def prune(self, *, now: float) -> Pruned:
        """Remove the oldest entries over the store's bounds, but no host whose delay or block is not over."""


@runtime_checkable
class OwnStore(Catalogue, SharedStore, Protocol):
    """The base of our stores: lists of all entries, and ``async with``, which opens and closes the store."""

    async def origins(self, host: str | None = None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, by host, then port, then scheme."""

    async def pace_keys(self) -> list[str]:
        """Return the pace keys of all hosts, in order."""

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """As `Catalogue.records`; records that are saved or removed meanwhile may be missing."""
        async for _, record in in_pages(await self.origins(), self.load_record):
            if record is not None:
                yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """As `Catalogue.hosts`; hosts that are saved or removed meanwhile may be missing."""
        async for pace_key, state in in_pages(await self.pace_keys(), self.host):
            if state is not None:
                yield pace_key, state

    async def host(self, pace_key: str) -> HostState | None:
        """As `Catalogue.host`, of a store that assumes nothing."""
        return await self.load_host(pace_key)

    async def origins_of(self, host: str) -> list[Origin]:
        """As `Catalogue.origins_of`."""
        return await self.origins(host)

    async def open(self) -> None:
        """Open the file, or reach the server, now rather than at the first use.

        Raises:
            StoreError: it cannot be reached.
        """

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # This ends its tasks. An error of closing would hide the error of opening.
            with suppress(StoreError):
                await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def in_pages(keys: Sequence[K], load: Callable[[K], Awaitable[T]]) -> AsyncIterator[tuple[K, T]]:
    """Yield each key with what is loaded for it, some together: a store reads many in the time of one."""
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        for found in zip(page, await asyncio.gather(*map(load, page)), strict=True):
            yield found


def without_secrets(url: str) -> str:
    """Return a URL without its credentials and parameters, for a message."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
