"""What ``robotgate fetch`` keeps besides rows: bodies in a folder, exchanges in a WARC file; where it resumes.

A body has a file of its own, and beside it a ``.meta.json`` with its headers. A WARC file (ISO 28500) has a request and
a response record for each request that was answered, redirects included, and a metadata record for each page if what
its site says about its use is kept.
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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from aiohttp import HttpVersion10
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from robotgate import Response

MAX_STEM: Final = 80
"""Characters of a URL that stand in a file's name."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_ENCODINGS: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
"""Headers that describe the body as it was sent. The body is kept decoded."""
_DIGEST_BYTES: Final = 16


class WarcMissingError(Exception):
    """The library that writes WARC files is not installed."""


def file_name(url: str, media_type: str | None) -> str:
    """Return the name of the file for the body of a URL.

    It has lower-case ASCII letters, digits, dots, hyphens and underscores only, and never begins with a dot. Two URLs
    have two names: part of a hash of the URL is in each.
    """
    parts = URL(url)
    stem = _NOT_IN_NAMES.sub("_", f"{parts.host}{parts.raw_path}".lower())[:MAX_STEM].strip("._-")
    extension = mimetypes.guess_extension(media_type) if media_type is not None else None
    return f"{stem}-{_digest(url).hex()}{extension or '.bin'}"


