"""One host without a scheduler: what holds for it, when its next request may start, and when it may be forgotten."""

from __future__ import annotations

import math
from typing import Final

import pytest
from tests.pace.bench import HOST, OPTIONS

from robotgate.options import HostOptions, Rate
from robotgate.pace.host import Host, PacedOrigin, PacedTurn
from robotgate.pace.spacing import NOTHING_ASKED, Asked
from robotgate.pace.state import FORGIVEN_AFTER, UNTRIED, Circuit, HostState
from robotgate.pace.turn import BEGIN, END, Permits, Places
from robotgate.rules.grammar import RequestRate, VisitTime
from robotgate.urls import Origin

MIDNIGHT: Final = 20_778 * 86_400.0
HOUR: Final = 3600.0
NIGHT: Final = Asked(visit_times=(VisitTime(60, 119),))
"""From one o'clock to two."""


def host_of(*origins: tuple[HostOptions, Asked], max_slots: int | None = None) -> Host:
    """A host of several origins, each with its options and what it asks."""
    host = Host(HOST)
    for port, (options, asked) in enumerate(origins, 80):
        paced = PacedOrigin(Origin("http", HOST, port), host, options)
        paced.asked = asked
        host.origins += (paced,)
    host.update_limits(max_slots)
    return host


def simple(options: HostOptions = OPTIONS, asked: Asked = NOTHING_ASKED) -> PacedOrigin:
    """The one origin of a host."""
    return host_of((options, asked)).origins[0]


def visit(paced: PacedOrigin, began_at: float, ended_at: float) -> None:
    """A request and its response."""
    turn, places = PacedTurn(paced), Places(Permits(1), Permits(1))
    places.move(turn, BEGIN)
    paced.host.begin(turn, began_at)
    places.move(turn, END)
    paced.host.end(turn, ended_at)


# What holds.


@pytest.mark.parametrize(
    ("floors", "asked", "delay"),
    [
        ([1.0], [NOTHING_ASKED], 1.0),
        ([1.0], [Asked(crawl_delay=0.5)], 1.0),
        ([1.0], [Asked(crawl_delay=5.0)], 5.0),
        ([1.0], [Asked(crawl_delay=5.0, request_rate=RequestRate(1, 20))], 20.0),
        ([0.0, 2.0], [NOTHING_ASKED, NOTHING_ASKED], 2.0),
        ([0.0, 2.0], [Asked(crawl_delay=7.0), Asked(crawl_delay=3.0)], 7.0),
    ],
)
def test_longest_delay_holds(floors: list[float], asked: list[Asked], delay: float) -> None:
    """The operator's floor, Crawl-delay and Request-rate, of all origins that are paced together."""
    options = [OPTIONS | HostOptions(delay=floor) for floor in floors]
    assert host_of(*zip(options, asked, strict=True)).delay == delay


@pytest.mark.parametrize(
    ("latency", "factor", "max_delay", "delay"),
    [
        (None, 5.0, 60.0, 1.0),
        (30.0, 0.0, 60.0, 1.0),
        (0.1, 5.0, 60.0, 1.0),
        (2.0, 5.0, 60.0, 10.0),
        (2.0, 5.0, 8.0, 8.0),
        (99.0, 5.0, 1e9, 60.0),
        (0.5, 1e308, 1e9, 60.0),
    ],
)
def test_slow_host_has_a_longer_delay(
    latency: float | None, factor: float, max_delay: float, delay: float
) -> None:
    """Where the operator heeds latency: so many times the latency, up to a minute and to `max_delay`."""
    host = simple(OPTIONS | HostOptions(latency_factor=factor, max_delay=max_delay)).host
    host.restore(HostState(latency=latency))
    assert host.delay == delay


