"""What RFC 9309 leaves open, and what robotgate decides there."""

from typing import Final

import pytest
from tests.spec.matching import Cases, check, disallows

from robotgate.errors import InvalidURLError
from robotgate.rules.grammar import RequestRate, VisitTime
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import Reason


@pytest.mark.parametrize(
    "written",
    [
        "foobot/2.1", "foobot*", "foobot crawler", "foobot;", "foobot\t(x)",
        "FooBot/1.0 (+http://example.org)", "foobot.net",
    ],
)  # fmt: skip
def test_what_follows_a_token_is_passed_over(written: str) -> None:
    """One group in twenty-five is written with a version or more."""
    assert not RobotsTxt.parse(f"User-agent: {written}\nDisallow: /".encode()).allowed("/page", "foobot")


@pytest.mark.parametrize(
    "written", ["foobot2/1", "foo bot", "(foobot)", "x foobot", "foobot-x", "foo", "*foobot", "f\u2126bot"]
)
def test_a_token_is_not_looked_for_elsewhere_in_the_line(written: str) -> None:
    """Only the line's leading token names anybody."""
    assert RobotsTxt.parse(f"User-agent: {written}\nDisallow: /".encode()).allowed("/page", "foobot")


def test_digits_are_part_of_tokens() -> None:
    """No identifier of the RFC has them, many crawlers do; an explicit refusal is obeyed."""
    robots = RobotsTxt.parse(b"User-agent: MJ12bot\nDisallow: /")
    assert not robots.allowed("/page", "MJ12bot/v1.4.8")
    assert robots.allowed("/page", "MJ")


def test_letters_are_compared_in_ascii() -> None:
    """The Kelvin sign is no k, though Unicode's lower case says so."""
    assert RobotsTxt.parse("User-agent: \u212abot\nDisallow: /".encode()).allowed("/page", "kbot")


@pytest.mark.parametrize(
    ("written", "bound"), [("*", True), ("* foo", True), ("*\tfoo", True), ("*foo", False), ("**", False)]
)
def test_the_asterisk_stands_alone(written: str, *, bound: bool) -> None:
    """``*`` means all crawlers, alone or before a blank."""
    assert (
        RobotsTxt.parse(f"User-agent: {written}\nDisallow: /".encode()).allowed("/page", "foobot")
        is not bound
    )


def test_an_empty_user_agent_binds_nobody() -> None:
    """It opens a group all the same, so the rules below do not fall to the group above."""
    robots = RobotsTxt.parse(b"User-agent: foobot\nDisallow: /a\nUser-agent:\nDisallow: /\n")
    assert robots.allowed("/b", "foobot")
    assert robots.allowed("/b", "barbot")
    assert robots.allowed("/b", "")


def test_an_empty_rule_ends_a_run_of_user_agents() -> None:
    """``Disallow:`` is a rule, so the next User-agent opens a group."""
    robots = RobotsTxt.parse(b"User-agent: a\nDisallow:\nUser-agent: b\nDisallow: /\n")
    assert robots.allowed("/page", "a")
    assert not robots.allowed("/page", "b")


def test_a_delay_is_asked_of_the_agents_above_it() -> None:
    """A Crawl-delay ends no group, yet is not for the agents below it."""
    robots = RobotsTxt.parse(
        b"User-agent: one\nCrawl-delay: 1\nUser-agent: two\nCrawl-delay: 2\nUser-agent: three\nDisallow: /x\n"
    )
    assert [robots.crawl_delay(agent) for agent in ("one", "two", "three")] == [1, 2, None]
    assert not any(robots.allowed("/x", agent) for agent in ("one", "two", "three"))
    assert robots.verdict("/x", "one").group == ("one", "two", "three")


