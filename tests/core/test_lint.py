"""Lint: each thing it looks for, what it leaves alone, and that no file is too much for it."""

from __future__ import annotations

import gzip
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_linear import FAMILIES, Steps, lines

from robotgate import InvalidURLError, RobotsTxt
from robotgate.lint import Finding, FindingCode, Severity, lint
from robotgate.lint.lines import lines_of
from robotgate.rules.grammar import MAX_BYTES, MAX_LINE_BYTES, Field, readable

if TYPE_CHECKING:
    from collections.abc import Callable

CODE: Final = FindingCode
GROUP: Final = b"User-agent: *\n"
REMARKABLE: Final = frozenset({CODE.CLASSIC_ALLOW, CODE.CLASSIC_WILDCARD, CODE.EXTENSION_FIELD})
"""Of what is said of most files; a case names these only where it is about them."""


def found(body: bytes, url: str | None = None) -> list[tuple[int, FindingCode]]:
    """The lines and codes of what lint says of a file."""
    return [(finding.line, finding.code) for finding in lint(body, url)]


def finding_of(code: FindingCode, body: bytes, url: str | None = None) -> Finding:
    """The one finding of a code."""
    (finding,) = (finding for finding in lint(body, url) if finding.code is code)
    return finding


# What is the matter; the file; the line; what of it is marked; what is suggested; the other line.
CASES: Final[list[tuple[FindingCode, bytes, int, str, str | None, int | None]]] = [
    (CODE.FILE_TOO_LARGE, GROUP + b"#" * 79 + (b"\n" + b"#" * 99) * 5121, 5122, "#" * 40, None, None),
    (CODE.HTML, b"\n<!DOCTYPE html>\n<p>Not found", 2, "<!DOCTYPE html>", None, None),
    (CODE.UTF_16, "\ufeffUser-agent: *\n".encode("utf-16-le"), 1, r"\xff\xfeU", None, None),
    (CODE.UTF_16, b"User-agent: *\nDisallow: /x\n".decode().encode("utf-16-be"), 1, r"\u0000U", None, None),
    (CODE.NOT_UTF_8, GROUP + b"# caf\xe9\n", 2, r"\xe9", None, None),
    (CODE.BYTE_ORDER_MARK, b"\xef\xbb\xbfUser-agent: *\nDisallow:\n", 1, "", None, None),
    (CODE.BYTE_ORDER_MARK, b"\xef\xbbUser-agent: *\nDisallow:\n", 1, "", None, None),
    (CODE.BYTE_ORDER_MARK, GROUP + b"\n\xef\xbb\xbf\xef\xbb\xbfDisallow:\n", 3, "", None, None),
    (CODE.NOT_UTF_8, gzip.compress(GROUP + b"Disallow: /x\n", mtime=0), 1, r"\u001f\x8b", None, None),
    (CODE.BARE_CR, b"# a\r\nUser-agent: *\rDisallow:\n", 2, "", None, None),
    (CODE.LINE_TOO_LONG, GROUP + b"Disallow: /" + b"x" * MAX_LINE_BYTES, 2, "Disallow: /xxx", None, None),
    (CODE.NUL, GROUP + b"Disallow: /a\0b\n", 2, "\\u0000", None, None),
    (CODE.CONTROL_CHARACTER, GROUP + b"Disallow: /a\x08b\n", 2, "\\u0008", None, None),
    (CODE.OTHER_LINE_END, GROUP + b"Disallow: /a\x0bb\n", 2, "\\u000b", None, None),
    (CODE.OTHER_LINE_END, GROUP + "Disallow: /\n# no\u2028Allow: /\n".encode(), 3, "\\u2028", None, None),
    (CODE.MISSING_COLON, GROUP + b"Disallow /a\n", 2, "Disallow", "Disallow: /a", None),
    (CODE.MISSING_COLON, b"User-agent *\nDisallow: /a\n", 1, "User-agent", "User-agent: *", None),
    (CODE.MISSING_COLON, GROUP + b"Disallow/a\n", 2, "Disallow/a", "Disallow: /a", None),
    (CODE.MISSING_COLON, GROUP + b"Disallow /a b\n", 2, "Disallow", "Disallow: /a b", None),
    (CODE.MISSING_COLON, GROUP + b"disallow = /a:b\n", 2, "disallow = /a", "Disallow: /a:b", None),
    (CODE.MISSING_COLON, GROUP + b"Disallow\xef\xbc\x9a /a\n", 2, "Disallow\uff1a", "Disallow: /a", None),
    (CODE.MISSING_COLON, GROUP + b"Crawl-delay 5\n", 2, "Crawl-delay", "Crawl-delay: 5", None),
    (CODE.MISSING_COLON, b"Sitemap https://a.example/s\n", 1, "Sitemap https", None, None),
    (CODE.NO_FIELD, GROUP + b"Last changed today\n", 2, "Last changed today", "# Last changed today", None),
    (CODE.NO_FIELD, GROUP + b": /x\n", 2, ": /x", "# : /x", None),
    (CODE.MISSPELT_FIELD, GROUP + b"Dissallow: /a\n", 2, "Dissallow", "Disallow: /a", None),
    (CODE.MISSPELT_FIELD, GROUP + b"Disallowed: /a\n", 2, "Disallowed", "Disallow: /a", None),
    (CODE.MISSPELT_FIELD, GROUP + b"Dis-allow: /a\n", 2, "Dis-allow", "Disallow: /a", None),
    (CODE.MISSPELT_FIELD, GROUP + b"Alow: /a\n", 2, "Alow", "Allow: /a", None),
    (CODE.MISSPELT_FIELD, b"Uesr-agent: *\n", 1, "Uesr-agent", "User-agent: *", None),
    (CODE.MISSPELT_FIELD, b"user agent: *\n", 1, "user agent", "User-agent: *", None),
    (CODE.MISSPELT_FIELD, b"Site-map: https://a.example/s\n", 1, "Site-map", None, None),
    (CODE.MISSPELT_FIELD, GROUP + b"Crawl_delay: 5\n", 2, "Crawl_delay", "Crawl-delay: 5", None),
    (CODE.UNKNOWN_FIELD, GROUP + b"Note: be kind\n", 2, "Note", None, None),
    (CODE.RETIRED_FIELD, GROUP + b"Noindex: /a\n", 2, "Noindex", None, None),
    (CODE.RETIRED_FIELD, b"HOST: a.example\n", 1, "HOST", None, None),
    (CODE.EXTENSION_FIELD, GROUP + b"Crawl-delay: 5\n", 2, "Crawl-delay", None, None),
    (CODE.EXTENSION_FIELD, GROUP + b"Content-signal: search=yes\n", 2, "Content-signal", None, None),
    (CODE.TWO_IN_ONE_LINE, b"User-agent: * Disallow: /\n", 1, "Disallow: /", "Disallow: /", None),
    (CODE.TWO_IN_ONE_LINE, rb"User-agent: *\nDisallow: /", 1, "Disallow: /", "Disallow: /", None),
    (CODE.TWO_IN_ONE_LINE, GROUP + b"Disallow: /a Allow:/b", 2, "Allow:/b", "Allow:/b", None),
    (CODE.BEFORE_ANY_GROUP, b"Disallow: /a\n" + GROUP, 1, "Disallow: /a", None, None),
    (
        CODE.DELAY_BETWEEN_AGENTS,
        b"User-agent: *\nCrawl-delay: 5\n\nUser-agent: a\nDisallow: /\n",
        *(2, "Crawl-delay: 5", None, 4),
    ),
    (
        CODE.RECORD_BETWEEN_AGENTS,
        b"User-agent: a\nNote: x\nUser-agent: b\nDisallow: /\n",
        *(3, "User-agent: b", None, 2),
    ),
    (
        CODE.BLANK_BETWEEN_AGENTS,
        b"User-agent: a\n\nUser-agent: b\nDisallow: /\n",
        *(3, "User-agent: b", None, 2),
    ),
    (CODE.BLANK_IN_GROUP, GROUP + b" \t\nDisallow: /\n", 3, "Disallow: /", None, None),
    (CODE.GROUP_WITHOUT_RULES, GROUP + b"Disallow: /\nUser-agent: a\n", 3, "User-agent: a", None, None),
    (
        CODE.DUPLICATE_GROUP,
        b"User-agent: a\nDisallow: /\nUser-agent: A/2\nDisallow: /\n",
        *(3, "A/2", None, 1),
    ),
    (CODE.EMPTY_AGENT, b"User-agent: # all\nDisallow: /\n", 1, "User-agent:", None, None),
    (CODE.AGENT_WITHOUT_TOKEN, b"User-agent: (foobot)\n", 1, "(foobot)", None, None),
    (CODE.AGENT_WITHOUT_TOKEN, b"User-agent: *bot\n", 1, "*bot", None, None),
    (CODE.AGENT_WITH_VERSION, b"User-agent: foobot/2.1\n", 1, "/2.1", "User-agent: foobot", None),
    (CODE.AGENT_WITH_REST, b"User-agent: foobot*\n", 1, "*", "User-agent: foobot", None),
    (CODE.AGENT_WITH_REST, b"User-agent: * foobot\n", 1, " foobot", "User-agent: *", None),
    (CODE.AGENT_WITH_REST, b"User-agent: foo bot\n", 1, " bot", None, None),
    (CODE.AGENT_WITH_DIGITS, b"User-agent: MJ12bot\n", 1, "MJ12bot", None, None),
    (CODE.PATH_WITHOUT_SLASH, GROUP + b"Disallow: a/b\n", 2, "a/b", "Disallow: /a/b", None),
    (
        CODE.ABSOLUTE_URL,
        GROUP + b"Disallow: https://a.example/b\n",
        2,
        "https://a.example/b",
        "Disallow: /b",
        None,
    ),
    (CODE.ABSOLUTE_URL, GROUP + b"Allow: HTTP://a.example\n", 2, "HTTP://a.example", "Allow: /", None),
    (CODE.CONTRADICTED_RULE, GROUP + b"Disallow: /%61\nAllow: /a\n", 2, "Disallow: /%61", None, 3),
    (CODE.NEVER_DECIDES, GROUP + b"Allow: /\nDisallow: /*\n", 2, "Allow: /", None, 3),
    (CODE.NEVER_DECIDES, GROUP + b"Disallow: /a$\nAllow: /a*$\n", 2, "Disallow: /a$", None, 3),
    (CODE.NUMBER_SIGN_IN_PATH, GROUP + b"Disallow: /#/a\n", 2, "#/a", "Disallow: / #/a", None),
    (CODE.BLANK_IN_PATH, GROUP + b"Disallow: /a b\n", 2, " ", "Disallow: /a%20b", None),
    (CODE.DOLLAR_INSIDE, GROUP + b"Disallow: /a$b$\n", 2, "$", "Disallow: /a%24b$", None),
    (CODE.BROKEN_ESCAPE, GROUP + b"Disallow: /100%\n", 2, "%", "Disallow: /100%25", None),
    (CODE.EMPTY_ALLOW, GROUP + b"Allow:\n", 2, "Allow:", "Disallow:", None),
    (CODE.EMPTY_DISALLOW, GROUP + b"Disallow:\nDisallow: /a\n", 2, "Disallow:", None, None),
    (CODE.DUPLICATE_RULE, GROUP + b"Disallow: /*a\nDisallow: /*%61\n", 3, "Disallow: /*%61", None, 2),
    (CODE.ORDER_MATTERS, GROUP + b"Disallow: /a\nAllow: /a/b\n", 3, "Allow: /a/b", None, 2),
    (CODE.LEADING_WILDCARD, GROUP + b"Disallow: *.gif\n", 2, "*", "Disallow: /*.gif", None),
    (CODE.NON_ASCII_PATH, GROUP + "Disallow: /é\n".encode(), 2, "é", "Disallow: /%C3%A9", None),
    (CODE.LOWER_CASE_ESCAPE, GROUP + b"Disallow: /%c3%a9\n", 2, "%c3", "Disallow: /%C3%A9", None),
    (CODE.ESCAPED_UNRESERVED, GROUP + b"Disallow: /%7ejoe\n", 2, "%7e", "Disallow: /~joe", None),
    (CODE.CLASSIC_ALLOW, GROUP + b"Allow: /a\n", 2, "Allow", None, None),
    (CODE.CLASSIC_WILDCARD, GROUP + b"Disallow: /a$\n", 2, "$", None, None),
    (CODE.PACE_UNREADABLE, GROUP + b"Crawl-delay: soon\n", 2, "soon", None, None),
    (CODE.PACE_UNREADABLE, GROUP + b"Request-rate: 1/0\n", 2, "1/0", None, None),
    (CODE.PACE_UNREADABLE, GROUP + b"Visit-time: 6-8\n", 2, "6-8", None, None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 0.5\n", 2, "0.5", "Crawl-delay: 1", None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 10 s\n", 2, "10 s", "Crawl-delay: 10", None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 1,5\n", 2, "1,5", "Crawl-delay: 2", None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 2 min\n", 2, "2 min", "Crawl-delay: 120", None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 500ms\n", 2, "500ms", "Crawl-delay: 1", None),
    (CODE.DELAY_WITH_REST, GROUP + b"Crawl-delay: 0.0\n", 2, "0.0", "Crawl-delay: 0", None),
    (CODE.PACE_FORM, GROUP + b"Request-rate: 1/2 min\n", 2, "1/2 min", "Request-rate: 1/120", None),
    (
        CODE.PACE_FORM,
        GROUP + b"Request-rate: 1/5s 6:00-08:45\n",
        *(2, "1/5s 6:00", "Request-rate: 1/5 0600-0845", None),
    ),
    (CODE.PACE_FORM, GROUP + b"Visit-time: 0200 0630\n", 2, "0200 0630", "Visit-time: 0200-0630", None),
    (CODE.PACE_OUTSIDE_GROUPS, b"Crawl-delay: 5\n" + GROUP, 1, "Crawl-delay: 5", None, None),
    (CODE.PACE_OUTSIDE_GROUPS, b"Request-rate: 1/5\n" + GROUP, 1, "Request-rate: 1/5", None, None),
    (CODE.DELAY_TOO_LONG, GROUP + b"Crawl-delay: 86400\n", 2, "86400", None, None),
    (CODE.DELAY_AGAIN, GROUP + b"Crawl-delay: 5\nCrawl-delay: 9\n", 3, "Crawl-delay: 9", None, 2),
    (CODE.SITEMAP_NOT_ABSOLUTE, b"Sitemap: /s.xml\n", 1, "/s.xml", None, None),
    (CODE.SITEMAP_NOT_ABSOLUTE, b"Sitemap:\n", 1, "Sitemap:", None, None),
    (
        CODE.STATEMENT_UNREADABLE,
        GROUP + b"Content-Usage: /a Train-AI = no\n",
        *(2, "/a Train-AI = no", None, None),
    ),
    (CODE.STATEMENT_UNREADABLE, GROUP + b"Content-Usage: train-ai=n;\n", 2, "train-ai=n;", None, None),
    (CODE.STATEMENT_UNREADABLE, GROUP + b"content-signal: ai-train: no\n", 2, "ai-train: no", None, None),
    (CODE.STATEMENT_UNREADABLE, GROUP + b"Content-Signal:\n", 2, "", None, None),
    (CODE.STATEMENT_UNREADABLE, GROUP + b"Content-Usage: /a\n", 2, "/a", None, None),
    (CODE.STATEMENT_UNREADABLE, GROUP + b"License: license.xml\n", 2, "license.xml", None, None),
    (
        CODE.STATEMENT_UNKNOWN_LABEL,
        GROUP + b"Content-Usage: ai-train=n, ai-use=y\n",
        *(2, "ai-train=n, ai-use=y", None, None),
    ),
    (CODE.STATEMENT_UNKNOWN_LABEL, GROUP + b"Content-Signal: ai_train=no\n", *(2, "ai_train=no", None, None)),
    (CODE.STATEMENT_OUTSIDE_GROUPS, b"Content-Signal: search=yes\n", 1, "Content-Signal", None, None),
    (CODE.BEFORE_ANY_GROUP, b"Content-Usage: search=y\n" + GROUP, 1, "Content-Usage", None, None),
    (
        CODE.MISSPELT_FIELD,
        GROUP + b"Content-Signals: search=yes\n",
        *(2, "Content-Signals", "Content-Signal: search=yes", None),
    ),
    (
        CODE.MISSPELT_FIELD,
        GROUP + b"Licence: https://l.example/\n",
        *(2, "Licence", "License: https://l.example/", None),
    ),
]


def test_what_lint_finds(subtests: pytest.Subtests) -> None:
    """The line, the place in it, and the line to write instead."""
    for code, body, line, marked, suggestion, related_line in CASES:
        with subtests.test(
            code=code, body=body, line=line, marked=marked, suggestion=suggestion, related_line=related_line
        ):
            finding = finding_of(code, body)
            place = finding.text[finding.start : finding.end]
            assert finding.line == line
            assert place.startswith(marked) if marked else not place
            assert len(place) < 200
            assert finding.related_line == related_line
            if suggestion is not None:
                assert finding.suggestion == suggestion


def test_lines_of_files_in_other_forms_are_checked() -> None:
    """What is read behind a mark, or was compressed, is linted as it is read."""
    body = GROUP + b"Disallow: /a\n\xef\xbb\xbfUser-agent: b\nDisallow: c\n"
    expected = [(3, CODE.BYTE_ORDER_MARK), (4, CODE.PATH_WITHOUT_SLASH)]
    assert found(body) == expected
    assert found(gzip.compress(body)) == [(1, CODE.NOT_UTF_8), *expected]
    assert found(gzip.compress(GROUP + b"#" * MAX_BYTES))[-1][1] is CODE.FILE_TOO_LARGE
    assert found(b"\x1f\x8b\x08")[0] == (1, CODE.NOT_UTF_8)


def test_what_lint_leaves_alone(subtests: pytest.Subtests) -> None:
    """Lines that all parsers read as they are meant."""
    for body in [
        b"",
        b"\n\n# nothing\n",
        b"User-agent: *\nDisallow:\n",
        b"User-agent: *\nDisallow: /\n",
        b"# all\nUser-agent: a\nUser-agent: b\n# rules\nDisallow: /a/\nDisallow:/b#\n".replace(
            b"#\n", b" #\n"
        ),
        b"User-agent: a\r\nDisallow: /a%2Fb?c=%25\r\n\r\nUser-agent: *\r\nDisallow: /\r\n",
        b"\tuser-agent :\ta\t\n disallow\t: /a \n",
        b"User-agent: a\nDisallow: /\n\nSitemap: https://a.example/s.xml\n",
        "# façade — ツ\nUser-agent: *\nDisallow: /a\n".encode(),
        b"User-agent: a\nDisallow: /a\nDisallow: /a/b\n",
        b"User-agent: *\nDisallow: /a\n\nUser-agent: b\nDisallow: /a\n",
        b"User-agent: *\nUser-agent: a\nDisallow: /x\n",
    ]:
        with subtests.test(body=body):
            assert lint(body) == ()


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nAllow: /a/b\nDisallow: /a\n",
        b"User-agent: *\nAllow: /a/\nDisallow: /*\n",
        b"User-agent: *\nAllow: /a$\nDisallow: /*$\nDisallow: /b\n",
        b"User-agent: a\nCrawl-delay: 1\nDisallow: /a\nUser-agent: b\nCrawl-delay: 2\nDisallow: /b\n",
        b"User-agent: a\nDisallow: /\nContent-Signal: search=yes\nSitemap: https://a.example/\nCrawl-delay: 60\n",
        b"User-agent: *\nCrawl-delay: 5\n",
        b"User-agent: *\nRequest-rate: 1/10m\nVisit-time: 0600-0845\n",
    ],
)
def test_what_is_only_remarkable(body: bytes) -> None:
    """These say no more than that there are other readers."""
    assert {code for _, code in found(body)} <= REMARKABLE


