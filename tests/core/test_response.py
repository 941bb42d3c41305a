"""The values that leave the gate: responses with their text, and errors with their kin."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from robotgate import (
    DisallowedError,
    GateClosedError,
    Hop,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    Reason,
    Response,
    ResponseTooLargeError,
    RobotGateError,
    Rule,
    StoreError,
    TooSoonError,
    Verdict,
)
from robotgate.rules import RuleKind

if TYPE_CHECKING:
    from robotgate.client.turns import PageTurn

VERDICT = Verdict(
    allowed=False,
    reason=Reason.DISALLOWED_BY_RULE,
    url="http://site.example/private",
    rule=Rule(RuleKind.DISALLOW, "/private", 2),
    group=("*",),
)
ERRORS: list[RobotGateError] = [
    RobotGateError("something"),
    OptionError("delay=-1: give more"),
    GateClosedError("the gate is closed"),
    NestedTurnError("nested"),
    StoreError("the disk is full; make room"),
    InvalidURLError("ftp://x/", "not http"),
    NonPublicAddressError("http://127.0.0.1/"),
    NonPublicAddressError("http://127.0.0.1/", "another problem"),
    DisallowedError(VERDICT),
    DisallowedError(VERDICT, ("http://a.example/", "http://b.example/")),
    TooSoonError("site.example", 1.5),
    HostUnavailableError("site.example", 60.0, "it answered 429 or 503"),
    HostUnavailableError("site.example", 60.0, "its robots.txt cannot be read", VERDICT),
    ResponseTooLargeError("http://site.example/", 1000),
]


def response(body: bytes, content_type: str | None, verdict: Verdict | PageTurn = VERDICT) -> Response:
    """A response with this body."""
    headers = CIMultiDict[str]() if content_type is None else CIMultiDict({"Content-Type": content_type})
    return Response(
        status=200,
        headers=CIMultiDictProxy(headers),
        url="http://site.example/",
        history=(Hop("http://site.example/old", 301),),
        body=body,
        waited=0.0,
        elapsed=0.1,
        verdict=verdict,
    )


def test_text_of_any_charset_is_text(subtests: pytest.Subtests) -> None:
    """Whatever a server calls its charset: if it is one of text that Python knows, that one, else UTF-8."""
    for content_type, encoding in [
        (None, "utf-8"),
        ("", "utf-8"),
        ("text/html", "utf-8"),
        ("text/html; charset=UTF-8", "utf-8"),
        ("text/html; charset=iso-8859-1", "iso8859-1"),
        ('text/html; charset="ISO-8859-1"', "iso8859-1"),
        ("text/html;charset=windows-1252", "cp1252"),
        ("text/html; CHARSET=Shift_JIS; x=y", "shift_jis"),
        ("text/html; charset=nonsense", "utf-8"),
        ("text/html; charset=", "utf-8"),
        ("text/html; charset=" + "x" * 10_000, "utf-8"),
        ("text/html; charset=ü", "utf-8"),
    ]:
        with subtests.test(content_type=content_type, encoding=encoding):
            page = response("grüße\n".encode(encoding if encoding != "shift_jis" else "utf-8"), content_type)
            assert page.encoding == encoding
            assert isinstance(page.text, str)
            if encoding != "shift_jis":
                assert page.text == "grüße\n"


@pytest.mark.parametrize(
    "charset", ["hex", "rot13", "base64", "zip", "bz2", "uu", "quopri", "undefined", "\x00", "utf\x008"]
)
def test_charset_that_is_none_is_utf_8(charset: str) -> None:
    """Python has codecs that do not decode bytes to text; a server that names one does not break the page."""
    page = response("grüße\n".encode(), f"text/html; charset={charset}")
    assert page.text == "grüße\n"


def test_octets_that_do_not_fit_never_raise(subtests: pytest.Subtests) -> None:
    """They become U+FFFD."""
    for charset in [
        "utf-8", "ascii", "utf-16", "utf-7", "shift_jis", "iso-2022-jp", "utf-32", "idna", "punycode",
    ]:  # fmt: skip
        for body in [b"", b"\xff\xfe\x00", bytes(range(256)), b"\x80" * 1000]:
            with subtests.test(charset=charset, body=body):
                assert isinstance(response(body, f"text/plain; charset={charset}").text, str)


def test_json() -> None:
    """In UTF-8, UTF-16 or UTF-32, as JSON allows it."""
    assert response(b'{"a": [1, null]}', "application/json").json() == {"a": [1, None]}
    assert response('{"ü": 1}'.encode("utf-16"), None).json() == {"ü": 1}


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe\xfd", b"{"])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    """Whatever it is instead."""
    with pytest.raises(ValueError, match=r"."):
        response(body, "application/json").json()


def test_response_survives_pickle_and_copy() -> None:
    """With its headers, all values of them, and its verdict, though it was never read."""
    page = response(b"body", "text/html", verdict=cast("PageTurn", SimpleNamespace(verdict=VERDICT)))
    page.headers = CIMultiDictProxy(CIMultiDict([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]))
    for again in (pickle.loads(pickle.dumps(page)), copy.copy(page), copy.deepcopy(page)):
        for name in ("status", "url", "history", "body", "waited", "elapsed", "method", "reason", "tdmrep"):
            assert getattr(again, name) == getattr(page, name)
        assert type(again.headers) is CIMultiDictProxy
        assert list(again.headers.items()) == list(page.headers.items())
        assert again.verdict == VERDICT


def test_verdict_has_no_truth_value() -> None:
    """A forgotten `.allowed` must not fail open."""
    with pytest.raises(TypeError, match=r"\.allowed"):
        bool(VERDICT)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickle_and_copy(error: RobotGateError) -> None:
    """With message and attributes, type and all. None is an `OSError`, which aiohttp takes for a broken connection."""
    assert not isinstance(error, OSError)
    assert isinstance(error, aiohttp.ClientError) is (type(error) not in (RobotGateError, OptionError))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("error", "status"), [(DisallowedError, 403), (TooSoonError, 503), (HostUnavailableError, 503)]
)
def test_errors_have_the_status_of_lwp(error: type[RobotGateError], status: int) -> None:
    """As LWP::RobotUA answered in their place."""
    assert error.status == status  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "content_type",
    [
        "", ";", "; ; =;;", "/", "text", "a/b/c", "x" * 10_000, "text/html; charset*=utf8; charset*1=-8",
        "\x00/ü;",
    ],
)  # fmt: skip
def test_odd_content_types_never_raise(content_type: str) -> None:
    """Whatever a server writes, there is a type; whether there is a charset can be asked."""
    page = response(b"", content_type)
    assert page.content_type.count("/") == 1
    assert page.charset is None


@pytest.mark.parametrize(
    "link",
    [
        "<http://[/>; rel=next", "<http://a.example:99999999/>; rel=next", "<" * 8000, "<>" * 4000,
        "<a>;" + ' x="' * 2000, "<a>;" + "=" * 8000, "<a>" + "; a=b" * 1500, "," * 8000, " " * 8000 + "x",
        "<a>;" + " " * 8000 + "x",
    ],
)  # fmt: skip
def test_odd_links_never_raise(link: str) -> None:
    """Nor do they take long; what is no link is left out."""
    page = response(b"", None)
    page.headers = CIMultiDictProxy(CIMultiDict([("Link", link), ("Link", '</2>; rel="next"')]))
    assert all("url" in each for each in page.links.values())


def test_links_are_read_as_rfc_8288_writes_them() -> None:
    """§3: quoted values hold commas, brackets and escapes; names have no case; each line stands for itself."""
    lines = (
        r'<a>; REL="next"; title="1, <b>; rel=x \"", </b>;rel=prev',
        '<c>; rel="never ended',
        "<d>; rel=last",
    )
    page = response(b"", None)
    page.headers = CIMultiDictProxy(CIMultiDict([("Link", line) for line in lines]))
    assert [(rel, str(link["url"])) for rel, link in page.links.items()] == [
        ("next", "http://site.example/a"),
        ("prev", "http://site.example/b"),
        ("c", "http://site.example/c"),
        ("last", "http://site.example/d"),
    ]
    assert page.links["next"]["title"] == '1, <b>; rel=x "'


def test_bad_status_raises_as_aiohttps_responses_do() -> None:
    """With URL, status, reason and headers; a good one raises nothing."""
    headers = CIMultiDict({"X-Kind": "lost"})
    lost = Response(404, headers, "http://site.example/x", (), b"", 0.0, 0.0, VERDICT, "HEAD", "Not Found")
    assert not lost.ok
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        lost.raise_for_status()
    assert (caught.value.status, caught.value.message) == (404, "Not Found")
    assert str(caught.value.request_info.real_url) == "http://site.example/x"
    assert caught.value.request_info.method == "HEAD"
    assert caught.value.headers == headers
    assert "http://site.example/x" in str(caught.value)
    page = response(b"", None)
    assert page.ok
    page.raise_for_status()
