"""`Dialect.CLASSIC`: the Standard for Robot Exclusion of 1994, and `WWW::RobotRules` where that is silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.rules.grammar import MAX_BYTES, MAX_LINE_BYTES, RuleKind
from robotgate.rules.parser import Dialect
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.rules import Rules
from robotgate.rules.verdict import Reason, Rule

ORIGIN = "http://www.example.com/"

NOBODY_INTO_THE_MAZE = b"""\
# robots.txt of www.example.com

User-agent: *
Disallow: /maze/rooms/ # they go on for ever
Disallow: /tmp/ # swept every night
Disallow: /guests.html
"""
NOBODY_BUT_THE_MAPPER = b"""\
# robots.txt of www.example.com

User-agent: *
Disallow: /maze/rooms/ # they go on for ever

# This one has a thread.
User-agent: mazemapper
Disallow:
"""
NOBODY_AT_ALL = b"""\
# come back another time
User-agent: *
Disallow: /
"""
NO_BLANK_LINES = b"""\
# The library is closed to strangers.
User-agent: *
Disallow: /
# Readers may go anywhere
User-agent: Reader
Disallow: /archive/ # but here
# and the librarian, of course, everywhere.
User-agent: Librarian
Disallow:
"""


def read(body: bytes, url: str | None = ORIGIN) -> RobotsTxt:
    """A file of the 1990s."""
    return RobotsTxt.parse(body, url, dialect=Dialect.CLASSIC)


@pytest.mark.parametrize(
    ("body", "agent", "path", "allowed"),
    [
        (NOBODY_INTO_THE_MAZE, "foobot", "/maze/rooms/1", False),
        (NOBODY_INTO_THE_MAZE, "foobot", "/maze/", True),
        (NOBODY_INTO_THE_MAZE, "foobot", "/tmp/x", False),
        (NOBODY_INTO_THE_MAZE, "foobot", "/tmp", True),
        (NOBODY_INTO_THE_MAZE, "foobot", "/guests.html", False),
        (NOBODY_BUT_THE_MAPPER, "foobot", "/maze/rooms/1", False),
        (NOBODY_BUT_THE_MAPPER, "MazeMapper/2.0", "/maze/rooms/1", True),
        (NOBODY_AT_ALL, "foobot", "/", False),
        (NOBODY_AT_ALL, "foobot", "/any", False),
        (NO_BLANK_LINES, "foobot", "/", False),
        (NO_BLANK_LINES, "reader", "/", True),
        (NO_BLANK_LINES, "reader", "/archive/1", False),
        (NO_BLANK_LINES, "librarian", "/archive/1", True),
    ],
)
def test_the_examples_of_the_time(body: bytes, agent: str, path: str, allowed: bool) -> None:  # noqa: FBT001
    """Files like those the standard and the Perl module show, read as these say."""
    assert read(body).allowed(path, agent) is allowed


@pytest.mark.parametrize(
    ("line", "agent", "binds"),
    [
        ("foobot", "foobot", True),
        ("FOOBOT", "FooBot/1.0 (+http://www.example.com)", True),
        ("foo", "foobot", True),
        ("bot", "foobot", True),
        ("", "foobot", True),
        ("foobot", "foo", False),
        ("foobot/2.1", "foobot/2.1", False),
        ("foobot*", "foobot", False),
        ("foo bot", "foobot", False),
        ("\N{KELVIN SIGN}bot", "kbot", False),
    ],
)
def test_a_robot_is_named_by_a_part_of_its_name(line: str, agent: str, binds: bool) -> None:  # noqa: FBT001
    """In any mix of cases; the name without its version."""
    robots = read(f"User-agent: {line}\nDisallow: /".encode())
    assert robots.allowed("/", agent) is not binds
    assert robots.rules(agent).agents == ((line,) if binds else ())


def test_records_and_rules(subtests: pytest.Subtests) -> None:
    """Which of four pages a robot keeps out of."""
    for body, refused in [
        # The first record that names us, alone; wherever it stands.
        (b"User-agent: *\nDisallow: /a\n\nUser-agent: foobot\nDisallow: /b", ["/b"]),
        (b"User-agent: foobot\nDisallow: /a\n\nUser-agent: foobot\nDisallow: /b", ["/a"]),
        (b"User-agent: foo\nDisallow: /a\n\nUser-agent: foobot\nDisallow: /b", ["/a"]),
        (b"User-agent: x\nUser-agent: *\nUser-agent: foobot\nDisallow: /a", ["/a"]),
        (b"User-agent: *\nUser-agent: foobot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", ["/a"]),
        # All of those for everybody.
        (b"User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", ["/a", "/b"]),
        # A blank line ends a record, even one that has no rules yet.
        (b"User-agent: *\n\nDisallow: /a", []),
        (b"User-agent: foobot\n\nUser-agent: *\nDisallow: /a", []),
        (b"User-agent: *\nDisallow: /a\n \t\nDisallow: /b", ["/a"]),
        (b"User-agent: *\nDisallow: /a\n\v\nDisallow: /b", ["/a", "/b"]),
        # A comment does not, nor does an unknown line.
        (b"User-agent: *\nDisallow: /a\n # none\nDisallow: /b", ["/a", "/b"]),
        (b"User-agent: *\nCrawl-delay: 5\nnonsense\nDisallow: /a", ["/a"]),
        (b"User-agent: foobot\nSitemap: /s\nAllow: /\nUser-agent: x\nDisallow: /a", ["/a"]),
        # A User-agent line below a rule begins the next record.
        (b"User-agent: foobot\nDisallow: /a\nUser-agent: *\nDisallow: /b", ["/a"]),
        (b"User-agent: *\nDisallow: /a\nUser-agent: x\nDisallow: /b", ["/a"]),
        # Rules before any User-agent line are for everybody; later ones without it are for nobody.
        (b"Disallow: /a", ["/a"]),
        (b"Disallow: /a\n\nDisallow: /b\n\nUser-agent: x\nDisallow: /c\n\nDisallow: /d", ["/a", "/b"]),
        (b"Disallow: /a\nUser-agent: foobot\nDisallow: /b", ["/b"]),
        # Line by line, and nothing is looked at behind an empty value.
        (b"User-agent: *\nDisallow:", []),
        (b"User-agent: *\nDisallow: /a\nDisallow:\nDisallow: /b", ["/a"]),
        (b"User-agent: *\nDisallow:\n\nUser-agent: *\nDisallow: /b", []),
        # No Allow, no wildcards, no misspelling, no missing colon.
        (b"User-agent: *\nAllow: /a\nDisallow: /a", ["/a"]),
        (b"User-agent: *\nDisallow: /a\nAllow: /a", ["/a"]),
        (b"User-agent: *\nDisallow: *\nDisallow: /*b\nDisallow: /b$", []),
        (b"User-agent: *\nDissallow: /a\nDisallow /b\nDisallowed: /c", []),
        (b"User agent: *\nDisallow: /a\nUseragent: *\nDisallow: /b", ["/a", "/b"]),
        # Any line end, any case, any blanks, a byte order mark.
        (b"USER-AGENT:*\rDISALLOW:/a\r\rDisallow: /b", ["/a"]),
        (b"User-agent: *\r\nDisallow: /a\r\nDisallow: /b", ["/a", "/b"]),
        (b"\tuser-agent : * \n disallow\t: /a \n", ["/a"]),
        (b"\xef\xbb\xbfUser-agent: *\nDisallow: /a", ["/a"]),
        # Relative and absolute ones; those of another origin are passed over.
        (b"User-agent: *\nDisallow: a", ["/a"]),
        (b"User-agent: *\nDisallow: http://WWW.example.com:80/a", ["/a"]),
        (b"User-agent: *\nDisallow: http://www.example.com", ["/a", "/b", "/c", "/d"]),
        (b"User-agent: *\nDisallow: http://example.com/a\nDisallow: https://www.example.com/b", []),
        (b"User-agent: *\nDisallow: http://www.example.com:8080/a", []),
        (b"User-agent: *\nDisallow: //a", []),
        (b"", []),
        (b"<html><body>404</body></html>", []),
    ]:
        with subtests.test(body=body, refused=refused):
            robots = read(body)
            assert [
                path for path in ("/a", "/b", "/c", "/d") if not robots.allowed(path, "foobot")
            ] == refused


@pytest.mark.parametrize(
    ("value", "path", "allowed"),
    [
        # A value may end within an escape.
        ("/%", "/%C3%A9", False),
        ("/%", "/%20", False),
        ("/%", "/50%25", True),
        ("/50%", "/50%25", False),
        ("/%", "/A", True),
        ("/a%2", "/a%20b", False),
        ("/a%2", "/a%2Fb", False),
        ("/a%2", "/a%30", True),
        ("/a%2", "/a!b", True),
        ("/a%c", "/a%C3%A9", False),
        ("/a%C", "/a%E9", True),
        ("/a?b=%2", "/a?b=%26", False),
        ("/a%zz", "/a%25zz", False),
        ("/a%2*", "/a%252*", False),
        ("/a%2*", "/a%20", True),
        ("http://www.example.com/%", "/%20", False),
        # As in RFC 9309.
        (".", "/x", True),
        ("/a/../b", "/a/../b", True),
        ("/b", "/a/../b", False),
        ("/a*", "/a*b", False),
        ("/a$", "/a$b", False),
        ("/a%2A", "/a*", False),
        ("/%7Ejoe", "/~joe", False),
        ("/a%2fb", "/a%2Fb", False),
        ("/a%2fb", "/a/b", True),
        ("/\u00e9", "/%C3%A9", False),
        ("/a b", "/a%20b", False),
        ("/a?b", "/a?bc", False),
        ("/a?", "/a", True),
        ("//a", "http://www.example.com//a", False),
    ],
)
def test_spellings_are_compared_in_the_normal_form(value: str, path: str, allowed: bool) -> None:  # noqa: FBT001
    """As everywhere, but wildcards are bytes like any other."""
    assert read(f"User-agent: *\nDisallow: {value}".encode()).allowed(path, "foobot") is allowed


@pytest.mark.parametrize(
    ("path", "reason", "line"),
    [
        ("/maze/rooms", Reason.DISALLOWED_BY_RULE, 2),
        ("/maze/gate", Reason.DISALLOWED_BY_RULE, 3),
        ("/other", Reason.ALLOWED_BY_RULE, 5),
    ],
)
def test_a_verdict_tells_the_first_rule_that_matches(path: str, reason: Reason, line: int) -> None:
    """Not the longest; where an empty value is come to, it is that."""
    body = (
        b"User-agent: foo\nDisallow: /maze/r\nDisallow: /maze\nDisallow: /maze/rooms\nDisallow:\nDisallow: /x"
    )
    verdict = read(body).verdict(path, "foobot")
    assert verdict.reason is reason
    assert verdict.group == ("foo",)
    assert verdict.rule is not None
    assert verdict.rule.line == line


@pytest.mark.parametrize("path", ["/a%20b", "/a%2Fb", "/a%FF"])
def test_a_verdict_tells_the_rule_that_ends_within_an_escape(path: str) -> None:
    """Once, as it is written, and in its order."""
    verdict = read(b"User-agent: *\nDisallow: /b\nDisallow: /a%2\nDisallow: /a%\nDisallow: /a").verdict(
        path, "x"
    )
    assert str(verdict.rule) == ("Disallow: /a%" if path == "/a%FF" else "Disallow: /a%2")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"User-agent: foobot\nDisallow: /a", Reason.NO_RULE_MATCHES),
        (b"User-agent: barbot\nDisallow: /a", Reason.NO_GROUP),
    ],
)
def test_a_verdict_without_a_rule_says_why(body: bytes, reason: Reason) -> None:
    """No rule, or no record."""
    verdict = read(body).verdict("/b", "foobot")
    assert (verdict.allowed, verdict.reason, verdict.rule) == (True, reason, None)


def test_records_are_groups() -> None:
    """A file's parts can be looked at, and know their lines."""
    robots = read(
        b"Disallow: /x\n\n# a\nUser-agent: a\nUser-agent:\nAllow: /\nDisallow: /y\nSitemap: /s\nHost: h"
    )
    assert [(group.agents, group.rules, group.line) for group in robots.groups] == [
        (("*",), (Rule(RuleKind.DISALLOW, "/x", 1),), 1),
        (("a", ""), (Rule(RuleKind.DISALLOW, "/y", 7),), 4),
    ]
    assert (robots.sitemaps, robots.records, robots.dialect) == ((), (), Dialect.CLASSIC)


