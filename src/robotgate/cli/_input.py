"""URLs from a file or from standard input, read no faster than they are taken."""

from __future__ import annotations

import asyncio
import os
import threading
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

CHUNK_SIZE: Final = 65_536
CHUNKS_AHEAD: Final = 2
MAX_URL_OCTETS: Final = 8192
"""Of a longer line only so much is kept; it is no URL that any server takes."""

Batch: TypeAlias = "list[str] | OSError | None"
"""Some URLs; or why there are no more; None at the end."""


class LineSplitter:
    """Cuts octets into URLs, one a line, without blank lines and ``#`` comments; keeps no more than one line."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_first = True

    def feed(self, octets: bytes) -> list[str]:
        """The URLs of the lines that are complete now. At the end of the input feed one more newline."""
        *lines, rest = (self._rest + octets).split(b"\n")
        if self._is_first and lines:
            lines[0] = lines[0].removeprefix(BOM_UTF8)
            self._is_first = False
        self._rest = rest[: MAX_URL_OCTETS + 1]
        return [url for line in lines if (url := _url(line))]


def _url(line: bytes) -> str:
    text = line[: MAX_URL_OCTETS + 1].decode(errors="replace").strip()
    return "" if text.startswith("#") else text


async def read_urls(descriptor: int) -> AsyncGenerator[list[str], None]:
    """The URLs of an open file, pipe or terminal, in batches.

    Raises:
        OSError: it cannot be read.
    """
    batches: asyncio.Queue[Batch] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD)
    loop = asyncio.get_running_loop()

    def hand_over(batch: Batch) -> None:
        room.acquire()
        loop.call_soon_threadsafe(batches.put_nowait, batch)

    # A read from a terminal or a pipe cannot be interrupted, so the thread is one that nobody waits for.
    threading.Thread(target=_read, args=(descriptor, hand_over), name="read URLs", daemon=True).start()
    while (batch := await batches.get()) is not None:
        room.release()
        if isinstance(batch, OSError):
            raise batch
        yield batch


def _read(descriptor: int, hand_over: Callable[[Batch], None]) -> None:
    splitter = LineSplitter()
    try:
        try:
            # Not through sys.stdin: its lock, held by a thread that never returns, would hang the program's end.
            while chunk := os.read(descriptor, CHUNK_SIZE):
                hand_over(splitter.feed(chunk))
            hand_over(splitter.feed(b"\n"))
            hand_over(None)
        except OSError as error:
            hand_over(error)
    except RuntimeError:
        return  # The loop is closed: nobody wants more.


def count_urls(path: str) -> int:
    """How many URLs a file holds.

    Raises:
        OSError: it cannot be read.
    """
    splitter = LineSplitter()
    count = 0
    with Path(path).open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_SIZE):
            count += len(splitter.feed(chunk))
    return count + len(splitter.feed(b"\n"))
