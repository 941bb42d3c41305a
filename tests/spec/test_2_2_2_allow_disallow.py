"""RFC 9309 §2.2.2: which rule decides, and how paths are compared."""

from typing import Final

import pytest
from tests.spec.matching import Cases, check

from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import Reason


def allowed(rules: str, url: str) -> bool:
    """The answer of a file with one group ``*``."""
    return RobotsTxt.parse(f"User-agent: *\n{rules}\n".encode()).allowed(url, "foobot")


COMPARED: Final[dict[str, Cases]] = {
    "a rule matches at the beginning of the path, and need not reach its end": [
        (
            "/private",
            ["https://example.com/private", "https://example.com/private/diary", "/privateer"],
            ["https://example.com/public/private", "https://example.com/", "https://example.com"],
        )
    ],
    "a path that ends within the rule, or differs before the rule's end, is not matched": [
        (
            "/private/diary",
            [],
            ["/priv", "/privat", "/", "/private%2Fdiary", "/privatE/diary", "/private?diary"],
        )
    ],
    "letters of another case are other letters": [("/private", [], ["/Private", "/PRIVATE", "/privatE"])],
    "escapes in any case, of unreserved octets and of those outside ASCII, are what they mean": [
        ("/%e3%83%84$", ["/%E3%83%84"], []),
        ("/%7Ejoe$", ["/~joe"], []),
        ("/~joe$", ["/%7ejoe"], []),
        ("/a-b_c.d$", ["/%61%2Db%5Fc%2Ed"], []),
        ("/a b$", ["/a%20b"], []),
        ("/a,b:c@d$", ["/a%2Cb%3Ac%40d"], []),
        ("/(x)!'y';$", ["/%28x%29%21%27y%27%3B"], []),
        ("/{id}|[0]$", ["/%7Bid%7D%7C%5B0%5D"], []),
    ],
    "%2541 means %41, the text, and not A": [("/%2541", ["/%2541"], ["/A", "/%41", "/%2542"])],
    "rules reach into the query; parameters of a segment are plain characters": [
        ("/a?b", ["/a?b", "/a?bc"], ["/a?c"]),
        ("/a?", ["/a?"], ["/a"]),
        ("/a$", [], ["/a?"]),
        ("/?x", ["https://example.com?x"], []),
        ("/a;b", ["/a;b=1"], []),
    ],
    "a fragment is never sent, and not compared": [
        ("/a$", ["/a#b", "/a#", "https://example.com/a#/b?c"], [])
    ],
}


@pytest.mark.parametrize("claim", COMPARED)
def test_paths_are_compared_octet_by_octet(claim: str, subtests: pytest.Subtests) -> None:
    """From the first on, with regard to case, and by what escapes mean."""
    check(COMPARED[claim], subtests)


@pytest.mark.parametrize("rules", ["Disallow: /a\nAllow: /a/b", "Allow: /a/b\nDisallow: /a"])
def test_the_most_octets_win_in_any_order(rules: str) -> None:
    """The most specific match decides, wherever it stands."""
    assert allowed(rules, "/a/b/c")
    assert not allowed(rules, "/a/c")


@pytest.mark.parametrize("rules", ["Disallow: /a\nAllow: /a", "Allow: /a\nDisallow: /a"])
def test_allow_wins_a_tie(rules: str) -> None:
    """Of an equivalent Allow and Disallow, the Allow should be used."""
    assert allowed(rules, "/a")


def test_allow_wins_a_tie_of_different_patterns() -> None:
    """Equally long is equally specific."""
    assert allowed("Disallow: /*.ph\nAllow: /page", "/page.php")


