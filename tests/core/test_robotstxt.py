"""`RobotsTxt`, the door to all of it."""

import pytest

from robotgate.errors import InvalidURLError
from robotgate.rules.grammar import RuleKind, product_token
from robotgate.rules.robotstxt import CleanParam, RobotsTxt
from robotgate.rules.rules import Rules
from robotgate.rules.verdict import Reason, Rule, Verdict
from robotgate.urls import split_url

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


def test_allowed_is_the_verdict_in_short(subtests: pytest.Subtests) -> None:
    """One answer, two doors."""
    for agent in ["foobot", "bazbot"]:
        for path in ["/", "/private", "/private/open", "/private/openly", "/robots.txt", "/%70rivate"]:
            with subtests.test(agent=agent, path=path):
                robots = RobotsTxt.parse(FILE)
                assert robots.allowed(path, agent) is robots.verdict(path, agent).allowed
                assert robots.allowed(path, agent) is robots.rules(agent).allows(path)
                assert robots.allowed(path, agent) is robots.allowed(f"https://example.com{path}", agent)


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        ("foobot", "foobot"),
        ("FooBot/1.0", "FooBot"),
        ("foobot (x)", "foobot"),
        (" foobot ", "foobot"),
        ("foo-bot_x/1 (y/2)", "foo-bot_x"),
        ("*", "*"),
        ("", ""),
        ("/", ""),
    ],
)
def test_the_product_token_of_an_agent(agent: str, token: str) -> None:
    """All before the first slash or blank."""
    assert product_token(agent) == token


def test_agents_without_number_do_not_fill_the_memory() -> None:
    """What is kept for them is bounded."""
    robots = RobotsTxt.parse(FILE)
    for number in range(1_000):
        robots.rules(f"bot{number}")
    assert len(robots._compiled) <= 64


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
    "url", ["", "page", "ftp://example.com/x", "https://", "mailto:a@b", "http://ex ample/x", "?x"]
)
def test_what_is_neither_a_url_nor_a_path_is_refused(url: str) -> None:
    """A guess would be an answer for another URL."""
    with pytest.raises(InvalidURLError):
        RobotsTxt.parse(FILE).allowed(url, "foobot")


@pytest.mark.parametrize("url", ["", "/robots.txt", "ftp://example.com/robots.txt"])
def test_the_url_of_the_file_must_be_one(url: str) -> None:
    """It is the operator's, not the site's."""
    with pytest.raises(InvalidURLError):
        RobotsTxt.parse(b"", url)


def test_dot_segments_are_judged_as_they_are_sent(subtests: pytest.Subtests) -> None:
    """A detour to a forbidden path is forbidden."""
    for authority in [
        "https://example.com",
        "HTTP://user@EXAMPLE.com:8080",
        "http://[::1]",
        "http://1.2.3.4",
    ]:
        for path in [
            "/a", "/a/./b", "/a/../private", "/private/..", "/private/../", "/../private",
            "/x/%2e%2E/private", "/..private", "/private/.", "/private/./../a", "/a//../private", "/.",
            "/a?x=/../private",
        ]:  # fmt: skip
            with subtests.test(authority=authority, path=path):
                robots = RobotsTxt.parse(FILE)
                assert robots.allowed(authority + path, "foobot") is robots.rules("foobot").allows(
                    split_url(authority + path)[1]
                )


def test_a_group_of_thousands_of_agents() -> None:
    """Asking for one of them compiles each rule once."""
    agents = b"".join(b"User-agent: a%d\n" % number for number in range(17_000))
    robots = RobotsTxt.parse(agents + b"".join(b"Disallow: /%d\n" % number for number in range(5_000)))
    assert not robots.allowed("/4999", "a16999")
    assert robots.allowed("/4999", "b")
    assert repr(robots.rules("a1")).endswith(": 5000 rules>")


def test_thousands_of_equal_groups() -> None:
    """They are one group of one rule."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /a\n" * 8_000)
    rules = robots.rules("foobot")
    assert rules.agents == ("*",)
    assert repr(rules) == "<Rules for *: 1 rules>"


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


@pytest.mark.parametrize("path", ["/a\x01", "/a ", "/\ud800", "/\x7f"])
def test_what_is_no_url_is_refused_on_the_site_itself(path: str) -> None:
    """Knowing the site saves no look at the rest."""
    robots = RobotsTxt.parse(FILE, "https://example.com/robots.txt")
    with pytest.raises(InvalidURLError):
        robots.allowed(f"https://example.com{path}", "foobot")


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
