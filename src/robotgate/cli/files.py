"""Files: lines that are read in bounded memory and no faster than they are used, and files that are written whole."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate import InvalidURLError
from robotgate.cli.common import os_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
    from typing import IO

MAX_URL_BYTES: Final = 8192
"""A longer URL is refused: servers accept none."""
CHUNK_BYTES: Final = 65_536
STANDARD_INPUT: Final = "-"


def open_input(source: str) -> int:
    """Return a descriptor of a file, or of standard input for ``-``.

    Raises:
        OSError: it cannot be opened.
    """
    return 0 if source == STANDARD_INPUT else os.open(source, os.O_RDONLY)


async def read_lines(descriptor: int, *, max_bytes: int) -> AsyncGenerator[list[bytes], None]:
    """Read lines, in batches as they come, to the end.

    Of a line longer than `max_bytes`, one byte more is kept, so that you can tell.

    Raises:
        OSError: it cannot be read.
    """
    kept, rest = max_bytes + 1, bytearray()
    while True:
        chunk = await _read(descriptor)
        first, *lines = (chunk or b"\n").split(b"\n")
        rest += first[: kept - len(rest)]
        if lines:
            yield [bytes(rest), *(line[:kept] for line in lines[:-1])]
            rest = bytearray(lines[-1][:kept])
        if not chunk:
            return


def urls_of(lines: Iterable[bytes]) -> list[str]:
    """Return the URLs of lines, without blank lines, ``#`` comments and byte order marks."""
    texts = (line.decode(errors="replace").removeprefix("\ufeff").strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


async def read_urls(given: Iterable[str], source: str | None) -> AsyncIterator[str]:
    """Yield the URLs of the command line, then those of a file, or of standard input for ``-``.

    Raises:
        CommandError: the file cannot be read.
    """
    for url in given:
        yield url
    if source is not None:
        with os_errors(f"read {source}"):
            async for lines in read_lines(open_input(source), max_bytes=MAX_URL_BYTES):
                for url in urls_of(lines):
                    yield url


def row_of(line: bytes) -> dict[str, object]:
    """Return a row of ``robotgate fetch``: an object with a URL. It is empty if the line is none."""
    with suppress(ValueError, RecursionError):
        row = json.loads(line)
        if isinstance(row, dict) and isinstance(row.get("url"), str):
            return row
    return {}


def check_length(url: str) -> None:
    """Refuse a URL that is longer than `MAX_URL_BYTES`, so that it may also be cut off.

    Raises:
        InvalidURLError: it is.
    """
    if len(url) > MAX_URL_BYTES or len(url.encode(errors="replace")) > MAX_URL_BYTES:
        raise InvalidURLError(url[:MAX_URL_BYTES], f"the URL is longer than {MAX_URL_BYTES} bytes")


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Write a file under a temporary name, for its owner alone; it takes its own name once it is complete.

    Raises:
        OSError: it cannot be written. A file of that name stays as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise


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