def test_a_web_page_with_rules_in_it_is_looked_at_all_the_same() -> None:
    """Some crawlers look for rules in it, too."""
    codes = {code for _, code in found(b"<html><pre>\nUser-agent: *\nDisallow: a\n</pre>")}
    assert codes == {CODE.HTML, CODE.PATH_WITHOUT_SLASH, CODE.NO_FIELD}


def test_with_the_site_known_more_can_be_said() -> None:
    """A rule for another site has no path to be written here, a Sitemap has its whole URL."""
    body = (
        GROUP
        + b"Disallow: https://a.example/x\nDisallow: http://b.example/y\nDisallow: http://[/z\nSitemap: s.xml\n"
    )
    suggestions = [finding.suggestion for finding in lint(body, "https://a.example/robots.txt")]
    assert suggestions == ["Disallow: /x", None, None, "Sitemap: https://a.example/s.xml"]


def test_the_site_must_be_one() -> None:
    """As for `RobotsTxt.parse`."""
    with pytest.raises(InvalidURLError):
        lint(b"", "a.example")


def test_the_file_is_too_large_where_the_parser_stops() -> None:
    """The line that the limit cuts is the first that is not read."""
    body = b"User-agent: *\n" + (b"Disallow: /" + b"a" * 400 + b"\n") * 2_000
    read = RobotsTxt.parse(body).groups[0].rules
    assert finding_of(CODE.FILE_TOO_LARGE, body).line == read[-1].line + 1


