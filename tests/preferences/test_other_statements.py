"""Content-Signal, License, TDMRep, X-Robots-Tag, Robots-Tag and robots meta elements."""

from __future__ import annotations

import json
from typing import Final

import pytest

from robotgate import RobotsTxt
from robotgate.preferences import Preference, Preferences, Standard, parse_preferences

YES: Final = Preference.ALLOWED
NO: Final = Preference.DISALLOWED
OPEN: Final = Preference.UNKNOWN
SITE: Final = "https://a.example"
NOW: Final = 1_800_000_000.0
"""In 2027."""


def said(preferences: Preferences) -> dict[str, str]:
    """The purposes about which something is said, as ``yes`` and ``no``."""
    purposes = ("search", "ai_input", "ai_train", "tdm", "index", "follow", "archive", "snippet")
    answers = {purpose: preferences.preference(purpose) for purpose in purposes}
    return {
        purpose: "yes" if answer is YES else "no" for purpose, answer in answers.items() if answer is not OPEN
    }


def robots(body: str, agent: str = "MyBot") -> Preferences:
    """What a robots.txt says of a page."""
    return RobotsTxt.parse(body.encode(), SITE).preferences("/page", agent)


# Content-Signal: Cloudflare's documentation of managed robots.txt files and of its crawl endpoint.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("search=yes, ai-train=no", {"search": "yes", "ai_train": "no"}),
        # The managed default.
        ("search=yes,ai-train=no,use=reference", {"search": "yes", "ai_train": "no", "index": "yes"}),
        # cloudflare.com
        ("ai-train=yes, search=yes, ai-input=yes", {"search": "yes", "ai_input": "yes", "ai_train": "yes"}),
        ("use=immediate", {"search": "no", "ai_train": "no", "index": "no", "archive": "no"}),
        (
            "use=full",
            {"search": "yes", "ai_input": "yes", "ai_train": "yes", "index": "yes", "archive": "yes"},
        ),
        # No rule is defined for a key given twice: the stricter value counts.
        ("ai-train=yes, ai-train=no", {"ai_train": "no"}),
        ("ai-train=maybe, search=yes, other=no", {"search": "yes"}),
        ("ai-train no", {}),
        ("", {}),
    ],
)
def test_content_signals(value: str, expected: dict[str, str]) -> None:
    """A comma list of keys and values, in robots.txt and as a header."""
    assert said(robots(f"User-agent: *\nContent-signal: {value}\nAllow: /")) == expected
    assert said(parse_preferences({"content-signal": value})) == expected


def test_a_managed_file_before_the_sites_own() -> None:
    """Cloudflare puts its part in front, so two groups for everybody are common; both count."""
    body = """\
# BEGIN Cloudflare Managed content
User-agent: *
Content-signal: search=yes,ai-train=no
Allow: /

User-agent: GPTBot
Disallow: /
# END Cloudflare Managed Content

User-agent: *
Disallow: /admin/
"""
    assert said(robots(body)) == {"search": "yes", "ai_train": "no"}
    assert not RobotsTxt.parse(body.encode(), SITE).allowed("/admin/", "MyBot")


def test_what_a_signal_for_others_disallows_counts_and_is_told() -> None:
    """Some read the line for its group, some for the whole file: the stricter reading holds, and says so."""
    body = "User-agent: X\nAllow: /\nContent-Signal: ai-train=no, search=yes\n\nUser-agent: MyBot\nAllow: /"
    preferences = robots(body)
    assert said(preferences) == {"ai_train": "no"}
    assert "not below our User-agent line" in (preferences.statements[0].note or "")


def test_a_signal_above_all_groups_counts_for_the_file() -> None:
    """As it is found in the wild."""
    preferences = robots("Content-Signal: search=yes, ai-train=no\nUser-agent: *\nAllow: /")
    assert said(preferences) == {"search": "yes", "ai_train": "no"}
    assert preferences.statements[0].note