@pytest.mark.parametrize(
    ("slots", "max_slots", "expected"), [([3], None, 3), ([3, 2], None, 2), ([3], 2, 2), ([3], 9, 3)]
)
def test_fewest_slots_hold(slots: list[int], max_slots: int | None, expected: int) -> None:
    """Those of the strictest origin, and no more than the connector opens connections."""
    origins = [(OPTIONS | HostOptions(concurrency_per_host=count), NOTHING_ASKED) for count in slots]
    assert host_of(*origins, max_slots=max_slots).slots == expected


# When the next request may start.


@pytest.mark.parametrize(("slots", "due_in"), [(1, 9.5), (2, 2.0)])
def test_request_and_response_set_the_next_instant(slots: int, due_in: float) -> None:
    """One at a time: the delay counts from the end; else from the start."""
    paced = simple(OPTIONS | HostOptions(delay=2.0, concurrency_per_host=slots))
    visit(paced, MIDNIGHT, MIDNIGHT + 7.5)
    assert paced.host.earliest_start(paced, MIDNIGHT) == MIDNIGHT + due_in
    state = paced.host.snapshot()
    assert (state.visits, state.next_allowed_at) == (1, MIDNIGHT + due_in)


def test_other_delay_learnt_later_counts_from_the_last_visit() -> None:
    """A longer one holds for the gap that follows the visit; a shorter one takes nothing back."""
    paced = simple()
    visit(paced, MIDNIGHT, MIDNIGHT)
    for delay, due_in in ((1.0, 1.0), (10.0, 10.0), (0.0, 1.0)):
        paced.options = OPTIONS | HostOptions(delay=delay)
        paced.host.update_limits(None)
        assert paced.host.earliest_start(paced, MIDNIGHT) == MIDNIGHT + due_in


def test_delay_of_a_visit_does_not_count_for_one_elsewhere() -> None:
    """What the store says of the later visit counts, with the delay that held there."""
    paced = simple()
    paced.options = OPTIONS | HostOptions(delay=10.0)
    paced.host.update_limits(None)
    visit(paced, MIDNIGHT, MIDNIGHT)
    paced.host.merge(HostState(last_visit_at=MIDNIGHT + 100, next_allowed_at=MIDNIGHT + 101))
    assert paced.host.snapshot().next_allowed_at == MIDNIGHT + 101
    paced.options = OPTIONS | HostOptions(delay=0.0)
    paced.host.update_limits(None)
    assert paced.host.earliest_start(paced, MIDNIGHT) == MIDNIGHT + 101


@pytest.mark.parametrize("delay", [86_400.0 * 400, 8.6e13, 1e16, 1e40, 1e64])
def test_absurd_delay_is_neither_infinite_nor_forgotten(delay: float) -> None:
    """Whether to wait so long is decided elsewhere; the instant is true."""
    paced = simple(asked=Asked(crawl_delay=delay))
    visit(paced, MIDNIGHT, MIDNIGHT)
    assert MIDNIGHT + delay <= paced.host.earliest_start(paced, MIDNIGHT) < math.inf


def test_hours_hold_for_pages_alone() -> None:
    """robots.txt may be read at any hour: the hours may have changed."""
    paced = simple(asked=NIGHT)
    assert paced.host.earliest_start(paced, MIDNIGHT) == MIDNIGHT + HOUR
    assert paced.host.earliest_start(paced, MIDNIGHT, ahead=True) == MIDNIGHT


def test_blocks_hold_for_those_they_name() -> None:
    """The server's for the whole host, the operator's and an outage for one origin."""
    host = host_of((OPTIONS, NOTHING_ASKED), (OPTIONS, NOTHING_ASKED))
    one, other = host.origins
    host.blocked_until_at = MIDNIGHT + 5.0
    one.operator_until_at = MIDNIGHT + 20.0
    assert [host.earliest_start(paced, MIDNIGHT) - MIDNIGHT for paced in (one, other)] == [20.0, 5.0]
    other.circuit = Circuit(outages=1, retry_at=MIDNIGHT + 30.0)
    assert [host.earliest_start(paced, MIDNIGHT) - MIDNIGHT for paced in (one, other)] == [20.0, 30.0]


