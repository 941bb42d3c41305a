"""One host without a scheduler: what a store tells of it, and when it may be forgotten."""

from __future__ import annotations

from typing import Final

import pytest
from tests.pace.bench import HOST, OPTIONS

from robotgate.options import HostOptions, Rate
from robotgate.pace.host import Host, PacedOrigin, PacedTurn
from robotgate.pace.spacing import NOTHING_ASKED, Asked
from robotgate.pace.state import FORGIVEN_AFTER, Circuit, HostState
from robotgate.pace.turn import BEGIN, END, Permits, Places
from robotgate.rules.grammar import VisitTime
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


def test_open_serial_turn_ends_no_sooner_than_now() -> None:
    """What is told of the next start counts its delay from now on, and no quota twice."""
    paced = simple(OPTIONS | HostOptions(delay=5.0, rate=Rate(2, 60.0)))
    turn = PacedTurn(paced)
    Places(Permits(1), Permits(1)).move(turn, BEGIN)
    paced.host.begin(turn, MIDNIGHT)
    assert paced.host.free_at(paced, MIDNIGHT + 3.0, ahead=False) == MIDNIGHT + 8.0


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