# Lines as sites have them, found in public repositories and reports of 2026.


@pytest.mark.parametrize(
    ("body", "expected", "licenses", "problems"),
    [
        # tuist.dev: the signal is for the whole site, so it is stricter than the paths.
        (
            (
                "User-agent: *\nContent-Signal: ai-train=no, search=no, ai-input=no\n\n# Docs\n"
                "Content-Usage: train-ai=n, search=n\nContent-Usage: /page train-ai=y, search=y, ai-input=y"
            ),
            {"search": "no", "ai_input": "no", "ai_train": "no"},
            (),
            ["ai-input is no label"],
        ),
        # A forum, with a label of vocab-01; a clinic, with the values of Content-Signal.
        ("User-agent: *\nDisallowAITraining: /\nContent-Usage: ai=n", {}, (), ["ai is no label"]),
        (
            "User-Agent: *\nAllow: /\nContent-Usage: train-ai=yes, search=yes, cite=yes",
            {},
            (),
            ["train-ai is neither y nor n; search is neither y nor n; cite is no label"],
        ),
        # Vendors' own, which are no part of RSL.
        ("User-agent: *\nPermits: search\nProhibits: ai-train\nCompensation: free", {}, (), []),
    ],
)
def test_lines_of_real_sites(
    body: str, expected: dict[str, str], licenses: tuple[str, ...], problems: list[str]
) -> None:
    """What is said, the references, and what nobody can read."""
    preferences = robots(body)
    assert said(preferences) == expected
    assert preferences.licenses == licenses
    assert [each.problem for each in preferences.problems] == problems
    assert RobotsTxt.parse(body.encode(), SITE).allowed("/page", "MyBot")


# RSL 1.0 §4.4 to §4.6.


def test_licences_of_robots_txt_are_references() -> None:
    """A License line is a reference to follow: those of the own group first, others with the reading that has them."""
    body = """\
License: https://lic.example/global.xml
User-agent: MyBot
License: https://lic.example/mine.xml
License: not-absolute.xml
Allow: /
User-agent: *
License: https://lic.example/all.xml
"""
    preferences = robots(body)
    assert preferences.licenses == tuple(
        f"https://lic.example/{name}.xml" for name in ("mine", "global", "all")
    )
    assert said(preferences) == {}
    assert [bool(each.note) for each in preferences.statements] == [False, False, True, True]
    assert [each.line for each in preferences.problems] == [4]


@pytest.mark.parametrize(
    ("link", "licenses"),
    [
        (
            '<https://a.example/license.xml>; rel="license"; type="application/rsl+xml"',
            ("https://a.example/license.xml",),
        ),
        ("<https://a.example/l>; rel=license", ("https://a.example/l",)),
        (
            '<https://a.example/p>; title="a, <b>; rel=license"; rel=next, </l.xml>;REL="x License"',
            ("/l.xml",),
        ),
        ("<https://a.example/next>; rel=next", ()),
        # RFC 8288 §3.2: of another resource.
        ('<https://a.example/l>; rel=license; anchor="/other"', ()),
    ],
)
def test_licences_of_link_headers(link: str, licenses: tuple[str, ...]) -> None:
    """RSL 1.0 §4.5, in the syntax of RFC 8288."""
    assert parse_preferences({"Link": link}).licenses == licenses


@pytest.mark.parametrize(
    "link",
    [
        "https://a.example/l; rel=license",
        "<https://a.example/l; rel=license",
        '<https://a.example/l>; rel="license',
        "</style.css>; rel=preload, https://a.example/l; rel=License",
    ],
)
def test_a_link_header_whose_licence_cannot_be_read_is_a_problem(link: str) -> None:
    """It names a licence, and nobody knows which. Malformed links about other things are no matter of preferences."""
    preferences = parse_preferences({"Link": link})
    assert preferences.licenses == ()
    (statement,) = preferences.problems
    assert (statement.field, statement.standard) == ("Link", Standard.LICENSE_LINK)
    assert parse_preferences({"Link": link.lower().replace("license", "next")}).statements == ()


