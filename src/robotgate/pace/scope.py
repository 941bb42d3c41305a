"""A scope: what requests to several hosts share, beside what their hosts do.

A server's address is one, a group of hosts that the operator names, and the whole gate. A request needs a place in each
scope of its origin, and starts at the latest of their instants and its host's. A turn whose host's instant has come
and that a scope holds back stands in the line of that scope, and holds nothing meanwhile: not its host's slot, not a
permit, not another scope. It stands in the line of the scope that is ready last.

Where scopes cross, a turn that needs two may find either of them taken whenever the other is free. So the scopes of a
turn that had to change its line are kept for it: the longer, the more often it had to. benchmarks/scopes_model.py
compares this with lines alone, in which such turns starve, and with one line for all, which leaves scopes idle.

A `Scope` is mutable and does no I/O; its methods take `now` (seconds since the epoch).
"""

from __future__ import annotations

import math
import sys
from itertools import islice
from typing import TYPE_CHECKING, Final

from robotgate.pace.budget import count_bytes, count_page, read_by, renewed_at
from robotgate.pace.lease import Leased
from robotgate.pace.quota import StartWindow
from robotgate.pace.state import CLOCK_GRAIN, HostState, merged
from robotgate.pace.turn import Permits, TurnPlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate.options import Budget, Rate
    from robotgate.pace.lease import Lease

MAX_COUNTED: Final = 100
"""Turns in a line, or waiters of an origin, that are compared with one that comes. Where more of them go first, it may
be told later that it comes too late, at its deadline at the latest."""
TOTAL: Final = "total|"
"""The key of the scope of all hosts."""
UNLIMITED: Final = sys.maxsize
"""Slots of a scope that limits none."""
MOVES_FOR_DELAY: Final = 64
"""Moves from line to line after which a turn's scopes are kept for it as long as the delay of the one that it left."""
LEAST_KEPT: Final = 0.5
"""Seconds that count as that delay at least: a response may take longer than the delay, or there is none."""


_KEPT: Final = (
    "visits",
    "bytes_read",
    "budget_began_at",
    "budget_ends_at",
    "budget_pages",
    "budget_bytes",
    "promised_from_at",
    "promised_until_at",
    "promised_step",
    "admitted_until_at",
)
"""What of a `HostState` is the same here."""
_NAMES: Final = {"total": "all hosts", "group": "the group", "address": "the address"}
"""For messages."""


