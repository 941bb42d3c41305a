"""When a robots.txt that still holds is asked for again, behind the back of those who ask about its rules."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._access import is_answered, retry_delay
from robotgate._checks import check_seconds, check_whole, unless_none
from robotgate._errors import OptionError

if TYPE_CHECKING:
    from robotgate._access import RobotsRecord
    from robotgate._urls import Origin

FIRST_REFRESH: Final = 0.75
"""The share of a record's life after which it is asked for again, if anybody wants to know."""
LAST_REFRESH: Final = 0.85
"""Origins that were learnt together are asked for again one after the other, from the first to this."""
MIN_SIZE: Final = 1024
"""Octets that a smaller robots.txt counts for, an empty or missing one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Triggers, as ``LWP::ElephantUA`` had them, that have a robots.txt asked for again while it still holds.

    Whichever comes first counts. They only ever add checks: what `RobotGate` does by itself at three quarters of a
    file's life stays, and so do the pauses after an attempt that failed. Nobody waits for such a check: the rules that
    are known answer until it has ended.

    Raises:
        OptionError: a value makes no sense, or none was given.
    """

    visits: int | None = None
    """After so many requests begun at the host since the file was last asked for, or found in the store."""
    age: float | None = None
    """After so many seconds since the file was last asked for."""
    bytes_ratio: float | None = None
    """After so many times the file's own size has been read from the host since, in octets; a file of less than 1 KiB
    counts as 1 KiB."""

    def __post_init__(self) -> None:
        if self.visits is None and self.age is None and self.bytes_ratio is None:
            raise OptionError("Recheck(): give visits, age or bytes_ratio; without any, nothing is rechecked")
        if self.visits is not None:
            check_whole("visits", self.visits, least=1)
        for name in ("age", "bytes_ratio"):
            value = getattr(self, name)
            unless_none(check_seconds, name, value)
            if value == 0:
                raise OptionError(
                    f"{name}={value!r}: give more than 0; the file would be asked for all the time"
                )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has been asked of a host, and read from it: `HostState.visits` and `HostState.bytes_read` of one moment."""

    visits: int
    bytes_read: int


def refresh_at(record: RobotsRecord, recheck: Recheck | None) -> float:
    """From when on a record is asked for again before its end, if anybody wants to know.

    What says only that the site could not be asked is kept to its end: that is when it was put off to.
    """
    if not is_answered(record):
        return record.fresh_until_at
    chance = _chance(record.origin)
    if record.failures:
        delay = retry_delay(record.failures, retry_after=None, jitter=chance)
        return min(record.checked_at + delay, record.fresh_until_at)
    life = record.fresh_until_at - record.checked_at
    at = record.checked_at + life * (FIRST_REFRESH + (LAST_REFRESH - FIRST_REFRESH) * chance)
    if recheck is not None and recheck.age is not None:
        at = min(at, record.checked_at + recheck.age)
    return min(at, record.fresh_until_at)


def has_seen_enough(record: RobotsRecord, recheck: Recheck, *, since: Traffic, now: Traffic) -> bool:
    """Whether there has been so much traffic since a record was last asked for that it is to be asked for again."""
    if record.failures or not is_answered(record):
        return False
    if recheck.visits is not None and now.visits - since.visits >= recheck.visits:
        return True
    if recheck.bytes_ratio is None:
        return False
    return now.bytes_read - since.bytes_read > recheck.bytes_ratio * max(len(record.body), MIN_SIZE)


def _chance(origin: Origin) -> float:
    """A number in [0, 1) that is the origin's own, in every process."""
    return zlib.crc32(origin.text.encode()) / 2**32
