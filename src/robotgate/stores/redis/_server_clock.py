"""The server's clock against ours, as far as the replies tell.

The server says what time it is somewhere between a question and its answer. So the shift between the clocks lies
between what it would be had the server answered at once, and had it taken all the time; over many answers, between the
largest of the one and the smallest of the other.
"""

from __future__ import annotations

from typing import Final

READINGS: Final = 3
"""To begin with, before anything is told by it: the first reply comes late, behind a connection."""
WINDOW: Final = 5.0
"""Seconds; what was learnt more than twice as long ago no longer counts, for clocks drift."""


class ServerClock:
    """Tells an instant of one clock by the other, and is never early."""

    __slots__ = (
        "_earlier_least",
        "_earlier_most",
        "_least",
        "_lower",
        "_most",
        "_since_at",
        "ahead",
        "is_known",
    )

    def __init__(self) -> None:
        self.is_known = False
        self.ahead = 0.0
        """Seconds by which ours is ahead, at the most."""
        self._lower = 0.0
        self._least = self._earlier_least = 0.0
        self._most = self._earlier_most = 0.0
        self._since_at = 0.0

    def note(self, *, asked_at: float, told_at: float, heard_at: float) -> None:
        """Take in a reply: when it was asked for and heard of by our clock, and the server's time in it."""
        least, most = asked_at - told_at, heard_at - told_at
        is_of_window = 0 <= heard_at - self._since_at < WINDOW
        if self.is_known and is_of_window and least <= self._least and most >= self._most:
            # As most: it has taken longer than others.
            return
        if not self.is_known or least > self.ahead or most < self._lower:
            # Nothing fits both what was learnt before and this: one of the clocks was set.
            self.is_known = True
            self._restart(least, most, heard_at)
            return
        if is_of_window:
            self._least, self._most = max(self._least, least), min(self._most, most)
        else:
            self._earlier_least, self._earlier_most = self._least, self._most
            self._least, self._most, self._since_at = least, most, heard_at
        self._reckon()

    def restart(self) -> None:
        """Forget all: it is another server, or may be."""
        self.is_known = False

    def here(self, at: float) -> float:
        """An instant of the server by our clock, not too early."""
        return at + self.ahead

    def there(self, at: float) -> float:
        """An instant of ours by the server's clock, not too early."""
        return at - self._lower

    def _restart(self, least: float, most: float, at: float) -> None:
        self._least = self._earlier_least = least
        self._most = self._earlier_most = most
        self._since_at = at
        self._reckon()

    def _reckon(self) -> None:
        self.ahead = min(self._most, self._earlier_most)
        self._lower = max(self._least, self._earlier_least)
