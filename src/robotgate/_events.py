"""What happened: one value for each kind of thing that an operator may want to hear of.

Each is one line as text, whatever a site wrote into it, and shows no URL's credentials; `_listeners` says who hears
it, and at which level it is logged.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from robotgate._errors import RobotGateError, StoreError
    from robotgate._status import Outcome
    from robotgate._urls import Origin
    from robotgate._verdict import AccessResult, Verdict

LINE_HEAD: Final = 700
LINE_TAIL: Final = 300
"""Characters of a longer text that are kept: who it is about stands first, why stands last."""

_CREDENTIALS: Final = re.compile(r"//[^/?#\s]*@")


class BlockCause(Enum):
    """Why a host is left alone for a while."""

    ASKED = "it asked for a pause"
    """429 or 503 with Retry-After."""
    OVERLOADED = "it has too much to do"
    """429 or 503 without a word on how long."""
    UNREACHABLE = "it cannot be reached"
    """Refused connections, names without an address, timeouts."""
    OPERATOR = "the operator wants it left alone"
    """`RobotGate.block`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsFetched:
    """An attempt to read a robots.txt has ended, well or not."""

    at: float
    """When, in seconds since the epoch; so in every event."""
    origin: Origin
    robots_url: str
    """What was asked in the end, after redirects."""
    access: AccessResult
    outcome: Outcome
    status: int | None = None
    """The status of the last answer; None when there was none."""
    cause: str | None = None
    """What went wrong, in words."""
    stale: bool = False
    """Whether the last good copy goes on binding us in its place."""

    def __str__(self) -> str:
        ending = self.cause
        if ending is None:
            ending = "no answer" if self.status is None else f"HTTP status {self.status}"
        place = "" if self.robots_url == self.origin.robots_url else f" at {self.robots_url}"
        copy = "; the last good copy holds" if self.stale else ""
        return _line(f"robots.txt of {self.origin}: {self.access.value}{place}, {ending}{copy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRefused:
    """Somebody asked for a turn of a URL that may not be fetched; `allowed` and `check` only answer."""

    at: float
    verdict: Verdict

    def __str__(self) -> str:
        return _line(str(self.verdict))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRefused:
    """Somebody asked for a turn, and the time or the state of the host does not permit it."""

    at: float
    url: str
    error: RobotGateError
    """As it was raised."""

    def __str__(self) -> str:
        return _line(f"no turn of {self.url}: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegan:
    """A request may be sent."""

    at: float
    url: str
    waited: float
    """Seconds from asking for the turn to having it."""

    def __str__(self) -> str:
        return _line(f"a turn of {self.url} began after {self.waited:.3f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A request is over."""

    at: float
    url: str
    status: int | None
    """None when nobody reported one."""
    bytes_read: int
    elapsed: float
    """Seconds from the turn's beginning."""

    def __str__(self) -> str:
        answer = "no status" if self.status is None else f"HTTP status {self.status}"
        return _line(
            f"a turn of {self.url} ended after {self.elapsed:.3f} s: {answer}, {self.bytes_read} octets"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBlocked:
    """A host is left alone from now on, or for longer than it was to be so far."""

    at: float
    host: str
    """What is left alone: all that is paced together, one origin, or what a pattern names."""
    until_at: float
    """Seconds since the epoch; `math.inf`: until the operator says otherwise."""
    cause: BlockCause
    detail: str | None = None
    """More of the cause, in words, where more is known."""

    def __str__(self) -> str:
        stretch = (
            f"for {max(self.until_at - self.at, 0.0):.0f} s"
            if math.isfinite(self.until_at)
            else "until further notice"
        )
        detail = "" if not self.detail else f" ({self.detail})"
        return _line(f"{self.host} is left alone {stretch}: {self.cause.value}{detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecovered:
    """What was blocked may be visited again: it gave a good answer, or the operator lifted the block."""

    at: float
    host: str
    cause: BlockCause
    """Why it had been blocked."""

    def __str__(self) -> str:
        return _line(f"{self.host} is left alone no longer; it was because {self.cause.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost:
    """The store began to fail: what it was to keep, this process alone remembers. Told once, until it works again.

    A store that waits for its server tells at once, while who needs the server still waits.
    """

    at: float
    error: StoreError

    def __str__(self) -> str:
        return _line(f"the store failed: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered:
    """The store works again, after a `StoreLost`."""

    at: float

    def __str__(self) -> str:
        return "the store works again"


Event: TypeAlias = (
    RobotsFetched
    | VerdictRefused
    | TurnRefused
    | TurnBegan
    | TurnEnded
    | HostBlocked
    | HostRecovered
    | StoreLost
    | StoreRecovered
)


def _line(text: str) -> str:
    """A text as one line for a log: without credentials, bounded, and with escapes for what would not be seen."""
    # Before the cut, which could part a password from the sign that tells it.
    text = _CREDENTIALS.sub("//", text)
    if len(text) > LINE_HEAD + LINE_TAIL:
        text = f"{text[:LINE_HEAD]}…{text[-LINE_TAIL:]}"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
