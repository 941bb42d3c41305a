"""What `parse` makes of bytes, and that no file makes it slow or large."""

import pytest

from robotgate.rules.grammar import RequestRate, RuleKind, VisitTime, canonical
from robotgate.rules.parser import Group, Pace, ParsedFile, Record, parse_text
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import Rule


def parse(body: bytes) -> ParsedFile:
    """A whole file."""
    return parse_text(canonical(body))


def test_a_whole_file() -> None:
    """Groups, paces, sitemaps and records, with their lines."""
    body = b"""\
# for people
User-agent: One/1.0
User-agent: two
Crawl-delay: 2
Disallow: /a # why
Allow: /a/b

User-agent: *
Disallow:
Sitemap: https://example.com/s.xml
"""
    assert parse(body) == ParsedFile(
        groups=(
            Group(
                agents=("One/1.0", "two"),
                rules=(Rule(RuleKind.DISALLOW, "/a", 5), Rule(RuleKind.ALLOW, "/a/b", 6)),
                paces=(Pace(("One/1.0", "two"), 2.0),),
                line=2,
            ),
            Group(agents=("*",), rules=(Rule(RuleKind.DISALLOW, "", 9),), line=8),
        ),
        sitemaps=("https://example.com/s.xml",),
        records=(Record("Crawl-delay", "2", 4, 0, 2),),
    )


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_lines_are_counted_as_editors_do(end: bytes) -> None:
    """Every line counts, those that say nothing too."""
    group = parse(end.join([b"", b"#", b"User-agent: a", b"", b"Disallow: /"])).groups[0]
    assert (group.line, group.rules[0].line) == (3, 5)


def test_bytes_that_are_not_utf_8_are_escaped() -> None:
    """So that a rule is text, and none of its bytes is lost."""
    parsed = parse(b"User-agent: b\xe9t\nDisallow: /\xff\xc3\xa9\xed\xa0\x80\nX\xe9: \xe9\n")
    assert parsed.groups[0].agents == ("b%E9t",)
    assert parsed.groups[0].rules[0].path_pattern == "/%FF\u00e9%ED%A0%80"
    assert parsed.records == (Record("X%E9", "%E9", 3, 0, 1),)


def test_every_pace_record_of_a_run_stays_with_it() -> None:
    """A User-agent line below a pace record begins the next run."""
    parsed = parse(
        b"User-agent: a\nUser-agent: b\nCrawl-delay: x\nRequest-rate: 1/5\nVisit-time: 0100-0200\n"
        b"User-agent: c\nDisallow: /\nCrawl-delay: 3\n"
    )
    assert parsed.groups[0].agents == ("a", "b", "c")
    assert parsed.groups[0].paces == (
        Pace(("a", "b"), None, (RequestRate(1, 5),), (VisitTime(60, 120),)),
        Pace(("c",), 3.0),
    )
    assert parsed.groups[0].crawl_delay == 3.0


def test_alternating_agents_and_delays_make_one_group() -> None:
    """Each agent line stands in one pace only."""
    parsed = parse(b"User-agent: a\nCrawl-delay: 1\n" * 10_000 + b"Disallow: /\n")
    assert len(parsed.groups) == 1
    assert sum(len(pace.agents) for pace in parsed.groups[0].paces) == 10_000


def test_warnings_of_one_kind_are_told_once() -> None:
    """Thousands of delays for other agents in our group make one warning, with their number."""
    body = b"User-agent: a\nCrawl-delay: 1\n" * 3 + b"User-agent: foobot\nDisallow: /x\n"
    (warning,) = RobotsTxt.parse(body).rules("foobot").warnings
    assert warning.startswith("line 2, Crawl-delay (and 2 more lines), ")
    (warning,) = RobotsTxt.parse(body[len(b"User-agent: a\nCrawl-delay: 1\n") * 2 :]).rules("foobot").warnings
    assert warning.startswith("line 2, Crawl-delay, ")
    assert "more" not in warning
