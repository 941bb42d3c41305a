"""Whether an origin can be reached: after an outage it is left alone, then one request tries.

It is the origin's, not the host's: a refused port says nothing of another. Nothing here outlives the process: the first
request of the next one finds out as cheaply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from robotgate._pacing import CLOCK_GRAIN

MIN_OUTAGE: Final = 10.0
"""Seconds until the first new try, doubled with each that fails."""
MAX_OUTAGE: Final = 3600.0
OUTAGE_JITTER: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is known of an origin's outage."""

    outages: int = 0
    """Tries in a row that found nobody; 0 while the origin answers."""
    opened_at: float = 0.0
    """When the last of them failed (wall clock)."""
    retry_at: float = 0.0
    """When the next is made (wall clock)."""


CLOSED: Final = Circuit()
"""That of an origin that answers. Any answer closes a circuit, whatever its status."""


def is_open(circuit: Circuit, *, now: float) -> bool:
    """Whether nobody may try yet."""
    return circuit.outages > 0 and now + CLOCK_GRAIN < circuit.retry_at


def is_half_open(circuit: Circuit, *, now: float) -> bool:
    """Whether one request may try, and everybody else waits for what comes of it."""
    return circuit.outages > 0 and not is_open(circuit, now=now)


def failed(circuit: Circuit, *, began_at: float, now: float, jitter: float) -> Circuit:
    """The circuit once a request has found nobody.

    Args:
        began_at: when it was sent; what was sent before an outage was known belongs to that outage.
        jitter: a random number in [0, 1), so that origins that went down together are not all tried together.
    """
    if circuit.outages and began_at <= circuit.opened_at:
        return circuit
    pause = min(MIN_OUTAGE * 2.0 ** min(circuit.outages, 16), MAX_OUTAGE) * (1 + OUTAGE_JITTER * jitter)
    return Circuit(
        outages=circuit.outages + 1,
        opened_at=max(circuit.opened_at, now),
        retry_at=max(circuit.retry_at, now + pause),
    )