def test_open_serial_turn_ends_no_sooner_than_now() -> None:
    """What is told of the next start counts its delay from now on, and no quota twice."""
    paced = simple(OPTIONS | HostOptions(delay=5.0, rate=Rate(2, 60.0)))
    turn = PacedTurn(paced)
    Places(Permits(1), Permits(1)).move(turn, BEGIN)
    paced.host.begin(turn, MIDNIGHT)
    assert paced.host.free_at(paced, MIDNIGHT + 3.0, ahead=False) == MIDNIGHT + 8.0


# Which requests are not worth waiting with.

GONE: Final = Circuit(outages=1, retry_at=MIDNIGHT + 12.0, is_gone=True)


@pytest.mark.parametrize(
    ("operator", "block", "circuit", "asked", "ahead", "cause", "seconds"),
    [
        (0.0, 0.0, UNTRIED, NOTHING_ASKED, False, None, 0.0),
        (300.0, 300.0, UNTRIED, NOTHING_ASKED, False, None, 0.0),
        (301.0, 0.0, UNTRIED, NOTHING_ASKED, True, "the operator blocks it", 301.0),
        (0.0, 301.0, UNTRIED, NOTHING_ASKED, True, "asks for a pause", 301.0),
        (0.0, 0.0, Circuit(outages=9, retry_at=MIDNIGHT + 300.0), NOTHING_ASKED, True, None, 0.0),
        (0.0, 0.0, Circuit(outages=9, retry_at=MIDNIGHT + 301.0), NOTHING_ASKED, True, "it is gone", 301.0),
        (999.0, 999.0, GONE, NOTHING_ASKED, True, "it is gone", 12.0),
        (0.0, 0.0, GONE, NOTHING_ASKED, False, "it is gone", 12.0),
        (0.0, 0.0, UNTRIED, NIGHT, True, None, 0.0),
        (0.0, 0.0, UNTRIED, NIGHT, False, "Visit-time", HOUR),
        (0.0, 0.0, UNTRIED, Asked(visit_times=(VisitTime(5, 119),)), False, None, 0.0),
    ],
)
def test_what_is_not_worth_waiting_with(
    *,
    operator: float,
    block: float,
    circuit: Circuit,
    asked: Asked,
    ahead: bool,
    cause: str | None,
    seconds: float,
) -> None:
    """A host that is given up, a try or a block over `max_block`, and for pages hours that open later than that."""
    paced = simple(asked=asked)
    paced.operator_until_at = MIDNIGHT + operator
    paced.host.blocked_until_at = MIDNIGHT + block
    paced.circuit, paced.outage = circuit, "it is gone"
    error = paced.host.unavailable(paced, MIDNIGHT, ahead=ahead)
    if cause is None:
        assert error is None
        return
    assert error is not None
    assert cause in str(error)
    assert (error.host, error.retry_after) == (HOST, seconds)


@pytest.mark.parametrize("at", [MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR - 2.0])
def test_hours_that_are_open_refuse_no_page_for_a_delay_or_a_quota(at: float) -> None:
    """Unless the hours are over by the time the next visit is due."""
    paced = simple(OPTIONS | HostOptions(delay=30.0, max_block=0.0), NIGHT)
    visit(paced, at, at)
    error = paced.host.unavailable(paced, at, ahead=False)
    assert (error is None) is (at == MIDNIGHT + HOUR)


# The queue of an origin.


def waiting_turn(paced: PacedOrigin, arrival: int, *, priority: int = 0, ahead: bool = False) -> PacedTurn:
    """A turn that has its place and is yet to join."""
    turn = PacedTurn(paced, priority=priority, ahead=ahead)
    turn.arrival = arrival
    return turn


def test_rank_is_robots_then_priority_then_arrival() -> None:
    """In this order, whatever the numbers are."""
    paced = simple()
    turns = [
        waiting_turn(paced, 9, ahead=True),
        waiting_turn(paced, 8, priority=2),
        waiting_turn(paced, 1, priority=1),
        waiting_turn(paced, 2, priority=1),
        waiting_turn(paced, 0, priority=-1),
    ]
    assert sorted(turns, key=lambda turn: turn.rank) == turns


