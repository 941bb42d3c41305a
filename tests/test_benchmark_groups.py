"""What the groups of benchmarks make of what they saw: figures, goals, and the clients that are left out."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks import _pace_seen, crawl, fleet, gate, pace
from benchmarks._client import Cost
from benchmarks._fleet_bench import OURS
from benchmarks._fleet_crawl import Crawl, crawl_goals
from benchmarks._fleet_figures import pace_values, turn_values
from benchmarks._fleet_measure import PACE_HOSTS, Grants, Taken
from benchmarks._peers import found, ratio
from benchmarks._plain_server import plain_site
from benchmarks._report import Figure
from benchmarks._server import ROBOTS_PATH, Visit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._report import Goal

WARM: Final = crawl.Shape(hosts=4, pages=25, rounds=2, slow_rounds=1, is_warm=True)
COLD: Final = replace(WARM, is_warm=False)
PACED: Final = _pace_seen.Shape(key="fast", hosts=1, pages=3, delay=0.1, response=0.0, rounds=2)


def seen(*seconds: float, again: int = 0, peak: int = 100) -> crawl.Seen:
    """A client that took so long for a hundred pages, and asked one host so often more for its robots.txt."""
    return crawl.Seen(
        costs=[Cost(each, each, peak * 1_000_000) for each in seconds],
        robots=[Counter({"a": 1 + again, "b": 1}) for _ in seconds],
    )


def rounds_of(shape: crawl.Shape, **others: crawl.Seen) -> dict[str, dict[str, Figure]]:
    """The clients that are always measured, and others."""
    names = {"scrapy": crawl.SCRAPY, "crawlee": crawl.CRAWLEE, "fetch": crawl.FETCH, "hand": crawl.BY_HAND}
    usual = {
        crawl.BARE: seen(1.0, 2.0),
        crawl.WITH_ROBOTS: seen(2.0, 4.0),
        crawl.BY_HAND: seen(4.0, 8.0),
        crawl.FETCH: seen(1.25, 2.5),
        crawl.MIDDLEWARE: seen(1.25, 2.5),
    }
    return crawl.figures_of(shape, usual | {names[who]: own for who, own in others.items()})


def goal(goals: Sequence[Goal], *words: str) -> Goal:
    """The only one that says all this."""
    (only,) = [each for each in goals if all(word in each.text for word in words)]
    return only


def test_ratios_are_of_rounds_side_by_side() -> None:
    """The machine was twice as slow in the second round: the ratio is the same in both."""
    figures = rounds_of(WARM)[crawl.FETCH]
    assert figures["rate"].rounds == (80.0, 40.0)
    assert figures["of_bare"].rounds == pytest.approx((0.8, 0.8))
    assert figures["of_robots"].rounds == pytest.approx((1.6, 1.6))


def test_who_had_fewer_rounds_is_compared_by_medians() -> None:
    """Scrapy had one: rounds cannot be paired."""
    figures = rounds_of(WARM, scrapy=seen(10.0))
    assert figures[crawl.SCRAPY]["of_bare"].rounds == pytest.approx((10 / 75,))
    assert ratio(Figure((3.0, 6.0)), Figure((3.0,))).rounds == (1.5,)


def test_goals_of_known_hosts() -> None:
    """A door that has 0.83 of bare aiohttp, six times Scrapy's and three times Crawlee's pages."""
    peers = {"scrapy": seen(7.2), "crawlee": seen(3.6)}
    goals = crawl.goals_of(WARM, rounds_of(WARM, fetch=seen(1.2, 1.2), **peers))
    assert goal(goals, crawl.FETCH, "bare aiohttp").is_reached
    scrapy = goal(goals, crawl.FETCH, "Scrapy's", "does more")
    assert not scrapy.is_reached
    assert scrapy.figure.median == pytest.approx(6.0)
    assert goal(goals, crawl.FETCH, "Crawlee's").is_reached
    assert not [each for each in goals if "memory" in each.text]


def test_goals_of_new_hosts() -> None:
    """Speed is compared with clients that request robots.txt as well, memory with the one written by hand."""
    figures = rounds_of(COLD, fetch=seen(2.5, 5.0, peak=66), hand=seen(4.0, 8.0, peak=100))
    goals = crawl.goals_of(COLD, figures)
    assert goal(goals, crawl.FETCH, "with robots.txt").is_reached
    assert not goal(goals, crawl.FETCH, "memory").is_reached
    assert not [each for each in goals if "Scrapy" in each.text]


def test_goals_beside_who_is_not_installed_are_left_out() -> None:
    """As are their rows."""
    figures = rounds_of(WARM)
    assert not [each for each in crawl.goals_of(WARM, figures) if "Crawlee" in each.text]
    table = crawl.table_of(WARM, figures)
    assert [row.name for row in table.rows if row.is_ours] == list(crawl.DOORS)
    assert crawl.CRAWLEE not in [row.name for row in table.rows]
    assert not table.note


def test_one_robots_txt_twice_in_one_round_misses_the_goal() -> None:
    """The median of three rounds would be none."""
    figures = rounds_of(WARM)
    figures[crawl.FETCH]["duplicates"] = Figure((0.0, 1.0, 0.0))
    assert not goal(crawl.goals_of(WARM, figures), crawl.FETCH, "again").is_reached
    assert rounds_of(WARM, fetch=seen(1.0, 1.0, again=3))[crawl.FETCH]["duplicates"].rounds == (3.0, 3.0)
    assert rounds_of(WARM)[crawl.FETCH]["robots"].rounds == (2.0, 2.0)


def test_one_robots_txt_twice_in_one_storm_misses_the_goal() -> None:
    """As there: the median of five storms would be one."""
    counted = {1: {"most": Figure((1.0, 1.0, 2.0, 1.0, 1.0))}, 1_000: {"most": Figure(5 * (1.0,))}}
    goals = gate.storm_goals(counted)
    assert not goal(goals, "storm on 1 cold host:").is_reached
    assert goal(goals, "storm on 1,000 cold hosts:").is_reached


def test_every_page_of_every_host_is_asked_for_once_in_turn() -> None:
    """Each host's first page before any host's second."""
    urls = replace(WARM, hosts=2, pages=2).urls(80, crawl.address)
    assert urls == [f"http://127.1.0.{host}:80/page/{page}" for page in (0, 1) for host in (1, 2)]


def test_addresses_are_of_loopback_and_no_two_the_same() -> None:
    """For as many hosts as any crawl has; no last octet is 0 or 255."""
    addresses = [crawl.address(number) for number in range(2_000)]
    assert len(set(addresses)) == 2_000
    octets = [[int(octet) for octet in address.split(".")] for address in addresses]
    assert all(each[0] == 127 and each[2] < 256 and 0 < each[3] < 255 for each in octets)


def visit(path: str, came_at: float, took: float = 0.02, *, wrote: float = 0.01) -> Visit:
    """A request whose answer the server began to write so long before it was done."""
    return Visit("a", path, came_at, came_at + took - wrote, came_at + took)


def client(*, is_gate: bool, asks_robots: bool = True) -> _pace_seen.Client:
    """A client whose crawl is not run."""
    return _pace_seen.Client(
        name="x",
        run=lambda _urls, _delay: Cost(0.0, 0.0, 0),
        ideal=_pace_seen.ideal_of_gate if is_gate else _pace_seen.ideal_by_hand,
        asks_robots=asks_robots,
        is_gate=is_gate,
    )


VISITS: Final = (visit(ROBOTS_PATH, 0.0), visit("/0", 0.1), visit("/1", 0.215), visit("/2", 0.34))
"""From end to start 80, 95 and 105 ms; from start to start 100, 115 and 125."""


def test_gaps_of_the_gate_are_also_from_an_end_and_from_robots_txt() -> None:
    """80 ms after robots.txt is short, and so is 95 ms, unless the server was interrupted as it wrote: then 105."""
    door = client(is_gate=True)
    figures = _pace_seen.figures_of(door, PACED, [_pace_seen.round_of(door, PACED, VISITS, 0.5)])
    assert figures["ends"].rounds == (3.0,)
    assert figures["short_or_interrupted"].rounds == (2.0,)
    assert figures["short_after_end"].rounds == (1.0,)
    assert figures["least_from_end"].rounds == pytest.approx((80.0,))
    assert figures["makespan"].rounds == pytest.approx((0.36,))
    assert figures["to_ideal"].rounds == pytest.approx((0.36 / (3 * 0.1 + 4 * 0.02),))


@pytest.mark.parametrize("is_gate", [True, False])
def test_gaps_of_all_clients_are_from_start_to_start_between_pages(*, is_gate: bool) -> None:
    """A page that follows robots.txt at once counts for no client: some do not request it in a turn."""
    early = (visit(ROBOTS_PATH, 0.09, 0.005), *VISITS[1:])
    who = client(is_gate=is_gate)
    figures = _pace_seen.figures_of(who, PACED, [_pace_seen.round_of(who, PACED, early, 0.5)])
    assert figures["gaps"].rounds == (2.0,)
    assert figures["short"].rounds == (0.0,)
    assert figures["least"].rounds == pytest.approx((115.0,))


@pytest.mark.parametrize("visits", [VISITS[:3], (*VISITS[:3], VISITS[2]), (*VISITS, VISITS[1])])
def test_a_page_that_is_missing_or_comes_twice_is_no_crawl(visits: Sequence[Visit]) -> None:
    """Else a client would be measured that does less."""
    with pytest.raises(RuntimeError, match="where 4 different ones"):
        _pace_seen.round_of(client(is_gate=True), PACED, visits, 0.5)


def test_gap_as_long_as_the_delay_is_not_short() -> None:
    """Though the clock's own grain makes it seem so."""
    assert _pace_seen.under(0.1, [0.1, 0.1 - 1e-9, 0.1 - 1e-5]) == 1


