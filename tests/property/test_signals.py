"""Whatever a host says about our speed, in its statuses, headers and latencies: it can slow us down, and no more."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict
from tests.pace.bench import HOST, OPTIONS

from robotgate.options import HostOptions
from robotgate.pace.host import ROUNDING, Host, PacedOrigin, PacedTurn
from robotgate.pace.signals import heard
from robotgate.pace.state import CLOCK_GRAIN, GOOD_BELOW
from robotgate.urls import Origin

TODAY: Final = 20_778 * 86_400.0
MAX_DELAY: Final = 60.0

numbers = st.sampled_from(
    ["0", "1", "5", "30", "3600", "1e9", "-1", "1.5", "9" * 15, "9" * 400, "NaN", "inf"]
) | st.integers(0, 10**12).map(str)
dates = st.sampled_from(
    [
        "Fri, 21 Nov 2026 00:01:00 GMT",
        "Friday, 21-Nov-26 00:01:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "2026-11-21T00:01:00Z",
    ]
)
garbage = st.text(max_size=12) | st.sampled_from(["", ";;", '"', "r=0", '"a";r', ",,,", "\x00", "0" * 9000])
values = numbers | dates | garbage
quotas = (
    st.builds('"q";r={};t={}'.format, numbers, numbers)
    | st.builds("limit=100, remaining={}, reset={}".format, numbers, numbers)
    | st.builds('"a";r={}, "b";r=3;t={}'.format, numbers, numbers)
    | garbage
)
lines = (
    st.sampled_from(
        [
            ("Retry-After", "5"),
            ("Retry-After", "3600"),
            ("RateLimit", '"q";r=0;t=5'),
            ("RateLimit", '"q";r=0;t=3600'),
            ("RateLimit", '"q";r=3;t=5'),
        ]
    )
    | st.tuples(st.sampled_from(["Retry-After", "retry-after", "RETRY-AFTER"]), values)
    | st.tuples(st.sampled_from(["RateLimit", "ratelimit", "RateLimit-Policy"]), quotas)
    | st.tuples(
        st.builds(
            "{}-{}".format,
            st.sampled_from(["RateLimit", "X-RateLimit", "x-ratelimit", "X-Rate-Limit"]),
            st.sampled_from(["Remaining", "Reset", "remaining", "reset"]),
        ),
        values,
    )
)


@dataclass(frozen=True, slots=True)
class Step:
    """A visit: how long after the last one, how long its answer takes, and what that says."""

    idle: float
    took: float
    status: int
    lines: list[tuple[str, str]]
    is_restarted: bool
    """Whether another process goes on after it, with what a store knows."""


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.0, 0.0, 0.0, 0.3, 31.0, 4000.0]) | st.floats(0, 100),
        st.sampled_from([0.0, 0.02, 0.5, 3.0]) | st.floats(0, 500),
        st.sampled_from([200, 200, 200, 429, 429, 503, 403, 404, 500, 302]) | st.integers(100, 599),
        st.lists(lines, max_size=3),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)


LATE_ANSWERS: Final = [
    Step(0.0, 1.0, 200, [("Retry-After", "3600")], is_restarted=False),
    Step(0.0, 2.0, 200, [("Retry-After", "5")], is_restarted=False),
]
"""The second asks for less."""
OTHER_QUOTA: Final = [
    Step(0.0, 0.0, 200, [("RateLimit", '"minute";r=1;t=5')], is_restarted=False),
    Step(0.0, 0.0, 200, [("RateLimit", '"hour";r=0;t=3600')], is_restarted=False),
]
"""The one that is spent is renewed later."""


def paced(options: HostOptions) -> PacedOrigin:
    """An origin of a new host."""
    host = Host(HOST)
    origin = PacedOrigin(Origin("http", HOST, 80), host, OPTIONS | options)
    host.origins = (origin,)
    host.update_limits(None)
    return origin


class Visits:
    """Visits of one origin, each as soon as it may start; answers may come in any order."""

    def __init__(self, options: HostOptions, jitter: float) -> None:
        self.origin = paced(options)
        self.jitter = jitter
        self.now = TODAY
        self.due_at = 0.0
        """The first instant that the delay and the pauses allow."""
        self.open: list[tuple[float, Step, PacedTurn]] = []

    def start_at(self, at: float) -> float:
        """When a visit may start that is wanted then."""
        return self.origin.host.earliest_start(self.origin, max(at, self.now))

    def begin(self, step: Step) -> None:
        """Start a visit, when those that end before it have ended."""
        at = self.now + step.idle
        while self.open and (
            len(self.open) == self.origin.host.slots or min(end[0] for end in self.open) <= self.start_at(at)
        ):
            self.end()
        self.now = self.start_at(at)
        assert self.now >= self.due_at - CLOCK_GRAIN
        turn = PacedTurn(self.origin)
        self.origin.host.begin(turn, self.now)
        self.due_at = max(self.due_at, self.now + self.origin.options["delay"])
        self.open.append((self.now + step.took, step, turn))

    def end(self) -> None:
        """Take in the answer that comes first."""
        ended = min(self.open, key=lambda end: end[0])
        self.open.remove(ended)
        (at, step, turn), host = ended, self.origin.host
        self.now = now = max(self.now, at)
        told = heard(step.status, CIMultiDict(step.lines), now=now)
        is_good = step.status < GOOD_BELOW
        host.note_latency(turn, now, is_good)
        host.note_answer(turn, told, is_good=is_good, now=now, jitter=self.jitter)
        host.end(turn, now)
        if host.slots == 1:
            self.due_at = max(self.due_at, now + self.origin.options["delay"])
        self.due_at = max(self.due_at, now + (told.pause or 0.0) - ROUNDING)
        if step.is_restarted and not self.open:
            self.origin = paced(self.origin.options)
            self.origin.host.restore(host.snapshot())
        state = self.origin.host.snapshot()
        for field in fields(state):
            value = getattr(state, field.name)
            assert value is None or isinstance(value, tuple) or math.isfinite(value), field.name
        assert 0.0 <= state.learned_delay <= MAX_DELAY
        assert 0.0 <= state.limit_delay <= MAX_DELAY


@settings(max_examples=6 * settings().max_examples)
@given(
    steps,
    st.sampled_from([0.0, 0.02, 1.0, 30.0]),
    st.sampled_from([1, 3]),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
)
@example(LATE_ANSWERS, 0.02, 3, False, 0.0)
@example(OTHER_QUOTA, 0.02, 1, False, 0.0)
def test_no_signal_makes_a_start_come_sooner(
    history: list[Step],
    delay: float,
    slots: int,
    adaptive: bool,  # noqa: FBT001  # Given by Hypothesis.
    jitter: float,
) -> None:
    """A visit starts no earlier than the delay and every pause that was asked for allow, and the state stays finite."""
    options = HostOptions(
        delay=delay, concurrency_per_host=slots, adaptive=adaptive, max_delay=MAX_DELAY, latency_factor=0.0
    )
    visits = Visits(options, jitter)
    for step in history:
        visits.begin(step)
    while visits.open:
        visits.end()
    visits.begin(Step(0.0, 0.0, 200, [], is_restarted=False))
