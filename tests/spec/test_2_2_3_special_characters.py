"""RFC 9309 §2.2.3: ``#``, ``$`` and ``*``."""

import pytest

from robotgate.rules.robotstxt import RobotsTxt


def disallows(pattern: str, url: str) -> bool:
    """Whether one Disallow line matches."""
    return not RobotsTxt.parse(f"User-agent: *\nDisallow: {pattern}\n".encode()).allowed(url, "foobot")


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nDisallow: / # all of it\n",
        b"User-agent: * # everybody\nDisallow: /#\n",
        b"# first\nUser-agent: *\n# between\nDisallow: /\n# last",
        b"User-agent: *#\nDisallow:/#/x\n",
    ],
)
def test_a_number_sign_begins_a_comment(body: bytes) -> None:
    """The rest of the line is for people."""
    assert not RobotsTxt.parse(body).allowed("/page", "foobot")


def test_a_comment_hides_a_rule() -> None:
    """A commented-out rule is none."""
    assert RobotsTxt.parse(b"User-agent: *\n#Disallow: /\n # Disallow: /\n").allowed("/page", "foobot")


@pytest.mark.parametrize(
    ("url", "expected"),
    [("/a.gif", True), ("/b/c.gif", True), ("/a.gif?x", False), ("/a.gifs", False), ("/a.gif/b.gif", True)],
)
def test_a_dollar_sign_ends_the_pattern(url: str, *, expected: bool) -> None:
    """The match must reach the end of the path and query."""
    assert disallows("/*.gif$", url) is expected


def test_a_dollar_sign_elsewhere_is_one(subtests: pytest.Subtests) -> None:
    """It is special at the very end only; escaped, it is never special."""
    for pattern, url, expected in [
        ("/a$b", "/a$b", True),
        ("/a$b", "/a%24b", True),
        ("/a$b", "/a", False),
        ("/a$$", "/a$", True),
        ("/a$$", "/a", False),
        ("/a%24", "/a$b", True),
        ("/a%24", "/a", False),
        ("/a%24$", "/a$", True),
        ("/a%24$", "/a$b", False),
        ("/a$", "/a$", False),
        ("/$", "/", True),
        ("/$", "/a", False),
    ]:
        with subtests.test(pattern=pattern, url=url, expected=expected):
            assert disallows(pattern, url) is expected


def test_an_asterisk_is_any_run_of_characters(subtests: pytest.Subtests) -> None:
    """Of any length, none included, across slashes and into the query; nothing else is special."""
    for pattern, url, expected in [
        ("/a*c", "/ac", True),
        ("/a*c", "/abc", True),
        ("/a*c", "/a/b/c/d", True),
        ("/a*c", "/ab", False),
        ("/a*c", "/x/abc", False),
        ("*", "/", True),
        ("/*", "/", True),
        ("/a**b", "/ab", True),
        ("*.php", "/x/y.php", True),
        ("/*?", "/a?b", True),
        ("/*?", "/a", False),
        ("/a*", "/a", True),
        ("/a*$", "/abc", True),
        ("/*a*a*a$", "/aa", False),
        ("/*a*a*a$", "/aaa", True),
        ("/*aba*ba$", "/aba", False),
        ("/*aba*ba$", "/ababa", True),
        ("/a[b]*c", "/abc", False),
        ("/a.c*", "/abc", False),
        ("/*.php$", "/a.php/b.php", True),
        ("/fish*.php", "/fishheads/catfish.php?id=1", True),
        ("/fish*.php", "/Fish.PHP", False),
    ]:
        with subtests.test(pattern=pattern, url=url, expected=expected):
            assert disallows(pattern, url) is expected


@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        ("/path/file-with-a-%2A.html", "https://www.example.com/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-%2A.html", True),
        ("/path/file-with-a-%2a.html", "/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-b.html", False),
        ("/path/foo-%24", "https://www.example.com/path/foo-$", True),
        ("/path/foo-%24", "/path/foo-%24", True),
        ("/path/foo-%24", "/path/foo-", False),
        ("/a*b", "/a*b", True),
        ("/a*b", "/a%2Ab", True),
    ],
)
def test_an_escaped_special_character_is_literal(pattern: str, url: str, *, expected: bool) -> None:
    """The section's table of examples: a rule writes them escaped to mean themselves."""
    assert disallows(pattern, url) is expected