def test_ideals() -> None:
    """Of three pages 0.1 s apart, by each way of counting, with answers of 0.5 s."""
    assert _pace_seen.ideal_of_gate(PACED, 0.5) == pytest.approx(3 * 0.1 + 4 * 0.5)
    assert _pace_seen.ideal_of_limiter(PACED, 0.5) == pytest.approx(2 * 0.1 + 0.5)
    assert _pace_seen.ideal_by_hand(PACED, 0.5) == pytest.approx(0.5 + 2 * 0.1 + 0.5)
    assert _pace_seen.ideal_of_scrapy(PACED, 0.5) == pytest.approx(2 * 0.5 + 0.5)
    assert _pace_seen.ideal_of_scrapy(PACED, 0.01) == pytest.approx(2 * 0.1 + 0.01)


def test_one_short_gap_in_one_round_misses_the_goal() -> None:
    """The median of three rounds would be none."""
    figures = {"short_after_end": Figure((0.0, 0.0, 1.0)), "to_ideal": Figure((1.03, 1.04, 1.05))}
    gaps, makespan = pace.goals_of(PACED, client(is_gate=True), figures)
    assert not gaps.is_reached
    assert makespan.is_reached


def test_clients_of_pace_are_the_doors_and_their_peers() -> None:
    """The gate's clients are its two ways on two loops."""
    assert [each.name for each in pace.clients() if each.is_gate] == list(pace.GATES)
    names = {each.name for each in pace.clients()}
    assert all(
        shape.only is None or shape.only <= names for shapes in pace.SHAPES.values() for shape in shapes
    )


