"""What the calls of ``turns.lua`` and their replies look like, octet by octet. The script has the same layouts."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final, NamedTuple

from robotgate._pacing import HostState

HEAD: Final = Struct("<BB16sd")
"""Operation, flags, worker and turn, seconds to keep what nobody hears of."""
RESERVE: Final = Struct("<ddd")
"""Slots, delay, lease."""
TURN: Final = Struct("<ddddd")
"""Delay, lease, reserved_at, began_at, next_after."""
FINISH: Final = Struct("<ddddd")
"""Delay, ended_at, next_after, bytes_read, latency."""
STATE: Final = Struct("<dddddddd")
"""Last, next, blocked_at, blocked_until, failures, visits, bytes_read, latency."""
DONE: Final = Struct("<Bdd")
"""Status, now, epoch."""
TOLD: Final = Struct("<Bddd")
"""Status, now, epoch, again_at; a state follows."""
BEAT: Final = Struct("<Bdddd")
"""Status, now, epoch, workers, evicts."""

NEVER: Final = -1.0
"""An instant that never was, and whatever is no news."""
WORKER_OCTETS: Final = 8
"""Of the sixteen that name a turn, those that name its worker."""


class Operation(IntEnum):
    """What a call asks for."""

    RESERVE = 1
    BEGAN = 2
    HOLD = 3
    FINISH = 4
    WITHDRAW = 5
    MERGE = 6
    LOAD = 7
    LOOK = 8
    BEAT = 9


class Flag(IntFlag):
    """What is to be known besides."""

    NONE = 0
    ESTABLISHED = 1
    """The worker has seen an earlier epoch: others may be about to tell again what is under way."""
    EVICTING = 2
    """Keys may have been thrown out for lack of memory."""
    UNUSED = 4
    """A turn's request was never sent."""
    LEAVING = 8
    """A place in the line is given up; or a worker goes."""
    LOOKING = 16
    """Whether keys may be thrown out is to be looked at."""


class Status(IntEnum):
    """What came of a call."""

    GO = 0
    WAIT = 1
    MISSING = 2


class Told(NamedTuple):
    """All that is known of a host."""

    status: int
    now: float
    epoch: float
    again_at: float
    """By the server's clock, as what stands before."""
    state: HostState
    """By ours."""


def told(reply: bytes, *, ahead: float) -> Told:
    """The answer to RESERVE and LOAD.

    Args:
        ahead: seconds by which our clock is.
    """
    status, now, epoch, again_at = TOLD.unpack_from(reply)
    return Told(status, now, epoch, again_at, state_of(reply, TOLD.size, ahead=ahead))


def state_of(octets: bytes, offset: int = 0, *, ahead: float = 0.0) -> HostState:
    """A state, moved by as many seconds as our clock is ahead. What never was stays so."""
    last, due, blocked_at, blocked_until, failures, visits, read, latency = STATE.unpack_from(octets, offset)
    return HostState(
        last_visit_at=None if last == NEVER else last + ahead,
        next_allowed_at=due and due + ahead,
        blocked_at=blocked_at and blocked_at + ahead,
        blocked_until_at=blocked_until and blocked_until + ahead,
        failures=int(failures),
        visits=int(visits),
        bytes_read=int(read),
        latency=None if latency == NEVER else latency,
    )