def media_type_of(response: Response) -> str | None:
    """Return the media type that Content-Type names, without its parameters."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower() or None


def header_pairs(response: Response) -> list[tuple[str, str]]:
    """Return the headers of a response in their order; a name may come several times."""
    return [(str(name), value) for name, value in response.headers.items()]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with a file for the body of each URL."""

    path: Path

    async def save(self, url: str, response: Response, said: Mapping[str, object], *, ended_at: float) -> str:
        """Write the body and what describes it; return the name of the body's file. A former one is replaced.

        Args:
            said: about the use of the page.

        Raises:
            OSError: a file cannot be written.
        """
        media_type = media_type_of(response)
        name = file_name(url, media_type)
        described: dict[str, object] = {
            "url": url,
            "final_url": response.url,
            "status": response.status,
            "media_type": media_type,
            "ended_at": round(ended_at, 3),
            "file": name,
            "headers": header_pairs(response),
            **said,
        }
        meta = json.dumps(described, indent=1).encode() + b"\n"
        body = response.body

        def write() -> None:
            # The description last: where it is, the body is complete.
            self._write(name, body)
            self._write(f"{name}.meta.json", meta)

        await asyncio.to_thread(write)
        return name

    def _write(self, name: str, content: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=self.path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(temporary).replace(self.path / name)
        finally:
            with suppress(FileNotFoundError):
                Path(temporary).unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request as it was sent, and the head of its response."""

    url: str
    sent_at: datetime
    request_line: str
    request_headers: Sequence[tuple[str, str]]
    protocol: str
    status_line: str
    headers: Sequence[tuple[str, str]]


_exchanges: ContextVar[list[Exchange] | None] = ContextVar("robotgate_exchanges", default=None)
"""Those of the page that is being fetched."""


async def record_exchange(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Note a request and the head of its response: a middleware of an aiohttp session.

    It runs once for each redirect and each attempt. Requests for robots.txt do not pass it.
    """
    response = await handler(request)
    if (exchanges := _exchanges.get()) is not None:
        is_old = response.version == HttpVersion10
        protocol = "HTTP/1.0" if is_old else "HTTP/1.1"
        exchanges.append(
            Exchange(
                url=str(response.url),
                sent_at=datetime.now(UTC),
                request_line=f"{response.method} {response.url.raw_path_qs} HTTP/1.1",
                request_headers=[(str(name), value) for name, value in response.request_info.headers.items()],
                protocol=protocol,
                status_line=f"{response.status} {response.reason or ''}".rstrip(),
                headers=[(str(name), value) for name, value in response.headers.items()],
            )
        )
    return response


@contextmanager
def exchanges() -> Iterator[list[Exchange]]:
    """Collect what `record_exchange` notes of the requests that are sent within the block."""
    found: list[Exchange] = []
    token = _exchanges.set(found)
    try:
        yield found
    finally:
        _exchanges.reset(token)


@dataclass(slots=True)
class WarcFile:
    """A new WARC file, compressed record by record; it is valid after every `save`, however the program ends.

    Args:
        path: where it is created.
        software: what the file names as its writer.

    Raises:
        WarcMissingError: warcio is not installed.
        FileExistsError: there is such a file.
        OSError: it cannot be created.
    """

    path: Path
    software: str
    _file: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        try:
            # Installed only with the extra.
            from warcio.warcwriter import WARCWriter  # noqa: PLC0415
        except ImportError as error:
            raise WarcMissingError("--warc needs warcio: pip install 'robotgate[warc]'") from error
        writer = WARCWriter(about_file := io.BytesIO(), gzip=True)
        about = {"software": self.software, "format": "WARC File Format 1.1"}
        writer.write_record(writer.create_warcinfo_record(self.path.name, about))
        # Unbuffered: what `save` has written is with the system.
        self._file = self.path.open("xb", buffering=0)
        self._append(about_file.getvalue())

    async def save(self, response: Response, found: Sequence[Exchange], said: Mapping[str, object]) -> None:
        """Write the records of one page: those of its redirects without bodies, then its own.

        Args:
            said: about the use of the page, for a metadata record; empty for none.

        Raises:
            OSError: they cannot be written.
        """
        wanted = [*(hop.url for hop in response.history), response.url]
        # Of several attempts at a URL, the last is the one that was answered to the end.
        last = {exchange.url: exchange for exchange in found}
        pairs = [(last[url], url == response.url) for url in dict.fromkeys(wanted) if url in last]
        body = response.body
        content = await asyncio.to_thread(
            lambda: b"".join(
                _records(each, body, said) if is_page else _records(each, b"", {}) for each, is_page in pairs
            )
        )
        self._append(content)

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

    writer = WARCWriter(contents := io.BytesIO(), gzip=True)
    date = {"WARC-Date": exchange.sent_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    kept = [
        (f"X-Archive-Orig-{name}" if name.lower() in _ENCODINGS else name, _octets(value))
        for name, value in exchange.headers
    ]
    kept.append(("Content-Length", str(len(body))))
    response = writer.create_warc_record(
        exchange.url,
        "response",
        payload=io.BytesIO(body),
        length=len(body),
        http_headers=StatusAndHeaders(exchange.status_line, kept, protocol=exchange.protocol),
        warc_headers_dict=date.copy(),
    )
    sent = [(name, _octets(value)) for name, value in exchange.request_headers]
    request = writer.create_warc_record(
        exchange.url,
        "request",
        http_headers=StatusAndHeaders(exchange.request_line, sent, is_http_request=True),
        warc_headers_dict=date.copy(),
    )
    writer.write_request_response_pair(request, response)
    if said:
        described = json.dumps(said).encode()
        metadata = writer.create_warc_record(
            exchange.url,
            "metadata",
            payload=io.BytesIO(described),
            length=len(described),
            warc_content_type="application/json",
            warc_headers_dict={
                **date,
                "WARC-Concurrent-To": response.rec_headers.get_header("WARC-Record-ID"),
            },
        )
        writer.write_record(metadata)
    return contents.getvalue()


def _octets(value: str) -> str:
    """Return a header's value as warcio can encode it: bytes that are not UTF-8 become U+FFFD."""
    return value.encode(errors="surrogateescape").decode(errors="replace")


class Done:
    """The URLs that a file of rows has, as hashes of fixed size.

    Args:
        path: the file; None for no URLs. A last line that is cut off, because the run was killed, is removed.

    Raises:
        OSError: the file cannot be read or shortened.
    """

    def __init__(self, path: Path | None) -> None:
        self._digests: set[bytes] = set()
        if path is None or not path.exists():
            return
        whole = 0
        with path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(whole)
                    break
                whole += len(line)
                with suppress(ValueError):
                    row = json.loads(line)
                    if isinstance(row, dict) and isinstance(url := row.get("url"), str):
                        self._digests.add(_digest(url))

    def __contains__(self, url: str) -> bool:
        return _digest(url) in self._digests


def _digest(url: str) -> bytes:
    return hashlib.sha256(url.encode(errors="surrogatepass")).digest()[:_DIGEST_BYTES]
