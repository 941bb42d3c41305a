"""One spelling of paths: the normal form in which rules and targets are compared (RFC 9309 §2.2.2, §2.2.3).

A target is the path and query of a URL. The normal form is pure ASCII: a byte that cannot stand unescaped in a path or
query is escaped, in upper-case hex; a byte that means the same escaped and unescaped is unescaped. These stay as
written, because their escape differs from the bare byte: ``/ ? # % & = +``. In a query, ``/`` and ``?`` mean the same
either way (the second example of §2.2.2). ``%2A`` and ``%24`` in a rule are those bytes, not the wildcard and the end
mark; so are ``*`` and ``$`` in a target. A lone ``%`` before a wildcard or at the end of a rule is the beginning of any
escape that a normal form has: it matches ``%20``, not ``%41``, which is ``A``.

Matching works on the *units* of a normal form: one character per byte, so that a wildcard cannot end inside an escape.
An escaped byte of ASCII is a character from U+0100 on, so that ``*``, ``$`` and ``%`` in units are special, always. Any
other escaped byte is the character of its number.
"""

from __future__ import annotations

import re
from codecs import unicode_escape_decode
from functools import lru_cache
from typing import Final

from robotgate.errors import InvalidURLError

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_SAME_ESCAPED: Final = frozenset(_UNRESERVED + "!'(),;:@")
"""Characters that mean the same escaped and unescaped (RFC 3986 §2.3, and delimiters without a role in paths)."""
_PLAIN: Final = r"[!&-)+-;=?-Z_a-z~]"
"""An expression for a character that is unescaped in every normal form."""
is_plain: Final = re.compile(rf"/{_PLAIN}*+").fullmatch
"""Whether a target is its own normal form because it has only such characters."""
is_plain_reference: Final = re.compile(rf"/(?!/){_PLAIN}*+").fullmatch
"""The same of what may also be a URL: one without its scheme begins with two slashes."""
as_written: Final = re.compile(rf"([^/]*+//[^/]*+)(/{_PLAIN}*+)(?<!\?)").fullmatch
"""Splits a URL into its origin and target as written, if aiohttp sends that target unchanged and it is its own normal
form, apart from dot segments. One expression does both, because it is most of the cost of a question to a warm gate."""
_has_simple_escapes: Final = re.compile(rf"/{_PLAIN}*+(?:%[89A-Fa-f][0-9A-Fa-f]{_PLAIN}*+)*+").fullmatch
"""The same of a target that may have escapes, if all are of bytes that are not ASCII. Most others are like this."""
_ESCAPES: Final = r"(?<=%)[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2}){0,30}+"
"""The rest of a run of escapes after its first character. A longer run is taken in parts: parts are cached."""
_TO_SPELL: Final = re.compile(rf"[^!&-)+-;=?-Z_a-z~](?:{_ESCAPES})?+")
_TO_SPELL_IN_PATTERN: Final = re.compile(
    rf"[^\n!&-;=?-Z_a-z~](?:(?<![%$])|{_ESCAPES}|(?<=%)(?![*\n]|\Z)|(?<=\$)(?![\n]|\Z))"
)
"""All but a wildcard, an end mark, and a lone percent sign before a wildcard or at the end of a line."""


_UNIT_OF_BYTE: Final = "".join(
    chr(byte) if byte > 0x7F or chr(byte) in _SAME_ESCAPED else chr(0x100 + byte) for byte in range(0x100)
)


@lru_cache(4_096)
def _spelt(text: str) -> str:
    """The units of a run of escapes, or of a character that is not plain. A surrogate escape is the byte it hides."""
    if len(text) > 1:
        raw = bytes.fromhex(text.replace("%", ""))
    else:
        raw = text.encode("utf-8", "surrogateescape" if "\udc80" <= text <= "\udcff" else "surrogatepass")
    return raw.decode("latin-1").translate(_UNIT_OF_BYTE)


def _units_of(match: re.Match[str]) -> str:
    return _spelt(match[0])


ESCAPED_SLASH: Final = _spelt("%2F")
ESCAPED_MARK: Final = _spelt("%3F")
"""An escaped question mark."""


def target_units(target: str) -> str:
    """The units of a path and query, with escapes in its query as written.

    A fragment is dropped; an empty path is ``/``.
    """
    path = target.partition("#")[0]
    return _TO_SPELL.sub(_units_of, path if path.startswith("/") else f"/{path}")


def as_sent(target: str) -> str:
    """The units of a path and query as a client sends it: with dot segments resolved.

    Raises:
        InvalidURLError: it neither begins with ``/`` nor is ``*``.
    """
    if _has_simple_escapes(target):
        # Twice as fast as below. Python's own escapes mean the characters with these numbers, as units do.
        units = unicode_escape_decode(target.replace("%", r"\x"))[0]
    elif target.startswith("/") or target == "*":
        units = target_units(target)
    else:
        raise InvalidURLError(target, "a path begins with a slash")
    return without_dot_segments(units) if "/." in units else units


def without_dot_segments(target: str) -> str:
    """Units of a target with dot segments resolved (RFC 3986 §5.2.4)."""
    path, mark, query = target.partition("?")
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if path.endswith(("/.", "/..")):
        kept.append("")
    return f"/{'/'.join(kept)}{mark}{query}"


def pattern_units(pattern: str) -> str:
    """The units of the normal form of a pattern, or of many, one in a line."""
    units = _TO_SPELL_IN_PATTERN.sub(_units_of, pattern)
    if ESCAPED_SLASH in units or ESCAPED_MARK in units:
        units = "\n".join(map(with_query_unescaped, units.split("\n")))
    return units


def normal_length(pattern: str) -> int:
    """The length of the normal form of a pattern in units: the priority of its rule (RFC 9309 §2.2.2)."""
    return len(pattern) + (0 if pattern.isascii() else 2 * sum(unit > "\x7f" for unit in pattern))


def unescaped(piece: str) -> str:
    """Units with slashes and question marks unescaped, which is what both mean in a query."""
    return piece.replace(ESCAPED_SLASH, "/").replace(ESCAPED_MARK, "?")


def with_query_unescaped(target: str) -> str:
    """A target in units, with the slashes and question marks of its query unescaped."""
    path, mark, query = target.partition("?")
    return path + mark + unescaped(query)
