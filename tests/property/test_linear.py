"""A longer file never costs more than linearly: in steps and in memory, for every shape that could tempt a reader.

Steps are counted, not seconds: every line of Python run and every built-in called, so that a run on a busy machine
counts as on an idle one. What C does within one call is not seen by these counts; `benchmarks` times it.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks._bench import alone
from benchmarks.rules import doubled

from robotgate.lint import lint
from robotgate.rules.parser import Dialect
from robotgate.rules.robotstxt import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Trace = Callable[[FrameType, str, object], "Trace"]
    Work = Callable[[], object]

SIZE: Final = 200
MOST_STEPS: Final = 2.3
"""How many times the steps twice the size may take: two, and what sorting adds. In a loop in a loop it takes four."""
MOST_MEMORY: Final = 3.0
"""The same of memory; tables grow by leaps."""
MOST_TIME: Final = 3.0
"""The same of processor time, where built-ins do the work; a loop in a loop takes nearly four."""
URL: Final = "http://www.example.com/" + "ab/" * 20 + "?q=%41"

FAMILIES: Final[dict[str, Callable[[int], bytes]]] = {
    "agents, then rules": lambda n: lines("User-agent: a{}", n) + lines("Disallow: /{}", n),
    "agents, then one rule": lambda n: lines("User-agent: a{}", n) + b"Disallow: /",
    "one agent often, then rules": lambda n: lines("User-agent: foobot", n) + lines("Disallow: /{}", n),
    "one group again and again": lambda n: lines("User-agent: foobot\nDisallow: /a", n),
    "a group for everybody again and again": lambda n: lines("User-agent: *\nDisallow: /a\n", n),
    "groups of many agents": lambda n: lines("User-agent: foobot\nUser-agent: b{}\nDisallow: /{}", n),
    "groups without rules": lambda n: lines("User-agent: foobot\nCrawl-delay: {}\n", n),
    "agents and delays by turns": lambda n: lines("User-agent: a{}\nCrawl-delay: {}", n) + b"Disallow: /",
    "our agent and delays by turns": lambda n: (
        lines("User-agent: foobot\nCrawl-delay: {}", n) + b"Disallow: /"
    ),
    "rates and hours": lambda n: b"User-agent: *\n" + lines("Request-rate: 1/{}\nVisit-time: 0100-0200", n),
    "rules of one length": lambda n: b"User-agent: *\n" + lines("Disallow: /{:08}", n),
    "rules of many lengths": lambda n: b"User-agent: *\n" + b"\n".join(rules_of_many_lengths(n)),
    "rules that all match": lambda n: b"User-agent: *\n" + lines("Allow: /ab/*{:08}\nDisallow: /ab/*", n),
    "rules with one wildcard": lambda n: b"User-agent: *\n" + lines("Disallow: /*{:08}$", n),
    "rules with many wildcards": lambda n: b"User-agent: *\n" + lines("Disallow: *a*b*a*b*/*q*{}", n),
    "rules in the query": lambda n: b"User-agent: *\n" + lines("Disallow: /*%2Fa{}?*q=%2F*", n),
    "rules to respell": lambda n: b"User-agent: *\n" + lines("Disallow: /%7e%e3{}\u30c4", n),
    "rules of other origins": lambda n: b"User-agent: *\n" + lines("Disallow: http://www{}.example.com/", n),
    "rules before any group": lambda n: lines("Disallow: /{}", n),
    "one rule of many wildcards": lambda n: b"User-agent: *\nDisallow: /" + b"*a" * 2 * n,
    "one long rule": lambda n: b"User-agent: *\nDisallow: /" + b"ab/" * 2 * n,
    "one long rule to respell": lambda n: b"User-agent: *\nDisallow: /" + b"%61\xff" * 2 * n,
    "one long agent": lambda n: b"User-agent: " + b"foobot " * 2 * n + b"\nDisallow: /",
    "one line over the limit": lambda n: b"User-agent: *\nDisallow: /" + b"a" * 300 * n,
    "one long comment": lambda n: b"User-agent: *\nDisallow: / #" + b"#" * 300 * n,
    "colons": lambda n: b":" * 300 * n,
    "blanks": lambda n: b" \t" * 300 * n,
    "LF": lambda n: b"\n" * 8 * n,
    "CR": lambda n: b"\r" * 8 * n,
    "CRLF": lambda n: b"\r\n" * 8 * n,
    "NUL": lambda n: b"\0\n" * 8 * n,
    "byte order marks": lambda n: b"\xef\xbb\xbf" * 8 * n,
    "byte order marks of lines": lambda n: b"#\n\xef\xbb\xbf" * 8 * n,
    "UTF-16": lambda n: b"\xff\xfe" + b"#\0\n\0" * 8 * n,
    "sitemaps": lambda n: lines("Sitemap: http://www.example.com/{}", n),
    "unknown records": lambda n: b"User-agent: *\n" + lines("X{}: {}", n),
    "nonsense": lambda n: lines("{} is not a line", n),
}

FULL_OF: Final = {
    "CR": b"\r",
    "comments that end with CR": b"#\r",
    "CR and CRLF by turns": b"\r\r\n",
    "line feeds": b"\n",
    "NUL": b"\0",
    "byte order marks": b"#\n\xef\xbb\xbf",
    "records without a value": b"a:\n",
    "unknown records": b"\xe4\xe4:\xe4\n",
    "agents": b"useragent:a\n",
    "our agent": b"useragent:*\n",
    "groups": b"useragent:*\nallow:\n",
    "delays": b"crawl-delay:1\n",
    "hours": b"visit-time:\n",
    "our agent and delays": b"useragent:*\ncrawl-delay:1\n",
    "rules": b"allow:/\n",
    "wildcards": b"allow:*a*\n",
    "escapes": b"allow:/%E4\n",
}
"""Short lines, of which a file made to take memory may be full."""
MOST_READ: Final = 512_000


def full_of(line: bytes, size: int = MOST_READ) -> bytes:
    """A file of so many bytes, with a rule for us at its begin."""
    begin = b"User-agent: *\nDisallow: /x\n"
    return (begin + line * (size // len(line)))[:size]


def lines(form: str, count: int) -> bytes:
    """The form again and again, each time with another number in it."""
    return "".join(
        f"{form}\n".replace("{}", str(number)).replace("{:08}", f"{number:08}") for number in range(count)
    ).encode()


def rules_of_many_lengths(count: int) -> list[bytes]:
    """Rules that together are no longer than others, though no two are of one length."""
    return [b"Disallow: /" + b"x" * length for length in range(int((2 * 10 * count) ** 0.5))]


def read_and_ask(body: bytes, dialect: Dialect) -> None:
    """All that is done with a file: read, compile for an agent it may name, ask in both ways."""
    robots = RobotsTxt.parse(body, "http://www.example.com/", dialect=dialect)
    for agent in ("foobot", "barbot"):
        robots.verdict(URL, agent)
        robots.allowed(URL, agent)


class Steps:
    """Counts the lines of Python that a piece of work runs, and the built-ins it calls."""

    def __init__(self) -> None:
        self.count = 0

    def on_line(self, frame: FrameType, event: str, argument: object) -> Trace:
        """What `sys.settrace` calls."""
        self.count += event == "line"
        return self.on_line

    def on_call(self, frame: FrameType, event: str, argument: object) -> None:
        """What `sys.setprofile` calls."""
        self.count += event == "c_call"


def steps(work: Work) -> int:
    """How many steps a piece of work takes."""
    taken = Steps()
    tracing, profiling = sys.gettrace(), sys.getprofile()
    sys.settrace(taken.on_line)
    sys.setprofile(taken.on_call)
    try:
        work()
    finally:
        sys.setprofile(profiling)
        sys.settrace(tracing)
    return taken.count


def memory(work: Work) -> int:
    """The most that a piece of work holds at once: bytes."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "dialect", [Dialect.RFC9309, pytest.param(Dialect.CLASSIC, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize(("cost", "most"), [(steps, MOST_STEPS), (memory, MOST_MEMORY)])
