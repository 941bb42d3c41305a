"""Gzip, undone while the bytes come: in pieces of bounded size, and no more than a sitemap may have."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 50 * 1024 * 1024
"""Of one unpacked file, and of what it is unpacked from (sitemaps.org)."""
PIECE_BYTES: Final = 64 * 1024
"""Bytes that are unpacked or parsed at once."""
MAX_LAYERS: Final = 2
"""A gzip file may be sent with gzip as its Content-Encoding."""
MAX_MEMBERS: Final = 128
"""Of one gzip file (RFC 1952 §2.2). A member may be empty, but costs as much as a full one."""
_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class BrokenSitemapError(ValueError):
    """A file is no sitemap from here on; the message says why."""


class Unpacker:
    """Undoes gzip, if the bytes are gzip: files of several members and, within limits, of several layers."""

    def __init__(self, layers: int = MAX_LAYERS) -> None:
        self._layers = layers
        self._taken = 0
        self._head: bytes | None = b""
        """The beginning, until it is long enough to tell whether it is gzip; then None."""
        self._inner: Unpacker | None = None
        """Takes what is unpacked here; None if the bytes are not gzip."""
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give what the bytes hold, in pieces.

        Raises:
            BrokenSitemapError: they are broken, or too many.
        """
        self._taken += len(data)
        if self._taken > MAX_BYTES:
            raise BrokenSitemapError(f"longer than {MAX_BYTES:,} bytes")
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_GZIP):
                self._head = data
                return
            self._head = None
            if self._layers and data.startswith(_GZIP):
                self._inner = Unpacker(self._layers - 1)
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
        if self._inner is None:
            yield self._head or b""
            return
        yield from self._inner.end()
        if not self._inflater.eof:
            raise BrokenSitemapError("the gzip file breaks off")

    def _inflate(self, data: bytes, inner: Unpacker) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:
                # Zeros may follow the last member (gzip takes them, because tapes had them).
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise BrokenSitemapError(f"the gzip file has more than {MAX_MEMBERS} members")
                self._inflater = zlib.decompressobj(_GZIP_WINDOW)
            try:
                piece = self._inflater.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise BrokenSitemapError(f"the gzip file is broken ({error})") from error
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            yield from inner.feed(piece)