class Scope(Permits, Leased):
    """What several hosts share.

    Args:
        key: names it in a store.
        slots: requests that may be open at once. With one, the delay counts from the end of a response, else from
            starts.
        delay: seconds between two requests.
        rates: quotas.
        budget: what may be fetched; `pace.budget` counts it.
        bytes_per_second: after a response the next request waits until it would have been read at this speed.
        robots_first: whether requests for robots.txt go ahead of all others.
        is_kept: whether a store keeps its state.
        lease: as `Leased.lease`.
    """

    __slots__ = (
        "_robots_first",
        "admitted_until_at",
        "budget",
        "budget_began_at",
        "budget_bytes",
        "budget_ends_at",
        "budget_pages",
        "bytes_per_second",
        "bytes_read",
        "delay",
        "is_kept",
        "is_wanted",
        "kept_for",
        "kept_until_at",
        "key",
        "last_visit_at",
        "lease",
        "next_allowed_at",
        "owned_visits",
        "promised_from_at",
        "promised_step",
        "promised_until_at",
        "read_until_at",
        "visits",
        "wake_at",
        "window",
    )

    def __init__(
        self,
        key: str,
        *,
        slots: int = UNLIMITED,
        delay: float = 0.0,
        rates: Sequence[Rate] = (),
        budget: Budget | None = None,
        bytes_per_second: float = math.inf,
        robots_first: bool = True,
        is_kept: bool = False,
        lease: Lease | None = None,
    ) -> None:
        super().__init__(slots)
        self.key: str = key
        self.delay: float = delay
        self.window: StartWindow | None = None
        if rates:
            self.window = StartWindow(rates)
            # That of the whole gate is each process's own.
            self.window.is_kept = is_kept and lease is not None
        self._robots_first = robots_first
        self.is_kept: bool = is_kept
        self.budget: Budget | None = budget
        self.budget_began_at: float | None = None
        self.budget_ends_at: float = 0.0
        self.budget_pages: int = 0
        self.budget_bytes: int = 0
        self.bytes_per_second: float = bytes_per_second
        self.read_until_at: float = 0.0
        self.lease: Lease | None = lease
        self.is_wanted: bool = False
        self.visits: int = 0
        self.owned_visits: int = 0
        self.bytes_read: int = 0
        self.last_visit_at: float = -math.inf
        self.next_allowed_at: float = 0.0
        self.promised_from_at: float = 0.0
        self.promised_until_at: float = 0.0
        self.promised_step: float = 0.0
        self.admitted_until_at: float = 0.0
        self.wake_at: float = math.inf
        """When the scheduler looks at it again."""
        self.kept_for: TurnPlace | None = None
        """While it waits, turns that came later are not granted until `kept_until_at`."""
        self.kept_until_at: float = 0.0

    @property
    def name(self) -> str:
        """What it is, in words."""
        kind, _, name = self.key.partition("|")
        return f"{_NAMES.get(kind, '')} {name}".strip()

    def order(self, turn: TurnPlace) -> tuple[bool, float]:
        """As `Permits.order`, with robots.txt ahead where it goes ahead."""
        return self._robots_first and not turn.ahead, turn.arrival or math.inf

    def due_at(self, now: float) -> float:
        """Return when the next request may start; infinity where a turn has to begin or end before that is known."""
        if len(self.held) >= self.slots or (self.delay and self.granted):
            return math.inf
        at = self.last_visit_at + self.delay
        if self.next_allowed_at > at:
            at = self.next_allowed_at
        return at if self.window is None else max(at, self.window.start_at(now, reserved=self.granted))

    def ready_at(self, now: float) -> float:
        """Return when the next request may start as far as is known: of one that is under way, if it ended now."""
        at = self.due_at(now)
        return at if at < math.inf else now + self.delay

    def is_kept_from(self, turn: TurnPlace, now: float) -> bool:
        """Return whether it is kept for another turn."""
        kept_for = self.kept_for
        return (
            kept_for is not None
            and kept_for is not turn
            and kept_for.is_in_line
            and self.kept_until_at - now > CLOCK_GRAIN
            and self.order(kept_for) < self.order(turn)
        )

    def start_behind(self, turn: TurnPlace, now: float) -> float:
        """Return when a turn would start if those in the line before it went as fast as they may."""
        at = max(now, self.last_visit_at + self.delay, self.next_allowed_at)
        if self.window is not None:
            at = max(at, self.window.due_at(now))
        if len(self.held) >= self.slots:
            at = max(at, now + self.delay)
        if not self.delay:
            return at
        order = self.order(turn)
        before = sum(
            other < order and waiter.in_line is self for other, waiter in islice(self.line, MAX_COUNTED)
        )
        return at + before * self.delay

    def may_start(self, now: float) -> bool:  # That of a fleet's total depends on it.
        """Return whether a granted turn may start now, as far as the right of this process goes."""
        return self.lease is None or self.may_pace()

    def begin(self, now: float, *, is_page: bool) -> Scope:
        """Record that a request is sent now. Return what has changed by that, for a store."""
        self.visits += 1
        if now > self.last_visit_at:
            self.last_visit_at = now
        if self.window is not None:
            self.window.count(now)
        if self.budget is not None and is_page:
            count_page(self, now)
        return self

    def end(self, bytes_read: int, now: float) -> Scope:
        """Record that a response has ended, or that its request is abandoned; as `begin`."""
        if self.budget is not None:
            count_bytes(self, bytes_read, now)
        self.bytes_read += bytes_read
        if self.bytes_per_second < math.inf:
            self.next_allowed_at = max(self.next_allowed_at, read_by(self, bytes_read, now))
        if self.slots == 1 and now > self.last_visit_at:
            self.last_visit_at = now
        return self

    def renewed_at(self, now: float) -> float:
        """As `budget.renewed_at`."""
        return renewed_at(self, now)

    def may_drop(self, now: float) -> bool:
        """Return whether nothing that binds now would be lost with it."""
        at = max(self.last_visit_at + self.delay, self.next_allowed_at)
        if self.held or max(at, self.budget_ends_at, self.promised_until_at) > now:
            return False
        return self.window is None or self.window.served_at() <= now

    def snapshot(self) -> HostState:
        """Return the state as a value for a store."""
        at = self.last_visit_at
        return HostState(
            last_visit_at=None if at == -math.inf else at,
            next_allowed_at=max(self.next_allowed_at, at + self.delay),
            starts=() if self.window is None or not self.window.is_kept else self.window.kept(),
            **{name: getattr(self, name) for name in _KEPT},
        )

    def merge(self, state: HostState | None) -> None:
        """Take in what a store knows: instants only move later, counts only grow."""
        if state is None:
            return
        state = merged(self.snapshot(), state)
        self.last_visit_at = -math.inf if state.last_visit_at is None else state.last_visit_at
        self.next_allowed_at = state.next_allowed_at
        if self.window is not None and self.window.is_kept:
            self.window.restore(state.starts)
        for name in _KEPT:
            setattr(self, name, getattr(state, name))


def holds_back(scopes: Sequence[Scope], turn: TurnPlace, now: float) -> Scope | None:
    """Return the scope in whose line a turn has to stand, its host's instant having come; None if it may start.

    1. The first that another process paces, or whose state is not known: they are asked for one after the other, in
       the order of `PacedOrigin.scopes`, so that no two processes wait for each other.
    2. The one that is ready last.
    """
    last, last_at = None, -math.inf
    for scope in scopes:
        if scope.lease is not None and not scope.may_pace():
            return scope
        at = scope.due_at(now)
        if scope.kept_for is not None and scope.is_kept_from(turn, now):
            at = max(at, scope.kept_until_at)
        elif at - now <= CLOCK_GRAIN and not (scope.line and scope.comes_before(turn)):
            continue
        if at == math.inf:
            at = now + scope.delay
        if at > last_at:
            last, last_at = scope, at
    return last


def keep(turn: TurnPlace, scopes: Sequence[Scope], left: Scope, now: float) -> float | None:
    """Count that a turn had to leave a scope's line, in which it was first, for that of another; keep them all for it.

    Returns:
        until when they are kept; None if they are not.
    """
    turn.moves += 1
    longest = turn.moves * max(left.delay, LEAST_KEPT) / MOVES_FOR_DELAY
    until_at = max(scope.due_at(now) for scope in scopes)
    if until_at == math.inf:
        # Of a scope that is taken it is not known when it will be free: to keep the others for it is mostly in vain.
        if turn.moves < MOVES_FOR_DELAY:
            return None
        until_at = now + longest
    if until_at - now > longest:
        return None
    if any(scope.is_kept_from(turn, now) for scope in scopes):
        return None
    for scope in scopes:
        scope.kept_for, scope.kept_until_at = turn, until_at
    return until_at
