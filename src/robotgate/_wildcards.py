"""Patterns with wildcards, matched by a few substring searches, left to right, none of which looks back.

Patterns and targets are in units (`robotgate._normal.units`): one character for each octet. A site's text is never
made into a regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate._normal import in_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MANY: Final = 96
_KEY: Final = 3
_KEYS_TRIED: Final = 8


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


def _needles(pattern: str) -> tuple[str, str]:
    """The two longest texts that every match holds, for they are the rarest."""
    pieces = _fixed_pieces(pattern) if not pattern.isascii() else pattern.removesuffix("$").split("*")
    pieces.sort(key=len)
    return pieces[-1], pieces[-2] if len(pieces) > 1 else ""


class Wildcards:
    """Many patterns with wildcards, of which a target meets few.

    Few patterns are sorted out by a text that each needs, those that need a query apart. Many are found by three
    characters that each needs, chosen to be shared by as few of them as possible.
    """

    __slots__ = ("_entries", "_entries_in_query", "_keyed")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._keyed: dict[str, tuple[str, ...]] | None = None
        if len(patterns) >= _MANY:
            self._keyed, patterns = _keyed(patterns)
        entries = tuple((*_needles(pattern), pattern) for pattern in patterns)
        self._entries_in_query = entries
        if any("?" in needle for needle, _, _ in entries):
            entries = tuple(entry for entry in entries if "?" not in entry[0])
        self._entries = entries

    def matches(self, target: str) -> bool:
        """Whether one of them matches."""
        for needle, other, pattern in self._entries_in_query if "?" in target else self._entries:
            if needle in target and other in target and wildcard_matches(pattern, target):
                return True
        if self._keyed is None:
            return False
        return any(wildcard_matches(pattern, target) for pattern in _keyed_for(self._keyed, target))


class RankedWildcards:
    """Many patterns with wildcards, each with its rank."""

    __slots__ = ("_entries", "_keyed", "_ranks")

    def __init__(self, ranks: dict[str, int]) -> None:
        patterns = sorted(ranks, key=ranks.__getitem__, reverse=True)
        self._ranks = ranks
        self._keyed: dict[str, tuple[str, ...]] | None = None
        if len(patterns) >= _MANY:
            self._keyed, patterns = _keyed(patterns)
        self._entries = [(ranks[pattern], *_needles(pattern), pattern) for pattern in patterns]

    def best(self, target: str, best: int) -> int:
        """The rank of the best pattern that matches, if it is greater than `best`; else that."""
        for rank, needle, other, pattern in self._entries:
            if rank <= best:
                break
            if needle in target and other in target and wildcard_matches(pattern, target):
                best = rank
                break
        if self._keyed is not None:
            for pattern in _keyed_for(self._keyed, target):
                rank = self._ranks[pattern]
                if rank > best and wildcard_matches(pattern, target):
                    best = rank
        return best


def _keyed_for(keyed: dict[str, tuple[str, ...]], target: str) -> Iterable[str]:
    """The patterns whose key the target holds."""
    keys = {target[at : at + _KEY] for at in range(len(target) - _KEY + 1)}
    for key in keyed.keys() & keys:
        yield from keyed[key]


def _keyed(patterns: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The patterns by their keys, and those that are too short to have one."""
    found: dict[str, list[str]] = {}
    keyless: list[str] = []
    for pattern in patterns:
        needle, _ = _needles(pattern)
        last = len(needle) - _KEY
        if last < 0:
            keyless.append(pattern)
            continue
        key, users = "", len(patterns)
        for at in range(0, last + 1, last // _KEYS_TRIED + 1):
            candidate = needle[at : at + _KEY]
            count = len(found.get(candidate, ()))
            if count < users:
                key, users = candidate, count
                if not count:
                    break
        found.setdefault(key, []).append(pattern)
    return {key: tuple(entries) for key, entries in found.items()}, keyless
