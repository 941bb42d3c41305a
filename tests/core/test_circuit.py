"""An origin that cannot be reached: growing pauses, one request that tries, and an answer that ends the outage."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.pace.state import (
    CLOSED,
    MAX_OUTAGE,
    MIN_OUTAGE,
    OUTAGE_JITTER,
    Circuit,
    circuit_failed,
    is_half_open,
    is_open,
)

NOW: Final = 1.8e9


def test_origin_that_answers_is_open_to_all() -> None:
    """No request is held back and none tries alone, at any date."""
    for now in (0.0, NOW):
        assert (is_open(CLOSED, now=now), is_half_open(CLOSED, now=now)) == (False, False)


def test_outage_lets_nobody_through_then_one() -> None:
    """Ten seconds without a request, then one may try; a timer that fires early by a grain counts as in time."""
    circuit = circuit_failed(CLOSED, began_at=NOW - 1, now=NOW, jitter=0.0)
    assert circuit == Circuit(outages=1, opened_at=NOW, retry_at=NOW + MIN_OUTAGE)
    for after, expected in ((0.0, True), (9.999, True), (10.0 - 5e-7, False), (10.0, False), (9e9, False)):
        assert is_open(circuit, now=NOW + after) is expected
        assert is_half_open(circuit, now=NOW + after) is not expected


def test_pause_doubles_with_each_try_that_fails() -> None:
    """Up to an hour, however often."""
    circuit, now, pauses = CLOSED, NOW, []
    for _ in range(2000):
        circuit = circuit_failed(circuit, began_at=now, now=now, jitter=0.0)
        pauses.append(circuit.retry_at - now)
        now = circuit.retry_at
    assert pauses == [min(MIN_OUTAGE * 2.0 ** min(count, 99), MAX_OUTAGE) for count in range(2000)]
    assert circuit.outages == 2000


@pytest.mark.parametrize("began_at", [NOW - 30, NOW - 0.001, NOW])
def test_requests_that_were_under_way_fail_in_the_same_outage(began_at: float) -> None:
    """Fifty connections refused at once are one outage."""
    circuit = circuit_failed(CLOSED, began_at=NOW - 1, now=NOW, jitter=0.0)
    assert circuit_failed(circuit, began_at=began_at, now=NOW + 5, jitter=0.5) is circuit


@given(
    st.builds(
        Circuit, outages=st.integers(0, 5000), opened_at=st.floats(0, 1e10), retry_at=st.floats(0, 1e10)
    ),
    st.floats(0, 1e10),
    st.floats(0, 1e10),
    st.floats(0, 1, exclude_max=True),
)
def test_failure_never_opens_sooner(circuit: Circuit, began_at: float, now: float, jitter: float) -> None:
    """Whatever the clock does, the next try only moves later, and jitter only adds, up to a tenth."""
    after = circuit_failed(circuit, began_at=began_at, now=now, jitter=jitter)
    assert after.retry_at >= circuit.retry_at
    assert after.opened_at >= circuit.opened_at
    if after != circuit:
        assert after.outages == circuit.outages + 1
        assert now + MIN_OUTAGE <= after.retry_at
        assert after.retry_at <= max(circuit.retry_at, now + MAX_OUTAGE * (1 + OUTAGE_JITTER))