def test_a_delay_for_everybody_is_not_for_a_named_agent() -> None:
    """A group of our own replaces the group ``*``, with its delay."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nCrawl-delay: 9\nDisallow: /\nUser-agent: foobot\nDisallow: /x\n"
    )
    assert robots.crawl_delay("foobot") is None
    assert robots.crawl_delay("barbot") == 9


def test_of_several_delays_the_largest_is_obeyed() -> None:
    """In one group or in several, in any order."""
    robots = RobotsTxt.parse(
        b"User-agent: a\nCrawl-delay: 3\nCrawl-delay: 7\nDisallow: /\nCrawl-delay: 5\nUser-agent: a\nCrawl-delay: 6\n"
    )
    assert robots.crawl_delay("a") == 7


def test_how_a_crawl_delay_is_read(subtests: pytest.Subtests) -> None:
    """Numbers mean what they say, with their unit; what can mean several delays is read as the longest."""
    for expected, values in [
        (10.0, ["10", "10 seconds", "10 sec", "10s", "10;", "10 Sekunden"]),
        (0.5, ["0.5", ".5", "0,5", "500ms", "500 MSEC"]),
        (0.0, ["0"]),
        (1.5, ["1,5"]),
        (7.0, ["7."]),
        (1.0, ["1.000"]),
        (60.0, ["1 min", "1 (min)"]),
        (90.0, ["1,5 minutes", "1 min 30 s", "1:30", "00:01:30"]),
        (120.0, ["2m"]),
        (3600.0, ["1 h"]),
        (5400.0, ["1h30m"]),
        (172800.0, ["2 days"]),
        (2592000.0, ["1 month"]),
        (5.0, ['"5"', "+5"]),
        # Several readings.
        (1000.0, ["1,000", "1 000", "1\u00a0000", "1_000", "1e3"]),
        (0.5, ["0,500"]),
        (10.0, ["5-10", "5 or 10 seconds", "6 pages per minute", "1 request every 10 s"]),
        (600.0, ["5 - 10 min"]),
        (5.0, ["1/5s"]),
        (60.0, ["1/min"]),
        # What follows in other words is no delay.
        (5.0, ["5 (2023)", "5 Disallow: /2023"]),
        (None, ["-1", "nan", "inf", "\u0663", "\u00b2", "", "soon"]),
    ]:
        for value in values:
            with subtests.test(value=value, expected=expected):
                robots = RobotsTxt.parse(f"User-agent: *\nCrawl-delay: {value}\n".encode())
                assert robots.crawl_delay("foobot") == expected


@pytest.mark.parametrize("value", ["9" * 5000, "1e999", "9e99 days", "1" + ",000" * 4000])
def test_an_endless_delay_is_long_and_finite(value: str) -> None:
    """Five thousand digits are neither an error nor infinity."""
    delay = RobotsTxt.parse(f"User-agent: *\nCrawl-delay: {value}".encode()).crawl_delay("foobot")
    assert delay is not None
    assert 1e9 < delay < float("inf")


def test_how_a_request_rate_is_read(subtests: pytest.Subtests) -> None:
    """Documents in a time, read as a Crawl-delay is, with the hours it is for; zero makes no rate."""
    for expected, values in [
        (RequestRate(1, 5), ["1/5"]),
        (RequestRate(10, 60), ["10/60s"]),
        (RequestRate(10, 600), ["10/10m"]),
        (RequestRate(20, 3600), ["20/1H"]),
        (RequestRate(100, 86400), ["100/1d"]),
        (RequestRate(1, 86400), ["1,000/1d"]),
        (RequestRate(1, 30), ["1 / 30 seconds"]),
        (RequestRate(1, 600, 780, 1019), ["1/10m 1300-1659"]),
        (RequestRate(1, 1200, 1020, 299), ["1/20m 1700-0459"]),
        (RequestRate(1, 10, 1080, 1140), ["1/10s 1800 - 1900 UTC"]),
        (RequestRate(1, 10, 0, 1440), ["1/10s 0000-2400"]),
        (RequestRate(1, 10, 360, 525), ["1/10s 0600 0845", "1/10s 06:00-08:45"]),
        # Hours that cannot be read are all hours.
        (RequestRate(1, 10), ["1/10 600-845", "1/10s 2500-2600", "1/10s 1261-1300", "1/10s"]),
        (RequestRate(1, 10), ["1 page per 10 seconds"]),
        (RequestRate(1, 60), ["1/1m"]),
        (RequestRate(1, 120), ["1/2 min"]),
        (RequestRate(1, 0.5), ["1/500ms"]),
        (RequestRate(1, 1.5), ["1/1,5"]),
        (RequestRate(1, 90), ["1/1.5 min", "1/1m30s"]),
        (RequestRate(1, 20), ["1/10-20s"]),
        (RequestRate(1, 1000), ["1/1,000"]),
        (RequestRate(1, 2), ["0.5/1", "2,5/5"]),
        (RequestRate(30, 60), ["30/min"]),
        (None, ["1/soon", "1/1e999", "0/5", "5/0", "5", "a/b", "-1/5", "1/" + "9" * 5000]),
    ]:
        for value in values:
            with subtests.test(value=value, expected=expected):
                robots = RobotsTxt.parse(f"User-agent: *\nRequest-rate: {value}\n".encode())
                assert robots.request_rate("foobot") == expected


def test_of_several_request_rates_the_slowest_is_named() -> None:
    """All are kept, for their hours may differ."""
    rules = RobotsTxt.parse(b"User-agent: *\nRequest-rate: 1/10 0600-0800\nRequest-rate: 60/1m\n").rules(
        "foobot"
    )
    assert rules.request_rates == (RequestRate(1, 10, 360, 480), RequestRate(60, 60))
    assert rules.request_rate == RequestRate(1, 10, 360, 480)
    assert RequestRate(4, 10).seconds_per_document == 2.5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0600-0845", (VisitTime(360, 525),)),
        ("0100 - 0800", (VisitTime(60, 480),)),
        ("2200-0500", (VisitTime(1320, 300),)),
        ("0200 0630", (VisitTime(120, 390),)),
        ("0200 to 0630", (VisitTime(120, 390),)),
        ("02:00\u20136:30", (VisitTime(120, 390),)),
        ("0200 2530", ()),
        ("0600", ()),
        ("6-8", ()),
        ("20600-0845", ()),
    ],
)
def test_how_a_visit_time_is_read(value: str, expected: tuple[VisitTime, ...]) -> None:
    """Two times of day, which may run past midnight."""
    body = f"User-agent: *\nVisit-time: {value}\n".encode()
    assert RobotsTxt.parse(body).rules("foobot").visit_times == expected


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (b"User-agent: *\nDisallow: /x", 5.0),
        (b"User-agent: foobot\nCrawl-delay: 2\nDisallow: /x", 5.0),
        (b"User-agent: foobot\nCrawl-delay: 7\nDisallow: /x", 7.0),
        (b"User-agent: barbot\nCrawl-delay: 7\nDisallow: /x", 5.0),
        (b"User-agent:\nCrawl-delay: 7\nDisallow: /x", 5.0),
        (b"", 5.0),
    ],
)
def test_a_delay_above_the_first_group_is_asked_of_everybody(groups: bytes, expected: float) -> None:
    """A rule there binds nobody (RFC 9309 §2.2.2), but this is no rule. The slower of several is obeyed."""
    robots = RobotsTxt.parse(b"Disallow: /\nCrawl-delay: 5\nRequest-rate: 1/3\n\n" + groups)
    assert robots.crawl_delay("foobot") == expected
    assert robots.request_rate("foobot") == RequestRate(1, 3)
    assert robots.records[0].value == "5"
    assert robots.allowed("/", "foobot")


def test_hours_above_the_first_group_are_those_of_groups_without_any() -> None:
    """To add them to a group's own would only widen these."""
    robots = RobotsTxt.parse(
        b"Visit-time: 0100-0200\nUser-agent: a\nVisit-time: 0300-0400\nDisallow: /x\nUser-agent: b\nDisallow: /y"
    )
    assert robots.rules("a").visit_times == (VisitTime(180, 240),)
    assert robots.rules("b").visit_times == (VisitTime(60, 120),)


