"""What this process has under way, and what the file has yet to hear of it: used in the event loop alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

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


Entry: TypeAlias = tuple[int, float, float | None, float]
"""A turn without its host: serial, when it was reserved, when it began, delay. Made for every visit, seldom read."""


class Ledger:
    """Requests under way by host, and the changes that others are to hear of."""

    def __init__(self) -> None:
        self._open: dict[str, list[Entry]] = {}
        self._booked: set[int] = set()
        self._serials = count(1)
        self.news = News()

    @property
    def turns(self) -> list[Turn]:
        """All that is under way, or reserved."""
        return [_turn(pace_key, entry) for pace_key, entries in self._open.items() for entry in entries]

    def under_way(self, pace_key: str) -> int:
        """How many requests are under way at a host, or reserved."""
        return len(self._open.get(pace_key, ()))

    def turn(self, pace_key: str, *, at: float, delay: float) -> Turn:
        """A turn to be reserved."""
        return Turn(next(self._serials), pace_key, at, None, delay)

    def reserve(self, turn: Turn, *, is_booked: bool) -> None:
        """A turn was reserved."""
        entry = turn.serial, turn.reserved_at, turn.began_at, turn.delay
        self._open.setdefault(turn.pace_key, []).append(entry)
        if is_booked:
            self._booked.add(turn.serial)

    def begin(self, pace_key: str, state: HostState) -> int | None:
        """A request is sent. Returns the serial of its turn if that was reserved."""
        at = state.last_visit_at or 0.0
        entries = self._open.get(pace_key)
        if entries is None:
            entries = self._open[pace_key] = []
        for place, (serial, reserved_at, began_at, delay) in enumerate(entries):
            if began_at is None:
                entries[place] = serial, reserved_at, at, delay
                return serial
        entries.append((next(self._serials), at, at, state.next_allowed_at - at))
        return None

    def begun(self, pace_key: str, serial: int | None) -> Turn:
        """The turn of a request that was just sent: this one, or the last."""
        entries = self._open[pace_key]
        entry = entries[-1] if serial is None else next(entry for entry in entries if entry[0] == serial)
        return _turn(pace_key, entry)

    def end(self, pace_key: str, *, is_unused: bool) -> int | None:
        """A request has ended, or will not be sent. Returns its serial if the file knows it."""
        entries = self._open.get(pace_key)
        if entries is None:
            return None
        if len(entries) == 1:
            [(serial, *_)] = entries
            del self._open[pace_key]
        else:
            # Which of several that are alike has ended makes no difference.
            fitting = (place for place, entry in enumerate(entries) if (entry[2] is None) == is_unused)
            serial = entries.pop(next(fitting, 0))[0]
        if serial not in self._booked:
            return None
        self._booked.remove(serial)
        return serial

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
        """All that is under way, which is about to be written."""
        turns = self.turns
        self._booked.update(turn.serial for turn in turns)
        return turns

    def abandon(self, states: dict[str, HostState]) -> None:
        """The event loop in which it all was under way is gone."""
        for turn in self.turns:
            if turn.serial in self._booked and turn.pace_key in states:
                self.note(turn.pace_key, states[turn.pace_key], turns={turn.serial: None})
        self._open, self._booked = {}, set()


def _turn(pace_key: str, entry: Entry) -> Turn:
    serial, reserved_at, began_at, delay = entry
    return Turn(serial, pace_key, reserved_at, began_at, max(delay, 0.0))
