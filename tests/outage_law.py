"""The law of outages, for the origins of one host: which turns are refused, which tries, and which wait for it.

It knows what was reported, and when; `pace_law` asks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

GRAIN: Final = 5e-6
"""Seconds; what the gate takes for the same instant, a few times over."""
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 3600.0
JITTER: Final = 1.1


@dataclass(slots=True)
class Outage:
    """What is known against one origin."""

    failures: int
    noticed_at: float
    retry_at: float


@dataclass(slots=True)
class OutageLaw:
    """What the outages of a host's origins allow."""

    _outages: dict[str, Outage] = field(default_factory=dict)
    _probes: dict[int, str] = field(default_factory=dict)
    """Who tries whether an origin can be reached again."""

    @property
    def known(self) -> list[str]:
        """The origins that could not be reached, and have not been since."""
        return list(self._outages)

    def is_closed(self, origin: str, *, at: float) -> bool:
        """Whether no request may be sent yet: all are refused."""
        outage = self._outages.get(origin)
        return outage is not None and at < outage.retry_at - GRAIN

    def bars(self, origin: str, *, at: float) -> bool:
        """Whether no turn may start now: no try is permitted yet, or one is under way."""
        return self.is_closed(origin, at=at) or (origin in self._outages and origin in self._probes.values())

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

    def fails(self, origin: str, *, began_at: float, at: float, retry_at: float) -> str | None:
        """A request failed to connect; return what is wrong with the next attempt, if anything.

        Args:
            began_at: a request that began before an outage was noticed says nothing new.
            retry_at: when the gate tries again, which is random within bounds.
        """
        known = self._outages.get(origin)
        if known is not None and began_at <= known.noticed_at:
            least = most = max(known.retry_at, at)
            retry_at = max(retry_at, at)
        else:
            failures = 1 if known is None else known.failures + 1
            pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
            least, most = at + pause, at + pause * JITTER
            self._outages[origin] = Outage(failures, at, retry_at)
        if least - GRAIN <= retry_at <= most + GRAIN:
            return None
        return f"the outage of {origin} noticed at {at} lasts until {retry_at}, not from {least} to {most}"
