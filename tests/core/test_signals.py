"""What an answer asks about our speed: Retry-After and quotas, in every form that servers send."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from robotgate.pace.signals import MAX_PAUSE, MAX_PROBLEM, heard, is_overuse, is_spoken

NOW: Final = 1_795_233_600.0
LEFT, RESET = "X-RateLimit-Remaining", "X-RateLimit-Reset"


@pytest.mark.parametrize("status", [200, 301, 302, 402, 403, 404, 413, 429, 500, 502, 503])
def test_retry_after_counts_with_any_status(status: int) -> None:
    """RFC 9110 §10.2.3 names no status. Only 429 and 503 say that we were too fast."""
    found = heard(status, {"retry-after": "30"}, now=NOW)
    assert (found.pause, found.field, found.tells_off) == (30.0, "Retry-After", status in {429, 503})


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"RateLimit": '"default";r=0;t=30', "RateLimit-Policy": '"default";q=100;w=60'}, "RateLimit"),
        ({"RateLimit": "default;r=0;t=30;pk=:dHJpYWwxMjEzMjM=:"}, "RateLimit"),
        ({"RateLimit": '"a, \\"b\\"";r=9;t=2, "b" ; r=0 ; t=30'}, "RateLimit"),
        ({"RateLimit": "limit=100, remaining=0, reset=30"}, "RateLimit"),
        (
            {"RateLimit-Limit": "100", "RateLimit-Remaining": "0", "RateLimit-Reset": "30"},
            "RateLimit-Remaining",
        ),
        ({LEFT: "0", RESET: "30"}, LEFT),
        ({LEFT: "0", RESET: f"{NOW + 30:.0f}"}, LEFT),
        ({LEFT: "0", RESET: f"{1000 * NOW + 30_000:.0f}"}, LEFT),
        ({LEFT: "0", RESET: "Sat, 21 Nov 2026 04:00:30 GMT"}, LEFT),
        ({LEFT: "0", RESET: "2026-11-21T04:00:30Z"}, LEFT),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "30"}, "X-Rate-Limit-Remaining"),
        ({LEFT: "0", RESET: "30", "Retry-After": "5"}, LEFT),
        ({LEFT: "0", RESET: "5", "Retry-After": "30"}, "Retry-After"),
    ],
    ids=str,
)
def test_spent_quota_asks_for_a_pause(headers: dict[str, str], field: str) -> None:
    """In each form, until it is renewed. Of it and Retry-After the longer counts. With a 403 it tells us off."""
    assert NOW == 1795233600  # The dates of the table.
    for status, is_off in ((200, False), (403, LEFT in headers or "Retry-After" not in headers), (429, True)):
        found = heard(status, CIMultiDict(headers), now=NOW)
        assert (found.pause, found.field, found.tells_off) == (30.0, field, is_off)
        assert is_spoken(status, CIMultiDict(headers))


@pytest.mark.parametrize(
    ("headers", "spacing"),
    [
        ({"RateLimit": '"default";r=5;t=30'}, 5.0),
        ({"RateLimit": '"burst";r=10;t=30, "daily";r=4;t=100'}, 20.0),
        ({"RateLimit": "limit=100, remaining=9, reset=30"}, 3.0),
        ({LEFT: "1", RESET: "30"}, 15.0),
        ({"RateLimit": '"default";r=11;t=30'}, 0.0),
        ({"RateLimit": '"problem";r=10000;t=10', "RateLimit-Policy": '"problem";q=10000;w=1000'}, 0.0),
        ({"RateLimit": '"default";r=999;pk=:dHJpYWwxMjEzMjM=:'}, 0.0),
        ({"RateLimit": '"default";r=0'}, 0.0),
        (
            {"RateLimit": '"bytes";r=0;t=30', "RateLimit-Policy": '"bytes";q=65535;qu="content-bytes";w=10'},
            0.0,
        ),
        ({"RateLimit-Policy": '"burst";q=100;w=60,"daily";q=1000;w=86400'}, 0.0),
        ({LEFT: "5"}, 0.0),
    ],
    ids=str,
)
def test_few_requests_left_are_spread(headers: dict[str, str], spacing: float) -> None:
    """Over the time until the quota is renewed. Many that are left invite to nothing."""
    found = heard(200, headers, now=NOW)
    assert (found.pause, found.spacing, found.malformed) == (None, spacing, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit": value}
        for value in (
            "", '"a";r=x;t=1', '"a;r=0;t=1', "r=0;t=1,", '"a";r=-1;t=1', "limit=1, reset=9",
            "0" * 5000,
        )
    ]
    + [
        {LEFT: "none", RESET: "30"},
        {LEFT: "0", RESET: "soon"},
        {"RateLimit-Remaining": "٣", "RateLimit-Reset": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_malformed_field_is_left_out_and_counted(headers: dict[str, str]) -> None:
    """It asks for nothing. A Retry-After beside it counts."""
    found = heard(200, {**headers, "Retry-After": "7"}, now=NOW)
    assert (found.pause, found.spacing, found.malformed) == (7.0, 0.0, 1)


def test_quotas_need_not_count() -> None:
    """An operator may ignore them; Retry-After counts."""
    found = heard(429, {LEFT: "0", RESET: "30", "Retry-After": "7"}, now=NOW, quotas=False)
    assert (found.pause, found.left, found.tells_off) == (7.0, None, True)


WORDS: Final = '0123456789:;=,"\\ rtqw().-abcremainingresetlimit\x00é'


@given(
    st.sampled_from([200, 403, 429]),
    st.dictionaries(
        st.sampled_from(
            ["RateLimit", "RateLimit-Policy", "RateLimit-Remaining", "RateLimit-Reset", LEFT, RESET]
        ),
        st.text(max_size=100) | st.text(alphabet=WORDS, max_size=80),
    ),
)
def test_whatever_is_sent_is_bounded(status: int, headers: dict[str, str]) -> None:
    """No value raises, or asks for more than a day."""
    found = heard(status, headers, now=NOW)
    assert 0.0 <= (found.pause or 0.0) <= MAX_PAUSE
    assert 0.0 <= found.spacing <= MAX_PAUSE


TYPES: Final = "https://iana.org/assignments/http-problem-types#"
JSON: Final = {"content-type": "Application/Problem+JSON; charset=utf-8"}


def problem(kind: str, **more: object) -> bytes:
    """A body by RFC 9457."""
    return json.dumps({"title": "Slower, please", "type": f"{TYPES}{kind}", **more}).encode()


@pytest.mark.parametrize("kind", ["quota-exceeded", "temporary-reduced-capacity", "abnormal-usage-detected"])
@pytest.mark.parametrize("status", [400, 402, 403, 420, 500])
def test_problem_type_tells_us_off(status: int, kind: str) -> None:
    """In a JSON body of any error but those whose status says so already."""
    for name in ("application/problem+json", "application/json"):
        assert is_overuse(status, {"Content-Type": name}, problem(kind))
    assert is_overuse(status, JSON, problem(kind, **{"violated-policies": ["daily"]}).replace(b"/", b"\\/"))
    assert not any(is_overuse(other, JSON, problem(kind)) for other in (200, 302, 429, 503))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (JSON, b""),
        (JSON, problem("date")),
        (JSON, problem("quota-exceeded-not")),
        (JSON, problem("quota-exceeded").replace(b"iana.org", b"example.org")),
        (JSON, problem("quota-exceeded")[:-1]),
        (JSON, problem("quota-exceeded", detail="x" * MAX_PROBLEM)),
        (JSON, b"[" + problem("quota-exceeded") + b"]"),
        (JSON, problem("quota-exceeded").replace(b'"type"', b'"kind"')),
        (JSON, problem("quota-exceeded") + b"\xff"),
        (JSON, b"http-problem-types#" + b"[" * 8_000),
        ({"Content-Type": "text/html"}, problem("quota-exceeded")),
        ({}, problem("quota-exceeded")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_bodies_say_nothing(headers: dict[str, str], body: bytes) -> None:
    """Other types, other media types, what is no JSON, and what is too long."""
    assert not is_overuse(403, headers, body)


@given(
    status=st.integers(0, 999),
    kind=st.text() | st.just("application/json"),
    body=st.binary() | st.binary().map(lambda raw: b'{"type": "http-problem-types#' + raw),
)
def test_no_body_makes_it_raise(status: int, kind: str, body: bytes) -> None:
    """Whatever a server sends, it is no error, and no telling off."""
    assert not is_overuse(status, {"Content-Type": kind}, body)
