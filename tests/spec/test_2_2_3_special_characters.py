"""RFC 9309 §2.2.3: ``#``, ``$`` and ``*``."""

from typing import Final

import pytest
from tests.spec.matching import Cases, check

from robotgate.rules.robotstxt import RobotsTxt


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


SPECIAL: Final[dict[str, Cases]] = {
    "a dollar sign ends the pattern: the match must reach the end of path and query": [
        ("/*.gif$", ["/a.gif", "/b/c.gif", "/a.gif/b.gif"], ["/a.gif?x", "/a.gifs"]),
        ("/$", ["/"], ["/a"]),
    ],
    "a dollar sign is special at the very end only; escaped, it is never special": [
        ("/a$b", ["/a$b", "/a%24b"], ["/a"]),
        ("/a$$", ["/a$"], ["/a"]),
        ("/a%24", ["/a$b"], ["/a"]),
        ("/a%24$", ["/a$"], ["/a$b"]),
        ("/a$", [], ["/a$"]),
    ],
    "an asterisk is any run of characters, none included, across slashes and into the query": [
        ("/a*c", ["/ac", "/abc", "/a/b/c/d"], ["/ab", "/x/abc"]),
        ("*", ["/"], []),
        ("/*", ["/"], []),
        ("/a**b", ["/ab"], []),
        ("*.php", ["/x/y.php"], []),
        ("/*?", ["/a?b"], ["/a"]),
        ("/a*", ["/a"], []),
        ("/a*$", ["/abc"], []),
        ("/*a*a*a$", ["/aaa"], ["/aa"]),
        ("/*aba*ba$", ["/ababa"], ["/aba"]),
        ("/*.php$", ["/a.php/b.php"], []),
        ("/fish*.php", ["/fishheads/catfish.php?id=1"], ["/Fish.PHP"]),
    ],
    "nothing else is special": [("/a[b]*c", [], ["/abc"]), ("/a.c*", [], ["/abc"])],
    "the section's table: a rule writes special characters escaped to mean themselves": [
        (
            "/path/file-with-a-%2A.html",
            ["https://www.example.com/path/file-with-a-*.html", "/path/file-with-a-%2A.html"],
            ["/path/file-with-a-b.html"],
        ),
        ("/path/file-with-a-%2a.html", ["/path/file-with-a-*.html"], []),
        ("/path/foo-%24", ["https://www.example.com/path/foo-$", "/path/foo-%24"], ["/path/foo-"]),
        ("/a*b", ["/a*b", "/a%2Ab"], []),
    ],
}


@pytest.mark.parametrize("claim", SPECIAL)
def test_asterisks_and_dollar_signs(claim: str, subtests: pytest.Subtests) -> None:
    """What they stand for, and where."""
    check(SPECIAL[claim], subtests)
