"""`RobotsTxt`, the door to all of it."""

import gc

import pytest

from robotgate.errors import InvalidURLError
from robotgate.rules.grammar import RuleKind
from robotgate.rules.robotstxt import CleanParam, RobotsTxt
from robotgate.rules.rules import Rules
from robotgate.rules.verdict import Reason, Rule, Verdict

FILE = b"""\
User-agent: foobot
User-agent: barbot
Crawl-delay: 2.5
Request-rate: 1/10
Disallow: /private
Allow: /private/open

User-agent: *
Disallow: /
"""


def test_a_verdict_tells_the_rule_the_group_and_the_delay() -> None:
    """The verdict says nothing of a request, because the file was not fetched."""
    verdict = RobotsTxt.parse(FILE).verdict("https://example.com/private/x", "FooBot/1.0")
    assert verdict == Verdict(
        allowed=False,
        reason=Reason.DISALLOWED_BY_RULE,
        url="https://example.com/private/x",
        rule=Rule(RuleKind.DISALLOW, "/private", 5),
        group=("foobot", "barbot"),
        crawl_delay=2.5,
    )


def test_agents_without_number_do_not_fill_the_memory() -> None:
    """What is kept for them is bounded."""
    robots = RobotsTxt.parse(FILE)
    for number in range(1_000):
        robots.rules(f"bot{number}")
    assert sum(isinstance(each, Rules) for each in gc.get_objects()) < 500


def test_bytes_that_are_not_utf_8_are_escaped() -> None:
    """So that a rule is text, and none of its bytes is lost."""
    robots = RobotsTxt.parse(b"User-agent: b\xe9t\nDisallow: /\xff\xc3\xa9\xed\xa0\x80\nX\xe9: \xe9\n")
    (group,) = robots.groups
    assert (group.agents, group.rules[0].path_pattern) == (("b%E9t",), "/%FF\u00e9%ED%A0%80")
    assert [(record.field, record.value) for record in robots.records] == [("X%E9", "%E9")]


def test_it_is_a_value() -> None:
    """Equal bytes, equal files, whatever was asked of them."""
    robots = RobotsTxt.parse(FILE)
    robots.rules("foobot")
    assert robots == RobotsTxt.parse(FILE)
    assert hash(robots) == hash(RobotsTxt.parse(FILE))
    assert robots != RobotsTxt.parse(b"")
    assert robots != RobotsTxt.parse(FILE, "https://example.com/robots.txt")
    with pytest.raises(AttributeError):
        robots.url = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    "url",
    [
        *("", "page", "ftp://example.com/x", "https://", "mailto:a@b", "http://ex ample/x", "?x"),
        *(f"https://example.com{path}" for path in ("/a\x01", "/a ", "/\ud800", "/\x7f")),
    ],
)
@pytest.mark.parametrize("site", [None, "https://example.com/robots.txt"])
def test_what_is_neither_a_url_nor_a_path_is_refused(url: str, site: str | None) -> None:
    """A guess would be an answer for another URL. That the site is known saves no look at the rest."""
    with pytest.raises(InvalidURLError):
        RobotsTxt.parse(FILE, site).allowed(url, "foobot")


@pytest.mark.parametrize("url", ["", "/robots.txt", "ftp://example.com/robots.txt"])
def test_the_url_of_the_file_must_be_one(url: str) -> None:
    """It is the operator's, not the site's."""
    with pytest.raises(InvalidURLError):
        RobotsTxt.parse(b"", url)


SPLIT = b"User-agent: foobot\nCrawl-delay: 5\nUser-agent: barbot\nDisallow: /a\n"


@pytest.mark.parametrize(
    ("agent", "delay", "words"),
    [
        ("foobot", 5.0, "line 2, Crawl-delay, stands between"),
        ("barbot", None, "line 2, Crawl-delay, is asked of"),
    ],
)
def test_a_verdict_warns_of_a_delay_between_agents(agent: str, delay: float | None, words: str) -> None:
    """RFC 9309 §2.2.4 binds both agents by the rule; others read it otherwise."""
    verdict = RobotsTxt.parse(SPLIT).verdict("/a", agent)
    assert (verdict.allowed, verdict.crawl_delay) == (False, delay)
    assert [warning.startswith(words) for warning in verdict.warnings] == [True]


@pytest.mark.parametrize(("runs", "more"), [(1, ""), (3, " (and 2 more lines)")])
def test_warnings_of_one_kind_are_told_once(runs: int, more: str) -> None:
    """Thousands of delays for other agents in our group make one warning, with their number."""
    body = b"User-agent: a\nCrawl-delay: 1\n" * runs + b"User-agent: foobot\nDisallow: /x\n"
    (warning,) = RobotsTxt.parse(body).rules("foobot").warnings
    assert warning.startswith(f"line 2, Crawl-delay{more}, ")


def test_an_ordinary_file_warns_of_nothing() -> None:
    """A delay below all agent lines is read alike by all."""
    assert RobotsTxt.parse(FILE).verdict("/private", "foobot").warnings == ()


def test_host_and_clean_params() -> None:
    """Typed, wherever they stand; the first Host counts."""
    robots = RobotsTxt.parse(
        b"HOST: a.example\nHost: b.example\nClean-param: sid&ref /forum/\nclean-param: q\nClean-param:"
    )
    assert robots.host == "a.example"
    assert robots.clean_params == (CleanParam(("sid", "ref"), "/forum/"), CleanParam(("q",), ""))
    assert RobotsTxt.parse(FILE).host is None


def test_records_know_their_group() -> None:
    """The index of the group; None above the first."""
    robots = RobotsTxt.parse(b"License: x\nUser-agent: a\nDisallow:\nUser-agent: b\nContent-Signal: ai=n\n")
    assert [(record.field, record.line, record.group) for record in robots.records] == [
        ("License", 1, None),
        ("Content-Signal", 5, 1),
    ]


@pytest.mark.parametrize("site", ["", "https://example.com", "https://example.com:8443", "//example.com"])
def test_bytes_that_are_no_utf_8_match_as_what_they_are(site: str) -> None:
    """A path that was decoded with "surrogateescape" is those bytes, as in escapes; so are they in a query."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nDisallow: /v/\xf0\nDisallow: /*?q=%E4\n", "https://example.com/"
    )
    for path in (b"/v/\xf0", b"/v/\xf0\xff", b"/a?q=\xe4", b"/\xff\xe2?q=\xe4"):
        url = site + path.decode("utf-8", "surrogateescape")
        escaped = "".join(f"%{ord(char) - 0xDC00:02X}" if char > "\ud800" else char for char in url)
        for asked in (url, escaped):
            assert not robots.allowed(asked, "foobot")
            assert not robots.verdict(asked, "foobot").allowed
    assert robots.allowed(f"{site}/v/\udcf1", "foobot")
    # A letter that was cut in two is the letter.
    whole = RobotsTxt.parse("User-agent: *\nDisallow: /é\n".encode())
    assert not whole.allowed("/\udcc3\udca9", "foobot")


def test_rules_given_as_values_match_bytes_that_are_no_utf_8() -> None:
    """As those of a file."""
    rules = Rules([Rule(RuleKind.DISALLOW, "/v/\udcf0", 1)])
    assert not rules.allows("/v/%f0")
    assert not rules.allows("/v/\udcf0")
