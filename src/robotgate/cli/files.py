"""Files: lines that are read in bounded memory, and what ``robotgate fetch`` keeps besides rows.

A body has a file of its own, and beside it a ``.meta.json`` with its row and its headers. A WARC file (ISO 28500) has a
request and a response record for each request that was answered, redirects included, and a metadata record for each
page if what its site says about its use is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import mimetypes
import os
import re
import tempfile
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, HttpVersion10
from yarl import URL

from robotgate import InvalidURLError, Response
from robotgate.cli.common import os_errors
from robotgate.cli.output import json_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
    from typing import IO

    from warcio.recordloader import ArcWarcRecord

Exchange: TypeAlias = "tuple[datetime, ClientResponse]"
"""When the head of a response came, and the response."""

MAX_URL_BYTES: Final = 8192
"""A longer URL is refused: servers accept none."""
CHUNK_BYTES: Final = 65_536
STANDARD_INPUT: Final = "-"
MAX_STEM: Final = 80
"""Characters of a URL that stand in a file's name."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_ENCODINGS: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
"""Headers that describe the body as it was sent. The body is kept decoded."""
_exchanges: ContextVar[list[Exchange]] = ContextVar("robotgate_exchanges")
"""Those of the page that is being fetched."""


def open_input(source: str) -> int:
    """Return a descriptor of a file, or of standard input for ``-``.

    Raises:
        OSError: it cannot be opened.
    """
    return 0 if source == STANDARD_INPUT else os.open(source, os.O_RDONLY)


async def read_lines(descriptor: int, *, max_bytes: int) -> AsyncGenerator[list[bytes], None]:
    """Read lines, in batches as they come, to the end.

    Of a line longer than `max_bytes`, one byte more is kept, so that its length can be checked.

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


def file_name(url: str, media_type: str | None) -> str:
    """Return the name of the file for the body of a URL.

    It has lower-case ASCII letters, digits, dots, hyphens and underscores only, and never begins with a dot. Two URLs
    have two names: part of a hash of the URL is in each.
    """
    parts = URL(url)
    stem = _NOT_IN_NAMES.sub("_", f"{parts.host}{parts.raw_path}".lower())[:MAX_STEM].strip("._-")
    extension = mimetypes.guess_extension(media_type) if media_type is not None else None
    return f"{stem}-{digest(url).hex()}{extension or '.bin'}"


def media_type_of(response: Response) -> str | None:
    """Return the media type that Content-Type names, without its parameters."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower() or None


async def save(folder: Path, name: str, body: bytes, row: Mapping[str, object]) -> None:
    """Write a body, and beside it the row of its page. Former ones are replaced.

    Raises:
        OSError: a file cannot be written.
    """

    def write() -> None:
        # The row last: where it is, the body is complete.
        for kept, content in ((name, body), (f"{name}.meta.json", _json(row))):
            with replaced(folder / kept) as file:
                file.write(content)

    await asyncio.to_thread(write)