def test_a_file_of_just_the_limit_is_not_too_large() -> None:
    """As RFC 9309 §2.5 counts."""
    assert lint(b"#" * MAX_BYTES) == ()


def test_what_can_steer_a_terminal_is_spelt_out() -> None:
    """And a tab is one column wide, so that marks stand where they belong."""
    finding = finding_of(CODE.NO_FIELD, "\u202e\ta\x1b[2J\n".encode())
    assert finding.text == "\\u202e a\\u001b[2J"
    assert finding.suggestion is None


def test_a_long_line_is_shown_around_the_place() -> None:
    """With what is left out marked as such; the column is that in the whole line."""
    finding = finding_of(CODE.DOLLAR_INSIDE, GROUP + b"Disallow: /" + b"x" * 500 + b"$" + b"y" * 500)
    assert finding.text[finding.start : finding.end] == "$"
    assert (finding.text[0], finding.text[-1]) == ("…", "…")
    assert len(finding.text) < 200
    assert finding.column == 512


def test_findings_are_told_in_the_order_of_lines() -> None:
    """Whatever found them, and when."""
    lines = [
        finding.line
        for finding in lint(b"User-agent: a\nAllow: /b\nDisallow: /a\nAllow: /a/b\nDisallow: c\n")
    ]
    assert lines == sorted(lines)


