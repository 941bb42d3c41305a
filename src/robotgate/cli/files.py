"""Files: what ``robotgate fetch`` keeps besides rows.

A body has a file of its own, and beside it a ``.meta.json`` with its row and its headers. A WARC file (ISO 28500) has a
request and a response record for each request that was answered, redirects and robots.txt included, and a metadata
record for each page if what its site says about its use is kept.
"""

from __future__ import annotations

import asyncio
import io
import mimetypes
import os
import re
import tempfile
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from aiohttp import (
    ClientResponse,
    ClientSession,
    HttpVersion10,
    TraceConfig,
    TraceRequestEndParams,
    TraceRequestRedirectParams,
)
from yarl import URL

from robotgate.cli.common import os_errors
from robotgate.cli.lists import digest
from robotgate.cli.output import json_of
from robotgate.sites.record import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from warcio.recordloader import ArcWarcRecord

    from robotgate import Response
    from robotgate.client.robots import Fetcher
    from robotgate.sites.record import Failure

Exchange: TypeAlias = "tuple[datetime, ClientResponse]"
"""When the head of a response came, and the response."""

MAX_STEM: Final = 80
"""Characters of a URL that stand in a file's name."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_ENCODINGS: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
"""Headers that describe the body as it was sent. The body is kept decoded."""
_WARC: Final = ".warc"
"""What comes behind the number of a file."""
_exchanges: ContextVar[list[Exchange]] = ContextVar("robotgate_exchanges")
"""Those of the page, or of the robots.txt, that is being fetched."""


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


def free_path(path: Path) -> Path:
    """Return a path, or where there is a file, one with a number in its name: ``pages-2.warc.gz``."""
    stem, dot, end = path.name.rpartition(_WARC) if _WARC in path.name else (path.name, "", "")
    numbered = (path.with_name(f"{stem}-{number}{dot}{end}") for number in count(2))
    return next(each for each in chain([path], numbered) if not os.path.lexists(each))


class WarcFile:
    """A new WARC file, compressed record by record; it is valid after every `save`, however the program ends.

    Args:
        path: where `open` creates it.
        software: what the file names as its writer.

    Raises:
        ModuleNotFoundError: warcio is not installed.
    """

    def __init__(self, path: Path, software: str) -> None:
        try:
            # Installed only with the extra.
            from warcio.warcwriter import WARCWriter  # noqa: PLC0415
        except ImportError as error:
            raise ModuleNotFoundError('--warc needs warcio: pip install "robotgate[warc]"') from error
        writer = WARCWriter(about_file := io.BytesIO(), gzip=True)
        about = {"software": software, "format": "WARC File Format 1.1"}
        writer.write_record(writer.create_warcinfo_record(path.name, about))
        self._about = about_file.getvalue()
        self.path = path
        self.trace_config: TraceConfig = TraceConfig()
        """Notes the exchanges of a session: each redirect, and each attempt."""
        self.trace_config.on_request_redirect.append(_note)
        self.trace_config.on_request_end.append(_note)

    def open(self) -> Self:
        """Create it.

        Raises:
            OSError: there is such a file, or it cannot be created.
        """
        # Unbuffered, so that what `save` has written stays if the program is killed.
        self._file = self.path.open("xb", buffering=0)
        self._append(self._about)
        return self

    def recorded(self, fetcher: Fetcher) -> Fetcher:
        """Return a fetcher whose answers are recorded here."""
        return _RobotsRecorder(fetcher, self)

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

    async def save_robots(self, exchange: Exchange, body: bytes, *, is_whole: bool) -> None:
        """Write the records of one request for a robots.txt.

        Raises:
            OSError: they cannot be written.
        """
        self._append(await asyncio.to_thread(_records, exchange, body, {}, is_whole=is_whole))

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


@dataclass(frozen=True, slots=True)
class _RobotsRecorder:
    """Requests robots.txt files as a gate does, and writes each answer to a WARC file."""

    fetcher: Fetcher
    warc: WarcFile

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """As `Fetcher.fetch`."""
        # Not those of the page that waits for it.
        exchanges: list[Exchange] = []
        token = _exchanges.set(exchanges)
        try:
            answer = await self.fetcher.fetch(url, headers=headers, max_bytes=max_bytes, timeout=timeout)
        finally:
            _exchanges.reset(token)
        if isinstance(answer, Answer):
            with os_errors(f"keep {url}"):
                await self.warc.save_robots(exchanges[-1], answer.body, is_whole=len(answer.body) < max_bytes)
        return answer


async def _note(
    _: ClientSession, __: object, ended: TraceRequestEndParams | TraceRequestRedirectParams
) -> None:
    _exchanges.get([]).append((datetime.now(UTC), ended.response))


def _records(exchange: Exchange, body: bytes, said: Mapping[str, object], *, is_whole: bool = True) -> bytes:
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
    if not is_whole:
        response.rec_headers.add_header("WARC-Truncated", "length")
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
