"""The total of a fleet, in shares: a store grants each to one process at a time, as it grants hosts.

A share has its part of each limit of the total, so no limit is exceeded whoever has which. A process asks for one when
turns wait for the total, and keeps it as long as no other process asks. It may use what any of its shares allows: a
request counts as started in one of them, and the places for pages of all are added up.

A share that another process asks for is handed on after some turns or seconds, or earlier if this process has no use
for it. How many shares there are and for how long they are kept was chosen in benchmarks/shares_model.py: eight busy
processes use all of a rate of 100 a second for 0.04 calls of the store a page more, and two of eight, with the others
idle, do so, too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import islice
from random import choice
from typing import TYPE_CHECKING, Final

from robotgate.options import Budget, Rate
from robotgate.pace.budget import count_bytes, count_page, is_spent, renewed_at
from robotgate.pace.scope import TOTAL, UNLIMITED, Scope
from robotgate.pace.state import CLOCK_GRAIN
from robotgate.pace.turn import Permits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from robotgate.pace.lease import Lease

SHARES: Final = 32
"""At most."""
HOLD_TURNS: Final = 60
"""Turns after which a share is handed on that another process asks for."""
MIN_HOLD: Final = 2.0
"""Seconds for which it is kept at least, unless this process has no use for it."""
MAX_HOLD: Final = 30.0
"""Seconds for which it is kept at most."""
IDLE: Final = 0.5
"""Seconds without use after which this process has no use for it."""
MAX_ASKS: Final = 8
"""Shares that a process asks for at the same time."""
STEP: Final = 1.0
"""Seconds until it asks for a further one, where the last one was not granted at once."""
SHORT: Final = 60.0
"""Seconds. Of a quota of no longer periods a crash may take a whole share, so that no start waits for a save."""
LOOKS: Final = 4.0
"""Seconds in which a process looks a few times whether it has got a share."""


class SharedPermits(Permits):
    """Those for pages: as many as this process's shares allow.

    Args:
        most: as many as all shares allow.
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__(0)
        self.most: int = most

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """As `Permits.is_held_by`, of all shares: there may be more."""
        return len(self.held) >= self.most and super().is_held_by(task)


class Share(Scope):
    """One part of the total.

    Args:
        places: pages that may be open at once.
    """

    __slots__ = ("asked_at", "known_at", "obtained_at", "places", "used_at")

    def __init__(
        self,
        key: str,
        places: int,
        *,
        rate: Rate | None,
        budget: Budget | None,
        bytes_per_second: float,
        lease: Lease | None,
    ) -> None:
        rates = () if rate is None else (rate,)
        super().__init__(
            key, rates=rates, budget=budget, bytes_per_second=bytes_per_second, is_kept=True, lease=lease
        )
        if self.window is not None and rate is not None and rate.seconds <= SHORT:
            self.window.may_lose = UNLIMITED
        self.places: int = places
        self.asked_at: float = math.inf
        """Since when it is asked for; infinity while it is not."""
        self.known_at: float = 0.0
        """It is due then at the earliest."""
        self.obtained_at: float = 0.0
        self.used_at: float = 0.0
        """When it was needed last."""

    def may_pace(self) -> bool:
        """As `Leased.may_pace`, for any number of turns: `SharedTotal.handed_on` has when it is handed on."""
        return self.is_ours()

    def may_drop(self, now: float) -> bool:
        """As `Scope.may_drop`: never."""
        return False

    def next_at(self, now: float) -> float:
        """As `due_at`, which is not computed again before the last result has come: instants only move later."""
        if self.known_at - now <= CLOCK_GRAIN:
            self.known_at = self.due_at(now)
        return self.known_at

    def is_due(self, now: float) -> bool:
        """Return whether a request may start now."""
        return self.next_at(now) - now <= CLOCK_GRAIN

    def room(self, now: float) -> int:
        """Return how many requests may start now."""
        if self.next_allowed_at - now > CLOCK_GRAIN:
            return 0
        window = self.window
        if window is None:
            return UNLIMITED
        most = max(rate.requests for rate in window.rates)
        return bisect_right(
            range(most), now + CLOCK_GRAIN, key=lambda reserved: window.start_at(now, reserved=reserved)
        )