def test_findings_without_number_are_counted() -> None:
    """Of thousands only the first are listed; the last one says how many are left."""
    findings = [finding for finding in lint(GROUP + b"Disallow: a\n" * 250) if finding.further_lines]
    assert [(finding.code, finding.line, finding.further_lines) for finding in findings] == [
        (CODE.PATH_WITHOUT_SLASH, 101, 150)
    ]


def test_extensions_are_told_once_each() -> None:
    """Not once for each line that has them, nor one for all."""
    body = GROUP + b"Crawl-delay: 1\nDisallow: /\nCrawl-delay: 1\nLicense: https://a.example/l\n"
    told = [finding.line for finding in lint(body) if finding.code is CODE.EXTENSION_FIELD]
    assert told == [2, 5]


def test_a_rule_is_told_of_once_for_all_its_agents() -> None:
    """A group of many binds each with the same rules."""
    agents = b"".join(b"User-agent: a%s\n" % bytes([97 + number]) for number in range(20))
    assert len(lint(agents + b"Disallow: /a\nDisallow: /a\n" + agents + b"Disallow: /b\n")) == 21


@pytest.mark.slow
def test_a_great_many_rules_in_one_group_are_looked_at() -> None:
    """The bound on the work is for rules that bind many agents in many ways."""
    body = GROUP + b"".join(b"Disallow: /%d\n" % number for number in range(12_000)) + b"Allow: /7\n"
    assert finding_of(CODE.CONTRADICTED_RULE, body).related_line == 12_002


