"""The law of an origin that cannot be reached, for any clock; `tests.outage_law` is the law of a whole host."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robotgate.pace.state import (
    CLOSED,
    MAX_OUTAGE,
    MIN_OUTAGE,
    OUTAGE_JITTER,
    Circuit,
    circuit_failed,
    circuit_silent,
)


def test_pause_doubles_with_each_try_that_fails() -> None:
    """From a second, which a restart takes, up to an hour, however often."""
    circuit, now, pauses = CLOSED, 1.8e9, []
    for _ in range(2000):
        circuit = circuit_failed(circuit, began_at=now, now=now, jitter=0.0, give_up_after=60.0)
        pauses.append(circuit.retry_at - now)
        now = circuit.retry_at
    assert pauses == [min(2.0 ** min(count, 99), 3600.0) for count in range(2000)]


@given(
    st.builds(
        Circuit,
        has_answered=st.booleans(),
        silences=st.integers(0, 9),
        outages=st.integers(0, 5000),
        began_at=st.floats(0, 1e10),
        failed_at=st.floats(0, 1e10),
        retry_at=st.floats(0, 1e10),
        is_gone=st.booleans(),
    ),
    st.floats(0, 1e10),
    st.floats(0, 1e10),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_failure_never_opens_sooner(
    circuit: Circuit,
    began_at: float,
    now: float,
    jitter: float,
    is_silence: bool,  # noqa: FBT001
) -> None:
    """Whatever the clock does, the next try only moves later, and jitter only adds, up to a tenth."""
    change = circuit_silent if is_silence else circuit_failed
    after = change(circuit, began_at=began_at, now=now, jitter=jitter, give_up_after=60.0)
    if after.outages != circuit.outages:
        assert after.retry_at >= circuit.retry_at
        assert after.failed_at >= circuit.failed_at
        assert after.outages == circuit.outages + 1
        assert now + MIN_OUTAGE <= after.retry_at
        assert after.retry_at <= max(circuit.retry_at, now + MAX_OUTAGE * (1 + OUTAGE_JITTER))
    assert after.has_answered == circuit.has_answered
