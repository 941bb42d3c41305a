"""Records and host states as lines of an export: hostile lines first, then that nothing is lost."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate import Origin
from robotgate.cli.cache import Entry, host_line, record_line
from robotgate.cli.cache import read_line as read_line_at
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState
from robotgate.stores.codec import MAX_AMOUNT, MAX_COUNT, MAX_LINE_BYTES, FieldError

RECORD: Final = RobotsRecord(
    origin=Origin("https", "a.example", 443),
    outcome=Outcome.SUCCESS,
    status=200,
    checked_at=1000.0,
    fresh_until_at=2000.5,
    body=b"User-agent: *\nDisallow: /\xc3\xa4\n",
    fetched_at=1000.0,
    robots_url="https://a.example/robots.txt",
    redirects=("https://a.example/robots.txt",),
    etag='"x"',
)
HOST: Final = ("a.example", HostState(last_visit_at=1.0, next_allowed_at=2.0, visits=3))


def _changed(line: str, **values: object) -> bytes:
    return json.dumps(json.loads(line) | values).encode()


def _without(line: str, name: str) -> bytes:
    return json.dumps({key: value for key, value in json.loads(line).items() if key != name}).encode()


def read_line(line: bytes) -> Entry:
    """As the last second of all reads it: nothing is in the future."""
    return read_line_at(line, now=MAX_AMOUNT)


def _refusal(line: bytes) -> FieldError:
    with pytest.raises(FieldError) as caught:
        read_line(line)
    # It may go to a terminal as it is.
    assert str(caught.value).isprintable()
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 300
    return caught.value


def test_what_is_no_object_is_refused(subtests: pytest.Subtests) -> None:
    """Any bytes end soon, and in one kind of error."""
    for line, problem in [
        (b"", "not JSON"),
        (b"\x00", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"[1]", "a list is no JSON object"),
        (b'"\\u001b[2J"', "no JSON object"),
        (b"null", "None is no JSON object"),
        (b"NaN", "nan is no JSON object"),
        (b"9" * 1_000_000, "inf is no JSON object"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[" * 1_000_000, "nested too deep"),
        (b'{"a":' * 1_000_000, "nested too deep"),
        (b" " * (MAX_LINE_BYTES + 1), "longer than"),
        (record_line(RECORD).encode() * 2, "not JSON (Extra data"),
    ]:
        with subtests.test(line=line, problem=problem):
            assert problem in str(_refusal(line))


ADDED: Final = {field.name for field in fields(HostState) if "is_added" in field.metadata}
WRONG: Final[dict[str, tuple[object, ...]]] = {
    "version": (2, 0, True, "1"),
    "kind": ("visit", None),
    "origin": (
        *(None, "ftp://a.example", "https://A.example", "https://a.example/", "https://a.example:443"),
        *("https://user@a.example", "\x1b[2J" * 1000),
    ),
    "outcome": ("SUCCESS", ["success"]),
    "status": (1000, -1, 200.0, True),
    "cause": (5,),
    "checked_at": (None, "1000", True, -0.5, float("nan"), float("inf")),
    "fresh_until_at": (1e300, 10**400),
    "failures": (1.5, MAX_COUNT + 1),
    "failing_since_at": ([],),
    "body": (None, "\ud800", "a" * (MAX_BYTES + 1)),
    "fetched_at": ({},),
    "robots_url": (None,),
    "redirects": ("https://a.example/", ["x", 1]),
    "etag": ("x\r\nCookie: y",),
    "last_modified": ("\0", 3),
    "surplus": (None,),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_is_named(field: str) -> None:
    """The line is refused whole, and the error says where to look."""
    for value in WRONG[field]:
        assert _refusal(_changed(record_line(RECORD), **{field: value})).field == field
    # A record that calls itself a host lacks a host's fields; a second body is one too many.
    assert _refusal(_changed(record_line(RECORD), kind="host")).field == "pace_key"
    assert _refusal(_changed(record_line(RECORD), body_base64="AAAA")).field == "body"


@pytest.mark.parametrize("line", [record_line(RECORD), host_line(*HOST)], ids=["record", "host"])
def test_every_field_is_needed_once(line: str) -> None:
    """What a writer left out is not made up here, but for fields that older versions lack. Nor is one of two picked."""
    for name in json.loads(line):
        if name not in ADDED:
            assert _refusal(_without(line, name)).field == name
        twice = f'{{"{name}": 1, {line[1:]}'.encode()
        assert (_refusal(twice).field, _refusal(twice).problem) == (name, "there twice")


@pytest.mark.parametrize("state", [field.name for field in fields(HostState)])
def test_a_host_has_no_endless_figures(state: str) -> None:
    """Whatever is not a number of this world is refused for every field; and a host has a name."""
    for value in ("1", float("nan"), 1e300, -1):
        assert _refusal(_changed(host_line(*HOST), **{state: value})).field == state
    for pace_key in ("", None, 3):
        assert _refusal(_changed(host_line(*HOST), pace_key=pace_key)).field == "pace_key"


def test_base64_is_strict() -> None:
    """What is no base64 is not read as some other body; only one that is no UTF-8 is written so, as people read it."""
    assert json.loads(record_line(RECORD))["body"] == "User-agent: *\nDisallow: /ä\n"
    line = record_line(replace(RECORD, body=b"\xff\x00"))

    assert json.loads(line)["body_base64"] == "/wA="
    assert _refusal(_changed(line, body_base64="/wA")).field == "body_base64"
    assert _refusal(_changed(line, body_base64="/w A=")).field == "body_base64"


def test_instants_beyond_the_calendar_are_its_end() -> None:
    """No instant is lost by being far; the last that is written can be read."""
    state = HostState(next_allowed_at=float("inf"), blocked_until_at=1e300)

    entry = read_line(host_line("a.example", state).encode())

    assert entry == ("a.example", HostState(next_allowed_at=MAX_AMOUNT, blocked_until_at=MAX_AMOUNT))


@pytest.mark.parametrize("octet", [b"\x01", b"\xff"])
def test_a_body_longer_than_counts_can_be_read_again(octet: bytes) -> None:
    """`learn` takes any; the longest way of writing it stays within the longest line."""
    line = record_line(replace(RECORD, body=b"Allow: /\n" + octet * 600_000)).encode()

    assert len(line) < MAX_LINE_BYTES
    record = read_line(line)
    assert isinstance(record, RobotsRecord)
    assert record.body == b"Allow: /\n"


_amounts: Final = st.floats(min_value=0, max_value=MAX_AMOUNT)
_counts: Final = st.integers(min_value=0, max_value=MAX_COUNT)
_texts: Final = st.text(st.characters(exclude_categories=()))
_headers: Final = st.none() | st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=()))
_json_values: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), _texts, st.lists(_texts)
)
_records: Final = st.builds(
    RobotsRecord,
    origin=st.sampled_from(
        ["http://a.example", "https://xn--bcher-kva.example:8443", "http://[2001:db8::1]:1"]
    ).map(Origin.of),
    outcome=st.sampled_from(Outcome),
    status=st.none() | st.integers(min_value=0, max_value=999),
    cause=st.none() | _texts,
    checked_at=_amounts,
    fresh_until_at=_amounts,
    failures=_counts,
    failing_since_at=st.none() | _amounts,
    body=st.binary() | _texts.map(lambda text: text.encode(errors="replace")),
    fetched_at=st.none() | _amounts,
    robots_url=_texts,
    redirects=st.lists(_texts).map(tuple),
    etag=_headers,
    last_modified=_headers,
)
_hosts: Final = st.tuples(
    st.text(st.characters(exclude_categories=()), min_size=1),
    st.builds(
        HostState,
        last_visit_at=st.none() | _amounts,
        next_allowed_at=_amounts,
        blocked_at=_amounts,
        blocked_until_at=_amounts,
        failures=_counts,
        visits=_counts,
        bytes_read=_counts,
        latency=st.none() | _amounts,
        starts=st.lists(st.tuples(_amounts, _counts)).map(sorted).map(tuple),
    ),
)


@given(_records)
def test_any_record_comes_back(record: RobotsRecord) -> None:
    """Every field, to the last bit; by a line of ASCII that nothing in a record can end, or steer a terminal with."""
    line = record_line(record)
    assert line.isascii()
    assert line.isprintable()
    assert read_line(line.encode()) == record


@given(_hosts)
def test_any_host_comes_back(entry: tuple[str, HostState]) -> None:
    """Every field, to the last bit."""
    assert read_line(host_line(*entry).encode()) == entry


@given(st.dictionaries(st.sampled_from(sorted(json.loads(record_line(RECORD)))), _json_values))
def test_no_values_break_the_reader(values: dict[str, object]) -> None:
    """Whatever stands in the fields: an entry, or the one error."""
    line = json.dumps(json.loads(record_line(RECORD)) | values).encode()
    with contextlib.suppress(FieldError):
        read_line(line)