def test_licences_of_pages() -> None:
    """RSL 1.0 §4.6: a link, or the document itself in a script element, whose URLs are references."""
    html = """<head><link rel=license type="application/rsl+xml" href="https://lic.example/l.xml">
    <script type="application/rsl+xml"><rsl xmlns="https://rslstandard.org/rsl"></rsl></script>"""
    preferences = parse_preferences(html=html)
    assert preferences.licenses == ("https://lic.example/l.xml",)
    assert [each.standard for each in preferences.statements] == [Standard.RSL, Standard.RSL]
    assert preferences.problems == ()


RSL: Final = '<rsl xmlns="https://rslstandard.org/rsl">%s</rsl>'


@pytest.mark.parametrize(
    ("document", "references"),
    [
        # The form of rslstandard.org/guide/file-embedding, without the prefix.
        (
            RSL
            % """<content url="/" server="https://rslcollective.org/api"><license>
            <permits type="usage">ai-train</permits><payment type="royalty">
            <standard> https://rslcollective.org/license </standard></payment></license></content>""",
            [("server", "https://rslcollective.org/api"), ("standard", "https://rslcollective.org/license")],
        ),
        # §3.9 and §3.17.
        (
            RSL
            % """<content url=""><license><payment><custom>/ask?a=1&amp;b=2</custom></payment></license>
            <terms><![CDATA[https://a.example/terms]]></terms></content>""",
            [("custom", "/ask?a=1&b=2"), ("terms", "https://a.example/terms")],
        ),
        # §4.8: with a prefix, as embedded files have it.
        (
            """<?xml version="1.0" encoding="utf-16"?><r:rsl xmlns:r="https://rslstandard.org/rsl"><r:content url="/">
            <r:license/><r:terms>https://a.example/t</r:terms></r:content></r:rsl>""",
            [("terms", "https://a.example/t")],
        ),
        # Elements of others, and what is not text of the element itself.
        (RSL % '<x:terms xmlns:x="urn:x">https://x.example</x:terms><terms>a<b/>c</terms>', [("script", "")]),
    ],
)
def test_an_rsl_document_of_a_page_is_a_reference(document: str, references: list[tuple[str, str]]) -> None:
    """RSL 1.0 §3.3, §3.8, §3.9, §3.17: the URLs of licences, servers and terms; what it permits says nothing."""
    preferences = parse_preferences(html=f'<head><script type="application/rsl+xml">\n{document}\n</script>')
    assert [(each.field, each.reference or "") for each in preferences.statements] == references
    assert (said(preferences), preferences.problems) == ({}, ())


def test_payment_of_an_rsl_document_is_told_as_it_is_written() -> None:
    """RSL 1.0: what is paid for, and how much. It is no licence, and disallows nothing."""
    document = (
        RSL
        % """<content url="/"><license><payment type="crawl"><amount currency="USD">0.015</amount>
    <amount currency="EUR"> 0.014 </amount></payment></license></content>"""
    )
    preferences = parse_preferences(html=f'<script type="application/rsl+xml">{document}</script>')
    assert [(each.field, each.words) for each in preferences.statements] == [
        ("payment", "crawl USD 0.015 EUR 0.014")
    ]
    assert (said(preferences), preferences.licenses, preferences.problems) == ({}, (), ())


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "not well-formed"),
        ('<rsl><content server="https://a.example"/></rsl>', "not an rsl element"),
        ("<!DOCTYPE rsl><rsl/>", "document type"),
        (
            '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + RSL % "<terms>&b;</terms>",
            "document type",
        ),
        (RSL % "<terms>&b;</terms>", "undefined entity"),
        (RSL % "<terms>\0</terms>", "not well-formed"),
        ("<a>" * 20_000, "not an rsl element"),
        ((RSL % ("<a>" * 20_000)), "not well-formed"),
        ("<rsl " + "a='' " * 9_000, "not well-formed"),
        (RSL % "<terms>\udcff</terms", "not well-formed"),
    ],
)
def test_an_rsl_document_that_cannot_be_read_is_a_problem(document: str, problem: str) -> None:
    """No entity is resolved, and nothing raises."""
    html = f'<meta name=robots content=noai><script type="Application/RSL+XML; a=b">{document}</script>'
    preferences = parse_preferences(html=html)
    assert preferences.ai_train is Preference.DISALLOWED
    assert preferences.licenses == ()
    assert problem in str(preferences.problems[0])


