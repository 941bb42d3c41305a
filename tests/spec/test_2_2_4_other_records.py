"""RFC 9309 §2.2.4: records the document does not define."""

import pytest

from robotgate.rules.parser import Record
from robotgate.rules.robotstxt import RobotsTxt

OTHERS = [
    "Sitemap: https://example.com/sitemap.xml", "Crawl-delay: 5", "Request-rate: 1/5",
    "Visit-time: 0600-0845", "Host: example.com", "Clean-param: ref /articles/",
    "Content-Signal: search=yes, ai-train=no", "Noindex: /x", "Unheard-of: anything", "no colon here at all",
    "", "# a comment",
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_other_records_part_nothing(other: str) -> None:
    """A record between two User-agent lines leaves both in one group; between rules it changes nothing about them."""
    robots = RobotsTxt.parse(
        f"User-agent: a\n{other}\nUser-agent: b\n{other}\nDisallow: /x\n{other}\nDisallow: /y\n".encode()
    )
    assert not any(robots.allowed(path, agent) for path in ("/x", "/y") for agent in "ab")
    assert len(robots.groups) == 1


def test_the_example_with_a_sitemap() -> None:
    """The section's own case: the group goes on after the Sitemap line."""
    robots = RobotsTxt.parse(
        b"User-agent: a\nSitemap: https://example.com/s.xml\nUser-agent: b\nDisallow: /\n"
    )
    assert not robots.allowed("/page", "a")
    assert robots.sitemaps == ("https://example.com/s.xml",)


def test_sitemaps_belong_to_no_group() -> None:
    """They may stand anywhere; each is kept once, in order."""
    robots = RobotsTxt.parse(
        b"Sitemap: /1\nUser-agent: a\nsitemap: /2\nDisallow: /\nSite-map: /3\nSITE MAP: /1\nSitemap:\n"
    )
    assert robots.sitemaps == ("/1", "/2", "/3")


def test_other_records_are_kept_as_written() -> None:
    """Their field, value and line are available."""
    robots = RobotsTxt.parse(
        b"Host : Example.com \n\nUser-agent: a\nCLEAN-param: a&b /x # why\nDisallow: /\n"
    )
    assert robots.records == (Record("Host", "Example.com", 1), Record("CLEAN-param", "a&b /x", 4, 0, 1))
