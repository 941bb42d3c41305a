"""RFC 9309 §2.3: the file is UTF-8. What robotgate reads where it is not."""

from __future__ import annotations

import codecs
import gzip
import tracemalloc
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import Dialect, RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP: Final = b"User-agent: *\nDisallow: /page\n"
MARK: Final = b"\xef\xbb\xbf"
TEXT: Final = GROUP.decode()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(MARK * 2 + GROUP, id="two marks"),
        pytest.param(MARK * 9 + GROUP, id="nine marks"),
        pytest.param(b"User-agent: a\nDisallow: /\n" + MARK + GROUP, id="joined files"),
        pytest.param(b"User-agent: a\r\nDisallow: /\r\n" + MARK * 2 + GROUP, id="joined files with CRLF"),
        pytest.param(b"User-agent: a\rDisallow: /\r" + MARK + GROUP.replace(b"\n", b"\r"), id="with CR"),
        pytest.param(GROUP.replace(b"\n", b"\n" + MARK), id="a mark before each line"),
        pytest.param(codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), id="UTF-16 LE"),
        pytest.param(codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), id="UTF-16 BE"),
        pytest.param(("\ufeff\ufeff" + TEXT).encode("utf-16-le"), id="UTF-16 with two marks"),
        pytest.param(("\ufeff# a\r\n\ufeff" + TEXT).encode("utf-16-be"), id="UTF-16, joined"),
        pytest.param(
            codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le") + b"\n", id="UTF-16 and half a character"
        ),
        pytest.param(codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"), id="UTF-32 LE"),
        pytest.param(codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"), id="UTF-32 BE"),
        pytest.param(gzip.compress(GROUP), id="gzip"),
        pytest.param(gzip.compress(gzip.compress(GROUP)), id="gzip of gzip"),
        pytest.param(gzip.compress(GROUP[:5]) + gzip.compress(GROUP[5:]), id="gzip in two members"),
        pytest.param(gzip.compress(GROUP) + bytes(512), id="gzip that is filled up"),
        pytest.param(gzip.compress(MARK + GROUP), id="gzip with a mark"),
        pytest.param(gzip.compress(TEXT.encode("utf-16")), id="gzip of UTF-16"),
    ],
)
@pytest.mark.parametrize("dialect", Dialect)
def test_files_that_are_not_quite_utf_8_are_read(body: bytes, dialect: Dialect) -> None:
    """Their owners meant them to be read; lines keep their numbers."""
    robots = RobotsTxt.parse(body, dialect=dialect)
    verdict = robots.verdict("/page", "foobot")
    assert not verdict.allowed
    assert robots.allowed("/other", "foobot")
    assert verdict.rule is not None
    assert str(verdict.rule) == "Disallow: /page"


def test_letters_of_utf_16_are_the_bytes_of_utf_8() -> None:
    """A path means the same in either."""
    robots = RobotsTxt.parse("User-agent: *\r\n# \U0001f40e\r\nDisallow: /ツ\r\n".encode("utf-16"))
    assert not robots.allowed("/%E3%83%84", "foobot")
    assert robots.groups[0].rules[0].line == 3


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(codecs.BOM_UTF16_LE + b"\n" + GROUP, id="ASCII behind a mark of UTF-16"),
        pytest.param(TEXT.encode("utf-16")[:-1] + b"\n" + GROUP, id="UTF-16, then ASCII"),
        pytest.param(codecs.BOM_UTF16_BE + b"\xd8\x00\n\n" + GROUP, id="half of a pair"),
        pytest.param(b"\x1f\x8b\x08\n" + GROUP, id="ASCII that begins as gzip"),
    ],
)
def test_what_cannot_be_decoded_is_read_as_it_is(body: bytes) -> None:
    """Whatever lines can be parsed bind."""
    assert not RobotsTxt.parse(body).allowed("/page", "foobot")


def test_half_a_gzip_binds_by_its_whole_lines() -> None:
    """What came of it is read, without the line that breaks off."""
    whole = GROUP + b"".join(b"Disallow: /%032x\n" % (7919**number) for number in range(64))
    lengths = set()
    for end in range(len(gzip.compress(GROUP)), len(gzip.compress(whole)), 40):
        robots = RobotsTxt.parse(gzip.compress(whole)[:end])
        rules = [] if not robots.groups else robots.groups[0].rules
        assert whole.startswith(
            b"".join([b"User-agent: *\n", *(b"%b\n" % str(rule).encode() for rule in rules)])
        )
        lengths.add(len(rules))
    assert len(lengths) > 3


def test_a_mark_within_a_line_is_a_part_of_it() -> None:
    """As any other letter is."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /a" + MARK + b"b\n")
    assert robots.groups[0].rules[0].path_pattern == "/a\ufeffb"


@pytest.mark.parametrize(
    "encode",
    [
        gzip.compress,
        lambda text: gzip.compress(gzip.compress(text)),
        lambda text: text.decode().encode("utf-16"),
    ],
    ids=["gzip", "gzip of gzip", "UTF-16"],
)
def test_the_limit_holds_for_what_was_decoded(encode: Callable[[bytes], bytes]) -> None:
    """512,000 bytes as served, and of text; a line that the limit cuts is not read."""
    lines = b"".join(b"Allow: /%024x\n" % number for number in range(20_000))
    body = encode(GROUP + lines)
    robots = RobotsTxt.parse(body)
    rules = robots.groups[0].rules
    assert not robots.allowed("/page", "foobot")
    assert {len(rule.path_pattern) for rule in rules[1:]} == {25}
    assert len(GROUP) + len(b"Allow: /%024x\n" % 0) * len(rules) < 512_000 + 64
    assert RobotsTxt.parse(body[:512_000]).groups == robots.groups


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(lambda: gzip.compress(gzip.compress(bytes(20_000_000), 1)), id="of NULs, twice"),
        pytest.param(lambda: gzip.compress(b"#" * 20_000_000, 1), id="of a comment"),
        pytest.param(lambda: gzip.compress(b"") * 25_000, id="of empty members"),
        pytest.param(
            lambda: b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\0\0\0\xff\xff" * 100_000, id="of empty blocks"
        ),
    ],
)
def test_a_bomb_is_not_inflated(bomb: Callable[[], bytes]) -> None:
    """No more than counts."""
    body = bomb()
    tracemalloc.start()
    try:
        assert RobotsTxt.parse(body).allowed("/", "foobot")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
