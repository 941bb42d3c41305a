"""Patterns with wildcards, matched by a few substring searches, left to right, none of which looks back.

Patterns and targets are in units (`robotgate._normal.units`): one character for each octet. A site's text is never
made into a regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate._normal import in_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MANY: Final = 96
_KEY: Final = 3
_KEYS_TRIED: Final = 8


def split_pattern(pattern: str) -> tuple[str, bool, bool]:
    """What a match begins with, whether it may go on after that, and whether it must hold more to match."""
    head, star, rest = pattern.partition("*")
    if star:
        return head, True, rest.removesuffix("$").strip("*") != ""
    return head.removesuffix("$"), not head.endswith("$"), False


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
    """The longest text that every match holds, for it is the rarest."""
    pieces = pattern.removesuffix("$").split("*") if pattern.isascii() else _fixed_pieces(pattern)
    return max(pieces, key=len)


class Wildcards:
    """Many patterns with wildcards, of which a target meets few.

    Of few patterns, those that ask for one text behind the first slash, anywhere or at the end, are no more than that
    text. The others are sorted out by a text that each needs, those that need a query apart. Many are found by three
    characters that each needs, chosen to be shared by as few of them as possible.
    """

    __slots__ = (
        "_anywhere",
        "_anywhere_in_query",
        "_at_end",
        "_keyed",
        "_needles",
        "_needles_in_query",
        "_patterns",
    )

    def __init__(self, patterns: Sequence[str]) -> None:
        self._keyed: dict[str, tuple[str, ...]] | None = None
        anywhere: list[str] = []
        at_end: list[str] = []
        if len(patterns) >= _MANY:
            self._keyed, patterns = _keyed(patterns)
        else:
            anywhere, at_end, patterns = _one_text(patterns)
        self._at_end = tuple(at_end)
        self._anywhere_in_query = tuple(anywhere)
        self._anywhere = _without_query(self._anywhere_in_query)
        by_needle = _by_needle(patterns)
        # Each in its place: a dict takes twice as much as two tuples.
        self._needles_in_query = tuple(by_needle)
        self._needles = _without_query(self._needles_in_query)
        self._patterns = tuple(by_needle.values())

    def matches(self, target: str) -> bool:
        """Whether one of them matches."""
        has_query = "?" in target
        rest = target[1:]
        if rest.endswith(self._at_end):
            return True
        for text in self._anywhere_in_query if has_query else self._anywhere:
            if text in rest:
                return True
        for needle in self._needles_in_query if has_query else self._needles:
            if needle in target and _one_matches(
                self._patterns[self._needles_in_query.index(needle)], target
            ):
                return True
        if self._keyed is None:
            return False
        return any(wildcard_matches(pattern, target) for pattern in _keyed_for(self._keyed, target))


def _one_text(patterns: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The texts that need only stand behind a target's first slash, those that need only end it there, and the patterns
    that ask for more.
    """
    anywhere: list[str] = []
    at_end: list[str] = []
    others: list[str] = []
    for pattern in patterns:
        # What begins with no slash cannot stand at the first one.
        is_behind_it = pattern.startswith("/*") or (pattern.startswith("*") and not pattern.startswith("*/"))
        text = pattern.partition("*")[2] if is_behind_it else ""
        if not text or "*" in text or text == "$" or not pattern.isascii():
            others.append(pattern)
        elif text.endswith("$"):
            at_end.append(text[:-1])
        else:
            anywhere.append(text)
    return anywhere, at_end, others


def _without_query(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Those that a target without a query may hold."""
    plain = tuple(text for text in texts if "?" not in text)
    # The same tuple twice takes no room.
    return texts if len(plain) == len(texts) else plain


_ByNeedle: TypeAlias = dict[str, str | tuple[str, ...]]
"""One pattern by itself, several in a tuple: a dict of texts alone is none of the garbage collector's business, and in
most files no two patterns share a needle."""


def _by_needle(patterns: Sequence[str]) -> _ByNeedle:
    found: _ByNeedle = {}
    for pattern in patterns:
        needle = _needle(pattern)
        known = found.get(needle, ())
        found[needle] = (
            (known, pattern) if isinstance(known, str) else (*known, pattern) if known else pattern
        )
    return found


def _one_matches(patterns: str | tuple[str, ...], target: str) -> bool:
    if isinstance(patterns, str):
        return wildcard_matches(patterns, target)
    return any(wildcard_matches(pattern, target) for pattern in patterns)


class RankedWildcards:
    """Many patterns with wildcards, each with its rank."""

    __slots__ = ("_entries", "_keyed", "_ranks")

    def __init__(self, ranks: dict[str, int]) -> None:
        patterns = sorted(ranks, key=ranks.__getitem__, reverse=True)
        self._ranks = ranks
        self._keyed: dict[str, tuple[str, ...]] | None = None
        if len(patterns) >= _MANY:
            self._keyed, patterns = _keyed(patterns)
        self._entries = [(ranks[pattern], _needle(pattern), pattern) for pattern in patterns]

    def best(self, target: str, best: int) -> int:
        """The rank of the best pattern that matches, if it is greater than `best`; else that."""
        for rank, needle, pattern in self._entries:
            if rank <= best:
                break
            if needle in target and wildcard_matches(pattern, target):
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
        needle = _needle(pattern)
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
