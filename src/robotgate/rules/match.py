"""Matching (RFC 9309 §2.2.2, §2.2.3): whether one of many patterns matches a target, and which one is best.

`matches` defines what one pattern matches; `Patterns` answers for all patterns of one kind. A crawl asks few questions
of most files, so the first questions try one prefix after the other; prefixes are sorted once it pays. A property test
holds both to the same answers.

Everything here is in units (see `normal`). A wildcard pattern is matched by substring searches from left to right,
none of which goes back; text of a site never becomes a regular expression. The work for one question is limited: only
the first bytes of a target are searched, and only so many patterns are tried. What remains undecided counts as a match
of a Disallow, and as no match of an Allow.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Final

from robotgate.errors import InvalidURLError
from robotgate.rules.normal import ESCAPED_MARK, ESCAPED_SLASH, normal_length, pattern_units, unescaped
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_SEARCHED: Final = 8_192
"""Bytes of a target in which the text between two wildcards is searched; other crawlers cut URLs at such a length."""
MAX_WORK: Final = 100_000_000
"""Compared bytes in one look through the patterns, at most: less than 0.05 s."""
_SLOW: Final = 200
"""How many times longer a byte takes that is compared by `_matches_spelt`."""
_PIECE: Final = 15
"""The bytes that it could compare in the time that it takes for any text between two wildcards."""
_OFTEN: Final = 60
"""Questions after which prefixes are sorted. That takes 160 ns a prefix, and saves 5 ns a prefix and question."""
_LONGEST: Final = 15
"""So many of these questions count for one that needs the longest prefix."""
_FEW: Final = 100
"""Whether a target begins with one of so few prefixes is found as fast without sorting them."""
_LONG: Final = 4
"""A text of so many bytes is rare enough in targets to be a needle."""

_NORMAL_LINES: Final = re.compile(r"(?:[/*!][!&-;=?-Z_a-z~]*+\$?+\n)*+[/*!][!&-;=?-Z_a-z~]*+\$?+")
"""Patterns, one in a line, that are their own normal form, in units too."""
_NOT_LITERAL: Final = re.compile(f"[*%{ESCAPED_SLASH}{ESCAPED_MARK}]")
_ABSOLUTE: Final = re.compile(r"(https?://[^/?]*)(.*)", re.IGNORECASE | re.DOTALL)


def matches(pattern: str, target: str, exact: str | None = None, undecided: bool = False) -> bool:  # noqa: FBT001, FBT002  # Keywords take twice as long.
    """Whether a pattern matches a target.

    Args:
        pattern: as in `Patterns`.
        target: with slashes and question marks unescaped in its query.
        exact: for an Allow, the target with its query as written, if that differs. A ``/`` in the path of the pattern
            does not match an escaped one in the query.
        undecided: the answer if only the end of a very long target could tell.
    """
    if exact is not None or "%" in pattern or (not pattern.isascii() and _is_spelt(pattern)):
        return _matches_spelt(pattern, target if exact is None else exact, undecided=undecided)
    head, star, rest = pattern.partition("*")
    if not star:
        return target == head[:-1] if head.endswith("$") else target.startswith(head)
    if not target.startswith(head):
        return False
    pieces = rest.split("*")
    tail = pieces.pop()[:-1] if rest.endswith("$") else ""
    position = len(head)
    for piece in pieces:
        found = target.find(piece, position, MAX_SEARCHED)
        if found < 0:
            return undecided and len(target) > MAX_SEARCHED
        position = found + len(piece)
    return not tail or (len(target) - len(tail) >= position and target.endswith(tail))


def _matches_spelt(pattern: str, target: str, *, undecided: bool) -> bool:
    """As `matches`, byte by byte: what an escape in a pattern matches depends on where in the target it stands."""
    query, mark = (text.find("?") % (len(text) + 1) for text in (target, pattern))
    searched = unescaped(target)

    def fits(start: int, end: int, at: int) -> bool:
        return at + end - start <= len(target) and all(
            _means(pattern[index], target[at + index - start], at + index - start > query, index >= mark)
            for index in range(start, end)
        )

    length = len(pattern.removesuffix("$"))
    position = end = 0
    for number, piece in enumerate(pattern[:length].split("*")):
        start, end = end + (number > 0), end + (number > 0) + len(piece)
        if number == 0:
            places: Iterable[int] = (0,) if length == len(pattern) or end < length else (len(target) - end,)
        elif end == length < len(pattern):
            places = (len(target) - len(piece),)
        else:
            places = _places(searched, unescaped(piece).removesuffix("%"), position)
        found = next((at for at in places if at >= position and fits(start, end, at)), None)
        if found is None or (number == 0 and found > 0):
            return undecided and len(target) > MAX_SEARCHED and number > 0 and end < length
        position = found + len(piece)
    return True


def _means(unit: str, byte: str, in_query: bool, in_pattern_query: bool) -> bool:  # noqa: FBT001 -- Called by position only.
    """Whether a unit of a pattern matches a unit of a target."""
    if unit == byte:
        return True
    if unit == "%":
        return byte > "\xff"
    if not in_query or unescaped(unit) != unescaped(byte):
        return False
    # Only the raw slash of a pattern's path is strict, for an Allow: the query of a Disallow's target is unescaped.
    return unit != "/" or in_pattern_query


def _places(text: str, piece: str, position: int) -> Iterator[int]:
    at = text.find(piece, position, MAX_SEARCHED)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1, MAX_SEARCHED)


def _is_spelt(pattern: str) -> bool:
    """Whether what a pattern matches depends on spelling."""
    return "%" in pattern or (not pattern.isascii() and (ESCAPED_SLASH in pattern or ESCAPED_MARK in pattern))


def _cost(pattern: str, exact: str | None = None) -> int:
    """The work to match a pattern, for each byte of the target, at most."""
    longest = max(map(len, pattern.split("*")))
    return (longest + _PIECE) * _SLOW if exact is not None or _is_spelt(pattern) else longest


def _path_of(value: str, origin: Origin | str | None) -> str:
    """The path of a pattern that is an absolute URL of an origin; empty for any other."""
    match = _ABSOLUTE.fullmatch(value) if value and origin is not None else None
    if match is None:
        return ""
    try:
        is_own = Origin.of(match[1]) == (Origin.of(origin) if isinstance(origin, str) else origin)
    except InvalidURLError:
        return ""
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return path if is_own else ""


class Patterns:
    """The patterns of all rules of one kind.

    A pattern that is more than a prefix, apart from a wildcard at its end, is here called wild. It is tried only if the
    target contains its needle, a text that every match contains: the one at its end, or the longest where that is
    short. Needles that begin alike, or have a character of queries, are looked for by one key. Prefixes are tried one
    by one, until there were so many questions that it pays to sort them: of those that a target begins with, the
    longest is the nearest before the target, or a prefix of that.
    """

    __slots__ = (
        "_are_many",
        "_asked",
        "_heads",
        "_keys",
        "_max_length",
        "_sorted",
        "_undecided",
        "_wild",
        "few",
        "keys",
        "patterns",
    )

    def __init__(self, values: Sequence[str], origin: Origin | str | None, *, is_disallow: bool) -> None:
        """Read patterns.

        Args:
            values: as written, in the order of the rules.
            origin: the origin of the file, or any URL of it. An absolute URL of it counts as its path.
            is_disallow: whether the rules are Disallow rules.
        """
        lines = "\n".join(values)
        if values and not _NORMAL_LINES.fullmatch(lines):
            # "!" stands for a pattern that can never match.
            values = [
                value if value.startswith(("/", "*")) else _path_of(value, origin) or "!" for value in values
            ]
            lines = "\n".join(values)
            if not _NORMAL_LINES.fullmatch(lines):
                values = pattern_units(lines)
                lines = "\n".join(values)
        self.patterns = tuple(values)
        """In the order of the rules. No target begins with one that is wild."""
        self._are_many = len(values) > _FEW
        self._heads = self.patterns
        """The patterns, then those with a wildcard only at their end, without it: what a target begins with if one that
        is not wild matches."""
        self._undecided = is_disallow
        self._asked = 0
        self._sorted: tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]] | None = None
        """The heads of patterns that are not wild, sorted; their patterns; their parents."""
        self._keys: tuple[str, ...] = ()
        """What a target has to contain that a wild pattern matches: one of these."""
        self._wild: tuple[tuple[str, ...], ...] = ()
        """For each of these keys, needles and wild patterns by turns."""
        self._max_length = sys.maxsize
        """For no longer target can all wild patterns be more than `MAX_WORK`."""
        if "*" in lines or "$" in lines or "%" in lines:
            self._index(lines)
        self.keys = ("",) if self._are_many else self._keys
        """What a target has to contain that is to be looked at further. Every target contains "": of many patterns, the
        prefixes are looked at further, too."""
        self.few = () if self._are_many else self._heads
        """What begins a target that a pattern matches that is not wild, unless they are many."""

    def _index(self, lines: str) -> None:
        """Find the wild patterns, and what a target has to contain that they match."""
        is_spelt = _is_spelt(lines)
        groups: dict[str, list[str]] = {}
        starred: list[str] = []
        # A pattern that comes again is tried once.
        for pattern in dict.fromkeys(
            [each for each in self.patterns if "*" in each or "$" in each or "%" in each]
        ):
            if 0 < pattern.find("*") == len(pattern) - 1 and "%" not in pattern:
                starred.append(pattern[:-1])
                continue
            needle = pattern.rstrip("*$").rpartition("*")[2]
            if len(needle) < _LONG or is_spelt:
                needle = max(_NOT_LITERAL.split(pattern.removesuffix("$")), key=len)
            key = "?" if "?" in needle else "=" if "=" in needle else needle[:_LONG]
            if key in groups:
                groups[key] += needle, pattern
            else:
                groups[key] = [needle, pattern]
        self._heads += tuple(starred)
        self._keys = tuple(groups)
        self._wild = tuple(map(tuple, groups.values()))
        # One byte for the search of a needle, and two for each byte of a pattern.
        cost = sum(1 + 2 * _cost(pattern) for pattern in self.patterns) if is_spelt else 3 * len(lines)
        self._max_length = MAX_WORK // cost

    def matches_further(self, target: str) -> bool:
        """Whether a pattern matches, apart from `few`, a target with its query unescaped that contains a key."""
        if self._are_many:
            if self._asked >= _OFTEN:
                if self._longest_prefix(target):
                    return True
            elif target.startswith(self._heads):
                return True
            else:
                self._asked += 1
            for key in self._keys:
                if key in target:
                    break
            else:
                return False
        return bool(self._matching(target, is_one_enough=True))

    def best(self, target: str, exact: str | None = None) -> str:
        """The longest pattern that matches; empty if none does.

        Of equally long ones it is the first, but a wildcard at the end of a prefix gives way to a byte in its place.

        Args:
            target: with its query unescaped.
            exact: for an Allow, the target with its query as written, if that differs.
        """
        prefix = self._longest_prefix(target) if self._are_many or target.startswith(self.few) else ""
        for key in self._keys:
            if key in target:
                break
        else:
            return prefix
        found = self._matching(target, exact)
        if prefix:
            found.append(prefix)
        if len(found) < 2:
            return found[0] if found else ""
        length = max(map(normal_length, found))
        longest = {pattern for pattern in found if normal_length(pattern) == length}
        return next(filter(longest.__contains__, self.patterns)) if len(longest) > 1 else longest.pop()

    def is_certain(self, pattern: str, target: str) -> bool:
        """Whether a pattern that `best` gave is known to match, or only not known not to."""
        return (
            len(target) <= min(MAX_SEARCHED, self._max_length)
            or target.startswith(pattern)
            or (len(target) * _cost(pattern) <= MAX_WORK and matches(pattern, target))
        )

    def _longest_prefix(self, target: str) -> str:
        """The longest prefix that a target begins with; empty if there is none."""
        if self._sorted is None and self._asked < _OFTEN:
            if not target.startswith(self._heads):
                self._asked += 1
                return ""
            self._asked += _LONGEST
            longest = max(filter(target.startswith, self._heads), key=len)
            return f"{longest}*" if longest in self._heads[len(self.patterns) :] else longest
        prefixes, patterns, parents = self._sorted or self._sort()
        at = bisect_right(prefixes, target) - 1
        while at >= 0:
            if target.startswith(prefixes[at]):
                return patterns[at]
            at = parents[at]
        return ""

    def _matching(self, target: str, exact: str | None = None, *, is_one_enough: bool = False) -> list[str]:
        """The wild patterns that match, or the first of them.

        If all of them could be more work than `MAX_WORK`, only the first are tried; the next one of a Disallow counts
        as a match.
        """
        keys, wild = self._keys, self._wild
        found: list[str] = []
        if len(target) > self._max_length or exact is not None:
            affordable, found = self._affordable(target, exact)
            keys, wild = ("",), (affordable,)
        for key, group in zip(keys, wild, strict=True):
            if key in target:
                turns = iter(group)
                for needle, pattern in zip(turns, turns, strict=True):
                    if needle in target and (
                        # Most wild patterns are a slash, a wildcard and the needle.
                        target.find(needle, 1, MAX_SEARCHED) > 0
                        if exact is None and pattern == "/*" + needle and len(target) <= MAX_SEARCHED
                        else matches(pattern, target, exact, self._undecided)
                    ):
                        found.append(pattern)
                        if is_one_enough:
                            return found
        return found

    def _affordable(self, target: str, exact: str | None) -> tuple[tuple[str, ...], list[str]]:
        """The wild patterns to try, up to `MAX_WORK`, and the next one if it counts as a match."""
        left = MAX_WORK // len(target)
        tried: list[str] = []
        for group in self._wild:
            turns = iter(group)
            for needle, pattern in zip(turns, turns, strict=True):
                left -= len(needle)
                if left >= 0 and needle not in target:
                    continue
                left -= _cost(pattern, exact)
                if left < 0:
                    return tuple(tried), [pattern] if self._undecided else []
                tried += needle, pattern
        return tuple(tried), []

    def _sort(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
        """Sort the prefixes: there are many questions, so it pays."""
        starred = set(self._heads[len(self.patterns) :])
        wild = chain.from_iterable(group[1::2] for group in self._wild)
        prefixes = sorted(set(self._heads).difference(wild, [f"{prefix}*" for prefix in starred]))
        patterns = tuple([f"{prefix}*" if prefix in starred else prefix for prefix in prefixes])
        self._sorted = tuple(prefixes), patterns, _parents(prefixes)
        return self._sorted


def _parents(prefixes: Sequence[str]) -> tuple[int, ...]:
    """For each of the sorted prefixes, the index of the longest other one that it begins with; -1 if there is none."""
    parents: list[int] = []
    open_prefixes: list[int] = []
    for index, prefix in enumerate(prefixes):
        while open_prefixes and not prefix.startswith(prefixes[open_prefixes[-1]]):
            open_prefixes.pop()
        parents.append(open_prefixes[-1] if open_prefixes else -1)
        open_prefixes.append(index)
    return tuple(parents)
