"""RFC 9309 §5: the two examples."""

import pytest

from robotgate.rules.robotstxt import RobotsTxt

SIMPLE = b"""\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("agent", "url", "expected"),
    [
        ("anybot", "/", True),
        ("anybot", "/a.gif", False),
        ("anybot", "/publications/a.html", True),
        ("anybot", "/publications/a.gif", True),
        ("anybot", "/example/a.html", False),
        ("foobot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/publications/", False),
        ("barbot", "/example/page.html", False),
        ("barbot", "/example/allowed.gif", True),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/a.gif", True),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_5_1_simple_example(agent: str, url: str, *, expected: bool) -> None:
    """The group ``*``, two groups of one name or of two, and an empty one at the end."""
    assert RobotsTxt.parse(SIMPLE).allowed(url, agent) is expected


def test_5_2_longest_match() -> None:
    """The longer Disallow beats the Allow (the path is the one of erratum 7124)."""
    robots = RobotsTxt.parse(
        b"User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
    )
    assert robots.allowed("https://example.com/example/page/", "foobot")
    assert not robots.allowed("https://example.com/example/page/disallowed.gif", "foobot")
