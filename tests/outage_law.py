"""The law of outages, for the origins of one host: which turns are refused, which tries, and which wait for it.

It knows what was reported, and when; `pace_law` asks it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

GRAIN: Final = 5e-6
"""Seconds; what the gate takes for the same instant, a few times over."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 3600.0
JITTER: Final = 1.1
SILENCES: Final = 10
"""Requests in a row without an answer that are an outage."""
FIRST_SILENCES: Final = 3
"""The same of an origin that has never answered."""


@dataclass(slots=True)
class Outage:
    """What is known against one origin."""

    failures: int
    began_at: float
    noticed_at: float
    retry_at: float
    is_gone: bool


@dataclass(slots=True)
class OutageLaw:
    """What the outages of a host's origins allow."""

    _outages: dict[str, Outage] = field(default_factory=dict)
    _silences: Counter[str] = field(default_factory=Counter)
    _answered: set[str] = field(default_factory=set)
    _probes: dict[int, str] = field(default_factory=dict)
    """Who tries whether an origin can be reached again."""

    @property
    def known(self) -> list[str]:
        """The origins that could not be reached, and have not been since."""
        return list(self._outages)

    def refuses(self, origin: str, *, at: float, max_block: float) -> bool:
        """Whether turns are refused: the origin is given up, or its next try is not worth the wait."""
        outage = self._outages.get(origin)
        left = 0.0 if outage is None else outage.retry_at - at
        return left > (GRAIN if outage is None or outage.is_gone else max(max_block, GRAIN))

    def is_tried(self, origin: str) -> bool:
        """Whether a request tries it, and all others wait for the outcome."""
        return origin in self._outages and origin in self._probes.values()

    def bars(self, origin: str, *, at: float) -> bool:
        """Whether no turn may start now: no try is permitted yet, or one is under way."""
        return at < self.retry_at(origin) - GRAIN or self.is_tried(origin)

    def retry_at(self, origin: str) -> float:
        """No turn starts before this; 0 when nothing is known."""
        outage = self._outages.get(origin)
        return 0.0 if outage is None else outage.retry_at

    def starts(self, who: int, origin: str) -> None:
        """A turn begins."""
        if origin in self._outages:
            self._probes[who] = origin

    def ends(self, who: int) -> None:
        """His turn is over."""
        self._probes.pop(who, None)

    def answers(self, origin: str) -> None:
        """The origin was reached by any request, with any answer."""
        self._outages.pop(origin, None)
        self._silences.pop(origin, None)
        self._answered.add(origin)

    def fails(
        self,
        origin: str,
        *,
        began_at: float,
        at: float,
        retry_at: float,
        give_up_after: float,
        is_silence: bool = False,
    ) -> str | None:
        """A request got no answer; return what is wrong with the next attempt, if anything.

        Args:
            began_at: a request that began before an outage was noticed says nothing new.
            retry_at: when the gate tries again, which is random within bounds; 0 when it knows of no outage.
            give_up_after: seconds of outage after which a try that fails gives the origin up.
            is_silence: it was sent, which is an outage only if it is one of several in a row, or one lasts.
        """
        known = self._outages.get(origin)
        self._silences[origin] += is_silence and known is None
        enough = SILENCES if origin in self._answered else FIRST_SILENCES
        if is_silence and known is None and self._silences[origin] < enough:
            return f"{origin} is given up after one late answer" if retry_at else None
        if known is not None and began_at <= known.noticed_at:
            least = most = max(known.retry_at, at)
            retry_at = max(retry_at, at)
        else:
            failures = 1 if known is None else known.failures + 1
            pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
            least, most = at + pause, at + pause * JITTER
            began = at if known is None else known.began_at
            is_gone = give_up_after < math.inf and at - began >= give_up_after
            self._outages[origin] = Outage(failures, began, at, retry_at, is_gone)
            self._silences.pop(origin, None)
        if least - GRAIN <= retry_at <= most + GRAIN:
            return None
        return f"the outage of {origin} noticed at {at} lasts until {retry_at}, not from {least} to {most}"
