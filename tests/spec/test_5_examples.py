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
    ("agent", "allowed", "disallowed"),
    [
        (
            "anybot",
            ["/", "/publications/a.html", "/publications/a.gif"],
            ["/a.gif", "/example/a.html"],
        ),
        ("foobot", ["/example/page.html", "/example/allowed.gif"], ["/", "/publications/"]),
        ("barbot", ["/example/allowed.gif"], ["/example/page.html"]),
        ("bazbot", ["/a.gif"], ["/example/page.html"]),
        ("quxbot", ["/example/page.html", "/a.gif"], []),
    ],
)
def test_5_1_simple_example(agent: str, allowed: list[str], disallowed: list[str]) -> None:
    """The group ``*``, two groups of one name or of two, and an empty one at the end."""
    robots = RobotsTxt.parse(SIMPLE)
    assert [url for url in [*allowed, *disallowed] if robots.allowed(url, agent)] == allowed


def test_5_2_longest_match() -> None:
    """The longer Disallow beats the Allow (the path is the one of erratum 7124)."""
    robots = RobotsTxt.parse(
        b"User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
    )
    assert robots.allowed("https://example.com/example/page/", "foobot")
    assert not robots.allowed("https://example.com/example/page/disallowed.gif", "foobot")