def test_turns_of_several_processes_end_with_the_last() -> None:
    """200 turns in 4 s, though one process was done after 2."""
    values = turn_values([Taken(100, 2.0, 1.0, [0.001] * 100), Taken(100, 4.0, 3.0, [0.003] * 100)])
    assert values == pytest.approx({"rate": 50.0, "p50": 3.0, "p99": 3.0, "cpu": 20_000.0})


def granted(*instants: float, from_at: float = 0.0) -> Grants:
    """At the first host; the others have none."""
    return Grants(from_at, [list(instants), *([] for _ in range(PACE_HOSTS - 1))])


def test_grants_of_all_processes_together_may_be_too_many() -> None:
    """Eleven in a second, of two processes that each keep to the pace."""
    evenly = [number / 10 for number in range(10)]
    assert pace_values([granted(*evenly)], 1.0)["over"] == 0
    values = pace_values([granted(*evenly), granted(0.95)], 1.0)
    assert (values["most"], values["over"], values["over_less"]) == (11, 1, 1)
    assert values["least"] == pytest.approx(50.0)


def test_what_the_machine_adds_is_forgiven_in_the_shorter_stretch() -> None:
    """Eleven grants within 0.99 s."""
    values = pace_values([granted(*(number * 0.099 for number in range(11)))], 1.0)
    assert (values["over"], values["over_less"]) == (1, 0)


