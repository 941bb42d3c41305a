"""The bytes of a robots.txt as UTF-8, where its owner serves others.

RFC 9309 §2.3 asks for UTF-8. Two other forms are read as well, as they are mistakes of well-meaning owners: UTF-16 with
its byte order mark, as editors and shells of Windows write it (UTF-32 likewise), and gzip without a Content-Encoding,
as static hosts serve a file that was uploaded compressed. `grammar.readable` passes over byte order marks.
"""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from typing import Final

MAX_MEMBERS: Final = 128
"""Gzip members of one body (RFC 1952 §2.2). A member can be empty, but costs as much as a full one."""
MAX_TIMES: Final = 4
"""How often a body may have been compressed."""
GZIP: Final = b"\x1f\x8b\x08"
_GZIP_ONLY: Final = 16 + zlib.MAX_WBITS
# The mark of UTF-32 LE begins with that of UTF-16 LE.
_DECODERS: Final = (
    ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), codecs.utf_32_decode),
    ((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), codecs.utf_16_decode),
)
ENCODED: Final = (GZIP, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""How a body begins that may need decoding."""
_WORD_IN_BYTES: Final = re.compile(rb"agent|allow|site-?map|delay", re.IGNORECASE)
"""In UTF-16 the letters of these have NULs between them."""

_NOT_IN_TEXT: Final = bytes([*range(9), *range(14, 26), *range(28, 32), 127])
"""Control characters but white space, and those that end a file or begin a colour."""


def decoded(body: bytes, max_bytes: int) -> tuple[bytes, str | None]:
    """A body in UTF-8, or as it is where it is in no form that is known here; and what is wrong with it, if anything.

    Args:
        max_bytes: how much is decoded, and how long the result is, up to about twice. Of what is cut, or breaks off,
            the last line is left out, as it may be a part of one.
    """
    problem, is_cut = None, False
    for _ in range(MAX_TIMES):
        if not body.startswith(GZIP):
            break
        text, fault = _inflated(body[:max_bytes], max_bytes + 1)
        is_cut = is_cut or fault is not None
        if len(body) < max_bytes:
            problem = problem or fault
        if not text and fault is not None:
            return body, problem
        body = text
    if body.startswith(GZIP):
        problem = problem or f"it was compressed more than {MAX_TIMES} times"
    for marks, decode in _DECODERS:
        if body.startswith(marks) and not _WORD_IN_BYTES.search(body):
            is_cut = is_cut or len(body) >= max_bytes
            with suppress(UnicodeDecodeError):
                # Without the half of a character at its end.
                body = decode(body[:max_bytes], "strict", False)[0].encode()
            break
    if is_cut:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    return body, problem


def is_text(body: bytes) -> bool:
    """Whether a body in UTF-8, or in a charset that shares its ASCII, can be a text or the beginning of one."""
    if len(body.translate(None, _NOT_IN_TEXT)) < len(body):
        return False
    try:
        codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return _WORD_IN_BYTES.search(body) is not None
    return True


def _inflated(body: bytes, room: int) -> tuple[bytes, str | None]:
    """The first bytes of a gzip file, at most `room`, and why they are not all that it should hold."""
    text, inflater = b"", Inflater()
    try:
        while body and len(text) < room:
            piece, body = inflater.inflate(body, room - len(text))
            text += piece
    except ValueError as error:
        return text, f"its gzip {error}"
    return text, None if inflater.is_complete or len(text) >= room else "its gzip breaks off"


class Inflater:
    """Undoes gzip or deflate in bounded steps: a file may have several members, and zeros behind the last."""

    def __init__(self) -> None:
        self.is_complete: bool = True
        """Whether the file may end here."""
        self._members = 0
        self._member = zlib.decompressobj()
        """The last; not used before the first."""

    def inflate(self, data: bytes, most: int, *, window: int = _GZIP_ONLY) -> tuple[bytes, bytes]:
        """Return the next bytes of what the data hold, at most so many, and the data that are left.

        Args:
            window: that of zlib, for a member that begins here.

        Raises:
            ValueError: the file is broken, or has too many members.
        """
        if self.is_complete:
            # Some tools fill up their last block.
            data = data.lstrip(b"\0") if self._members else data
            if not data:
                return b"", b""
            self._members += 1
            if self._members > MAX_MEMBERS:
                raise ValueError(f"has more than {MAX_MEMBERS} members")
            self._member = zlib.decompressobj(window)
        try:
            piece = self._member.decompress(data, most)
        except zlib.error as error:
            raise ValueError(f"is not compressed as it says ({error})") from error
        self.is_complete = self._member.eof
        return piece, self._member.unconsumed_tail or self._member.unused_data