def test_groups_of_one_agent_are_looked_at_together() -> None:
    """Their rules bind together."""
    body = b"User-agent: a\nDisallow: /x\n\nUser-agent: a\nUser-agent: b\nAllow: /x\n"
    assert finding_of(CODE.CONTRADICTED_RULE, body).related_line == 6


def test_a_finding_is_a_value_with_words() -> None:
    """What is the matter, how bad it is, what the standard says, and what to do."""
    (finding,) = lint(b"User-agent: *\nDisallow /x\n")
    assert str(finding) == "line 2: error: there is no colon after the field name [missing-colon]"
    assert finding.severity is Severity.ERROR
    assert finding == lint(b"User-agent: *\nDisallow /x\n")[0]
    assert len({finding, finding}) == 1
    assert "§" in finding.rfc9309
    assert finding.remedy


# Properties

FRAGMENTS: Final = st.sampled_from(
    [
        b"User-agent", b"Disallow", b"Allow", b"Sitemap", b"Crawl-delay", b"Request-rate", b"Noindex", b":",
        b": ", b" ", b"\t", b"\v", b"\n", b"\r", b"\r\n", b"\n\n", b"#", b"/", b"*", b"$", b"%", b"%6",
        b"%61", b"a", b"5", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"https://a.example",
        b"<html>", b"disalow",
    ]
)  # fmt: skip
BODIES: Final = st.one_of(st.binary(max_size=200), st.lists(FRAGMENTS, max_size=40).map(b"".join))


