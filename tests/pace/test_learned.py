"""The learned delay: what it gets from hosts with hidden limits, and that nothing drives it out of its bounds."""

from __future__ import annotations

import random
from typing import Final

import pytest
from benchmarks.limits_model import LIMITS, Host, crawl
from hypothesis import given
from hypothesis import strategies as st

from robotgate.pace.learned import Learner

ASKED: Final = {
    "bucket, 5 a second": (0.90, 0.01),
    "the same, Retry-After: 1": (0.90, 0.01),
    "bucket, 1 in 5 seconds": (0.75, 0.08),
    "window, 20 in 10 seconds": (0.70, 0.02),
    "leaky bucket, 2 a second": (0.80, 0.03),
    "sliding window, 20 in 10 seconds": (0.75, 0.03),
    "2 at once, of 0.1 s each": (0.75, 0.03),
    "2.5 a second, 30 s after it was 5": (0.70, 0.05),
    "5 a second, 30 s after it was 2.5": (0.70, 0.05),
}
"""The least share of what a limit allows, and the largest share of requests that it may refuse."""


@pytest.mark.parametrize("name", ASKED)
def test_hidden_limit_is_found(name: str) -> None:
    """A host that says no more than 429 is visited nearly as fast as it allows, and seldom refuses."""
    random.seed(7)
    share, told_off = crawl(LIMITS[name])
    assert share >= ASKED[name][0]
    assert told_off <= ASKED[name][1]


@given(
    st.floats(0.0, 100.0),
    st.floats(0.01, 100.0),
    st.lists(st.tuples(st.sampled_from(["good", "off", "slow", "next"]), st.floats(0.0, 1e4)), max_size=80),
)
def test_delay_stays_within_its_bounds(floor: float, more: float, events: list[tuple[str, float]]) -> None:
    """Whatever a host does, its delay is between what is asked and `max_delay`, and a pause is an hour at most."""
    host, most, now = Host(floor), floor + more, 0.0
    learner = Learner(host)
    for kind, seconds in events:
        now += seconds
        host.visits += 1
        if kind == "good":
            learner.answered(host, now=now, most=most)
        elif kind == "off":
            assert 0.0 < learner.told_off(host, 0.0, now=now, most=most) <= 3600.0
        elif kind == "slow":
            learner.raise_to(host, seconds, now=now, most=most)
        else:
            host.run_began_at, host.run_visits = now, host.visits
            learner = Learner(host)
        assert host.learned_delay == 0.0 or floor <= host.learned_delay <= most
        assert 0.0 <= host.limit_delay <= most
