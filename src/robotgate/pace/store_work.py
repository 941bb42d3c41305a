"""What a scheduler asks of others: of the store's side hosts and scopes, of a `ScopeBook` the scopes of origins."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robotgate.errors import StoreError
    from robotgate.pace.host import Host, PacedOrigin
    from robotgate.pace.scope import Scope


class StoreWork:
    """The hosts that have to be saved, obtained and handed on, and what the store fails at.

    Args:
        has_store: whether there is a store.
    """

    def __init__(self, *, has_store: bool) -> None:
        self.has_store: bool = has_store
        self.lost: StoreError | None = None
        """Why the store cannot be used now; None while it can, or is not asked."""
        self.save_error: StoreError | None = None
        """Why states cannot be saved; None while they can. All turns are refused then."""
        self.changed: set[Host | Scope] = set()
        """Hosts and scopes whose state the store does not know yet."""
        self.saving: frozenset[Host | Scope] = frozenset()
        """Those whose states are being saved. If that fails, they are among `changed` again."""
        self.unowned: set[Host | Scope] = set()
        """Those with waiters that have to be obtained, or loaded, before their turns are granted."""
        self.unplaced: set[PacedOrigin] = set()
        """Origins with waiters whose scopes are not known."""
        self.has_unplaced: asyncio.Event = asyncio.Event()
        """Addresses have to be looked up. This needs no store."""
        self.leaving: list[Host | Scope] = []
        """Hosts that another process asks for, and that no turn uses any more."""
        self.has_changed: asyncio.Event = asyncio.Event()
        """Hosts have to be saved, with the next batch."""
        self.is_urgent: asyncio.Event = asyncio.Event()
        """Save them at once: other processes should know it."""
        self.has_transfers: asyncio.Event = asyncio.Event()
        """Hosts have to be obtained or handed on."""

    def note_change(self, host: Host | Scope) -> None:
        """The state of a host has changed: it is saved with the next batch."""
        if host not in self.changed:
            self.changed.add(host)
            self.has_changed.set()

    def needs(self, host: Host | Scope) -> bool:
        """Return whether a host has to stay in memory, as the object that it is, because of the store."""
        return host in self.changed or host in self.saving or host in self.unowned

    def obtain(self, host: Host | Scope) -> None:
        """Ask for a host."""
        self.unowned.add(host)
        self.has_transfers.set()

    def locate(self, paced: PacedOrigin) -> None:
        """Ask for the scopes of an origin: `Scheduler.place`."""
        self.unplaced.add(paced)
        self.has_unplaced.set()

    def hand_on(self, host: Host | Scope) -> None:
        """Let another process have a host, with its state."""
        self.changed.discard(host)
        self.leaving.append(host)
        self.has_transfers.set()

    async def batch(self, delay: float) -> None:
        """Wait until hosts have changed, and then for so many seconds, unless it is urgent."""
        await self.has_changed.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self.is_urgent.wait()
        self.has_changed.clear()
        self.is_urgent.clear()
