"""What this process has under way, and what the file has yet to hear of it: used in the event loop alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from robotgate.stores._booking import Change, Turn

if TYPE_CHECKING:
    from robotgate._pacing import HostState


@dataclass(slots=True)
class News:
    """What goes into one transaction."""

    hosts: dict[str, Change] = field(default_factory=dict)
    leases: set[str] = field(default_factory=set)
    """That were given back."""

    def __bool__(self) -> bool:
        return bool(self.hosts or self.leases)

    def put_back(self, older: News) -> None:
        """Take in what could not be written."""
        self.leases |= older.leases
        for pace_key, change in older.hosts.items():
            newer = self.hosts.setdefault(pace_key, change)
            if newer is not change:
                newer.visits += change.visits
                newer.bytes_read += change.bytes_read
                newer.turns = {**change.turns, **newer.turns}


class Ledger:
    """Requests under way by host, and the changes that others are to hear of."""

    def __init__(self) -> None:
        self._open: dict[str, list[Turn]] = {}
        self._booked: set[int] = set()
        self._serials = count(1)
        self.news = News()

    @property
    def turns(self) -> list[Turn]:
        """All that is under way, or reserved."""
        return [turn for turns in self._open.values() for turn in turns]

    def under_way(self, pace_key: str) -> int:
        """How many requests are under way at a host, or reserved."""
        return len(self._open.get(pace_key, ()))

    def turn(self, pace_key: str, *, at: float, delay: float) -> Turn:
        """A turn to be reserved."""
        return Turn(next(self._serials), pace_key, at, None, delay)

    def reserve(self, turn: Turn, *, is_booked: bool) -> None:
        """A turn was reserved."""
        self._open.setdefault(turn.pace_key, []).append(turn)
        if is_booked:
            self._booked.add(turn.serial)

    def begin(self, pace_key: str, state: HostState) -> tuple[Turn, bool]:
        """A request is sent. Returns its turn, and whether it was reserved."""
        turns = self._open.setdefault(pace_key, [])
        at = state.last_visit_at or 0.0
        for place, turn in enumerate(turns):
            if turn.began_at is None:
                turns[place] = replace(turn, began_at=at)
                return turns[place], True
        turns.append(Turn(next(self._serials), pace_key, at, at, max(state.next_allowed_at - at, 0.0)))
        return turns[-1], False

    def end(self, pace_key: str, *, is_unused: bool) -> tuple[int, bool] | None:
        """A request has ended, or will not be sent. Returns whose serial, and whether the file knows it."""
        turns = self._open.get(pace_key)
        if not turns:
            return None
        # Which of several that are alike has ended makes no difference.
        fitting = (place for place, turn in enumerate(turns) if (turn.began_at is None) == is_unused)
        turn = turns.pop(next(fitting, 0))
        if not turns:
            del self._open[pace_key]
        is_booked = turn.serial in self._booked
        self._booked.discard(turn.serial)
        return turn.serial, is_booked

    def note(
        self,
        pace_key: str,
        state: HostState,
        *,
        visits: int = 0,
        bytes_read: int = 0,
        turns: dict[int, Turn | None] | None = None,
    ) -> None:
        """Others are to hear of it."""
        change = self.news.hosts.get(pace_key)
        if change is None:
            change = self.news.hosts[pace_key] = Change(state)
        change.state = state
        change.visits += visits
        change.bytes_read += bytes_read
        for serial, turn in (turns or {}).items():
            change.turns[serial] = turn
            if turn is not None:
                self._booked.add(serial)

    def take_news(self) -> News:
        """What is to be written now."""
        news, self.news = self.news, News()
        return news

    def book_all(self) -> list[Turn]:
        """All that is under way is about to be written."""
        turns = self.turns
        self._booked.update(turn.serial for turn in turns)
        return turns

    def abandon(self, states: dict[str, HostState]) -> None:
        """The event loop in which it all was under way is gone."""
        for turn in self.turns:
            if turn.serial in self._booked and turn.pace_key in states:
                self.note(turn.pace_key, states[turn.pace_key], turns={turn.serial: None})
        self._open, self._booked = {}, set()
