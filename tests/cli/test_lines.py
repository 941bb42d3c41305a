"""How lines are read: in bounded memory, and no faster than they are used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.cli.fetch import count_urls
from robotgate.cli.lines import CHUNK_BYTES, LineSplitter, read_lines, urls_of

if TYPE_CHECKING:
    from pathlib import Path


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"# c", b"http://a.example/", b" x", b"\xff", b"\0"])),
    st.data(),
)
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes], data: st.DataObject) -> None:
    """Reading in chunks cuts no line and joins none."""
    rest = b"".join(pieces)
    expected = [line[:9] for line in rest.split(b"\n")]
    splitter = LineSplitter(8)
    lines: list[bytes] = []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        lines += splitter.feed(rest[:size])
        rest = rest[size:]

    assert lines + splitter.feed(b"\n") == expected


def test_an_endless_line_is_cut() -> None:
    """A file without newlines does not fill the memory; that its line is too long can still be seen."""
    splitter = LineSplitter(100)
    for _ in range(10):
        assert splitter.feed(b"x" * CHUNK_BYTES) == []

    assert splitter.feed(b"\n") == [b"x" * 101]


async def test_a_file_is_read_no_faster_than_it_is_used(tmp_path: Path) -> None:
    """Of a long file, only a few chunks are in memory."""
    path = tmp_path / "urls.txt"
    path.write_text("http://a.example/0123456789\n" * 200_000, encoding="utf-8")
    descriptor = os.open(path, os.O_RDONLY)
    batches = read_lines(descriptor, max_bytes=100)

    first = await anext(batches)
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    count = len(urls_of(first)) + sum([len(urls_of(lines)) async for lines in batches])

    assert position <= 5 * CHUNK_BYTES
    assert count == count_urls(str(path)) == 200_000
    os.close(descriptor)


async def test_a_file_that_cannot_be_read_raises(tmp_path: Path) -> None:
    """A directory can be opened, but has no lines."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await anext(read_lines(descriptor, max_bytes=100))
    os.close(descriptor)


def test_a_url_is_what_is_left_of_a_line() -> None:
    """Without blanks, line ends, comments and a byte order mark."""
    lines = [b"\xef\xbb\xbfhttp://a.example/\r", b"", b"  # a comment", b"\thttp://b.example/ ", b"\r"]

    assert urls_of(lines) == ["http://a.example/", "http://b.example/"]
