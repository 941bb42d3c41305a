"""Patterns with wildcards, matched by a few substring searches, left to right, none of which looks back.

Patterns and targets are in units (`robotgate._normal.units`): one character for each octet. A site's text is never
made into a regular expression.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

from robotgate._normal import in_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MANY: Final = 64
_KEY: Final = 3


def split_pattern(pattern: str) -> tuple[str, bool, bool]:
    """What a match begins with, whether it may go on after that, and whether it must hold more to match."""
    head, star, rest = pattern.removesuffix("$").partition("*")
    is_open = bool(star) or not pattern.endswith("$")
    return head, is_open, bool(rest.strip("*"))


def wildcard_matches(pattern: str, target: str) -> bool:
    """Whether a pattern with wildcards matches the whole of a target."""
    head, *pieces = pattern.removesuffix("$").split("*")
    if not target.startswith(head):
        return False
    tail = pieces.pop() if pattern.endswith("$") else ""
    if not pattern.isascii() and is_undecided(pattern):
        return _undecided_matches(head, pieces, tail, target)
    position = len(head)
    for piece in pieces:
        found = target.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(target) - len(tail) >= position and target.endswith(tail)


def is_undecided(pattern: str) -> bool:
    """Whether only the match tells if an escaped slash or question mark behind a wildcard stands in the query.

    In a path such a piece is found as it is, in a query unescaped. Queries in the normal form hold none of the two
    escapes, so a piece that is found as it is was found in the path.
    """
    behind_wildcard = pattern.partition("?")[0].partition("*")[2]
    return in_query(behind_wildcard) != behind_wildcard


def _undecided_matches(head: str, pieces: list[str], tail: str, target: str) -> bool:
    query = target.find("?") + 1 or len(target) + 1
    position = len(head)
    for piece in filter(None, pieces):
        found, length = target.find(piece, position), len(piece)
        if found < 0:
            unescaped = in_query(piece)
            found, length = target.find(unescaped, max(position, query)), len(unescaped)
        if found < 0:
            return False
        position = found + length
    if len(target) - len(tail) >= position and target.endswith(tail):
        return True
    tail = in_query(tail)
    return len(target) - len(tail) >= max(position, query) and target.endswith(tail)


def _fixed_pieces(pattern: str) -> list[str]:
    """What every match holds, in this spelling."""
    head, *pieces = pattern.removesuffix("$").split("*")
    if not pattern.isascii() and is_undecided(pattern):
        pieces = [piece for piece in pieces if in_query(piece) == piece]
    return [head, *pieces]


def _needle(pattern: str) -> str:
    """The longest text that every match holds, for it is the rarest; of several the last."""
    if not pattern.isascii():
        return max(_fixed_pieces(pattern)[::-1], key=len)
    return max(pattern.removesuffix("$").split("*")[::-1], key=len)


class Wildcards:
    """Many patterns with wildcards, of which a target meets few.

    Few patterns are sorted out by a text that each needs, those that need a query apart. Many are found by three
    characters that each needs, chosen to be shared by as few of them as possible.
    """

    __slots__ = ("_keyed", "_needles", "_patterns", "_query_needles", "_query_patterns")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._keyed: dict[str, tuple[str, ...]] | None = None
        if len(patterns) >= _MANY:
            self._keyed, patterns = _keyed(patterns)
        needles = [_needle(pattern) for pattern in patterns]
        in_query = ["?" in needle for needle in needles]
        self._query_needles = tuple(compress(needles, in_query))
        self._query_patterns = tuple(compress(patterns, in_query))
        if self._query_needles:
            elsewhere = [not of_query for of_query in in_query]
            needles, patterns = list(compress(needles, elsewhere)), list(compress(patterns, elsewhere))
        self._needles, self._patterns = tuple(needles), tuple(patterns)

    def matches(self, target: str) -> bool:
        """Whether one of them matches."""
        for needle, pattern in zip(self._needles, self._patterns, strict=True):
            if needle in target and wildcard_matches(pattern, target):
                return True
        if self._query_needles and "?" in target:
            for needle, pattern in zip(self._query_needles, self._query_patterns, strict=True):
                if needle in target and wildcard_matches(pattern, target):
                    return True
        if not self._keyed:
            return False
        return any(wildcard_matches(pattern, target) for pattern in self._keyed_for(target))

    def matching(self, target: str) -> Iterable[str]:
        """Those that match."""
        for needles, patterns in (
            (self._needles, self._patterns),
            (self._query_needles, self._query_patterns),
        ):
            for needle, pattern in zip(needles, patterns, strict=True):
                if needle in target and wildcard_matches(pattern, target):
                    yield pattern
        for pattern in self._keyed_for(target):
            if wildcard_matches(pattern, target):
                yield pattern

    def _keyed_for(self, target: str) -> Iterable[str]:
        keyed = self._keyed
        if keyed is None:
            return
        keys = {target[at : at + _KEY] for at in range(len(target) - _KEY + 1)}
        for key in keyed.keys() & keys:
            yield from keyed[key]


def _keyed(patterns: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The patterns by their keys, and those that are too short to have one."""
    found: dict[str, list[str]] = {}
    keyless: list[str] = []
    for pattern in patterns:
        keys = [
            piece[at : at + _KEY]
            for piece in _fixed_pieces(pattern)
            for at in range(min(len(piece) - _KEY + 1, _MANY))
        ]
        if not keys:
            keyless.append(pattern)
            continue
        key = min(keys, key=lambda key: len(found.get(key, ())))
        found.setdefault(key, []).append(pattern)
    return {key: tuple(entries) for key, entries in found.items()}, keyless
