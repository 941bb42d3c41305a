"""Content codings of robots.txt: whole, in pieces, broken off, made up, and much larger than they look."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from robotgate.client.robots import MAX_CODINGS, BoundedBody
from robotgate.rules.decode import MAX_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT: Final = b"User-agent: *\nDisallow: /private/\n" + bytes(range(256))
GIGABYTE: Final = 1 << 30


def raw_deflate(body: bytes) -> bytes:
    """Without the zlib wrapper, as many servers send "deflate"."""
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(body) + deflater.flush()


def members(*bodies: bytes) -> bytes:
    """A gzip file of several members."""
    return b"".join(gzip.compress(body, mtime=0) for body in bodies)


CODED: Final = [
    pytest.param("gzip", members(TEXT), id="gzip"),
    pytest.param("x-gzip", members(TEXT), id="x-gzip"),
    pytest.param(" GZip ", members(TEXT), id="in other letters"),
    pytest.param("gzip", members(TEXT[:7], TEXT[7:8], b"", TEXT[8:]), id="members"),
    pytest.param("deflate", zlib.compress(TEXT), id="zlib"),
    pytest.param("deflate", raw_deflate(TEXT), id="raw deflate"),
    pytest.param("deflate, identity, gzip", members(raw_deflate(TEXT)), id="two codings"),
]
ONE_MEMBER: Final = [parameter for parameter in CODED if parameter.id != "members"]


def decoded(coding: str | None, chunks: Iterable[bytes], *, max_bytes: int = 10_000) -> bytes:
    """The body, fed chunk by chunk."""
    body = BoundedBody(coding, max_bytes=max_bytes)
    for chunk in chunks:
        body.feed(chunk)
    return body.end()


def in_chunks(octets: bytes, size: int) -> list[bytes]:
    """All of it, so many bytes at a time."""
    return [octets[at : at + size] for at in range(0, len(octets), size)]


@pytest.mark.parametrize(("coding", "octets"), [*CODED, (None, TEXT), ("", TEXT), ("identity", TEXT)])
def test_chunks_of_every_size_make_the_same_body(coding: str | None, octets: bytes) -> None:
    """Where the network cuts makes no difference."""
    for size in range(1, len(octets) + 1):
        assert decoded(coding, [b"", *in_chunks(octets, size), b""]) == TEXT, size


@pytest.mark.parametrize(("coding", "octets"), ONE_MEMBER)
def test_body_cut_anywhere_is_an_error(coding: str, octets: bytes) -> None:
    """Half a file may allow what the whole one does not; only of nothing nothing is known."""
    assert decoded(coding, []) == b""
    for end in range(1, len(octets)):
        for size in (1, 7, 10_000):
            with pytest.raises(ValueError, match=r"breaks off|not compressed"):
                decoded(coding, in_chunks(octets[:end], size))


def test_members_cut_anywhere_but_between_two_are_an_error() -> None:
    """After a whole member the file may end."""
    bodies = (TEXT[:9], TEXT[9:40], TEXT[40:])
    octets = members(*bodies)
    whole = {len(members(*bodies[:count])): b"".join(bodies[:count]) for count in range(4)}
    for end in range(len(octets) + 1):
        if end in whole:
            assert decoded("gzip", [octets[:end]]) == whole[end]
            continue
        with pytest.raises(ValueError, match="breaks off"):
            decoded("gzip", [octets[:end]])


def test_garbage_is_an_error(subtests: pytest.Subtests) -> None:
    """It is not what Content-Encoding says; or more stands behind a member, or its checksum is another's."""
    changed = members(TEXT)[:-8] + bytes(8)
    garbage = [
        b"User-agent: *\n",
        b"\xff" * 100,
        b"\x00",
        b"<html></html>",
        members(TEXT) + b"Allow: /\n",
        changed,
    ]
    for octets, size, coding in product(garbage, (1, 100), ("gzip", "x-gzip", "deflate")):
        with (
            subtests.test(octets=octets, size=size, coding=coding),
            pytest.raises(ValueError, match=r"breaks off|not compressed"),
        ):
            decoded(coding, in_chunks(octets, size))


def test_coding_that_was_not_asked_for_is_an_error() -> None:
    """It is named."""
    for coding in ("br", "zstd", "compress", "gzip, br", "deflate;q=1", "*"):
        with pytest.raises(ValueError, match="was not asked for") as refusal:
            BoundedBody(coding, max_bytes=10)
        assert repr(coding) in str(refusal.value)


RULES: Final = b"User-agent: *\nDisallow: /\n"


