"""A turn's life: its states, the moves between them, and all that moves with them.

A turn's state, its place in its origin's queue, its slot at its host, its permit, and its place in each further scope
change together, by `Places.move` and nowhere else. Each move is a row of `MOVES`; docs/design.md shows them. A turn
that does not wait any more may leave its entry in a queue or a line: `PacedOrigin.first` and `Permits.first` remove it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import asyncio

    from robotgate.urls import Origin

Rank: TypeAlias = tuple[int, int, int]
"""The order among the waiters of one origin: robots.txt, then priority, then arrival."""
Entry: TypeAlias = "tuple[tuple[bool, float], TurnPlace]"
"""A place in a line: that of the turn in its order, as of `Permits.order`, and the turn."""

MAX_SCANNED: Final = 1024
"""Open turns that are compared with a task to detect that it waits for itself."""


class TurnState(IntEnum):
    """Where a turn is on its way."""

    NEW = 0
    WAITING = 1
    GRANTED = 2
    """It has a slot and a permit, and may start."""
    OPEN = 3
    """Its request may be under way."""
    ENDED = 4


# An enumeration's attribute takes several times as long to read.
NEW, WAITING, GRANTED, OPEN, ENDED = TurnState


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """From one state to another."""

    name: str
    source: TurnState
    target: TurnState
    why: str
    leaves_queue: bool = False
    takes_slot: bool = False
    """And a permit, and a place in each scope."""
    frees_slot: bool = False


BEGIN: Final = Move("begin", NEW, OPEN, "its host is due, and nobody waits", takes_slot=True)
WAIT: Final = Move("wait", NEW, WAITING, "it joins its origin's queue")
GRANT: Final = Move("grant", WAITING, GRANTED, "it is next", leaves_queue=True, takes_slot=True)
LEAVE: Final = Move("leave", WAITING, NEW, "it is refused, or its task is cancelled", leaves_queue=True)
START: Final = Move("start", GRANTED, OPEN, "its request is sent")
GIVE_BACK: Final = Move("give back", GRANTED, NEW, "it may not start after all", frees_slot=True)
END: Final = Move("end", OPEN, ENDED, "its response has been read, or is abandoned", frees_slot=True)
ABANDON: Final = Move("abandon", NEW, ENDED, "it ends before it began")
RENEW: Final = Move("renew", ENDED, NEW, "the same request is sent once more")
MOVES: Final = (BEGIN, WAIT, GRANT, LEAVE, START, GIVE_BACK, END, ABANDON, RENEW)


@dataclass(slots=True, eq=False, repr=False)
class TurnPlace:
    """A turn, as far as its place is concerned."""

    paced: OriginPlaces
    """The origin it is for."""
    ahead: bool = False
    """Whether it is for a robots.txt, which goes ahead of all pages."""
    priority: int = 0
    deadline_at: float = math.inf
    """It must be granted by this instant; infinity waits for as long as it takes."""
    arrival: int = 0
    """Its place in the order of arrival, from 1; 0 until it has one. Waiting again keeps it."""
    state: TurnState = NEW
    granted: asyncio.Future[None] | None = None
    """Done when it is granted or refused; None before it has waited."""
    holder: asyncio.Task[object] | None = None
    """The task that would wait for itself if it asked for the same host again."""
    scopes: tuple[Permits, ...] = ()
    """Those that it has a place in, while it is granted or open."""
    in_line: Permits | None = None
    """What it waits for in a line, its host's instant having come."""
    moves: int = 0
    """How often it was first in the line of a scope and had to go to that of another."""

    @property
    def is_in_line(self) -> bool:
        """Whether only scopes or a permit hold it back."""
        return self.in_line is not None

    @property
    def rank(self) -> Rank:
        """As `Rank`."""
        return 0 if self.ahead else 1, -self.priority, self.arrival


@dataclass(slots=True, eq=False, repr=False)
class OriginPlaces:
    """The turns that wait for one origin of a host."""

    origin: Origin
    host: HostPlaces
    queue: list[tuple[Rank, TurnPlace]] | None = field(default=None, kw_only=True)
    """A heap by rank; turns that do not wait any more are skipped. Most origins have no waiters, so None."""
    waiting: int = field(default=0, kw_only=True)
    """How many turns wait."""
    scopes: tuple[Permits, ...] = field(default=(), kw_only=True)
    """What its turns need a place in, beside their host's slot and a permit."""


@dataclass(slots=True, eq=False, repr=False)
class HostPlaces:
    """The turns of one host: those that wait, that are granted, and that are open."""

    key: str
    # Tuples: an empty one takes no memory, and most hosts have no turns just now.
    in_slots: tuple[TurnPlace, ...] = field(default=(), kw_only=True)
    """Granted and open turns: each has a slot."""
    starting: TurnPlace | None = field(default=None, kw_only=True)
    """The turn that was granted and has not begun: no other is granted until it has."""
    waiting_origins: tuple[OriginPlaces, ...] = field(default=(), kw_only=True)
    """Those that have waiting turns."""


