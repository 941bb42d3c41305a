"""Collects a body within a bound, whatever it unfolds to (RFC 9110 §8.4.1).

A gigabyte of one letter is a megabyte of gzip: what is beyond the bound is never unfolded.
"""

from __future__ import annotations

import zlib
from typing import Final

ACCEPTED: Final = "gzip, deflate"
"""The content codings that `BoundedBody` reads, as Accept-Encoding has them."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS


def whole_lines(body: bytes, *, max_bytes: int) -> bytes:
    """A file up to the bound; of one that goes on beyond it, the lines that end within.

    Half a rule may allow, or refuse, what the whole one does not.
    """
    if len(body) <= max_bytes:
        return body
    end = max(body.rfind(b"\n", 0, max_bytes), body.rfind(b"\r", 0, max_bytes))
    return body[: end + 1]


class BoundedBody:
    """The first octets of a body, decoded.

    Args:
        content_encoding: the header's value.
        max_bytes: the bound.

    Raises:
        ValueError: a coding that was not asked for.
    """

    def __init__(self, content_encoding: str | None, *, max_bytes: int) -> None:
        coding = (content_encoding or "identity").strip().lower()
        if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise ValueError(f"the Content-Encoding {content_encoding!r} was not asked for")
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._is_compressed = coding not in ("identity", "")
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._is_deflate = coding == "deflate"
        self._was_fed = False
        self._held_back = b""
        self.is_full = False
        """Whether the body goes on beyond the bound; no more need be fed."""

    def feed(self, chunk: bytes) -> None:
        """Take in the next octets as they came.

        Raises:
            ValueError: they are not what Content-Encoding says.
        """
        if not chunk:
            return
        self._was_fed = True
        if self._is_deflate and not self._body:
            # Whether there is a zlib header is seen in its two octets.
            chunk, self._held_back = self._held_back + chunk, b""
            if len(chunk) == 1:
                self._held_back = chunk
                return
        room = self._max_bytes - len(self._body) + 1
        self._body += chunk[:room] if not self._is_compressed else self._inflate(chunk, room)
        self.is_full = len(self._body) > self._max_bytes

    def end(self) -> bytes:
        """The body, up to the bound.

        Raises:
            ValueError: the coding breaks off.
        """
        if not self.is_full and self._is_compressed and self._was_fed and not self._inflater.eof:
            raise ValueError("the compressed body breaks off")
        return bytes(self._body[: self._max_bytes])

    def _inflate(self, chunk: bytes, room: int) -> bytes:
        try:
            return self._members(chunk, room)
        except zlib.error as error:
            raise ValueError(f"the body is not compressed as it says ({error})") from error

    def _members(self, chunk: bytes, room: int) -> bytes:
        """Unfold a chunk, which may hold the end of one gzip member and others after it (RFC 1952 §2.2)."""
        unfolded = b""
        while chunk and len(unfolded) < room:
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            unfolded += self._first(chunk, room - len(unfolded))
            chunk = self._inflater.unused_data
        return unfolded

    def _first(self, chunk: bytes, room: int) -> bytes:
        try:
            return self._inflater.decompress(chunk, room)
        except zlib.error:
            if not self._is_deflate or self._body:
                raise
            # Many servers send "deflate" without its zlib wrapper (RFC 9110 §8.4.1.2 notes it).
            self._inflater = zlib.decompressobj(_RAW_DEFLATE)
            return self._inflater.decompress(chunk, room)