def test_name_of_no_coding_changes_nothing(subtests: pytest.Subtests) -> None:
    """Browsers and clients take it so; with codings beside it, these count."""
    latin_1 = b"# caf\xe9\n" + RULES
    for name in (
        *("utf-8", "none", "8bit", "text/plain", "aws-chunked", "utf-8;q=1", "identity, utf-8", "none, none"),
        *(",utf-8,", '"utf-8"', "\udcff\udcfe", "x" * 10_000),
    ):
        with subtests.test(name=ascii(name[:20])):
            marked, wide = b"\xef\xbb\xbf" + RULES, RULES.decode().encode("utf-16")
            for body in (RULES, b"", b"<html>", marked, wide, latin_1):
                assert decoded(name, [body]) == body
            assert decoded(f"gzip, {name}", [members(RULES)]) == RULES
            assert decoded(f"{name}, deflate, {name}", [raw_deflate(RULES)]) == RULES
            assert decoded(name, [members(RULES)]) == members(RULES)


def test_what_is_no_text_under_a_name_of_no_coding_is_an_error() -> None:
    """It may be in a coding of that name: compressed bytes are never read as a file that allows everything."""
    for body in (
        bytes(range(256)),
        zlib.compress(RULES),
        b"BZh91AY&SY\x8e\x02\xd1\x95\0\0\x08",
        b"\xff" * 1000,
        # Without a byte order mark.
        RULES.decode().encode("utf-16-le"),
        # gzip that breaks off.
        b"\x1f\x8b\x08\0",
    ):
        with pytest.raises(ValueError, match=r"no text|breaks off"):
            decoded("none", [body])
        with pytest.raises(ValueError, match=r"no text|breaks off"):
            decoded("gzip, x-unheard-of", [members(body)])


@pytest.mark.parametrize(("coding", "octets"), [*CODED, (None, TEXT)])
def test_bound_counts_decoded_octets(coding: str | None, octets: bytes) -> None:
    """Up to the bound it is whole; one more and it is full."""
    for less, size in product((-1, 0, 1), (1, 3, 10_000)):
        bound = len(TEXT) - less
        body = BoundedBody(coding, max_bytes=bound)
        for chunk in in_chunks(octets, size):
            body.feed(chunk)
            if body.is_full:
                break
        assert body.is_full is (less > 0)
        assert body.end() == TEXT[:bound]


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A gigabyte of nothing, as gzip."""
    deflater = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    mebibyte = bytes(1 << 20)
    # After a full flush the same octets are the same block again.
    first, block = (deflater.compress(mebibyte) + deflater.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + block * ((GIGABYTE >> 20) - 1)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("size", [1024, 65_536, GIGABYTE])
def test_bomb_is_not_unfolded(bomb: bytes, size: int, layers: int) -> None:
    """Of a gigabyte in a few megabytes no more is ever held than the bound and what came; nor of a bomb in a bomb."""
    body = BoundedBody(", ".join(["gzip"] * layers), max_bytes=512_000)
    octets = bomb if layers == 1 else gzip.compress(bomb, 1)
    fed = 0
    tracemalloc.start()
    try:
        for chunk in in_chunks(octets, size):
            body.feed(chunk)
            fed += 1
            if body.is_full:
                break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is full does not have to end.
    assert body.end() == bytes(512_000)
    assert layers == 2 or fed * size <= 65_536 or fed == 1
    assert peak < 4_000_000 * layers + 2 * len(bomb)


def test_codings_are_bounded_in_number() -> None:
    """Each costs as much as the body."""
    octets = TEXT
    for _ in range(MAX_CODINGS):
        octets = members(octets)
    assert decoded(", ".join(["gzip"] * MAX_CODINGS), [octets]) == TEXT
    with pytest.raises(ValueError, match="was not asked for"):
        decoded(", ".join(["gzip"] * (MAX_CODINGS + 1)), [members(octets)])


@pytest.mark.parametrize("size", [20, 65_536])
def test_members_are_bounded_in_number(size: int) -> None:
    """A member may hold nothing and costs as much as a full one."""
    assert decoded("gzip", in_chunks(members(*[b""] * MAX_MEMBERS), size)) == b""
    with pytest.raises(ValueError, match="more than 128 members"):
        decoded("gzip", in_chunks(members(*[b""] * (MAX_MEMBERS + 1)), size))


def test_compressed_bytes_are_bounded_like_the_body() -> None:
    """Blocks that hold nothing would otherwise be decoded for as long as they come."""
    endless = b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\0\0\0\xff\xff" * 50_000
    with pytest.raises(ValueError, match="longer than what it holds"):
        decoded("gzip", in_chunks(endless, 65_536))