class Permits:
    """At most so many turns open at once, over several hosts.

    A granted turn holds a permit until it ends. Turns whose host's instant has come, and that could start but for a
    permit, stand in a line.
    """

    __slots__ = ("_most", "granted", "held", "line", "slots")

    def __init__(self, slots: int) -> None:
        self.slots: int = slots
        self.held: set[TurnPlace] = set()
        self.granted: int = 0
        """Turns among `held` that have not begun."""
        self.line: list[Entry] = []
        """A heap; an entry is void if its turn is not `in_line` here."""
        self._most = 64
        """Entries from which on those that are void are dropped."""

    def order(self, turn: TurnPlace) -> tuple[bool, float]:
        """Return where a turn stands in the line: by arrival. One that has no arrival yet comes last."""
        return False, turn.arrival or math.inf

    def join(self, turn: TurnPlace) -> None:
        """Put a waiting turn into the line, unless it is there."""
        if turn.in_line is self:
            return
        turn.in_line = self
        heappush(self.line, (self.order(turn), turn))
        if len(self.line) > self._most:
            self.line = [entry for entry in self.line if entry[-1].in_line is self]
            heapify(self.line)
            self._most = 2 * len(self.line) + 64

    def first(self) -> TurnPlace | None:
        """Return the turn that is first in the line; None if none is in it."""
        line = self.line
        while line and line[0][-1].in_line is not self:
            heappop(line)
        return line[0][-1] if line else None

    def comes_before(self, turn: TurnPlace) -> bool:
        """Return whether a turn in the line goes before this one, which may be in it."""
        return self.first() is not None and self.line[0][0] < self.order(turn)

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """Return whether no permit is free and this task holds all of them: it would wait for itself."""
        if not self.slots <= len(self.held) <= MAX_SCANNED:
            return False
        # A loop: it is quicker than a generator, and mostly ends with the first.
        for turn in self.held:  # noqa: SIM110
            if turn.holder is not task:
                return False
        return True


@dataclass(slots=True, eq=False, repr=False)
class Places:
    """The places of all turns: in queues, at hosts, and among the permits."""

    pages: Permits
    robots: Permits
    """Those for robots.txt; may be the same object."""
    waiting: int = 0
    """Turns that wait."""

    def permits(self, turn: TurnPlace) -> Permits:
        """Return those that a turn needs one of."""
        return self.robots if turn.ahead else self.pages

    def move(self, turn: TurnPlace, move: Move) -> None:  # noqa: C901  # All that moves, in one place.
        """Move a turn, and all that has to move with it.

        Raises:
            RuntimeError: the turn is in another state than the move begins with.
        """
        if turn.state is not move.source:
            raise RuntimeError(f"a turn in state {turn.state.name} cannot {move.name}")
        turn.state = move.target
        host = turn.paced.host
        # 1. The queue of its origin.
        if move is WAIT:
            self._enqueue(turn)
        elif move.leaves_queue:
            turn.in_line = None
            self._dequeue(turn, is_first=move is GRANT)
        # 2. A slot of its host, a permit, and a place in each scope. No other turn of the host is granted between this
        # one's grant and its start; scopes count those.
        if move.takes_slot:
            host.in_slots += (turn,)
            (self.robots if turn.ahead else self.pages).held.add(turn)
            if turn.paced.scopes:
                turn.scopes = turn.paced.scopes
                for scope in turn.scopes:
                    scope.held.add(turn)
            if move is GRANT:
                host.starting = turn
                for scope in turn.scopes:
                    scope.granted += 1
        elif move is START or move is GIVE_BACK:
            host.starting = None
            for scope in turn.scopes:
                scope.granted -= 1
        if move.frees_slot:
            host.in_slots = (
                tuple([other for other in host.in_slots if other is not turn])
                if len(host.in_slots) > 1
                else ()
            )
            (self.robots if turn.ahead else self.pages).held.discard(turn)
            for scope in turn.scopes:
                scope.held.discard(turn)
            turn.scopes = ()

    def _enqueue(self, turn: TurnPlace) -> None:
        paced = turn.paced
        if paced.queue is None:
            paced.queue = []
            paced.host.waiting_origins += (paced,)
        heappush(paced.queue, (turn.rank, turn))
        paced.waiting += 1
        self.waiting += 1

    def _dequeue(self, turn: TurnPlace, *, is_first: bool) -> None:
        """Count a turn as waiting no longer; unless it ranks first, its entry is skipped, and removed with others."""
        paced = turn.paced
        self.waiting -= 1
        paced.waiting -= 1
        if not paced.waiting:
            paced.queue = None
            paced.host.waiting_origins = tuple(
                [other for other in paced.host.waiting_origins if other is not paced]
            )
        elif paced.queue is not None and is_first:
            # `PacedOrigin.first` has found it there. If it waits again, it gets another entry.
            heappop(paced.queue)
        elif paced.queue is not None and len(paced.queue) > 2 * paced.waiting + 64:
            paced.queue = [entry for entry in paced.queue if waits(entry[1])]
            heapify(paced.queue)


def waits(turn: TurnPlace) -> bool:
    """Return whether a turn still waits. When a task is cancelled, its future is done before its code runs."""
    return turn.state is WAITING and turn.granted is not None and not turn.granted.done()