async def record(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Note a request and its response for a `WarcFile`: a middleware of an aiohttp session.

    It runs once for each redirect and each attempt. Requests for robots.txt do not pass it.
    """
    response = await handler(request)
    _exchanges.get([]).append((datetime.now(UTC), response))
    return response


class WarcFile:
    """A new WARC file, compressed record by record; it is valid after every `save`, however the program ends.

    Args:
        path: where it is created.
        software: what the file names as its writer.

    Raises:
        ModuleNotFoundError: warcio is not installed.
        OSError: there is such a file, or it cannot be created.
    """

    def __init__(self, path: Path, software: str) -> None:
        try:
            # Installed only with the extra.
            from warcio.warcwriter import WARCWriter  # noqa: PLC0415
        except ImportError as error:
            raise ModuleNotFoundError("--warc needs warcio: pip install 'robotgate[warc]'") from error
        writer = WARCWriter(about_file := io.BytesIO(), gzip=True)
        about = {"software": software, "format": "WARC File Format 1.1"}
        writer.write_record(writer.create_warcinfo_record(path.name, about))
        # Unbuffered, so that what `save` has written stays if the program is killed.
        self._file = path.open("xb", buffering=0)
        self._append(about_file.getvalue())

    def begin(self) -> None:
        """Note the exchanges of this task from now on: those of its next page."""
        _exchanges.set([])

    async def save(self, page: Response, said: Mapping[str, object]) -> None:
        """Write the records of one page: those of its redirects without bodies, then its own.

        Args:
            said: about the use of the page, for a metadata record; empty for none.

        Raises:
            OSError: they cannot be written.
        """
        # Of several attempts at a URL, the last is the one that was answered to the end.
        last = {str(exchange[1].url): exchange for exchange in _exchanges.get()}
        urls = dict.fromkeys([*(hop.url for hop in page.history), page.url])

        def records() -> list[bytes]:
            contents = {page.url: (page.body, said)}
            return [_records(last[url], *contents.get(url, (b"", {}))) for url in urls if url in last]

        self._append(b"".join(await asyncio.to_thread(records)))

    def _append(self, content: bytes) -> None:
        whole = self._file.tell()
        try:
            view = memoryview(content)
            while view:
                view = view[self._file.write(view) :]
        except BaseException:
            # Half a record would make the file invalid.
            self._file.truncate(whole)
            self._file.seek(whole)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _records(exchange: Exchange, body: bytes, said: Mapping[str, object]) -> bytes:
    """Return a response record, and the request and metadata records that belong to it, compressed."""
    from warcio.statusandheaders import StatusAndHeaders  # noqa: PLC0415 - installed only with the extra
    from warcio.warcwriter import WARCWriter  # noqa: PLC0415 - as above

    at, answer = exchange
    url, date = str(answer.url), {"WARC-Date": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    writer = WARCWriter(contents := io.BytesIO(), gzip=True)

    def made(kind: str, content: bytes, **more: object) -> ArcWarcRecord:
        about = {"payload": io.BytesIO(content), "length": len(content), "warc_headers_dict": date.copy()}
        return writer.create_warc_record(url, kind, **about, **more)

    kept = [
        (f"X-Archive-Orig-{name}" if name.lower() in _ENCODINGS else name, _octets(value))
        for name, value in answer.headers.items()
    ]
    status = f"{answer.status} {answer.reason or ''}".rstrip()
    protocol = "HTTP/1.0" if answer.version == HttpVersion10 else "HTTP/1.1"
    head = StatusAndHeaders(status, [*kept, ("Content-Length", str(len(body)))], protocol=protocol)
    response = made("response", body, http_headers=head)
    sent = [(name, _octets(value)) for name, value in answer.request_info.headers.items()]
    asked = StatusAndHeaders(f"{answer.method} {answer.url.raw_path_qs} HTTP/1.1", sent, is_http_request=True)
    writer.write_request_response_pair(made("request", b"", http_headers=asked), response)
    if said:
        metadata = made("metadata", _json(said), warc_content_type="application/json")
        response_id = response.rec_headers.get_header("WARC-Record-ID")
        metadata.rec_headers.add_header("WARC-Concurrent-To", response_id)
        writer.write_record(metadata)
    return contents.getvalue()


def _octets(value: str) -> str:
    """Return a header's value as warcio can encode it: bytes that are not UTF-8 become U+FFFD."""
    return value.encode(errors="surrogateescape").decode(errors="replace")


def _json(values: Mapping[str, object]) -> bytes:
    return json_of(values, indent=1).encode() + b"\n"


def done_urls(path: Path) -> set[bytes]:
    """Return the URLs that a file of rows has, as digests. A last line that a killed run has cut off is removed.

    Raises:
        OSError: the file cannot be read or shortened.
    """
    digests: set[bytes] = set()
    if not path.exists():
        return digests
    whole = 0
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                file.truncate(whole)
                break
            whole += len(line)
            if row := row_of(line):
                digests.add(digest(str(row["url"])))
    return digests


def digest(url: str) -> bytes:
    """Return a hash of a URL: of fixed size, so that many fit into memory."""
    return hashlib.sha256(url.encode(errors="surrogatepass")).digest()[:16]
