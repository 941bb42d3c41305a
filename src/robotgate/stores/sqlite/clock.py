"""The clock by which instants stand in the file, and the clock of leases.

While the machine runs, a clock that also counts suspension tells how much time has passed, whatever becomes of the wall
clock. The file has one offset from it to seconds since the epoch, set by the first process after each start of the
machine. Every process converts between that and its own clock, so that only relative seconds cross between processes.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate.clock import READINGS, SystemClock, uptime
from robotgate.pace.state import CLOCK_GRAIN
from robotgate.stores.sqlite.tables import forget_facts, read_fact, write_fact

if TYPE_CHECKING:
    import sqlite3

    from robotgate.clock import Clock

_OFFSET: Final = "offset"
"""The fact's name, with the start of the machine behind it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When some work is done."""

    now: float
    """By the store's clock."""
    ahead: float
    """Seconds by which the file's clock is ahead of the store's."""
    uptime: float
    """By the clock of leases, which all processes of the machine share."""


class FileClock:
    """The file's clock, as one store knows it.

    Args:
        clock: the store's. Any but the system's is taken for the file's as well, and is read in the event loop alone:
            it may count as its loop does, or bear one thread. Leases are judged by the machine's clock all the same.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._system = clock if isinstance(clock, SystemClock) else None
        self.boot = _boot_id()
        """Which start of the machine this is; empty where that cannot be told."""
        self.place = _place(self.boot)
        """Where a process number means something; empty where that cannot be told: containers may share a file."""
        self._offset = 0.0

    def uptime(self) -> float:
        """The time by which leases are judged."""
        return uptime()

    def moment(self, reading: float) -> Moment:
        """Now. Read in any thread."""
        system = self._system
        if system is None:
            return Moment(reading, 0.0, uptime())
        ahead = _asleep() + self._offset - system.epoch
        return Moment(system.now(), ahead if abs(ahead) > CLOCK_GRAIN else 0.0, uptime())

    def attach(self, connection: sqlite3.Connection, *, is_alone: bool) -> None:
        """Take over the file's offset, or set it."""
        system = self._system
        if system is None:
            return
        name = f"{_OFFSET} {self.boot}"
        offset = read_fact(connection, name)
        if offset is None or (is_alone and not self.boot):
            offset = system.epoch - _asleep()
            forget_facts(connection, f"{_OFFSET} *")
            write_fact(connection, name, offset)
        self._offset = offset


def _asleep() -> float:
    # An interruption between the two readings makes the difference too large: the least is the best.
    return min(-time.monotonic() + uptime() for _ in range(READINGS))


def process_runs(pid: int) -> bool:
    """Whether there is such a process, in this place."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _boot_id() -> str:
    try:
        # Only Linux has such a file.
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _place(boot: str) -> str:
    if sys.platform == "darwin":
        return "darwin"
    if not boot:
        return ""
    try:
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
