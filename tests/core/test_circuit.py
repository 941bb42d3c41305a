"""An origin that cannot be reached: growing pauses, one request that tries, and an answer that ends the outage."""

from __future__ import annotations

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.pace.state import (
    CLOSED,
    MAX_FIRST_SILENCES,
    MAX_OUTAGE,
    MAX_SILENCES,
    MIN_OUTAGE,
    OUTAGE_JITTER,
    UNTRIED,
    Circuit,
    circuit_failed,
    circuit_silent,
    is_half_open,
    is_open,
)

NOW: Final = 1.8e9
GIVE_UP_AFTER: Final = 60.0


def failed(
    circuit: Circuit, *, began_at: float, now: float = NOW, jitter: float = 0.0, is_silence: bool = False
) -> Circuit:
    """The circuit after a request that was not sent, or got no answer."""
    change = circuit_silent if is_silence else circuit_failed
    return change(circuit, began_at=began_at, now=now, jitter=jitter, give_up_after=GIVE_UP_AFTER)


@pytest.mark.parametrize("circuit", [UNTRIED, CLOSED])
@pytest.mark.parametrize("now", [0.0, NOW])
def test_origin_that_answers_is_open_to_all(circuit: Circuit, now: float) -> None:
    """No request is held back and none tries alone, at any date."""
    assert (is_open(circuit, now=now), is_half_open(circuit, now=now)) == (False, False)


def test_outage_lets_nobody_through_then_one() -> None:
    """A second without a request, then one may try; a timer that fires early by a grain counts as in time."""
    circuit = failed(CLOSED, began_at=NOW - 1)
    assert circuit.retry_at == NOW + MIN_OUTAGE
    for after, expected in ((0.0, True), (0.999, True), (1.0 - 5e-7, False), (1.0, False), (9e9, False)):
        assert is_open(circuit, now=NOW + after) is expected
        assert is_half_open(circuit, now=NOW + after) is not expected


def test_pause_doubles_with_each_try_that_fails() -> None:
    """From a second, which a restart takes, up to an hour, however often."""
    circuit, now, pauses = CLOSED, NOW, []
    for _ in range(2000):
        circuit = failed(circuit, began_at=now, now=now)
        pauses.append(circuit.retry_at - now)
        now = circuit.retry_at
    assert pauses == [min(MIN_OUTAGE * 2.0 ** min(count, 99), MAX_OUTAGE) for count in range(2000)]
    assert circuit.outages == 2000


def test_origin_is_given_up_by_a_try_that_fails_later() -> None:
    """Not by time alone: with a minute, the try after 63 s. Any answer closes the circuit."""
    circuit = failed(CLOSED, began_at=NOW)
    while not circuit.is_gone:
        circuit = failed(circuit, began_at=circuit.retry_at, now=circuit.retry_at)
    assert (circuit.outages, circuit.failed_at) == (7, NOW + 63.0)


@pytest.mark.parametrize("give_up_after", [0.0, math.inf])
def test_origin_that_is_given_up_at_once_or_never(give_up_after: float) -> None:
    """As the operator says."""
    for now in (NOW, NOW + 1e6):
        circuit = circuit_failed(CLOSED, began_at=now, now=now, jitter=0.0, give_up_after=give_up_after)
        assert circuit.is_gone is (give_up_after == 0.0)


@pytest.mark.parametrize(("circuit", "count"), [(UNTRIED, MAX_FIRST_SILENCES), (CLOSED, MAX_SILENCES)])
def test_several_silences_in_a_row_are_an_outage(circuit: Circuit, count: int) -> None:
    """More of an origin that has answered; its outage begins then, and waiters are given the same time."""
    for number in range(1, count):
        circuit = failed(circuit, began_at=NOW, is_silence=True)
        assert (circuit.silences, circuit.outages, circuit.retry_at) == (number, 0, 0.0)
    circuit = failed(circuit, began_at=NOW, is_silence=True)
    assert (circuit.outages, circuit.began_at, circuit.retry_at) == (1, NOW, NOW + MIN_OUTAGE)
    assert not circuit.is_gone
    assert failed(circuit, began_at=NOW + 1, now=NOW + 9, is_silence=True).outages == 2


@pytest.mark.parametrize("began_at", [NOW - 30, NOW - 0.001, NOW])
@pytest.mark.parametrize("is_silence", [False, True])
def test_requests_that_were_under_way_fail_in_the_same_outage(began_at: float, *, is_silence: bool) -> None:
    """Fifty connections refused at once are one outage."""
    circuit = failed(CLOSED, began_at=NOW - 1)
    assert failed(circuit, began_at=began_at, now=NOW + 5, jitter=0.5, is_silence=is_silence) is circuit


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
    after = failed(circuit, began_at=began_at, now=now, jitter=jitter, is_silence=is_silence)
    if after.outages != circuit.outages:
        assert after.retry_at >= circuit.retry_at
        assert after.failed_at >= circuit.failed_at
        assert after.outages == circuit.outages + 1
        assert now + MIN_OUTAGE <= after.retry_at
        assert after.retry_at <= max(circuit.retry_at, now + MAX_OUTAGE * (1 + OUTAGE_JITTER))
    assert after.has_answered == circuit.has_answered
