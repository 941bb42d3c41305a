"""Lines of a file, a pipe or a terminal, read in bounded memory and no faster than they are used."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

MAX_URL_BYTES: Final = 8192
"""A longer line is refused: servers take no such URL."""
CHUNK_BYTES: Final = 65_536
STANDARD_INPUT: Final = "-"


class LineSplitter:
    """Cuts bytes into lines. Of a line longer than `max_bytes` it keeps one byte more, so that you can tell."""

    def __init__(self, max_bytes: int) -> None:
        self._kept_bytes = max_bytes + 1
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends. At the end of the input feed one newline."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest[: self._kept_bytes - len(self._rest)]
        return [line[: self._kept_bytes] for line in lines]


def open_input(source: str) -> int:
    """Return a descriptor of a file, or of standard input for ``-``.

    Raises:
        OSError: it cannot be opened.
    """
    return 0 if source == STANDARD_INPUT else os.open(source, os.O_RDONLY)


async def read_lines(descriptor: int, *, max_bytes: int) -> AsyncGenerator[list[bytes], None]:
    """Read lines, in batches as they come, to the end.

    Raises:
        OSError: it cannot be read.
    """
    splitter = LineSplitter(max_bytes)
    while chunk := await _read(descriptor):
        yield splitter.feed(chunk)
    yield splitter.feed(b"\n")


def urls_of(lines: Iterable[bytes]) -> list[str]:
    """Return the URLs of lines, without blank lines, ``#`` comments and byte order marks."""
    texts = (line.decode(errors="replace").removeprefix("\ufeff").strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


async def _read(descriptor: int) -> bytes:
    result: Future[bytes] = Future()
    result.set_running_or_notify_cancel()

    def read() -> None:
        try:
            # Not through sys.stdin: its lock, held by a thread that never returns, would stop Python from exiting.
            result.set_result(os.read(descriptor, CHUNK_BYTES))
        except OSError as error:
            result.set_exception(error)

    # A daemon, because a read from a terminal or a pipe cannot be interrupted: Ctrl-C must not wait for it.
    threading.Thread(target=read, name="read lines", daemon=True).start()
    return await asyncio.wrap_future(result)
