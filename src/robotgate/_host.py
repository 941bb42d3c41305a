"""What is remembered of a host, for people to look at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final


class HostAccess(Enum):
    """How far a site lets us in, as ``LWP::ElephantUA`` told hosts apart."""

    EXCLUDED = "excluded"
    """Nothing may be fetched."""
    OPEN = "open"
    """Everything may be fetched."""
    CONTROLLED = "controlled"
    """Its rules say what may be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host as it is remembered now. Instants are seconds since the epoch."""

    origin: str
    """Whose rules these are: that of the URL."""
    host: str
    """The pace key: what is paced together."""
    access: HostAccess | None
    """Of the URL's origin; None while its rules are not known."""
    checked_at: float | None
    """When the origin's robots.txt was last asked for."""
    fresh_until_at: float | None
    """Until when what is known of it is used without asking again; None while nothing is, and for a host whose
    robots.txt is not obeyed."""
    stale: bool
    """Whether it was asked for in vain, and the last good rules hold."""
    visits: int
    """Requests begun, those for robots.txt included."""
    refused: int
    """Turns refused because the rules of the URL's origin disallow the URL."""
    bytes_read: int
    last_visit_at: float | None
    """When the last response ended, or the last request began if that came later; or is taken to have, as of every host
    after a crash."""
    next_allowed_at: float
    """The next turn comes no sooner."""
    blocked_until_at: float | None
    """Until when the host asked us to stay away; None when it does not."""
    blocked_by_operator_until_at: float | None
    """Until when `RobotGate.block` keeps us away from the URL's host; None when it does not."""
    unreachable_until_at: float | None
    """Until when nobody tries the URL's origin, which could not be reached; None when somebody may."""
    failures: int
    """Blocks in a row."""
    latency: float | None
    """Seconds the host takes to begin an answer, on a moving average; None when nobody told."""
    delay: float
    """Seconds between visits, as they are asked for at this hour: by us, by the site, or by its latency."""
    waiting: int
    """Tasks waiting for a turn."""
    open_turns: int
    """Requests under way."""

    def __str__(self) -> str:
        """One line, as `LWP`'s `as_string` had one for each host."""
        access = "unknown" if self.access is None else self.access.value
        if self.stale:
            access += " by stale rules"
        marks = [
            f"{name} until {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z" if at < _YEAR_3000 else name
            for name, at in (
                ("blocked", self.blocked_until_at),
                ("left alone by the operator", self.blocked_by_operator_until_at),
                ("unreachable", self.unreachable_until_at),
            )
            if at is not None
        ]
        return ", ".join(
            [
                f"{self.origin}: {access}",
                f"{self.visits} visits",
                f"{self.bytes_read} octets",
                f"{self.refused} refused",
                f"{self.delay:g} s apart",
                f"{self.waiting} waiting",
                f"{self.open_turns} under way",
                *marks,
            ]
        )


_YEAR_3000: Final = 32_503_680_000.0
