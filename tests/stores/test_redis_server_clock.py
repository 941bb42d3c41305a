"""The server's clock against ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.stores.redis._server_clock import WINDOW, ServerClock

GRAIN = 1e-6
NOW = 1_800_000_000.0


@given(
    shift=st.floats(-1e6, 1e6),
    trips=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 10)), min_size=1, max_size=30),
)
def test_never_early(shift: float, trips: list[tuple[float, float, float]]) -> None:
    """However long questions and answers take, no instant is told too early, either way; and none later than the
    quickest trip within the window could make it.
    """
    clock, now = ServerClock(), NOW
    for there, back, pause in trips:
        clock.note(asked_at=now, told_at=now + there - shift, heard_at=now + there + back)
        now += there + back
        assert clock.here(now - shift) >= now - GRAIN
        assert clock.there(now) >= now - shift - GRAIN
        assert clock.here(clock.there(now)) - now <= there + back + GRAIN
        now += pause


def test_quickest_reply_counts() -> None:
    """One quick trip tells more than many slow ones."""
    clock = ServerClock()
    clock.note(asked_at=100.0, told_at=50.4, heard_at=100.8)
    clock.note(asked_at=101.0, told_at=51.001, heard_at=101.002)
    clock.note(asked_at=102.0, told_at=52.4, heard_at=102.8)
    assert clock.here(60.0) == pytest.approx(110.001)
    assert clock.there(110.0) == pytest.approx(60.001)


@pytest.mark.parametrize("jump", [-3600.0, -0.5, 0.5, 3600.0])
def test_clock_that_is_set(jump: float) -> None:
    """Once either clock was set, the next reply alone counts."""
    clock = ServerClock()
    clock.note(asked_at=100.0, told_at=50.0005, heard_at=100.001)
    clock.note(asked_at=101.0, told_at=51.0005 + jump, heard_at=101.001)
    assert clock.here(60.0 + jump) == pytest.approx(110.0, abs=0.002)
    assert clock.there(110.0) == pytest.approx(60.0 + jump, abs=0.002)


def test_what_is_old_is_forgotten() -> None:
    """Clocks drift: a quick trip of long ago does not bind for ever."""
    clock = ServerClock()
    clock.note(asked_at=100.0, told_at=50.0, heard_at=100.0)
    for trip in range(4):
        at = 101.0 + trip * WINDOW
        clock.note(asked_at=at - 0.5, told_at=at - 50.0, heard_at=at + 0.5)
    assert clock.here(60.0) == pytest.approx(110.5)
    assert clock.there(110.0) == pytest.approx(60.5)
