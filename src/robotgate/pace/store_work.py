"""What a scheduler and its store's side tell each other about hosts: one object, empty where there is no store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate.errors import StoreError
    from robotgate.pace.host import Host


class StoreWork:
    """The hosts that have to be saved, obtained and handed on, and what the store fails at.

    Args:
        is_saved: whether there is a store.
    """

    def __init__(self, *, is_saved: bool) -> None:
        self.is_saved: bool = is_saved
        self.lost: StoreError | None = None
        """Why the store cannot be used now; None while it can, or is not asked."""
        self.unsaved: StoreError | None = None
        """Why states cannot be saved; None while they can."""
        self.changed: set[Host] = set()
        """Hosts whose state the store does not know yet."""
        self.unowned: set[Host] = set()
        """Hosts with waiters that have to be obtained, or loaded, before their turns are granted."""
        self.leaving: list[Host] = []
        """Hosts that another process asks for, and that no turn uses any more."""
        self._has_changed = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._has_transfers = asyncio.Event()

    # The scheduler says.

    def note_change(self, host: Host) -> None:
        """The state of a host has changed: it is saved with the next batch."""
        if host not in self.changed:
            self.changed.add(host)
            self._has_changed.set()

    def hurry(self) -> None:
        """Save what has changed at once: other processes should know it."""
        self._is_urgent.set()

    def obtain(self, host: Host) -> None:
        """Ask for a host."""
        self.unowned.add(host)
        self._has_transfers.set()

    def hand_on(self, host: Host) -> None:
        """Let another process have a host, with its state."""
        self.changed.discard(host)
        self.leaving.append(host)
        self._has_transfers.set()

    # The store's side asks.

    def is_pending(self, host: Host) -> bool:
        """Return whether a host waits to be saved or obtained."""
        return host in self.changed or host in self.unowned

    async def transfers(self) -> None:
        """Wait until hosts have to be obtained or handed on."""
        await self._has_transfers.wait()
        self._has_transfers.clear()

    def take_leaving(self) -> list[Host]:
        """Return the hosts to hand on; they are not returned again."""
        leaving, self.leaving = self.leaving, []
        return leaving

    async def batch(self, delay: float) -> None:
        """Wait until hosts have changed, and then for so many seconds, unless it is urgent."""
        await self._has_changed.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._is_urgent.wait()
        self._has_changed.clear()
        self._is_urgent.clear()

    def take_changed(self) -> list[Host]:
        """Return the hosts to save; they are not returned again."""
        changed = list(self.changed)
        self.changed.clear()
        return changed

    def put_back(self, hosts: Iterable[Host] = ()) -> None:
        """Save hosts that could not be saved, and whatever else has changed, with a later batch."""
        self.changed.update(hosts)
        self._has_changed.set()
