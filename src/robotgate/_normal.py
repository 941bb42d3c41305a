"""The one spelling in which rules and targets are compared (RFC 9309 §2.2.2, §2.2.3).

Rules and targets are compared in one normal form, pure ASCII: an octet that cannot stand bare in a path or query is
escaped, in upper-case hex; an escaped octet that means the same bare is bare. What stays escaped differs from the
bare octet: ``%2F %3F %23 %25 %26 %3D %2B``; save that in a query ``/`` and ``?`` mean the same either way (the second
example of §2.2.2). ``%2A`` and ``%24`` in a rule are the octets, not the wildcard and the end mark, and so are a
target's own ``*`` and ``$``.
"""

from __future__ import annotations

import re
from typing import Final

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_SAME_ESCAPED: Final = frozenset(_UNRESERVED + "!'(),;:@")
"""Means the same bare and escaped: bare in the normal form (RFC 3986 §2.3, and what separates nothing)."""
PLAIN: Final = r"[!&-)+-;=?-Z_a-z~]"
"""A character that is bare in the normal form, of a target and of a rule: an expression."""
PLAIN_TARGET: Final = re.compile(rf"/{PLAIN}*+")
"""A target of nothing but characters that are bare in the normal form."""
as_written: Final = re.compile(rf"([^/]*+//[^/]*+)(/{PLAIN}*+)(?<!\?)").fullmatch
"""Of a URL, its origin as written, and its path and query, where nothing in them but a dot segment can keep aiohttp
from sending them just so, and them from being the normal form. Cutting and looking are one here: it is the most of what
a question costs whose answer is known."""
_PLAIN_PATTERN: Final = re.compile(r"[!&-;=?-Z_a-z~]*\$?")
_TO_SPELL: Final = re.compile(r"([^!&-)+-;=?-Z_a-z~](?:(?<=%)[0-9A-Fa-f]{2})?+)")


class _Spellings(dict[str, str]):
    """What replaces each escape and each character that is not plain."""

    def __missing__(self, text: str) -> str:
        return "".join(f"%{octet:02X}" for octet in text.encode("utf-8", "surrogatepass"))


def _escape_spellings() -> _Spellings:
    digits = "0123456789ABCDEFabcdef"
    spellings = _Spellings()
    for escape in (f"%{high}{low}" for high in digits for low in digits):
        character = chr(int(escape[1:], 16))
        spellings[escape] = character if character in _SAME_ESCAPED else escape.upper()
    return spellings


_IN_TARGET: Final = _escape_spellings()
_IN_PATTERN: Final = _Spellings(_IN_TARGET | {"*": "*"})
_ESCAPE: Final = re.compile("(%[0-9A-F]{2})")
_UNITS: Final = {f"%{octet:02X}": chr(0x100 + octet) for octet in range(0x100)}


class _UnitSpellings(dict[str, str]):
    """As `_Spellings`, in units."""

    def __missing__(self, text: str) -> str:
        return "".join(chr(0x100 + octet) for octet in text.encode("utf-8", "surrogatepass"))


_TARGET_UNITS: Final = _UnitSpellings(
    (escape, _UNITS.get(spelling, spelling)) for escape, spelling in _IN_TARGET.items()
)


def normalise_target(target: str) -> str:
    """The normal form of a path and query; a fragment is dropped, an empty path is ``/``."""
    if PLAIN_TARGET.fullmatch(target):
        return target
    target = target.partition("#")[0]
    if not target.startswith("/"):
        target = f"/{target}"
    return _one_query_spelling(_respelt(_TO_SPELL, _IN_TARGET, target))


def target_units(target: str) -> str:
    """The units of a target's normal form, see `units`, at once."""
    return target if PLAIN_TARGET.fullmatch(target) else respelt_units(target)


def respelt_units(target: str) -> str:
    """As `target_units`, for a target that is known not to be plain."""
    if "#" in target:
        target = target.partition("#")[0]
    if not target.startswith("/"):
        target = f"/{target}"
    octets = _respelt(_TO_SPELL, _TARGET_UNITS, target)
    if _UNITS["%2F"] in octets or _UNITS["%3F"] in octets:
        path, mark, query = octets.partition("?")
        return path + mark + in_query(query)
    return octets


def normalise_pattern(pattern: str) -> str:
    """The normal form of a rule's pattern. ``*`` stays, and ``$`` at the very end; its length is the priority."""
    if _PLAIN_PATTERN.fullmatch(pattern):
        return pattern
    end = "$" if pattern.endswith("$") else ""
    body = pattern[: len(pattern) - len(end)]
    return _one_query_spelling(_respelt(_TO_SPELL, _IN_PATTERN, body)) + end


def _respelt(expression: re.Pattern[str], spellings: dict[str, str], text: str) -> str:
    """The text with all that the expression finds, and captures, replaced."""
    parts = expression.split(text)
    parts[1::2] = map(spellings.__getitem__, parts[1::2])
    return "".join(parts)


def _one_query_spelling(text: str) -> str:
    path, mark, query = text.partition("?")
    return path + mark + query.replace("%2F", "/").replace("%3F", "?") if "%" in query else text


def units(normal: str) -> str:
    """One character for each octet, so that a wildcard cannot end within an escape."""
    return _respelt(_ESCAPE, _UNITS, normal) if "%" in normal else normal


def in_query(piece: str) -> str:
    """A pattern's piece in units, as it is found in a query."""
    return piece.replace(_UNITS["%2F"], "/").replace(_UNITS["%3F"], "?")
