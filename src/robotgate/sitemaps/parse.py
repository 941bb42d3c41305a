"""One sitemap, read while its bytes come, without I/O: from bytes to text, and from text to entries.

Its bytes tell what a file is, not its name or its headers: XML (a urlset, a sitemapindex, RSS 2.0 or Atom) if it begins
with ``<``, else a list of URLs, one a line. Time is linear in the length of the unpacked file, and memory is bounded,
whatever the bytes are.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from robotgate.clock import parse_date
from robotgate.errors import InvalidURLError
from robotgate.rules.decode import Inflater
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

MAX_BYTES: Final = 50 * 1024 * 1024
"""Of one unpacked file, and of what it is unpacked from (sitemaps.org)."""
PIECE_BYTES: Final = 64 * 1024
"""Bytes that are unpacked or parsed at once."""
MAX_LAYERS: Final = 2
"""A gzip file may be sent with gzip as its Content-Encoding."""
_GZIP: Final = b"\x1f"
"""How gzip begins (RFC 1952 §2.3.1); no text does."""


class BrokenSitemapError(ValueError):
    """A file is no sitemap from here on; the message says why."""


class Unpacker:
    """Undoes gzip, if the bytes are gzip: files of several members and, within limits, of several layers."""

    def __init__(self, layers: int = MAX_LAYERS) -> None:
        self._layers = layers
        self._taken = 0
        self._inner: Unpacker | None = None
        """Takes what is unpacked here; None if the bytes are not gzip."""
        self._inflater = Inflater()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give what the bytes hold, in pieces.

        Raises:
            BrokenSitemapError: they are broken, or too many.
        """
        if self._layers and not self._taken and data.startswith(_GZIP):
            self._inner = Unpacker(self._layers - 1)
        self._taken += len(data)
        if self._taken > MAX_BYTES:
            raise BrokenSitemapError(f"longer than {MAX_BYTES:,} bytes")
        if self._inner is None:
            for start in range(0, len(data), PIECE_BYTES):
                yield data[start : start + PIECE_BYTES]
        else:
            yield from self._inflate(data, self._inner)

    def end(self) -> Iterator[bytes]:
        """Give what is left.

        Raises:
            BrokenSitemapError: the bytes break off.
        """
        if self._inner is not None:
            yield from self._inner.end()
            if not self._inflater.is_complete:
                raise BrokenSitemapError("the gzip file breaks off")

    def _inflate(self, data: bytes, inner: Unpacker) -> Iterator[bytes]:
        while data:
            try:
                piece, data = self._inflater.inflate(data, PIECE_BYTES)
            except ValueError as error:
                raise BrokenSitemapError(f"the gzip file {error}") from error
            yield from inner.feed(piece)


MAX_ENTRIES: Final = 50_000
"""Of one file (sitemaps.org)."""
MAX_LOC: Final = 2048
"""Characters of one URL (sitemaps.org), and of any other value."""
MAX_SKIPPED: Final = 1000
"""Entries without a usable URL, and damaged ones, before the rest of a file is left."""
MAX_DEPTH: Final = 32
"""Of nested elements. The parser remembers all that are open."""
MAX_NAMES: Final = 1000
"""Different names of elements and attributes. The parser remembers all."""
MAX_TAG_BYTES: Final = 1024 * 1024
"""Of one tag or comment. The parser begins it anew with each piece."""
HEAD_BYTES: Final = 4
"""The beginning of a file, which shows whether it is in UTF-16. Else it is in UTF-8 (sitemaps.org)."""

_BYTE_ORDER: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_LINE_END: Final = re.compile(r"[\r\n]+")
_MONTH: Final = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapEntry:
    """One URL of a sitemap, and what the sitemap says about it."""

    loc: str
    """An absolute http or https URL, as written; of whichever site."""
    sitemap: str
    """The URL of the sitemap that lists it."""
    lastmod: datetime | None = None
    """When the page changed last, with a time zone: UTC where none is written, midnight where no time is. None if it is
    not given or no date."""


@dataclass(frozen=True, slots=True)
class _Format:
    path: list[str]
    """The elements from the root to an entry."""
    fields: Mapping[str, str]
    """What is read of an entry: the names in the file, and what they are here."""
    link: str | None = None
    """The element whose attribute is the URL, unless it has another relation than "alternate"."""


_FORMATS: Final = {
    "urlset": _Format(["urlset", "url"], {"loc": "loc", "lastmod": "lastmod"}),
    "sitemapindex": _Format(["sitemapindex", "sitemap"], {"loc": "loc", "lastmod": "lastmod"}),
    "rss": _Format(["rss", "channel", "item"], {"link": "loc", "pubDate": "lastmod"}),
    "feed": _Format(["feed", "entry"], {"updated": "lastmod"}, link="link"),
}
"""By the name of the root."""
MAX_PREFIX: Final = 40
"""Characters of the prefix of a root that is looked for behind damage."""
_ROOT: Final = re.compile(rf"<(?:[\w.-]{{1,{MAX_PREFIX}}}:)?(?:{'|'.join(_FORMATS)})(?=[\s/>])".encode())