# When it may be forgotten.


def test_host_is_idle_when_its_politeness_is_served() -> None:
    """Its delay, its block and the failures that make the next block longer, and its quota."""
    paced = simple(OPTIONS | HostOptions(delay=10.0, rate=Rate(5, 60.0)))
    host = paced.host
    assert host.may_drop(paced, MIDNIGHT, is_saved=False)
    visit(paced, MIDNIGHT, MIDNIGHT)
    assert [host.may_drop(paced, MIDNIGHT + after, is_saved=False) for after in (9.9, 10.0, 59.9, 60.0)] == [
        False,
        False,
        False,
        True,
    ]
    host.restore(HostState(blocked_until_at=MIDNIGHT + HOUR, failures=1))
    assert not host.may_drop(paced, MIDNIGHT + HOUR, is_saved=False)
    assert host.may_drop(paced, MIDNIGHT + HOUR + FORGIVEN_AFTER, is_saved=False)
    # A store remembers the failures, but a wait goes on here.
    assert host.may_drop(paced, MIDNIGHT + HOUR, is_saved=True)
    assert not host.may_drop(paced, MIDNIGHT + HOUR - 1.0, is_saved=True)
    host.in_slots += (PacedTurn(paced),)
    assert not host.may_drop(paced, MIDNIGHT + 9 * HOUR, is_saved=True)


def test_delay_learnt_after_the_visit_is_served_too() -> None:
    """A host is not forgotten for as long as the Crawl-delay read after its last visit holds."""
    paced = simple()
    visit(paced, MIDNIGHT, MIDNIGHT)
    paced.asked = Asked(crawl_delay=30.0)
    paced.host.update_limits(None)
    assert not paced.host.may_drop(paced, MIDNIGHT + 29.0, is_saved=False)
    assert paced.host.may_drop(paced, MIDNIGHT + 30.0, is_saved=False)


@pytest.mark.parametrize(
    ("asked", "other", "may_it"),
    [
        (NOTHING_ASKED, (OPTIONS, NOTHING_ASKED), True),
        (NOTHING_ASKED, (OPTIONS | HostOptions(delay=0.0), NOTHING_ASKED), False),
        (Asked(crawl_delay=5.0), (OPTIONS, NOTHING_ASKED), False),
        (Asked(crawl_delay=5.0), (OPTIONS, Asked(crawl_delay=4.0)), False),
        (Asked(crawl_delay=5.0), (OPTIONS, Asked(crawl_delay=5.0)), True),
    ],
)
def test_origin_goes_from_a_busy_host_if_others_ask_for_as_much(
    asked: Asked,
    other: tuple[HostOptions, Asked],
    may_it: bool,  # noqa: FBT001  # pytest passes it by name.
) -> None:
    """The host is paced as before without it."""
    host = host_of((OPTIONS, asked), other)
    visit(host.origins[1], MIDNIGHT, MIDNIGHT)
    assert host.may_drop(host.origins[0], MIDNIGHT, is_saved=False) is may_it


def test_origin_that_is_needed_stays() -> None:
    """One with an open turn, and one that could not be reached."""
    host = host_of((OPTIONS, NOTHING_ASKED), (OPTIONS, NOTHING_ASKED))
    paced = host.origins[0]
    turn, places = PacedTurn(paced), Places(Permits(1), Permits(1))
    places.move(turn, BEGIN)
    assert not host.may_drop(paced, MIDNIGHT, is_saved=False)
    places.move(turn, END)
    assert host.may_drop(paced, MIDNIGHT, is_saved=False)
    paced.circuit = Circuit(outages=1, retry_at=MIDNIGHT + 30.0)
    assert not host.may_drop(paced, MIDNIGHT + 29.0, is_saved=False)
    assert host.may_drop(paced, MIDNIGHT + 30.0, is_saved=False)