def test_nothing_is_asked_about_the_speed() -> None:
    """The 1990s knew no Crawl-delay."""
    rules = read(
        b"User-agent: *\nCrawl-delay: 5\nRequest-rate: 1/5\nVisit-time: 0100-0200\nDisallow: /"
    ).rules("x")
    assert (rules.crawl_delay, rules.request_rate, rules.visit_times) == (None, None, ())


@pytest.mark.parametrize(
    ("body", "nothing", "everything"),
    [
        (b"", True, False),
        (b"User-agent: *\nDisallow:", True, False),
        (b"User-agent: *\nDisallow: /a", False, False),
        (b"User-agent: *\nDisallow: /a\nDisallow: /", False, True),
        (b"User-agent: *\nDisallow:\nDisallow: /", True, False),
    ],
)
def test_rules_know_the_extremes(body: bytes, nothing: bool, everything: bool) -> None:  # noqa: FBT001
    """All open, or all closed; with the interface of any other rules."""
    rules = read(body).rules("foobot")
    assert isinstance(rules, Rules)
    assert (rules.disallows_nothing, rules.disallows_everything) == (nothing, everything)


def test_a_file_without_an_origin_matches_no_absolute_url() -> None:
    """Whose path it is cannot be known."""
    robots = read(b"User-agent: *\nDisallow: http://www.example.com/a\nDisallow: /b", url=None)
    assert robots.allowed("/a", "foobot")
    assert not robots.allowed("/b", "foobot")


