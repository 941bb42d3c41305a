"""The values that leave the gate: responses with their text, and errors with their kin."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, replace

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
    RuleKind,
    StoreError,
    TooSoonError,
    Verdict,
)

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
    HostUnavailableError("site.example", 60.0, "it asked us to stay away"),
    HostUnavailableError("site.example", 60.0, "its robots.txt cannot be read", VERDICT),
    ResponseTooLargeError("http://site.example/", 1000),
]


def response(body: bytes, content_type: str | None) -> Response:
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
        verdict=VERDICT,
    )


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
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
        ("text/html; charset*=utf8; charset*1=-8", "utf-8"),
        ("; ; =;;", "utf-8"),
        ("x" * 10_000, "utf-8"),
        ("text/html; charset=" + "x" * 10_000, "utf-8"),
        ("text/html; charset=ü", "utf-8"),
    ],
)
def test_text_of_any_charset_is_text(content_type: str | None, encoding: str) -> None:
    """Whatever a server calls its charset: if it is one of text that Python knows, that one, else UTF-8."""
    page = response("grüße\n".encode(encoding if encoding != "shift_jis" else "utf-8"), content_type)
    assert page.encoding == encoding
    assert isinstance(page.text, str)
    if encoding != "shift_jis":
        assert page.text == "grüße\n"


@pytest.mark.parametrize(
    "charset", ["hex", "rot13", "base64", "zip", "bz2", "uu", "quopri", "undefined", "\x00", "utf\x008"]
)
def test_charset_that_is_none_is_utf_8(charset: str) -> None:
    """Python has codecs that make no text of octets; a server that names one does not break the page."""
    page = response("grüße\n".encode(), f"text/html; charset={charset}")
    assert page.text == "grüße\n"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", bytes(range(256)), b"\x80" * 1000])
@pytest.mark.parametrize(
    "charset", ["utf-8", "ascii", "utf-16", "utf-7", "shift_jis", "iso-2022-jp", "utf-32", "idna", "punycode"]
)
def test_octets_that_do_not_fit_never_raise(body: bytes, charset: str) -> None:
    """They become U+FFFD."""
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


def test_response_is_a_value() -> None:
    """It does not change, and it cannot be added to."""
    page = response(b"", None)
    with pytest.raises(AttributeError):
        page.status = 500  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        page.note = 1  # type: ignore[attr-defined]
    assert page == response(b"", None)


def test_response_has_a_verdict_or_what_works_it_out() -> None:
    """Which is asked once, when somebody looks: the verdict is the same at each look."""
    asked: list[Verdict] = []

    def work_out() -> Verdict:
        asked.append(replace(VERDICT))
        return asked[-1]

    page = replace(response(b"", None), verdict=work_out)
    assert asked == []
    assert page.verdict is page.verdict
    assert [page.verdict] == asked == [VERDICT]
    assert response(b"", None).verdict is VERDICT


def test_response_puts_its_url_into_words_when_somebody_looks() -> None:
    """Once, as its verdict."""
    asked: list[str] = []

    def in_words() -> str:
        asked.append("http://site.example/there")
        return asked[-1]

    page = replace(response(b"", None), url=in_words)
    assert asked == []
    assert page.url is page.url
    assert [page.url] == asked
    unseen = replace(page, url=lambda: "http://site.example/")
    assert pickle.loads(pickle.dumps(unseen)).url == "http://site.example/"


def test_response_needs_a_verdict() -> None:
    """It has no default."""
    facts = {field.name: getattr(response(b"", None), field.name) for field in fields(Response)}
    del facts["verdict"]
    with pytest.raises(TypeError, match="'verdict'"):
        Response(**facts)


def test_response_survives_pickle_and_copy() -> None:
    """With its headers, all values of them, and its verdict, though nobody has looked at it."""
    headers = CIMultiDict([("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    page = replace(response(b"body", None), headers=CIMultiDictProxy(headers), verdict=lambda: VERDICT)
    for again in (pickle.loads(pickle.dumps(page)), copy.copy(page), copy.deepcopy(page)):
        assert again == page
        assert type(again.headers) is CIMultiDictProxy
        assert list(again.headers.items()) == list(page.headers.items())
        assert again.verdict == VERDICT


def test_response_shows_no_seams() -> None:
    """Its fields are what `repr` and `dataclasses.fields` tell of."""
    page = response(b"", None)
    assert [field.name for field in fields(page)] == [
        "status",
        "headers",
        "url",
        "history",
        "body",
        "waited",
        "elapsed",
        "verdict",
    ]
    assert [name for name in dir(page) if not name.startswith("_")] == sorted(
        [*(field.name for field in fields(page)), "encoding", "json", "text"]
    )


def test_verdict_has_no_truth_value() -> None:
    """A forgotten `.allowed` must not fail open."""
    with pytest.raises(TypeError, match=r"\.allowed"):
        bool(VERDICT)
    assert str(VERDICT) == (
        "http://site.example/private is disallowed by line 2 of its robots.txt: Disallow: /private"
    )


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickle_and_copy(error: RobotGateError) -> None:
    """With message and attributes, type and all."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_and_their_kin(error: RobotGateError) -> None:
    """Never `OSError`, which aiohttp takes for a broken connection and sends again."""
    assert isinstance(error, RobotGateError)
    assert not isinstance(error, OSError)
    assert isinstance(error, aiohttp.ClientError) is (type(error) not in (RobotGateError, OptionError))


@pytest.mark.parametrize(
    ("error", "status"),
    [(DisallowedError, 403), (TooSoonError, 503), (HostUnavailableError, 503)],
)
def test_errors_have_the_status_of_lwp(error: type[RobotGateError], status: int) -> None:
    """As LWP::RobotUA answered in their place."""
    assert error.status == status  # type: ignore[attr-defined]