class SitemapFile:
    """One sitemap, whose bytes come in chunks.

    Args:
        url: its URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.entries: list[SitemapEntry] = []
        """What was read. Of an index, these are sitemaps."""
        self.is_index = False
        self.skipped: int = 0
        """Entries that have no usable URL."""
        self.first_skipped: str = ""
        self.damaged: int = 0
        """Entries that are left out because the XML is damaged there."""
        self.first_damage: str = ""
        self._head = bytearray()
        """The beginning, until its encoding is known."""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._reader: _XmlReader | _LineReader | None = None
        self._is_left = False
        """Whether the rest is not read, because of what stood before it."""
        self._unpacker = Unpacker()

    def feed(self, chunk: bytes) -> Iterator[None]:
        """Take the next bytes. It is a generator, so that other work may be done after each piece.

        Raises:
            BrokenSitemapError: the file is no sitemap, or too long. `entries` has the entries before the fault.
        """
        for piece in self._unpacker.feed(chunk):
            self._parse(piece)
            yield

    def end(self) -> None:
        """Take the end of the file.

        Raises:
            BrokenSitemapError: it is not complete.
        """
        for piece in self._unpacker.end():
            self._parse(piece)
        self._parse(b"", is_last=True)
        if self._reader is None:
            raise BrokenSitemapError("it is empty")
        self._read(self._reader, "", is_end=True)

    def break_off(self) -> None:
        """Read what has come of a file whose rest is missing or broken."""
        with suppress(BrokenSitemapError):
            if not self._is_left:
                self._parse(b"", is_last=True)

    def add(self, loc: str, lastmod: str = "") -> None:
        """Take an entry, or count it as skipped.

        Raises:
            BrokenSitemapError: there are too many.
        """
        loc = loc.strip()
        if not _is_usable(loc):
            self.skipped += 1
            self.first_skipped = self.first_skipped or loc[:MAX_LOC]
            self._check_skipped()
            return
        if len(self.entries) >= MAX_ENTRIES:
            raise BrokenSitemapError(f"more than {MAX_ENTRIES:,} URLs")
        if month := _MONTH.fullmatch(lastmod):
            lastmod = f"{month[1]}-{month[2] or '01'}-01"
        self.entries.append(SitemapEntry(loc=loc, sitemap=self.url, lastmod=parse_date(lastmod)))

    def leave_out(self, damage: str) -> None:
        """Count an entry as damaged.

        Raises:
            BrokenSitemapError: there are too many.
        """
        self.damaged += 1
        self.first_damage = self.first_damage or damage
        self._check_skipped()

    def _check_skipped(self) -> None:
        if self.skipped + self.damaged > MAX_SKIPPED:
            raise BrokenSitemapError(f"more than {MAX_SKIPPED:,} entries are damaged or have no usable URL")

    def _parse(self, piece: bytes, *, is_last: bool = False) -> None:
        if self._decoder is None:
            self._head += piece
            if len(self._head) < HEAD_BYTES and not is_last:
                return
            piece = bytes(self._head)
            encoding = next((name for mark, name in _BYTE_ORDER if piece.startswith(mark)), "utf-8")
            self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        text = self._decoder.decode(piece, final=is_last)
        if self._reader is None:
            # Blanks before the XML declaration are a common mistake.
            text = text.lstrip()
            if not text:
                return
            self._reader = _XmlReader(self) if text[0] == "<" else _LineReader(self)
        self._read(self._reader, text)

    def _read(self, reader: _XmlReader | _LineReader, text: str, *, is_end: bool = False) -> None:
        try:
            reader.feed(text, is_end=is_end)
        except BrokenSitemapError:
            self._is_left = True
            raise


class _LineReader:
    """Reads a list of URLs, one a line."""

    def __init__(self, file: SitemapFile) -> None:
        self._file = file
        self._rest = ""

    def feed(self, text: str, *, is_end: bool = False) -> None:
        # What is longer than a URL is skipped anyway.
        *lines, self._rest = _LINE_END.split(self._rest[: MAX_LOC + 1] + text + ("\n" if is_end else ""))
        for line in lines:
            if line.strip():
                self._file.add(line)


class _UnclosedEntryError(Exception):
    """An entry begins within another one."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        """Where it begins in what the parser was given, which reads on."""


class _XmlReader:
    """Reads XML of any of the formats. Namespaces are not looked at, but for the root's prefix: many are wrong.

    Where the XML is damaged, a new parser goes on with the next entry, as if the root had just begun.
    """

    def __init__(self, file: SitemapFile) -> None:
        self._file = file
        self._names: dict[str, str] = {}
        self._format = _Format([], {})
        self._prefix = ""
        """Of the root, with the colon."""
        self._next = _ROOT
        """Where to go on behind damage."""
        self._damage = ""
        """What is wrong, while that place is looked for."""
        self._begin(b"", b"")

    def _begin(self, head: bytes, rest: bytes) -> None:
        """Parse from here on with a new parser, which is given a head of our own first."""
        self._parser = parser = expat.ParserCreate("utf-8", None, self._names)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._finish
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = parser.SkippedEntityHandler = self._refuse_entities
        if hasattr(parser, "SetReparseDeferralEnabled"):
            # Newer versions parse in larger steps, against long tags in small pieces. `MAX_TAG_BYTES` is against these,
            # and what has come of a file that breaks off is to be read to its end.
            parser.SetReparseDeferralEnabled(False)
        self._open: list[str] = []
        """The names of the open elements, without the root's prefix; empty where one has another."""
        self._values: dict[str, str] = {}
        """Of the open entry."""
        self._field: str | None = None
        """The value that is being read."""
        self._text = ""
        self._tail = bytearray(rest)
        """What the parser has not finished: the beginning of a tag or comment."""
        self._tail_at = len(head)
        """Where that begins in what the parser is given."""
        parser.Parse(head)

    def feed(self, text: str, *, is_end: bool = False) -> None:
        data = text.encode()
        self._tail += data
        while True:
            if self._damage and not (data := self._behind_damage()):
                if is_end and self._next is _ROOT:
                    raise BrokenSitemapError(self._damage)
                return
            try:
                self._parser.Parse(data, is_end)
            except expat.ExpatError as error:
                self._drop_until(self._parser.ErrorByteIndex + 1)
                self._damage = f"not well-formed XML ({error})"
            except _UnclosedEntryError as error:
                self._drop_until(error.index)
                self._damage = "an entry has no end"
            else:
                self._drop_until(self._parser.CurrentByteIndex)
                break
            if is_end and not self._next.search(self._tail):
                raise BrokenSitemapError(self._damage)
            if self._next is not _ROOT:
                self._file.leave_out(self._damage)
        if len(self._tail) > MAX_TAG_BYTES:
            raise BrokenSitemapError(f"a tag or comment is longer than {MAX_TAG_BYTES:,} bytes")

    def _behind_damage(self) -> bytes:
        """Begin anew at the next entry, and return what has come from there on; nothing if none has come yet."""
        found = self._next.search(self._tail)
        if found is None:
            # A name may come in two pieces.
            del self._tail[: -len(self._next.pattern) - MAX_PREFIX]
            return b""
        rest = bytes(self._tail[found.start() :])
        if self._next is _ROOT:
            self._file.leave_out(self._damage)
        self._damage = ""
        self._begin("".join(f"<{self._prefix}{name}>" for name in self._format.path[:-1]).encode(), rest)
        return rest

    def _drop_until(self, index: int) -> None:
        """Forget what stands before an index of what the parser was given."""
        done = max(index - self._tail_at, 0)
        del self._tail[:done]
        self._tail_at += done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > MAX_DEPTH:
            raise BrokenSitemapError(f"elements are nested deeper than {MAX_DEPTH}")
        if len(self._names) > MAX_NAMES:
            raise BrokenSitemapError(f"more than {MAX_NAMES:,} names of elements and attributes")
        if not self._open:
            prefix, colon, root = name.rpartition(":")
            if root not in _FORMATS:
                raise BrokenSitemapError(f"no sitemap: its root is <{name[:80]}>")
            self._format, self._prefix = _FORMATS[root], prefix + colon
            entry = re.escape(f"<{self._prefix}{self._format.path[-1]}".encode())
            self._next = re.compile(entry + rb"(?=[\s/>])")
            self._file.is_index = root == "sitemapindex"
        local = name[len(self._prefix) :] if name.startswith(self._prefix) else ""
        if local == self._format.path[-1] and (self._open == self._format.path or self._field is not None):
            raise _UnclosedEntryError(self._parser.CurrentByteIndex)
        if self._open == self._format.path:
            if local in self._format.fields:
                self._field, self._text = self._format.fields[local], ""
            elif local == self._format.link and attributes.get("rel", "alternate") == "alternate":
                # Atom (RFC 4287 §4.2.7).
                self._values.setdefault("loc", attributes.get("href", ""))
        self._open.append(local)
        if self._open == self._format.path:
            self._values = {}

    def _characters(self, text: str) -> None:
        if self._field is not None and len(self._text) <= MAX_LOC:
            # One character more than a value may have shows that it is too long.
            self._text += text[: MAX_LOC + 1]

    def _finish(self, _: str) -> None:
        if self._open == self._format.path:
            self._file.add(self._values.get("loc", ""), self._values.get("lastmod", ""))
        self._open.pop()
        if self._field is not None and self._open == self._format.path:
            self._values.setdefault(self._field, self._text.strip())
            self._field = None

    def _refuse_entities(self, *_: object) -> None:
        raise BrokenSitemapError("it has entities of its own")


def _is_usable(loc: str) -> bool:
    # U+FFFD replaces bytes that are invalid in the encoding: the URL that was meant is not known.
    if len(loc) > MAX_LOC or "\ufffd" in loc:
        return False
    try:
        Origin.of(loc)
    except InvalidURLError:
        return False
    return True