@given(BODIES, st.sampled_from([None, "https://a.example/"]))
@example(b"\xff\xfe", None)
@example(b"\xef\xbb\xbf", None)
@example(b"Disallow: %24$", None)
def test_no_bytes_raise(body: bytes, url: str | None) -> None:
    """Any bytes will do; what is said of them can be shown."""
    for finding in lint(body, url):
        assert finding.line >= 1
        assert 0 <= finding.start <= finding.end <= len(finding.text)
        assert finding.text.isprintable()
        assert finding.suggestion is None or finding.suggestion.isprintable()


FIELDS: Final = st.sampled_from(
    [
        b"User-agent", b"Disallow", b"Allow", b"Sitemap", b"Crawl-delay", b"Request-rate", b"Visit-time",
        b"Useragent", b"Disallowed", b"Alow", b"Crawl_delay", b"Site-map", b"disallow = ", b"Licence",
        b"Note", b"",
    ]
)  # fmt: skip
VALUES: Final = st.lists(
    st.sampled_from(
        [
            b"/", b"/", b"*", b"$", b"%", b"%2", b"%61", b"%c3", b"%%34%31", b" ", b"#", b"\xc3\xa9",
            b"\xff", b"a", b"b", b"5", b"0", b",", b".", b"-", b"min", b"0600", b"https://a.example",
            b"Allow: /b",
        ]
    ),
    max_size=5,
).map(b"".join)  # fmt: skip
RECORDS: Final = st.tuples(FIELDS, st.sampled_from([b":", b": ", b" "]), VALUES).map(b"".join)


