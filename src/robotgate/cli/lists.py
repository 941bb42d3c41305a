"""Lists of URLs, read in bounded memory, and which of them came before."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import os
import re
import threading
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from robotgate import InvalidURLError, Origin
from robotgate.cli.common import os_errors
from robotgate.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

MAX_URL_BYTES: Final = 8192
"""A longer URL is refused: servers accept none."""
CHUNK_BYTES: Final = 65_536
STANDARD_INPUT: Final = "-"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Its byte order marks."""
_UNREADABLE: Final = re.compile("[\0\ufffd\ud800-\udfff]")
"""What a URL has that was read in another encoding than its own, or was saved by a program that could not read it."""
_WITHOUT_SCHEME: Final = re.compile(r"(?:(?:[\w-]+\.)+[\w-]+|localhost)(?::[0-9]+)?([/?#].*)?")
"""A host with a dot in its name, and whatever follows it."""
_NOT_UTF_8: Final = (
    "its encoding is not UTF-8: save the list in UTF-8 (as by iconv -f WINDOWS-1252 -t UTF-8), or in UTF-16 with a byte"
    " order mark"
)


def open_input(source: str) -> int:
    """Return a descriptor of a file, or of standard input for ``-``.

    Raises:
        OSError: it cannot be opened.
    """
    return 0 if source == STANDARD_INPUT else os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0))


async def read_lines(descriptor: int, *, max_bytes: int) -> AsyncGenerator[list[bytes], None]:
    """Read lines, in batches as they come, to the end. UTF-16 with its byte order mark becomes UTF-8.

    Of a line longer than `max_bytes`, one byte more is kept, so that its length can be checked.

    Raises:
        OSError: it cannot be read.
    """
    kept, rest = max_bytes + 1, bytearray()
    chunk = await _read(descriptor)
    if len(chunk) == 1:
        # It may be half a byte order mark.
        chunk += await _read(descriptor)
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass") if chunk.startswith(_UTF_16) else None
    while True:
        text = chunk
        if decoder is not None:
            # Surrogates without a partner, and half a character at the end, become bytes that are no UTF-8.
            is_half = not chunk and decoder.getstate()[0]
            text = b"\xff" if is_half else decoder.decode(chunk).encode("utf-8", "surrogatepass")
        first, *lines = (text if chunk else text + b"\n").split(b"\n")
        rest += first[: kept - len(rest)]
        if lines:
            yield [bytes(rest), *(line[:kept] for line in lines[:-1])]
            rest = bytearray(lines[-1][:kept])
        if not chunk:
            return
        chunk = await _read(descriptor)


def urls_of(lines: Iterable[bytes]) -> list[str]:
    """Return the URLs of lines, without blank lines, ``#`` comments and byte order marks.

    A byte that is no UTF-8 becomes a lone surrogate, by which `check_url` refuses the URL.
    """
    texts = (line.decode(errors="surrogateescape").removeprefix("\ufeff").strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


async def read_whole(source: str, *, max_bytes: int) -> bytes:
    """Return what a file has, or standard input for ``-``: at most so many bytes of it.

    Raises:
        OSError: it cannot be read.
    """
    body, descriptor = b"", open_input(source)
    try:
        while len(body) < max_bytes and (chunk := await _read(descriptor)):
            body += chunk
    finally:
        if descriptor:
            os.close(descriptor)
    return body[:max_bytes]


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


def check_url(url: str) -> None:
    """Refuse a URL that is longer than `MAX_URL_BYTES`, so that it may also be cut off, or is in another encoding.

    One without its scheme is refused with a hint.

    Raises:
        InvalidURLError: it is.
    """
    if len(url) > MAX_URL_BYTES or len(url.encode(errors="replace")) > MAX_URL_BYTES:
        raise InvalidURLError(url[:MAX_URL_BYTES], f"the URL is longer than {MAX_URL_BYTES} bytes")
    if _UNREADABLE.search(url):
        raise InvalidURLError(url, _NOT_UTF_8)
    if found := _WITHOUT_SCHEME.fullmatch(url):
        raise InvalidURLError(url, f"it has no scheme: write https://{url}{'' if found[1] else '/'}")


def shown(url: str) -> str:
    """Return a URL, at most `MAX_URL_BYTES` of it, with bytes that are no UTF-8 as escapes of Python."""
    return url[:MAX_URL_BYTES].encode(errors="surrogateescape").decode(errors="backslashreplace")


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


class Digests:
    """A set of URLs, as digests: some 20 bytes each, so that many fit into memory."""

    def __init__(self) -> None:
        # A set of bytes would take five times as much.
        self._parts: defaultdict[bytes, bytearray] = defaultdict(bytearray)
        """By the first two bytes of a digest, the rests, one behind the other."""

    def __contains__(self, key: bytes) -> bool:
        # That 14 bytes of two digests make a third one is no likelier than that two URLs have one digest.
        return key[2:] in self._parts.get(key[:2], b"")

    def add(self, key: bytes) -> bool:
        """Add a digest; return whether it is new."""
        if key in self:
            return False
        self._parts[key[:2]] += key[2:]
        return True

    def discard(self, key: bytes) -> None:
        """Remove a digest, if it is there."""
        part = self._parts.get(key[:2], bytearray())
        at = part.find(key[2:])
        if at >= 0:
            del part[at : at + len(key) - 2]


def key_of(url: str) -> bytes:
    """Return a digest of what is requested: without the fragment, and the same for two spellings of one URL."""
    try:
        parsed = parse_url(url)
        origin = Origin.of(parsed)
    except InvalidURLError:
        return digest(url)
    credentials = "" if parsed.raw_user is None else f"{parsed.raw_user}:{parsed.raw_password}@"
    return digest(f"{credentials}{origin}{parsed.raw_path_qs or '/'}")


def digest(url: str) -> bytes:
    """Return a hash of a URL: of fixed size, so that many fit into memory."""
    return hashlib.sha256(url.encode(errors="surrogatepass")).digest()[:16]
