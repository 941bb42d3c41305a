"""The three seams: where time, robots.txt files and memory come from.

Each has a real default and a public fake in `robotgate.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import Answer, Failure, RobotsRecord
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

    Whatever goes wrong is raised as `StoreError`, naming the cause and the remedy; `recall_host` and `remember_host`,
    which nobody can wait for, have to do without failing.
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
        """What this process knows of a host, without asking anyone."""
        ...

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state at once; writing it down, where that takes time, happens behind it."""
        ...

    async def aclose(self) -> None:
        """Write down what is pending and let go of what is held."""
        ...