def test_what_an_rsl_document_names_before_its_error_is_told() -> None:
    """Most documents on the web are not quite what the standard says."""
    document = RSL % '<content url="/" server="https://lic.example"/><terms>'
    preferences = parse_preferences(html=f'<script type="application/rsl+xml">{document}</script>')
    assert preferences.licenses == ("https://lic.example",)
    assert "mismatched tag" in str(preferences.problems[0])


# The TDM Reservation Protocol.

PUBLIC_FIRST: Final[list[dict[str, object]]] = [
    {"location": "/bin/pub", "tdm-reservation": 0, "tdm-policy": "https://p.example/ignored.json"},
    {"location": "/", "tdm-reservation": 1, "tdm-policy": "https://p.example/pol.json"},
]
IMAGES: Final[list[dict[str, object]]] = [{"location": "/directory-b/images/*.jpg", "tdm-reservation": 1}]


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        (PUBLIC_FIRST, "/bin/pub", YES),
        (PUBLIC_FIRST, "/x", NO),
        # The first that matches holds, not the longest.
        (PUBLIC_FIRST[::-1], "/bin/pub", NO),
        # Example 3 of the report.
        (IMAGES, "/directory-b/images/x/y.jpg", NO),
        (IMAGES, "/directory-b/x.jpg", OPEN),
        ([{"location": "/a$", "tdm-reservation": 1}], "/ab", OPEN),
        ([{"location": "/A", "tdm-reservation": 1}], "/a", OPEN),
        ([{"location": "/%7Ea", "tdm-reservation": 1}], "/~a", NO),
        # Neither 0 nor 1 is an error: unset, though a later rule would match.
        ([{"location": "/", "tdm-reservation": 2}, *PUBLIC_FIRST], "/x", OPEN),
        ([{"location": "/", "tdm-reservation": "1"}], "/x", OPEN),
        ([{"location": "/", "tdm-reservation": True}], "/x", OPEN),
        ([{"location": "/"}], "/x", OPEN),
        ([], "/x", OPEN),
    ],
)
def test_tdmrep_files(rules: list[dict[str, object]], path: str, expected: Preference) -> None:
    """Sections on the file and on matching of the final report of 2024-05-10."""
    preferences = parse_preferences(tdmrep=json.dumps(rules).encode(), url=SITE + path)
    assert preferences.tdm is expected


def test_a_policy_counts_beside_a_reservation_only() -> None:
    """tdm-policy is ignored where the reservation is 0."""
    file = json.dumps(PUBLIC_FIRST).encode()
    assert parse_preferences(tdmrep=file, url=f"{SITE}/bin/pub").policies == ()
    assert parse_preferences(tdmrep=file, url=f"{SITE}/x").policies == ("https://p.example/pol.json",)
    headers = {"TDM-Reservation": "1", "tdm-policy": "https://p.example/h.json"}
    assert parse_preferences(headers).policies == ("https://p.example/h.json",)
    assert parse_preferences(headers | {"TDM-Reservation": "0"}).policies == ()
    # The policy nearest to the page holds, and the absence of one resets nothing.
    meta = '<meta name="tdm-reservation" content="1">'
    assert parse_preferences(headers, meta).policies == ("https://p.example/h.json",)
    meta += '<meta name="tdm-policy" content="https://p.example/m.json">'
    assert parse_preferences(headers, meta).policies == ("https://p.example/m.json",)
    headers = {"tdm-policy": "https://p.example/h.json"}
    assert parse_preferences(headers, tdmrep=file, url=f"{SITE}/x").policies == ("https://p.example/h.json",)


