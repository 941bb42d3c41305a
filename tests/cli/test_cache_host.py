"""What a HOST on the command line means."""

from __future__ import annotations

import pytest

from robotgate import InvalidURLError, Origin
from robotgate.cli._cache_host import Named

HTTP = Origin("http", "a.example", 80)
HTTPS = Origin("https", "a.example", 443)
OTHER = Origin("http", "a.example", 8080)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a.example", Named("a.example")),
        ("A.Example.", Named("a.example")),
        ("a.example:8080", Named("a.example", 8080)),
        ("https://a.example", Named("a.example", 443, "https")),
        ("http://a.example:8080/page?q", Named("a.example", 8080, "http")),
        ("bücher.example", Named("xn--bcher-kva.example")),
        ("https://bücher.example", Named("xn--bcher-kva.example", 443, "https")),
        ("192.0.2.1:8080", Named("192.0.2.1", 8080)),
        ("::1", Named("::1")),
        ("2001:DB8:0::1", Named("2001:db8::1")),
        ("[2001:db8::1]:8080", Named("2001:db8::1", 8080)),
        ("http://[2001:db8::1]", Named("2001:db8::1", 80, "http")),
    ],
)
def test_a_host_is_written_in_many_ways(text: str, named: Named) -> None:
    """As in a URL, or as people write it."""
    assert Named.parse(text) == named


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ftp://a.example",
        "a b",
        "a.example:0",
        "a.example:x",
        "[::1",
        "a\x1b.example",
        "://",
        "1.2.3",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    """In the error that URLs are refused with."""
    with pytest.raises(InvalidURLError):
        Named.parse(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a.example", [HTTP, HTTPS, OTHER]),
        ("a.example:8080", [OTHER]),
        ("a.example:80", [HTTP]),
        ("https://a.example", [HTTPS]),
        ("https://a.example:8080", []),
        ("b.example", []),
    ],
)
def test_a_host_is_all_its_origins(text: str, meant: list[Origin]) -> None:
    """Unless a port or a scheme picks one."""
    named = Named.parse(text)

    assert [origin for origin in (HTTP, HTTPS, OTHER) if named.matches(origin)] == meant


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("a.example", HTTPS),
        ("a.example:80", HTTP),
        ("http://a.example:8080", OTHER),
    ],
)
def test_an_unknown_host_has_a_first_origin(text: str, origin: Origin) -> None:
    """HTTPS, unless something says otherwise."""
    assert Named.parse(text).first_origin == origin