@pytest.mark.parametrize(
    "rules", ["Disallow: /a\n" * 3, "Disallow: /a\nAllow: /a/b\nDisallow: /%61\nAllow: /a/b"]
)
def test_equal_rules_are_one(rules: str) -> None:
    """Said again, a rule has no more weight."""
    assert not allowed(rules, "/a/c")
    assert allowed(rules, "/a/b") is ("Allow" in rules)


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        ("Allow: /p\nDisallow: /", "/page", True),
        ("Allow: /folder\nDisallow: /folder", "/folder/page", True),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
        ("Allow: /page\nDisallow: /*.ph", "/page.php5", True),
        ("Allow: /$\nDisallow: /", "/", True),
        ("Allow: /$\nDisallow: /", "/page.htm", False),
    ],
)
def test_wildcards_count_as_octets(rules: str, url: str, *, expected: bool) -> None:
    """What is counted is the rule, not what it happened to match."""
    assert allowed(rules, url) is expected


def test_no_match_is_allowed() -> None:
    """Where no rule of the group matches, the path is open."""
    verdict = RobotsTxt.parse(b"User-agent: *\nDisallow: /a").verdict("/b", "foobot")
    assert verdict.allowed
    assert verdict.reason is Reason.NO_RULE_MATCHES
    assert verdict.group == ("*",)


@pytest.mark.parametrize("rules", ["Disallow:", "Disallow: ", "Allow:", "Disallow: # nothing", ""])
def test_a_group_without_rules_allows(rules: str) -> None:
    """An empty pattern matches nothing."""
    assert allowed(rules, "/anything")


def test_robots_txt_itself_is_always_allowed() -> None:
    """The file may be fetched whatever it says."""
    verdict = RobotsTxt.parse(b"User-agent: *\nDisallow: /").verdict(
        "https://example.com/robots.txt", "foobot"
    )
    assert verdict.allowed
    assert verdict.reason is Reason.ROBOTS_TXT
    assert verdict.rule is None


@pytest.mark.parametrize(
    "url", ["/robots.txt?x", "/robots.txt/", "/robots.txt2", "/a/robots.txt", "/Robots.txt"]
)
def test_only_the_exact_path_is_robots_txt(url: str) -> None:
    """What merely looks like the file is bound by its rules."""
    assert not allowed("Disallow: /", url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
    ],
)
def test_the_table_of_examples(pattern: str, url: str) -> None:
    """Every pair of the section's table means the same, whichever of the two is the rule."""
    assert not allowed(f"Disallow: {pattern}", url)
    assert not allowed(f"Disallow: {pattern}$", url)


@pytest.mark.parametrize("escape", ["%2F", "%3F", "%23", "%26", "%3D", "%2B"])
def test_reserved_octets_differ_from_their_escapes(escape: str) -> None:
    """An escaped delimiter is data: it is no delimiter."""
    bare = chr(int(escape[1:], 16))
    assert not allowed(f"Disallow: /a{escape}b", f"/a{escape}b")
    assert not allowed(f"Disallow: /a{escape}b", f"/a{escape.lower()}b")
    assert allowed(f"Disallow: /a{escape}b", f"/a{bare}b")
    if bare != "#":
        assert allowed(f"Disallow: /a{bare}b", f"/a{escape}b")


@pytest.mark.parametrize("escape", ["%26", "%3D", "%2B", "%23"])
def test_delimiters_of_a_query_differ_from_their_escapes(escape: str) -> None:
    """In a query too; only its slashes and question marks are the same either way."""
    bare = chr(int(escape[1:], 16))
    assert not allowed(f"Disallow: /a?b{escape}c", f"/a?b{escape}c")
    assert allowed(f"Disallow: /a?b{escape}c", f"/a?b{bare}c")


def test_octets_outside_utf_8_are_compared_as_octets() -> None:
    """Two wrong octets are two, not one replacement character."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /caf\xe9\n")
    assert not robots.allowed("/caf%E9", "foobot")
    assert not robots.allowed("/caf%e9", "foobot")
    assert robots.allowed("/caf%E8", "foobot")
    assert robots.allowed("/caf%EF%BF%BD", "foobot")
