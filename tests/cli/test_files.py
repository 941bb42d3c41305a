"""How lines are read: in bounded memory, and no faster than they are used; and which URLs came before."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from robotgate.cli.lists import CHUNK_BYTES, Digests, digest, key_of, read_lines, urls_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
async def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    """Reading in chunks cuts no line and joins none; of a line that is too long, one byte more is kept."""
    text = b"a\r\n\n# c\nhttp://a.example/\n\xff\0\n" + b"x" * 500 + b"\n\n\nend"
    reader, writer = os.pipe()
    batches = read_lines(reader, max_bytes=8)
    lines: list[bytes] = []
    for start in range(0, len(text), size):
        os.write(writer, text[start : start + size])
        # Without a newline in it, a chunk is no batch.
        if b"\n" in text[start : start + size]:
            lines += await anext(batches)
    os.close(writer)
    lines += [line async for batch in batches for line in batch]
    os.close(reader)

    assert lines == [line[:9] for line in text.split(b"\n")]


async def test_an_endless_line_is_cut(tmp_path: Path) -> None:
    """A file without newlines does not fill the memory; that its line is too long can still be seen."""
    path = tmp_path / "urls.txt"
    path.write_bytes(b"x" * (10 * CHUNK_BYTES))
    descriptor = os.open(path, os.O_RDONLY)

    assert [lines async for lines in read_lines(descriptor, max_bytes=100)] == [[b"x" * 101]]
    os.close(descriptor)


async def test_a_file_is_read_no_faster_than_it_is_used(tmp_path: Path) -> None:
    """Of a long file, only a few chunks are in memory."""
    path = tmp_path / "urls.txt"
    path.write_text("http://a.example/0123456789\n" * 50_000, encoding="utf-8")
    descriptor = os.open(path, os.O_RDONLY)
    batches = read_lines(descriptor, max_bytes=100)

    first = await anext(batches)
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    count = len(urls_of(first)) + sum([len(urls_of(lines)) async for lines in batches])

    assert position <= 5 * CHUNK_BYTES
    assert count == 50_000
    os.close(descriptor)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("encoding", "text", "lines"),
    [
        ("utf-16", "http://a.example/é\r\n\U0001f44b\n", ["http://a.example/é\r", "\U0001f44b", ""]),
        ("utf-16-be", "\ufeffa\nb", ["a", "b"]),
        ("utf-8-sig", "a\nb", ["\ufeffa", "b"]),
        ("utf-8", "", [""]),
        ("utf-8", "a", ["a"]),
        ("utf-16", "", [""]),
    ],
)
async def test_lines_of_utf_16_are_utf_8(size: int, encoding: str, text: str, lines: list[str]) -> None:
    """With a byte order mark, however the bytes arrive."""
    reader, writer = os.pipe()
    batches = read_lines(reader, max_bytes=100)
    body = text.encode(encoding)
    for start in range(0, len(body), size):
        os.write(writer, body[start : start + size])
    os.close(writer)
    assert [line.decode() async for batch in batches for line in batch] == lines
    os.close(reader)


def test_many_urls_take_little_memory() -> None:
    """Some 20 bytes each: a list of ten million, a few hundred megabytes."""
    count, parts = 5_000, 32
    # Those that begin alike are kept together.
    keys = [bytes([0, number % parts]) + digest(str(number))[2:] for number in range(count)]
    seen = Digests()
    tracemalloc.start()
    try:
        assert all(map(seen.add, keys))
        assert tracemalloc.get_traced_memory()[0] < count * 20 + parts * 300
    finally:
        tracemalloc.stop()
    assert not any(map(seen.add, keys))
    assert digest("-") not in seen


def test_one_url_has_one_key() -> None:
    """However it is written; another path, query, port, scheme or password is another."""
    same = ("http://a.example", "HTTP://A.example:80/#top", "http://a.example/b/../")
    other = (
        "http://a.example/b",
        "http://a.example/?b",
        "http://a.example:8080/",
        "https://a.example/",
        "no",
        "No",
    )
    secret = ("http://c@a.example/", "http://c:d@a.example/")
    assert len(set(map(key_of, same))) == 1
    assert len({key_of(url) for url in (same[0], *other, *secret)}) == 1 + len(other) + len(secret)