class SharedTotal(Scope):
    """The total of a fleet, as far as this process has shares of it.

    Args:
        pages: the permits for pages, of which there are as many as the shares allow.
        concurrency: pages that the fleet may have open at once.
        lease: the first one of a share.
    """

    __slots__ = ("_leaving", "_owned", "_pages", "_updated_at", "asks_at", "shares")

    def __init__(
        self,
        pages: SharedPermits,
        *,
        concurrency: int,
        rate: Rate | None,
        budget: Budget | None,
        bytes_per_second: float,
        lease: Lease | None,
    ) -> None:
        # By arrival alone: a page does not starve behind ever new hosts. What a store keeps are the shares.
        super().__init__(TOTAL, budget=budget, robots_first=False)
        least = [SHARES, concurrency, *([] if rate is None else [rate.requests])]
        if budget is not None:
            least += [each for each in (budget.pages, budget.bytes) if each is not None]
        count = min(least)
        # Processes with other limits share nothing.
        limits = f"{concurrency}|{rate}|{budget}|{bytes_per_second:g}"
        self.shares: tuple[Share, ...] = tuple(
            Share(
                f"{TOTAL}|{number + 1}/{count}|{limits}",
                _part(concurrency, number, count),
                rate=None if rate is None else Rate(_part(rate.requests, number, count), rate.seconds),
                budget=None if budget is None else _part_of(budget, number, count),
                bytes_per_second=bytes_per_second / count,
                lease=lease,
            )
            for number in range(count)
        )
        self._owned: list[Share] = []
        """In the order in which they are used."""
        self._leaving: list[Share] = []
        """Those that are handed on as soon as the others have enough places."""
        self._pages = pages
        self._updated_at = 0.0
        self.asks_at: float = 0.0
        """When to ask for a further one."""

    def _of_use(self, shares: Sequence[Share], now: float) -> Sequence[Share]:
        """Return those with a budget left. Of a budget that is used up all are of use: for robots.txt."""
        if self.budget is None:
            return shares
        left = [share for share in shares if not is_spent(share, now)]
        return shares if not left and self.renewed_at(now) > now else left

    def _update(self) -> list[Share]:
        """Have the permits say what the shares allow. Return those that this process may use."""
        self._owned = owned = [share for share in self._owned if share.may_pace()]
        self._pages.slots = min(self._pages.most, sum(share.places for share in owned))
        return owned

    def _usable(self, now: float) -> list[Share]:
        """As `_update`, once an instant."""
        if now != self._updated_at:
            self._updated_at = now
            self._update()
        return self._owned

    # As a scope.

    def may_start(self, now: float) -> bool:
        """As `Scope.may_start`."""
        return any(share.is_due(now) for share in self._of_use(self._usable(now), now))

    def due_at(self, now: float) -> float:
        """As `Scope.due_at`: infinity, too, as long as this process has no share that is of use."""
        owned = self._of_use(self._usable(now), now)
        if not self.granted:
            return min((share.next_at(now) for share in owned), default=math.inf)
        room = 0
        for share in owned:
            room += share.room(now) if share.is_due(now) else 0
            if room > self.granted:
                return now
        return math.inf

    def start_behind(self, turn: object, now: float) -> float:
        """As `Scope.start_behind`; what other processes will hand on is not known."""
        at = self.due_at(now)
        return at if at < math.inf else now

    def begin(self, now: float, *, is_page: bool) -> Scope:
        """As `Scope.begin`, in the first share that is due."""
        owned, places = self._owned, len(self._pages.held)
        needed = 0
        for share in owned:
            # So many are needed for the pages that are open.
            share.used_at = now
            places -= share.places
            needed += 1
            if places <= 0:
                break
        due = (share for share in self._of_use(owned, now) if share.is_due(now))
        if owned[0].window is None:
            taken = min(islice(due, needed), key=lambda share: share.visits - share.owned_visits)
        else:
            taken = next(due)
        taken.used_at = now
        if self.budget is not None and is_page:
            count_page(self, now)
        return taken.begin(now, is_page=is_page)

    def end(self, bytes_read: int, now: float) -> Scope:
        """As `Scope.end`, in the share that has read the least."""
        if self.budget is not None:
            count_bytes(self, bytes_read, now)
        read_by = min(
            self._owned or self._leaving or self.shares,
            key=lambda share: (share.next_allowed_at, share.budget_bytes),
        )
        return read_by.end(bytes_read, now)

    def renewed_at(self, now: float) -> float:
        """As `Scope.renewed_at`: that of the first share. None is spent as long as it is not known to be."""
        return min(renewed_at(share, now) for share in self.shares)

    def may_drop(self, now: float) -> bool:
        """As `Scope.may_drop`."""
        return False

    # Asking for shares, and handing them on.

    def asks(self, now: float) -> list[Share]:
        """Return the shares to ask for, one or none, now that a turn waits for the total."""
        if (
            self.asks_at - now > CLOCK_GRAIN
            or sum(each.asked_at < math.inf for each in self.shares) >= MAX_ASKS
        ):
            return []
        others = [
            share
            for share in self._of_use(self.shares, now)
            if share.asked_at == math.inf and share not in self._owned and share not in self._leaving
        ]
        if not others:
            return []
        share = choice(others)
        share.asked_at, self.asks_at = now, now + STEP
        return [share]

    def take(self, share: Share, now: float) -> None:
        """A share has been obtained."""
        self.asks_at = 0.0
        share.asked_at, share.obtained_at, share.known_at = math.inf, now, 0.0
        self._owned.append(share)
        self._update()

    def fail(self, share: Share, asks_at: float) -> bool:
        """A share was not obtained; ask for others from an instant on. Return whether this process has others."""
        share.asked_at, self.asks_at = math.inf, asks_at
        return bool(self._update())

    def is_of_use(self, share: Share, now: float) -> bool:
        """Return whether its budget is not used up, or that of all is."""
        return bool(self._of_use([share], now))

    def handed_on(self, now: float) -> tuple[list[Share], list[tuple[Share, float]]]:
        """Return the shares that are handed on now, and those that will be, each with when to look again."""
        later: list[tuple[Share, float]] = []
        if self.granted or not (self._leaving or any(share.is_wanted for share in self._owned)):
            return [], later
        for share in [share for share in self._update() if share.is_wanted]:
            at = self._kept_until_at(share, now)
            if at - now > CLOCK_GRAIN:
                later.append((share, at))
            else:
                self._owned.remove(share)
                self._leaving.append(share)
        if not self._leaving:
            return [], later
        self._update()
        if len(self._pages.held) > self._pages.slots or (self.held and not self._owned):
            return [], later
        leaving, self._leaving = self._leaving, []
        return leaving, later

    def _kept_until_at(self, share: Share, now: float) -> float:
        """Return until when a share is kept that others want."""
        if is_spent(share, now) and len(self._pages.held) <= self._pages.slots - share.places:
            return now
        turns = share.visits - share.owned_visits
        at = share.obtained_at + (MIN_HOLD if turns >= HOLD_TURNS else MAX_HOLD)
        is_needed = self.first() is not None or self._pages.first() is not None
        is_spare = len(self._pages.held) <= self._pages.slots - share.places
        if is_spare and not is_needed:
            at = min(at, max(share.used_at, share.obtained_at) + IDLE)
        return at


def _part(whole: int, number: int, count: int) -> int:
    """Return one of so many parts, which add up to the whole and differ by one at most."""
    return whole // count + (number < whole % count)


def _part_of(budget: Budget, number: int, count: int) -> Budget:
    pages, size = (
        None if each is None else _part(each, number, count) for each in (budget.pages, budget.bytes)
    )
    return Budget(pages=pages, bytes=size, per=budget.per)
