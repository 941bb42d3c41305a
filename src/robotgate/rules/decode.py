"""The bytes of a robots.txt as UTF-8, where its owner serves others.

RFC 9309 §2.3 asks for UTF-8. Two other forms are read as well, as they are mistakes of well-meaning owners: UTF-16 with
its byte order mark, as editors and shells of Windows write it (UTF-32 likewise), and gzip without a Content-Encoding,
as static hosts serve a file that was uploaded compressed. `grammar.readable` passes over byte order marks.
"""

from __future__ import annotations

import re
import zlib
from codecs import (
    BOM_UTF16_BE,
    BOM_UTF16_LE,
    BOM_UTF32_BE,
    BOM_UTF32_LE,
    utf_8_decode,
    utf_16_decode,
    utf_32_decode,
)
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
    ((BOM_UTF32_LE, BOM_UTF32_BE), utf_32_decode),
    ((BOM_UTF16_LE, BOM_UTF16_BE), utf_16_decode),
)
ENCODED: Final = (GZIP, BOM_UTF16_LE, BOM_UTF16_BE, BOM_UTF32_BE)
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
    """Whether a body in UTF-8, or in a charset that shares its ASCII, can be a text or the begin of one."""
    if len(body.translate(None, _NOT_IN_TEXT)) < len(body):
        return False
    try:
        utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return _WORD_IN_BYTES.search(body) is not None
    return True


def _inflated(body: bytes, room: int) -> tuple[bytes, str | None]:
    """The first bytes of a gzip file, at most `room`, and why they are not all that it should hold."""
    text = b""
    for _ in range(MAX_MEMBERS):
        inflater = zlib.decompressobj(_GZIP_ONLY)
        try:
            text += inflater.decompress(body, room - len(text))
        except zlib.error as error:
            return text, f"it is not the gzip that it begins as ({error})"
        if len(text) >= room:
            return text, None
        if not inflater.eof:
            return text, "its gzip breaks off"
        # Some tools fill up their last block.
        body = inflater.unused_data.lstrip(b"\0")
        if not body:
            return text, None
    return text, f"its gzip has more than {MAX_MEMBERS} members"
