"""How a redirected page goes on: RFC 9110 §15.4."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from robotgate._errors import InvalidURLError
from robotgate._redirect import Redirect, page_redirect

PAGE: Final = URL("http://a.example/dir/page?q=1")


def redirect(location: str, *, method: str = "GET", url: URL = PAGE, status: int = 302) -> Redirect:
    """The hop, which there has to be."""
    hop = page_redirect(method, url, status=status, location=location)
    assert hop is not None
    return hop


@pytest.mark.parametrize("status", [200, 204, 300, 304, 305, 306, 309, 404, 500])
def test_other_statuses_end_the_way(status: int) -> None:
    """Only 301, 302, 303, 307 and 308 lead on."""
    assert page_redirect("GET", PAGE, status=status, location="/x") is None


@pytest.mark.parametrize("location", [None, ""])
def test_redirect_without_location_is_the_end(location: str | None) -> None:
    """An answer that names no place is the page."""
    assert page_redirect("GET", PAGE, status=302, location=location) is None


@pytest.mark.parametrize(
    ("method", "status", "becomes"),
    [
        ("GET", 301, "GET"),
        ("GET", 303, "GET"),
        ("GET", 308, "GET"),
        ("HEAD", 301, "HEAD"),
        ("HEAD", 303, "HEAD"),
        ("HEAD", 307, "HEAD"),
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 301, "PUT"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("PUT", 307, "PUT"),
        ("DELETE", 303, "GET"),
    ],
)
def test_method(method: str, status: int, becomes: str) -> None:
    """303 makes a GET of all but HEAD; 301 and 302 of POST alone; 307 and 308 of nothing."""
    assert redirect("/x", method=method, status=status).method == becomes


@pytest.mark.parametrize(
    ("status", "drops"), [(301, True), (302, True), (303, True), (307, False), (308, False)]
)
def test_body_is_dropped_with_the_method(status: int, drops: bool) -> None:  # noqa: FBT001
    """What was posted is posted again only where the redirect says so."""
    assert redirect("/x", method="POST", status=status).drops_body is drops


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/x", "http://a.example/x"),
        ("x", "http://a.example/dir/x"),
        ("../x", "http://a.example/x"),
        ("?p=2", "http://a.example/dir/page?p=2"),
        ("//b.example/x", "http://b.example/x"),
        ("https://b.example", "https://b.example"),
        ("  /x\t", "http://a.example/x"),
        ("/a b", "http://a.example/a%20b"),
        ("/\u00fc", "http://a.example/%C3%BC"),
    ],
)
def test_location_is_resolved(location: str, url: str) -> None:
    """A Location is a reference relative to what was asked (RFC 9110 §10.2.2)."""
    assert redirect(location).url == URL(url)


@pytest.mark.parametrize(
    ("location", "url"),
    [("/x", "http://a.example/x#part"), ("/x#other", "http://a.example/x#other")],
)
def test_fragment_is_inherited(location: str, url: str) -> None:
    """The fragment of what was asked holds unless the Location has its own (RFC 9110 §10.2.2)."""
    assert redirect(location, url=PAGE.with_fragment("part")).url == URL(url)


@pytest.mark.parametrize(
    ("location", "leaves"),
    [
        ("/x", False),
        ("http://a.example/x", False),
        ("http://A.EXAMPLE:80/x", False),
        ("http://user:password@a.example/x", False),
        ("https://a.example/x", True),
        ("http://a.example:8080/x", True),
        ("http://www.a.example/x", True),
        ("//b.example/x", True),
        ("mailto:bot@example.org", True),
        ("ftp://a.example/x", True),
    ],
)
def test_leaving_the_origin_is_noticed(location: str, leaves: bool) -> None:  # noqa: FBT001
    """Another scheme, host or port must not be told what the first was told."""
    assert redirect(location).leaves_origin is leaves


@pytest.mark.parametrize("location", ["http://[", "http://b.example:port/", "http://b.example:99999/"])
def test_location_that_is_no_url(location: str) -> None:
    """A Location that cannot be read is refused with its text."""
    with pytest.raises(InvalidURLError) as refusal:
        page_redirect("GET", PAGE, status=302, location=location)
    assert refusal.value.url == location


@given(st.text(max_size=200))
def test_any_location_is_a_hop_an_end_or_refused(location: str) -> None:
    """Whatever a server writes into Location, nothing but InvalidURLError is raised."""
    try:
        hop = page_redirect("GET", PAGE, status=302, location=location)
    except InvalidURLError:
        return
    assert (hop is None) is not bool(location)