@pytest.mark.parametrize(
    "mark",
    [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"],
    ids=["whole", "two octets of three", "one octet of three"],
)
def test_a_byte_order_mark_is_passed_over(mark: bytes) -> None:
    """Otherwise the first group would be lost."""
    assert not RobotsTxt.parse(mark + b"User-agent: *\nDisallow: /").allowed("/page", "foobot")


def test_a_nul_cuts_the_line() -> None:
    """What follows cannot be told from rubbish."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /x\0Allow: /\nUser-agent\0: y\n")
    assert robots.groups[0].rules[0].path_pattern == "/x"


@pytest.mark.parametrize("line", ["Disallow /x", "disallow\t/x", " Disallow  /x ", "disalow /x"])
def test_a_missing_colon_between_two_words_is_forgiven(line: str) -> None:
    """These spellings are taken for the rule that they mean."""
    assert not RobotsTxt.parse(f"User-agent *\n{line}\n".encode()).allowed("/x", "foobot")


@pytest.mark.parametrize("line", ["Disallow /x y", "Disallow/x", "Crawl-delay 5", "Sitemap /s"])
def test_a_missing_colon_is_not_forgiven_elsewhere(line: str) -> None:
    """More words are prose; other records have no such licence."""
    robots = RobotsTxt.parse(f"User-agent: *\n{line}\n".encode())
    assert robots.groups[0].rules == ()
    assert (robots.records, robots.sitemaps) == ((), ())


def test_misspellings_that_are_forgiven(subtests: pytest.Subtests) -> None:
    """The very list the largest crawler forgives."""
    for agent_field in ["user-agent", "useragent", "user agent", "UserAgent"]:
        for field in ["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]:
            with subtests.test(agent_field=agent_field, field=field):
                assert not RobotsTxt.parse(f"{agent_field}: *\n{field}: /x\n".encode()).allowed(
                    "/x", "foobot"
                )


@pytest.mark.parametrize(
    "field", ["disallowed", "disallows", "dis-allow", "x-disallow", "allowance", "alow", "noindex"]
)
def test_misspellings_that_are_not_forgiven(field: str) -> None:
    """Fields are compared whole."""
    assert RobotsTxt.parse(f"User-agent: *\n{field}: /x\n".encode()).groups[0].rules == ()


@pytest.mark.parametrize("pattern", ["x", "x/y", "index.html", "?x", "$", "%2Fx", ".", "\\x"])
def test_a_rule_that_does_not_begin_at_the_root_never_matches(pattern: str) -> None:
    """The grammar wants a slash; a leading wildcard is taken, too."""
    assert not disallows(pattern, "/x/y?x")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("https://example.com/x", True),
        ("HTTPS://EXAMPLE.com/x", True),
        ("https://example.com:443/x", True),
        ("https://example.com", True),
        ("https://example.com/x$", False),
        ("https://example.com/*y", True),
        ("https://www.example.com/x", False),
        ("http://example.com/x", False),
        ("https://example.com:8443/x", False),
        ("https://exa mple/x", False),
        ("https://[/x", False),
    ],
)
def test_an_absolute_url_of_the_same_origin_counts_as_its_path(pattern: str, *, expected: bool) -> None:
    """Those of other origins are no rules of this file."""
    assert disallows(pattern, "/x/y", "https://example.com/robots.txt") is expected
    assert not disallows(pattern, "/x/y")


COMPARED: Final[dict[str, Cases]] = {
    "blanks are octets, empty segments count, and dot segments of a URL are resolved": [
        ("/a b", ["/a%20b"], ["/a"]),
        ("//a", ["https://example.com//a"], ["/a"]),
        ("/a/../b", [], ["/a/../b"]),
        ("/b", ["/a/../b", "https://example.com/a/%2E%2e/./b"], []),
        ("/a?x=/../b", ["/a?x=/../b"], []),
        ("/a/$", ["/a/b/.."], []),
        ("/$", ["/.."], []),
    ],
    "a slash is the same either way in queries only; behind a wildcard it depends on where the match is": [
        ("/*%2F*", ["/a%2Fb", "/a?b=%2F", "/a?b=/"], ["/a/b"]),
        ("/*%3Fx$", ["/a%3Fx", "/a??x"], ["/a?x"]),
        ("/*%2Fa*%2Fb", ["/x%2Fa?/b"], ["/x%2Fa/b"]),
        ("/*?*%2F", ["/a?b/c"], []),
        ("/*?*/c", ["/a?b%2Fc"], []),
        ("/a%2Fb?c=%2F", ["/a%2Fb?c=/"], ["/a/b?c=/"]),
    ],
    "a percent sign that escapes nothing is one, which clients send escaped": [
        ("/%zz", ["/%zz", "/%25zz"], []),
        ("/%", ["/%"], []),
        ("/50%$", ["/50%25"], []),
    ],
    "a wildcard does not end within an escape, which is one octet: its digits are none": [
        ("/*2", [], ["/a%20b"]),
        ("/*F$", [], ["/%2F"]),
        ("/*20b", [], ["/a%20b"]),
        ("/*20", ["/a%2020"], []),
    ],
    # What is compared is the encoded text (RFC 9309 §2.2.2).
    "a lone percent sign before a wildcard or at the end is the beginning of any escape": [
        ("/%", ["/%D0%B0", "/%20"], ["/100%25", "/%41", "/a"]),
        ("/g/*/%*", ["/g/x/%D0%B0/y"], ["/g/x/y"]),
        ("/*URL%*", ["/?URL%3D"], ["/?URL="]),
        ("/coupons/*cached40%$", ["/coupons/x-cached40%25"], ["/coupons/x-cached40%20"]),
    ],
}


@pytest.mark.parametrize("claim", COMPARED)
def test_paths_are_compared_as_clients_send_them(claim: str, subtests: pytest.Subtests) -> None:
    """In the normal form that both have."""
    check(COMPARED[claim], subtests)


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        ("Disallow: /a/index.html", "/a/", True),
        ("Disallow: /\nAllow: /a/index.html", "/a/", False),
        ("Disallow: /a/$", "/a/index.html", True),
    ],
)
def test_an_index_page_is_a_page_of_its_own(rules: str, url: str, *, expected: bool) -> None:
    """One large crawler takes it for its folder in an Allow; what a server sends for the folder is not known."""
    assert RobotsTxt.parse(f"User-agent: *\n{rules}\n".encode()).allowed(url, "foobot") is expected


def test_priority_is_the_length_of_the_normal_form() -> None:
    """The spelling of a rule lends it no weight."""
    assert RobotsTxt.parse(b"User-agent: *\nDisallow: /%61%62\nAllow: /abc\n").allowed("/abc", "foobot")


def test_trailing_wildcards_count() -> None:
    """They change no match, yet are octets of the rule."""
    assert RobotsTxt.parse(b"User-agent: *\nDisallow: /ab\nAllow: /a**\n").allowed("/ab", "foobot")


@pytest.mark.parametrize(
    "line",
    [
        b"Disallow\v/x", b"\vDisallow: /x", b"Disallow\v: /x", b"Disallow:\v/x", b"Disallow: /x\v",
        b"Disallow: \f/x\f",
    ],
)  # fmt: skip
def test_vertical_tabs_and_form_feeds_are_no_blanks(line: bytes) -> None:
    """White space is SP and HTAB (RFC 9309 §2.2), at every place of a line."""
    assert RobotsTxt.parse(b"User-agent: *\n" + line).allowed("/x", "foobot")


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        ("Allow: /topics/*/\nDisallow: /topics/", "/topics/?id=5&x=%2Fy", False),
        ("Allow: /topics/*/\nDisallow: /topics/", "/topics/?id=5&x=/y", True),
        ("Allow: /topics/*/\nDisallow: /topics/", "/topics/a/?x=%2Fy", True),
        ("Allow: /topics/?*/\nDisallow: /topics/", "/topics/?id=5&x=%2Fy", True),
        ("Allow: /topics/*%2F\nDisallow: /topics/", "/topics/?id=5&x=/y", True),
        ("Allow: /topics/?x=/\nDisallow: /topics/", "/topics/?x=%2Fy", True),
        ("Disallow: /topics/*/", "/topics/?id=5&x=%2Fy", False),
    ],
)
def test_an_allow_does_not_profit_from_an_escaped_slash(rules: str, url: str, *, expected: bool) -> None:
    """In a query a slash and its escape are equal, but the slashes of an Allow's path are those of paths."""
    assert RobotsTxt.parse(f"User-agent: *\n{rules}\n".encode()).allowed(url, "foobot") is expected


SITE = b"User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize(
    "target", ["https://h.example/private", "private", "", "?private", "//h.example", "*/"]
)
def test_a_url_where_a_path_belongs_is_refused(target: str) -> None:
    """It would match no rule, and so be allowed."""
    rules = RobotsTxt.parse(SITE).rules("foobot")
    if target.startswith("//"):
        assert rules.allows(target)
    else:
        for ask in (rules.allows, rules.decide):
            with pytest.raises(InvalidURLError):
                ask(target)