def test_a_line_that_is_too_long_ends_no_record() -> None:
    """It is dropped as a comment is, not as a blank line is."""
    body = b"User-agent: *\nDisallow: /" + b"x" * MAX_LINE_BYTES + b"\nDisallow: /a"
    assert not read(body).allowed("/a", "foobot")


def test_a_line_that_the_limit_cuts_is_not_read() -> None:
    """A prefix cut short would refuse too much."""
    body = b"User-agent: *\n#" + b"x" * (MAX_BYTES - 40) + b"\nDisallow: /a\nDisallow: /but/this/not\n"
    robots = read(body)
    assert MAX_BYTES - 20 < body.index(b"/but") < MAX_BYTES < len(body)
    assert not robots.allowed("/a", "foobot")
    assert [rule.path_pattern for rule in robots.groups[0].rules] == ["/a"]


LINES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"User-agent: *", b"User-agent: foobot", b"user-agent: OO", b"User-agent:", b"Disallow:", b"Disallow: /",
            b"Disallow: /a", b"Disallow: a%", b"Disallow: http://www.example.com/b", b"Allow: /", b"", b"#", b"x:",
        ]
    ),
)  # fmt: skip
FILES = st.lists(LINES, max_size=20).map(b"\n".join)


@given(st.binary(max_size=300) | FILES, st.text(max_size=10).map(lambda text: f"/{text.lstrip('/')}"))
def test_no_bytes_raise(body: bytes, target: str) -> None:
    """And the doors agree, whatever the file."""
    robots = read(body)
    for agent in ("foobot", "FooBot/1.0", "*", ""):
        rules = robots.rules(agent)
        assert rules.allows("/robots.txt")
        assert rules.allows(target) is rules.decide(target).allowed
        assert robots.allowed(target, agent) is robots.verdict(target, agent).allowed


def first_match(rules: list[Rule], target: str) -> bool:
    """The loop of the time."""
    for rule in rules:
        if not rule.path_pattern:
            return True
        if target.startswith(rule.path_pattern):
            return False
    return True


@given(
    st.lists(st.text("/ab", max_size=4).map(lambda text: f"/{text}") | st.just(""), max_size=8),
    st.text("/ab", max_size=6).map(lambda text: f"/{text}"),
)
def test_the_first_match_decides(values: list[str], target: str) -> None:
    """As a loop over the lines would."""
    rules = [Rule(RuleKind.DISALLOW, value, line) for line, value in enumerate(values, 2)]
    body = "\n".join(["User-agent: *", *(str(rule) for rule in rules)]).encode()
    assert read(body).allowed(
        f"http://www.example.com{target}" if target.startswith("//") else target, "foobot"
    ) is first_match(rules, target)
