"""The server's clock against ours, as far as the replies tell.

The server says what time it is somewhere between a question and its answer. So the shift between the clocks lies
between what it would be had the server answered at once, and had it taken all the time; over many answers, between the
largest of the one and the smallest of the other.
"""

from __future__ import annotations

from typing import Final

WINDOW: Final = 5.0
"""Seconds; what was learnt more than twice as long ago no longer counts, for clocks drift."""


class ServerClock:
    """Tells an instant of one clock by the other, and is never early."""

    __slots__ = ("_earlier_least", "_earlier_most", "_least", "_most", "_since_at", "is_known")

    def __init__(self) -> None:
        self.is_known = False
        self._least = self._earlier_least = 0.0
        self._most = self._earlier_most = 0.0
        self._since_at = 0.0

    def note(self, *, asked_at: float, told_at: float, heard_at: float) -> None:
        """Take in a reply: when it was asked for and heard of by our clock, and the server's time in it."""
        least, most = asked_at - told_at, heard_at - told_at
        if not self.is_known or least > self.ahead or most < self._lower:
            # Nothing fits both what was learnt before and this: one of the clocks was set.
            self.is_known = True
            self._restart(least, most, heard_at)
            return
        if not 0 <= heard_at - self._since_at < WINDOW:
            self._earlier_least, self._earlier_most = self._least, self._most
            self._least, self._most, self._since_at = least, most, heard_at
            return
        self._least, self._most = max(self._least, least), min(self._most, most)

    def restart(self) -> None:
        """Forget all: it is another server, or may be."""
        self.is_known = False

    def here(self, at: float) -> float:
        """An instant of the server by our clock, not too early."""
        return at + self.ahead

    def there(self, at: float) -> float:
        """An instant of ours by the server's clock, not too early."""
        return at - self._lower

    @property
    def ahead(self) -> float:
        """Seconds by which ours is ahead, at the most."""
        return min(self._most, self._earlier_most)

    @property
    def _lower(self) -> float:
        return max(self._least, self._earlier_least)

    def _restart(self, least: float, most: float, at: float) -> None:
        self._least = self._earlier_least = least
        self._most = self._earlier_most = most
        self._since_at = at