def test_rules_resolve_dot_segments() -> None:
    """As `RobotsTxt.allowed` does."""
    rules = RobotsTxt.parse(SITE).rules("foobot")
    assert not rules.allows("/a/../private")
    assert not rules.decide("/./private").allowed
    assert rules.allows("/private/..")
    assert rules.allows("*")


def test_a_url_without_its_scheme_is_judged_as_the_url_it_is() -> None:
    """Its first segment is a host, no path. Without the file's own URL it cannot be judged."""
    robots = RobotsTxt.parse(SITE, "https://h.example/robots.txt")
    assert not robots.allowed("//h.example/private", "foobot")
    assert robots.allowed("//private/p", "foobot")
    with pytest.raises(InvalidURLError):
        RobotsTxt.parse(SITE).allowed("//h.example/private", "foobot")


def test_a_url_too_long_to_match_is_refused() -> None:
    """Text between wildcards is searched in 8,192 bytes. A Disallow that needs the rest refuses, an Allow does not."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nDisallow: /*?sid=*x\nDisallow: /x\nAllow: /x/*/open\nAllow: /*?sid=*open"
    )
    long = "/" + "a" * 9_000
    verdict = robots.verdict(f"{long}?sid=1x", "foobot")
    assert not verdict.allowed
    assert not robots.allowed(f"{long}?sid=1x", "foobot")
    assert verdict.reason is Reason.URL_TOO_LONG
    assert str(verdict.rule) == "Disallow: /*?sid=*x"
    assert robots.allowed(long, "foobot")
    assert not robots.allowed(f"/x{long}/open", "foobot")
    assert robots.allowed(f"/x/a/open{long}", "foobot")
    assert robots.verdict(f"/?sid={long}x", "foobot").reason is Reason.URL_TOO_LONG
    assert robots.verdict(f"/?sid=x{long}", "foobot").reason is Reason.DISALLOWED_BY_RULE