@pytest.mark.parametrize(
    ("file", "header", "meta", "expected"),
    [
        (1, "0", None, YES),
        (0, "1", None, NO),
        (1, "0", "1", NO),
        (1, None, "0", YES),
        (1, None, None, NO),
        # Absence, or an error, at a later level resets nothing.
        (1, "yes", "2", NO),
        (None, "1", "", NO),
    ],
)
def test_the_reservation_nearest_to_the_page_holds(
    file: int | None, header: str | None, meta: str | None, expected: Preference
) -> None:
    """The header replaces the file, and the page the header."""
    preferences = parse_preferences(
        {} if header is None else {"tdm-reservation": header},
        None if meta is None else f'<meta name="tdm-reservation" content="{meta}">',
        tdmrep=None if file is None else json.dumps([{"location": "/", "tdm-reservation": file}]).encode(),
        url=f"{SITE}/x",
    )
    assert preferences.tdm is expected


# X-Robots-Tag and robots meta elements: Google's documentation, Bing's for nocache, convention for noai.


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("all", {"index": "yes", "follow": "yes"}),
        ("noindex, nofollow", {"index": "no", "follow": "no"}),
        ("NoIndex,NOFOLLOW", {"index": "no", "follow": "no"}),
        ("none", {"index": "no", "follow": "no"}),
        ("nosnippet", {"snippet": "no", "ai_input": "no"}),
        ("noindex, indexifembedded", {"index": "no"}),
        ("max-snippet:0", {"snippet": "no", "ai_input": "no"}),
        ("max-snippet: -1", {"snippet": "yes"}),
        ("max-snippet:20, max-image-preview:large, max-video-preview:-1", {"snippet": "yes"}),
        ("max-snippet:many", {}),
        ("notranslate, noimageindex, nositelinkssearchbox", {}),
        # Bing's documentation of 2023-09: neither answers nor training; training with title and snippet only; both.
        ("noarchive", {"ai_input": "no", "ai_train": "no", "archive": "no"}),
        ("nocache", {"ai_train": "no", "archive": "no"}),
        ("nocache, noarchive", {"ai_train": "no", "archive": "no"}),
        (
            "nocache, noarchive, nosnippet",
            {"ai_input": "no", "ai_train": "no", "archive": "no", "snippet": "no"},
        ),
        ("noai, noimageai", {"ai_input": "no", "ai_train": "no"}),
        ("noml", {"ai_train": "no"}),
        ("unavailable_after: Friday, 25-Jun-10 15:00:00 PST, nofollow", {"index": "no", "follow": "no"}),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST", {"index": "no"}),
        ("unavailable_after: 2010-06-25T15:00:00Z", {"index": "no"}),
        ("unavailable_after: 2010-06-25", {"index": "no"}),
        ("unavailable_after: 2099-06-25", {}),
        ("unavailable_after: soon, noindex", {"index": "no"}),
        ("index, follow", {"index": "yes", "follow": "yes"}),
        ("noindex, index", {"index": "no"}),
        ("", {}),
    ],
)
def test_robots_rules(rules: str, expected: dict[str, str]) -> None:
    """The same words in a header and in a meta element."""
    assert said(parse_preferences({"X-Robots-Tag": rules}, now=NOW)) == expected
    assert said(parse_preferences(html=f'<meta name="robots" content="{rules}">', now=NOW)) == expected


