"""Records and host states as bytes: everything comes back, and nothing that was not written so is taken for it."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.files import ADDED, NOW, OLD_STATE, ORIGIN, RECORD, STATE

from robotgate.pace.state import moved
from robotgate.stores import HostState
from robotgate.stores.codec import (
    _USUAL,
    FieldError,
    encoded,
    host_fields,
    host_of,
    object_of,
    pack_record,
    unpack_record,
)
from robotgate.testing.store_checks import RECORD as ODD_RECORD


def pack_host(state: HostState) -> bytes:
    """A host's state, as a server keeps it."""
    return encoded(host_fields(state))


def unpack_host(packed: bytes) -> HostState:
    """Read what `pack_host` wrote."""
    return host_of(object_of(packed))


instants = st.floats(0, 4e9)
counts = st.integers(0, 2**63 - 1)
texts = st.none() | st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=()))


@given(
    st.builds(
        HostState,
        last_visit_at=st.none() | instants,
        next_allowed_at=instants,
        blocked_at=instants,
        blocked_until_at=instants,
        failures=counts,
        visits=counts,
        bytes_read=counts,
        latency=st.none() | st.floats(0, 1e6),
        starts=st.lists(st.tuples(instants, counts), max_size=40).map(sorted).map(tuple),
    )
)
def test_host_comes_back(state: HostState) -> None:
    """To the last bit, also with instants that are relative and in the past."""
    assert unpack_host(pack_host(state)) == state
    relative = moved(state, -NOW)
    assert unpack_host(pack_host(relative)) == relative


@given(st.binary(max_size=300), texts, texts)
def test_record_comes_back(body: bytes, cause: str | None, etag: str | None) -> None:
    """Whatever a server sent, text that is no Unicode included."""
    record = replace(RECORD, body=body, cause=cause, etag=etag)
    assert unpack_record(ORIGIN, pack_record(record)) == record


@pytest.mark.parametrize("record", [RECORD, ODD_RECORD, replace(RECORD, body=os.urandom(10_000))])
def test_body_is_compressed_where_that_makes_it_shorter(record: object) -> None:
    """And comes back as it was."""
    assert isinstance(record, type(RECORD))
    packed = pack_record(record)
    assert len(packed) <= len(record.body) + 600
    assert unpack_record(record.origin, packed) == record


def test_host_of_an_older_version_comes_back() -> None:
    """It lacks what was added since, which has its default then."""
    assert (
        host_of({name: value for name, value in host_fields(STATE).items() if name not in ADDED}) == OLD_STATE
    )


def test_counts_and_instants_beyond_all_bounds_stay_at_the_bound() -> None:
    """Rather than fail: a block without end lasts until the year 9999."""
    state = unpack_host(pack_host(replace(STATE, visits=2**70, blocked_until_at=float("inf"))))
    assert state.visits == 2**63 - 1
    assert state.blocked_until_at == 253_402_300_799.0


def test_host_that_was_not_written_so_is_refused(subtests: pytest.Subtests) -> None:
    """Whole."""
    for packed in [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"visits": 1}',
        pack_host(STATE)[:-1] + b',"more":1}',
        pack_host(STATE).replace(b'"visits":41', b'"visits":41,"visits":42'),
        pack_host(STATE).replace(b'"visits":41', b'"visits":-1'),
        pack_host(STATE).replace(b'"visits":41', b'"visits":true'),
        pack_host(STATE).replace(b'"failures":2', b'"failures":NaN'),
        pack_host(STATE).replace(b'"latency":0.1234567', b'"latency":1e999'),
        *(
            pack_host(STATE).replace(encoded(host_fields(STATE)["starts"]), starts)
            for starts in (b"7", b"{}", b"[1.0]", b"[1,-1]", b"[1,1.5]", b'["1",1]', b"[[1,1]]", b"[2,1,1,1]")
        ),
        b"[" * 100_000,
    ]:
        with subtests.test(packed=packed), pytest.raises(FieldError):
            unpack_host(packed)


def _head(**changes: object) -> bytes:
    """A record, but for some fields of its head."""
    whole = zlib.decompressobj(zdict=_USUAL).decompress(pack_record(RECORD))
    head, _, body = whole.partition(b"\n")
    packer = zlib.compressobj(zdict=_USUAL)
    return packer.compress(json.dumps(json.loads(head) | changes).encode() + b"\n" + body) + packer.flush()


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        pack_record(RECORD)[:-20],
        zlib.compress(b"{}"),
        zlib.compress(b" " * 10**7),
        _head(body_bytes=1),
        _head(body_bytes=2**40),
        _head(outcome="fine"),
        _head(status=1000),
        _head(redirects="http://a.example/"),
        _head(etag="a\r\nSet-Cookie: b"),
        _head(more=1),
    ],
)
def test_record_that_was_not_written_so_is_refused(packed: bytes) -> None:
    """Whole; a body that would burst is decompressed no further than it says."""
    with pytest.raises(FieldError):
        unpack_record(ORIGIN, packed)