def test_cost_is_linear(
    cost: Callable[[Work], int], most: float, dialect: Dialect, subtests: pytest.Subtests
) -> None:
    """Twice the file takes about twice the steps and holds about twice the memory, if as much as that."""
    for family in FAMILIES:
        with subtests.test(family=family):
            one, small, large = (
                partial(read_and_ask, FAMILIES[family](size), dialect) for size in (1, SIZE, 2 * SIZE)
            )
            one()  # What is computed but once is not of the file.
            less, more = cost(small), cost(large)
            assert more <= most * less, f"{less}, then {more}"


@pytest.mark.parametrize(
    "kind", ["CR", "comments that end with CR", "CR and CRLF by turns", "byte order marks"]
)
def test_line_ends_take_little_memory(kind: str) -> None:
    """A file of the most that is read, in the shortest lines: 10 MB at most, of the 22 that any file may take."""
    body = full_of(FULL_OF[kind])
    assert memory(lambda: RobotsTxt.parse(body).allowed("/x", "foobot")) < 10_000_000


@pytest.mark.slow
def test_no_file_takes_much_memory() -> None:
    """22 MB at most, of whatever lines a file is full, with all that is asked of it: a quarter takes 5.5 MB at most."""

    def ask(body: bytes) -> None:
        robots = RobotsTxt.parse(body)
        _ = robots.allowed("/a", "foobot"), robots.verdict("/x/a", "foobot"), robots.groups

    found = {name: memory(partial(ask, full_of(line, MOST_READ // 4))) for name, line in FULL_OF.items()}
    assert max(found.values()) <= 22_000_000 / 4, found


def test_lint_is_linear_in_the_rules_of_a_group() -> None:
    """Twice the rules take about twice the processor time: to find one rule among them is one built-in call."""
    bodies = {count: b"User-agent: *\n" + lines("Disallow: /{}", count) for count in (1_000, 2_000)}
    best = dict.fromkeys(bodies, float("inf"))
    # A busy machine takes longer for the same work, now for one of the two, now for the other.
    for rounds in range(20):
        for count, body in bodies.items():
            began = time.process_time()
            lint(body)
            best[count] = min(best[count], time.process_time() - began)
        if rounds > 1 and best[2_000] <= MOST_TIME * best[1_000]:
            break
    assert best[2_000] <= MOST_TIME * best[1_000]


@pytest.mark.slow
def test_twice_a_long_file_takes_about_twice_the_processor_time() -> None:
    """For each shape of file: work within one call of C counts here."""
    ratios = alone(partial(doubled, rounds=3))
    assert max(ratios.values()) <= MOST_TIME, ratios