@pytest.mark.parametrize(
    ("lines", "agent", "expected"),
    [
        (["googlebot: nofollow", "otherbot: noindex, nofollow"], "googlebot/2.1", {"follow": "no"}),
        (["googlebot: nofollow", "otherbot: noindex, nofollow"], "OtherBot", {"index": "no", "follow": "no"}),
        (["googlebot: nofollow", "otherbot: noindex"], "third", {}),
        (["googlebot: nofollow", "noindex"], "third", {"index": "no"}),
        (["GoogleBot: unavailable_after: 2010-06-25"], "googlebot", {"index": "no"}),
        (["googlebot: noindex", "nofollow"], "googlebot", {"index": "no", "follow": "no"}),
        (["googlebot: noindex"], None, {}),
        (["noindex, googlebot: nofollow"], "third", {"index": "no"}),
    ],
)
def test_a_user_agent_holds_for_its_line(
    lines: list[str], agent: str | None, expected: dict[str, str]
) -> None:
    """A user agent stands before the rules of its own header line, and of no other."""
    headers = [("X-Robots-Tag", line) for line in lines]
    assert said(parse_preferences(headers, agent=agent, now=NOW)) == expected


def test_a_line_of_content_signal_that_is_no_list_says_nothing() -> None:
    """Without a grammar for it, semicolons and blanks are not guessed at."""
    for value in ("search=yes;ai-train=no", "ai-train=no search=yes", "use=refrence", "use"):
        preferences = parse_preferences({"Content-Signal": value})
        assert said(preferences) == {}
        assert preferences.problems


def test_meta_elements_in_the_body_count() -> None:
    """Google's documentation reads them there, too; an attribute of a part of the page says nothing of the whole."""
    html = "<html><body><p data-nosnippet>x</p><meta name=robots content=noindex></body></html>"
    assert said(parse_preferences(html=html)) == {"index": "no"}


def test_named_and_general_meta_elements_add_up() -> None:
    """The sum of the negative rules, for the crawler that is named."""
    html = '<meta name="robots" content="nofollow"><META NAME=GoogleBot CONTENT=noindex>'
    assert said(parse_preferences(html=html, agent="googlebot")) == {"index": "no", "follow": "no"}
    assert said(parse_preferences(html=html, agent="bingbot")) == {"follow": "no"}


@pytest.mark.parametrize(
    ("value", "agent", "expected"),
    [
        # The example of draft-illyes-repext-03.
        ("*;nosnippet, ExampleBot;noindex", "ExampleBot", {"snippet": "no", "ai_input": "no", "index": "no"}),
        ("*;nosnippet, ExampleBot;noindex", "other", {"snippet": "no", "ai_input": "no"}),
        ("ExampleBot;NOINDEX", "examplebot/1", {"index": "no"}),
        ("ExampleBot;nofollow", "examplebot", {}),
        ("ExampleBot;noindex", None, {}),
        ("ExampleBot;noindex,", "examplebot", {}),
        ("(ExampleBot);noindex, 7;noindex", "examplebot", {}),
    ],
)
def test_robots_tag(value: str, agent: str | None, expected: dict[str, str]) -> None:
    """draft-illyes-repext-03: a list of product tokens; the rules for everybody hold beside one's own."""
    assert said(parse_preferences({"Robots-Tag": value}, agent=agent)) == expected


def test_the_content_of_an_element_may_stand_on_several_lines() -> None:
    """As HTML that is wrapped by an editor or a template has it."""
    html = """<meta name="robots
    " content="
        noindex,
        noai
    "><meta name=tdm-reservation content="1
    ">"""
    preferences = parse_preferences(html=html)
    assert said(preferences) == {"ai_input": "no", "ai_train": "no", "tdm": "no", "index": "no"}
    assert preferences.problems == ()


def test_comments_and_scripts_of_a_page_say_nothing() -> None:
    """Only elements count."""
    html = """<!-- <meta name=robots content=noindex> --><script>'<meta name=robots content=none>'</script>
    <p>meta name=robots content=noai</p><meta name="viewport" content="noindex"><meta content="noindex">"""
    assert said(parse_preferences(html=html)) == {}