@given(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from([None, "https://a.example/"]))
@example([b"User-agent: *", b"Allow:", b"Disallow: /x"], None)
@example([b"User-agent: *", b"Disallowed:", b"Disallow: /x"], None)
@example([b"User-agent: *", b"Disallow: /%%34%31"], None)
@example([b"User-agent: *", b"Disallow: /%2%61"], None)
@example([b"User-agent: *", b"Crawl-delay: 2 min"], None)
@example([b"User-agent: *", b"Disallow: %61https://a.example"], None)
def test_advice_that_is_followed_is_not_found_fault_with(lines: list[bytes], url: str | None) -> None:
    """A line that is suggested no longer has what it is suggested for, and nothing that the old one had not.

    Only what it shares with other lines may be found then, as its rule is read; and all of a field that was not known.
    """
    before = lint(b"\n".join(lines), url)
    old = [line.kind for line in lines_of(b"\n".join(lines))]
    for finding in before:
        if finding.suggestion is None:
            continue
        at, written = finding.line - 1, [finding.suggestion.encode()]
        if finding.code is CODE.TWO_IN_ONE_LINE:
            # The second record is for a line of its own.
            written = [lines[at][: finding.column - 1], *written]
        body = b"\n".join([*lines[:at], *written, *lines[at + 1 :]])
        after = {each.code for each in lint(body, url) if each.line == finding.line}
        assert after.isdisjoint({finding.code, CODE.EMPTY_ALLOW, CODE.EMPTY_DISALLOW, CODE.EMPTY_AGENT})
        if len(written) > 1:
            # What was hidden behind the second record is found now.
            continue
        if old[at] is not None and [*lines_of(body)][at].kind is old[at]:
            had = {each.code for each in before if each.line == finding.line}
            shared = {each.code for each in lint(body, url) if each.related_line is not None}
            assert after <= had | shared


