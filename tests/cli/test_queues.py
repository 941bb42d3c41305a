"""How ``robotgate fetch`` takes URLs in: bounded, and fair to hosts."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.cli._fetch import HostQueues
from robotgate.cli._input import CHUNK_SIZE, MAX_URL_OCTETS, LineSplitter, count_urls, read_urls

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_list_sorted_by_host_keeps_many_hosts_busy() -> None:
    """Each host goes to one worker; the next worker gets the next host."""
    queues = HostQueues(100)
    for host in ("a", "b", "c"):
        for number in range(3):
            await queues.add(host, f"{host}{number}")

    assert [await queues.take() for _ in range(3)] == [("a", "a0"), ("b", "b0"), ("c", "c0")]
    queues.give_back("b")
    assert await queues.take() == ("b", "b1")


async def test_no_more_is_taken_in_than_there_is_room_for() -> None:
    """A full hand waits until a URL is done."""
    queues = HostQueues(2)
    await queues.add("a", "a0")
    await queues.add("a", "a1")

    third = asyncio.ensure_future(queues.add("b", "b0"))
    await queues.take()
    assert not third.done()
    queues.give_back("a")
    await third


async def test_it_is_done_when_nothing_is_in_hand() -> None:
    """Also when it never was; a host with URLs left counts."""
    queues = HostQueues(10)
    await queues.all_done()
    for number in range(2):
        await queues.add("a", f"a{number}")
    done = asyncio.ensure_future(queues.all_done())
    for _ in range(2):
        assert not done.done()
        await queues.take()
        queues.give_back("a")
    await done


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"# c", b"http://a.example/", b" x", b"\xff", b"\0"])),
    st.data(),
)
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes], data: st.DataObject) -> None:
    """Reading in chunks cuts no URL and joins none."""
    octets = b"".join(pieces)
    whole, chunked = LineSplitter(), LineSplitter()
    urls: list[str] = []
    rest = octets
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        urls += chunked.feed(rest[:size])
        rest = rest[size:]

    assert urls + chunked.feed(b"\n") == whole.feed(octets) + whole.feed(b"\n")


def test_an_endless_line_is_cut() -> None:
    """A file without newlines does not fill the memory; its line stays recognisably too long."""
    splitter = LineSplitter()
    for _ in range(10):
        splitter.feed(b"x" * CHUNK_SIZE)

    assert splitter.feed(b"\n") == ["x" * (MAX_URL_OCTETS + 1)]


async def test_a_file_is_read_no_faster_than_it_is_taken(tmp_path: Path) -> None:
    """Of a long file, only the next few chunks are in memory."""
    path = tmp_path / "urls.txt"
    path.write_text("http://a.example/0123456789\n" * 200_000, encoding="utf-8")
    descriptor = os.open(path, os.O_RDONLY)
    batches = read_urls(descriptor)

    first = await anext(batches)
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    count = len(first) + sum([len(batch) async for batch in batches])

    assert position <= 5 * CHUNK_SIZE
    assert count == count_urls(str(path)) == 200_000
    os.close(descriptor)


async def test_what_cannot_be_read_raises(tmp_path: Path) -> None:
    """A directory opens, and gives no line."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await anext(read_urls(descriptor))
    os.close(descriptor)
