"""RFC 9309 §2.3: where the file stands, and how it is written."""

import pytest

from robotgate.rules.robotstxt import RobotsTxt
from robotgate.urls import Origin


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://www.example.com/", "https://www.example.com/robots.txt"),
        ("https://www.example.com/a/b/?c=d", "https://www.example.com/robots.txt"),
        ("https://www.example.com:8443/a", "https://www.example.com:8443/robots.txt"),
        ("http://EXAMPLE.com/ROBOTS.TXT", "http://example.com/robots.txt"),
        ("http://[2001:db8::1]/", "http://[2001:db8::1]/robots.txt"),
    ],
)
def test_the_file_stands_at_the_top_in_lower_case(url: str, location: str) -> None:
    """It is asked for at ``/robots.txt`` of the authority, whatever the page's own path."""
    assert Origin.of(url).robots_url == location


def test_each_scheme_and_authority_has_its_own() -> None:
    """Another scheme, host or port is another file; a scheme's own port is the same as none."""
    urls = ["http://a.example/", "https://a.example/", "http://b.a.example/", "http://a.example:8080/"]
    assert len({Origin.of(url).robots_url for url in urls}) == 4
    assert Origin.of("http://a.example:80/").robots_url == Origin.of("http://a.example/").robots_url


def test_the_file_is_utf_8() -> None:
    """And is read as such: a letter is the octets of its encoding."""
    robots = RobotsTxt.parse("User-agent: *\nDisallow: /ツ/é\n".encode())
    assert robots.groups[0].rules[0].path_pattern == "/ツ/é"
    assert not robots.allowed("/%E3%83%84/%C3%A9", "foobot")