@given(BODIES)
def test_lint_reads_lines_as_the_parser_does(body: bytes) -> None:
    """Lint has no grammar of its own: what it takes for a rule is one, and so is what it says stands in no group."""
    robots = RobotsTxt.parse(body)
    rules = {rule.line: rule.path_pattern for group in robots.groups for rule in group.rules}
    first_agent = min((group.line for group in robots.groups), default=float("inf"))
    lines = list(lines_of(readable(body)))
    agents = [line.value for line in lines if line.kind is Field.USER_AGENT and line.value]
    taken = {line.number: line for line in lines if line.kind in {Field.ALLOW, Field.DISALLOW}}

    assert {number for number in taken if number > first_agent} == set(rules)
    for number, pattern in rules.items():
        # An octet that is not UTF-8 the parser spells out.
        assert taken[number].value.decode(errors="ignore") == pattern or "%" in pattern
    assert len(agents) == sum(len(group.agents) for group in robots.groups)
    assert len({line.value for line in lines if line.kind is Field.SITEMAP and line.value}) == len(
        robots.sitemaps
    )


@given(BODIES)
def test_without_errors_no_rule_is_lost(body: bytes) -> None:
    """Where lint finds none, every rule stands in a group and begins at the root, and every agent has a name."""
    if any(finding.severity is Severity.ERROR for finding in lint(body)):
        return
    groups = RobotsTxt.parse(body).groups
    bound = {rule.line: rule for group in groups for rule in group.rules}
    assert {
        line.number for line in lines_of(readable(body)) if line.kind in {Field.ALLOW, Field.DISALLOW}
    } == set(bound)
    assert all(rule.path_pattern.startswith(("/", "*")) or not rule.path_pattern for rule in bound.values())
    assert all(group.agents for group in groups)


def calls(body: bytes) -> int:
    """How many built-ins linting a file calls."""
    taken = Steps()
    sys.setprofile(taken.on_call)
    try:
        lint(body)
    finally:
        sys.setprofile(None)
    return taken.count


HARD: Final = (
    *("unknown records", "nonsense", "agents, then one rule", "groups of many agents"),
    *("one group again and again", "agents and delays by turns", "rules that all match"),
)


def agents_and_rules(size: int) -> bytes:
    """Many rules bind many agents, in one group and in many."""
    forms = ("User-agent: a{}", "Disallow: /{}", "User-agent: a{}\nAllow: /{}")
    return b"".join(lines(form, size) for form in forms)


@pytest.mark.parametrize(
    "file", [*map(FAMILIES.get, HARD), agents_and_rules], ids=[*HARD, "agents and rules"]
)
def test_a_longer_file_costs_no_more_than_its_length(file: Callable[[int], bytes]) -> None:
    """Counted in calls; there is a bound even where rules bind many agents in many ways. Findings are few."""
    assert len(lint(file(500))) < 500
    assert calls(file(200)) <= 2.5 * calls(file(100))


@pytest.mark.parametrize(
    "line",
    [
        b"Disallow: /a" + b" " * 16_000 + b"b",
        b"Disallow /a" + b" " * 16_000 + b"b",
        b"Disallow: " + b" allow" * 2_600,
        b"Disallow: /" + b"%zz%6a%e3" * 1_700,
        b"Disallow: " + b"a" * 16_000,
        b"User-agent: 1" + b"a" * 16_000,
        b"Crawl-delay: " + b"9" * 16_000,
    ],
    ids=lambda line: line[:14].decode(),
)
def test_no_line_is_a_trap(line: bytes) -> None:
    """No expression looks back over a long line: that would take half a second or more, where this takes hundredths."""
    began = time.process_time()
    assert lint(GROUP + (line + b"\n") * 4)
    assert time.process_time() - began < 0.3
