"""What rules are matched with: built by the first question, let go of when nobody asks any more.

For the median file that takes three times as much memory as the file itself, and is built again in some tens of
microseconds. Of all the hosts that a gate knows, a crawl asks about few at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from robotgate._alarm import Alarm

if TYPE_CHECKING:
    from robotgate._rules import Rules

PERIOD: Final = 20.0
"""Seconds between two looks at the same rules; they are let go of when nobody has asked between the two."""
STRETCH: Final = 1000
"""Rules looked at in one go; a millisecond or two."""
PAUSE: Final = 0.02
"""Seconds between such stretches."""


class Cooling:
    """Knows the rules that are ready to be matched, and looks at them by and by, in the loop it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._warm: deque[Rules] = deque()
        self._left = 0
        """How many are still to be looked at in this round."""
        self._is_set = False
        self._is_closed = False
        self._alarm = Alarm(self._look)

    def watch(self, rules: Rules) -> None:
        """Look at rules from now on, until they have been let go of."""
        if self._is_closed:
            # Whoever has a page of ours still may ask for its verdict, and keeps no other site's rules by that.
            return
        self._warm.append(rules)
        if not self._is_set:
            self._look_in(PERIOD)

    def close(self) -> None:
        """Look at nothing any more."""
        self._is_closed = True
        self._warm.clear()
        self._left = 0
        self._alarm.cancel()

    def _look(self) -> None:
        self._is_set = False
        warm = self._warm
        self._left = self._left or len(warm)
        for _ in range(min(self._left, STRETCH)):
            self._left -= 1
            rules = warm.popleft()
            if not rules.cool_down():
                warm.append(rules)
        if warm:
            self._look_in(PAUSE if self._left else PERIOD)

    def _look_in(self, delay: float) -> None:
        try:
            is_within = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_within = False
        # Another thread's loop may end before it rings; the next question from within sets it.
        if is_within:
            self._alarm.ring_in(delay)
            self._is_set = True
