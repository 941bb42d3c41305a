"""The seams: where time, robots.txt files and memory come from, and what a memory may do besides.

Each has a real default and a public fake in `robotgate.testing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import Answer, Failure, RobotsRecord
    from robotgate._errors import StoreError
    from robotgate._pacing import HostState
    from robotgate._urls import Origin


@runtime_checkable
class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since the epoch; it must never go backwards while a gate is open."""
        ...


@runtime_checkable
class Fetcher(Protocol):
    """Asks for one robots.txt, once: no redirects followed, no rules asked, no pace kept. The gate sees to those."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, with at most `max_bytes` of its decoded body; or why there is none within `timeout` seconds."""
        ...


@runtime_checkable
class Store(Protocol):
    """Remembers robots.txt records and host state, for one gate or for several that share it.

    Whatever goes wrong is raised as `StoreError`, naming the cause and the remedy. `remember_host` takes every state
    in, and raises where it cannot be kept: a visit then does not begin. Nor does it where `recall_host` raises.
    """

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """What is known of an origin's robots.txt, fresh or not."""
        ...

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        ...

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt; waits while another holds it.

        Whoever comes out of the wait looks first whether the other has saved a record.
        """
        ...

    async def load_host(self, pace_key: str) -> HostState | None:
        """What is known of a host, from wherever it is kept."""
        ...

    def recall_host(self, pace_key: str) -> HostState | None:
        """What this process knows of a host, without asking anyone.

        What `load_host` has answered is known from then on, until it is one host too many.
        """
        ...

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state at once; writing it down, where that takes time, happens behind it."""
        ...

    async def aclose(self) -> None:
        """Write down what is pending and let go of what is held."""
        ...


@dataclass(frozen=True, slots=True)
class Postponed:
    """A slot that is not to be had yet."""

    state: HostState
    """What all processes know of the host together."""
    again_at: float
    """When it is worth asking again, by the gate's clock. It may be a place in a line, and is then ours alone: nothing
    that is known of the host."""


class Visits(Protocol):
    """What a lane needs of a store: host states, and which requests are under way."""

    @property
    def is_shared(self) -> bool:
        """Whether another process uses the store now, or may: turns are then reserved."""
        ...

    def recall_host(self, pace_key: str) -> HostState | None:
        """As `Store.recall_host`."""
        ...

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As `Store.remember_host`."""
        ...

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Take one of a host's slots, if it is due as far as all processes know. Cancelled, it leaves nothing taken.

        Args:
            state: what will be known of the host once the request is sent.
            now: the gate's time, in seconds since the epoch, at which the host has to be due.
            slots: how many requests may be under way at the host; with one, the delay counts from its end.
            delay: seconds between visits.

        Returns:
            None when a slot was taken and the request may be sent now. `begin_visit` tells that it is. `end_visit`
            gives the slot back, whether or not it was. Else when to ask again; `withdraw` tells that nobody will.

        Raises:
            StoreError: nobody knows; the request must not be sent.
        """
        ...

    def withdraw(self, pace_key: str) -> None:
        """Nobody here waits for the host any more: what place in a line there was is somebody else's."""
        ...

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """A request is sent now. Either it was reserved, or `is_shared` was False when it was admitted.

        Args:
            state: as for `remember_host`. A request that was reserved is among its visits already: only the instants
                are news.

        Raises:
            StoreError: the state cannot be kept. The request is not sent, and takes no slot.
        """
        ...

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """A request has ended, or was reserved and will not be sent after all: its slot is free.

        Args:
            state: as for `remember_host`.

        Raises:
            StoreError: the state cannot be kept.
        """
        ...


@runtime_checkable
class SharedStore(Store, Visits, Protocol):
    """A store that other processes may use at the same time: what is under way is booked in it.

    What its `lease` gives is the sole right among all of them.
    """


@runtime_checkable
class ReportingStore(Store, Protocol):
    """A store that notices by itself when it is lost and when it is back, while calls still wait for it."""

    def subscribe_losses(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """Call back with the error when the store is lost, and with None when it is back.

        In the event loop of the gate; at once, if it is lost now.

        Returns:
            What ends the subscription; calling it again changes nothing.
        """
        ...


@runtime_checkable
class NewsStore(Store, Protocol):
    """A store whose lease need not be waited for once somebody has saved a record: few need it then.

    Ours alone so far: no public port.
    """

    def lease_or_news(self, origin: Origin) -> AbstractAsyncContextManager[bool]:
        """As `lease`, and True for whoever has the right.

        False, and no right, for who had to wait while somebody saved a record of the origin: it is to be looked at, and
        the lease to be asked for again if it does not do.
        """
        ...


@runtime_checkable
class SharedBlocks(Store, Protocol):
    """A store that passes the operator's word on: what is blocked at one of the gates that share it is at all."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Tell all gates to leave hosts alone. It happens behind the call, and is kept until it can.

        What was said last holds, whoever said it: one that comes late, as its process could reach nobody, undoes
        nothing that was said since.

        Args:
            pattern: as `RobotGate.block` knows it, in the spelling of `HostBlocked.host`.
            until_at: seconds since the epoch, by the gate's clock; `math.inf` until lifted; 0 lifts.
        """
        ...

    def subscribe_blocks(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """Call back with pattern and instant, as `publish_block` has them, of each word of any gate from now on.

        In the event loop of the gate; and, as soon as may be, of each that stands already. What the gate published
        itself may be among them; what holds already, is no news to it.

        Returns:
            What ends the subscription; calling it again changes nothing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a store let go of."""

    records: int
    hosts: int


@runtime_checkable
class Catalogue(Store, Protocol):
    """A store whose contents can be listed and weeded, however many there are."""

    def records(self) -> AsyncIterator[RobotsRecord]:
        """All records, by host, then port, then scheme."""
        ...

    def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """All hosts with their states, by pace key."""
        ...

    async def origins_of(self, host: str) -> list[Origin]:
        """The origins of one host of which there is a record, by port and scheme."""
        ...

    async def host(self, pace_key: str) -> HostState | None:
        """What was written down of a host, and nothing that is merely taken to have happened, as after a crash."""
        ...

    async def forget_record(self, origin: Origin) -> bool:
        """Let go of an origin's record. Returns whether there was one."""
        ...

    async def forget_host(self, pace_key: str) -> bool:
        """Let go of a host's state, its wait unserved or not. Returns whether there was any."""
        ...

    async def prune(self, *, now: float) -> Pruned:
        """Keep the bounds that the store was given: the oldest go first, and no host whose wait is unserved."""
        ...