def test_grants_count_once_all_are_there() -> None:
    """Who was early had the hosts for himself."""
    values = pace_values([granted(0.0, 0.5, from_at=0.0), granted(1.0, 1.5, from_at=0.4)], 1.0)
    assert values["grants"] == 2


def test_goals_of_a_fleet() -> None:
    """Ratios are goals, and every crawl has its own."""
    own = {"rate_to_script": Figure((4.0, 6.0)), "p99_to_script": Figure((1.2,))}
    goals = fleet.turn_goals(8, {way.name: own for way in OURS})
    assert goal(goals, "gate.turn", "8 processes", "turns/s").is_reached
    assert not goal(goals, "gate.turn", "8 processes", "p99").is_reached
    crawl = Crawl(hosts=5, pages=5, delay=0.1, makespan=1.05)
    figures = {"to_one": (1.06,), "calls": (1.5,), "short": (0.0,), "robots": (1.0,)}
    many = {name: Figure(rounds) for name, rounds in figures.items()}
    goals = crawl_goals(crawl, 8, many, {"calls": Figure((0.3,))})
    assert [each.is_reached for each in goals] == [False, True, False, True, True]


def test_who_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Missing rows are an error."""
    assert found("aiohttp")
    assert capsys.readouterr().err == ""
    assert not found("no_such_package")
    assert "no_such_package" in capsys.readouterr().err


def asked(address: str, port: int, head: str) -> bytes:
    """What a server answers, to the end of the first line."""
    with socket.create_connection((address, port), timeout=10) as connection:
        connection.sendall(f"GET {head}\r\n\r\n".encode())
        return connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is one loopback address")
def test_plain_server_counts_by_host_at_every_address() -> None:
    """However a client spells the name of the header: Crawlee's writes it in lower case."""
    with plain_site(robots=b"", page=b"<p>", addresses=["127.1.0.1"]) as site:
        assert asked("127.0.0.1", site.port, "/robots.txt HTTP/1.1\r\nHost: a") == b"HTTP/1.1 200 OK"
        assert asked("127.1.0.1", site.port, "/robots.txt HTTP/1.1\r\nhost: 127.1.0.1") == b"HTTP/1.1 200 OK"
        assert asked("127.1.0.1", site.port, "/page/1 HTTP/1.1\r\nhost: 127.1.0.1") == b"HTTP/1.1 200 OK"
        assert site.robots_requests() == {"a": 1, "127.1.0.1": 1}
        assert not site.robots_requests()


def test_metrics_may_cost_three_percent() -> None:
    """Of the rounds side by side; traces, whose spans are the SDK's, are shown without a goal."""
    slower = {crawl.PROMETHEUS: 1.02, crawl.OTEL_METRICS: 1.05, crawl.OTEL_FEW: 1.2, crawl.OTEL_ALL: 1.5}
    rounds = {crawl.FETCH: seen(1.0, 2.0)} | {
        name: seen(factor, 2 * factor) for name, factor in slower.items()
    }
    found = crawl.observed_of(WARM, rounds)
    assert [row.name for row in found.tables[0].rows] == list(rounds)
    assert [goal.is_reached for goal in found.goals] == [True, False]
