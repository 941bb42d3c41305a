"""Matching (RFC 9309 §2.2.2, §2.2.3): whether one of many patterns matches a target, and which one is best.

`matches` defines what one pattern matches; `Patterns` answers for all patterns of one kind. A crawl asks few questions
of most files, so the patterns are tried one after the other as they are read. They are sorted when the longest that
matches was asked for several times. A property test holds both to the same answers.

Everything here is in units (see `normal`). A wildcard pattern is matched by substring searches from left to right,
none of which goes back; text of a site never becomes a regular expression. The work for one question is limited: only
the first bytes of a target are searched, and only so many patterns are tried. What remains undecided counts as a match
of a Disallow, and as no match of an Allow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, ClassVar, Final

from robotgate.errors import InvalidURLError
from robotgate.rules.normal import ESCAPED_MARK, ESCAPED_SLASH, normal_length, pattern_units, unescaped
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

MAX_SEARCHED: Final = 8_192
"""Bytes of a target in which the text between two wildcards is searched; other crawlers cut URLs at such a length."""
MAX_WORK: Final = 100_000_000
"""Compared bytes in one look through the patterns, at most: less than 0.05 s."""
_SLOW: Final = 200
"""A byte takes `_matches_spelt` so many times as long as `matches`."""
_PIECE: Final = 15
"""A text between two wildcards costs as much as so many bytes more, however short it is."""
_FEW: Final = 100
"""So few heads are compared in one call, also when they are sorted."""
_SCANS: Final = 8
"""How often all heads are tried for the longest that matches, before they are sorted. To sort takes 160 ns a head, as
long as to try them five times."""
_LONG: Final = 4
"""A text of so many bytes at the end of a pattern is taken for its needle: few targets contain it."""
_MANY_TEXTS: Final = 500
"""To look for so many keys or needles in a target takes as long as to look up all its parts of up to `_LONG` bytes."""

are_normal: Final = re.compile(r"(?:[/*!][!&-;=?-Z_a-z~]*+\$?+\n)*+[/*!][!&-;=?-Z_a-z~]*+\$?+").fullmatch
"""Whether patterns, one in a line, are their own normal form, in units too."""
_are_paths: Final = re.compile(r"(?:[/*].*\n)*+[/*].*").fullmatch
_NOT_LITERAL: Final = re.compile(f"[*%{ESCAPED_SLASH}{ESCAPED_MARK}]")
_NONE: Final[dict[str, str]] = {}
_ABSOLUTE: Final = re.compile(r"(https?://[^/?]*)(.*)", re.IGNORECASE | re.DOTALL)


def matches(pattern: str, target: str, exact: str | None = None, *, undecided: bool = False) -> bool:
    """Whether a pattern matches a target.

    Args:
        pattern: in units of its normal form.
        target: with slashes and question marks unescaped in its query.
        exact: for an Allow, the target with its query as written, if that differs. A ``/`` in the path of the pattern
            does not match an escaped one in the query.
        undecided: the answer if only the end of a very long target could tell.
    """
    if exact is not None or _is_spelt(pattern):
        return _matches_spelt(pattern, target if exact is None else exact, undecided=undecided)
    return _matches_plain(pattern, target, undecided)


def _matches_plain(pattern: str, target: str, undecided: bool) -> bool:  # noqa: FBT001  # Keywords take twice as long.
    """As `matches`, of a pattern that matches in one spelling."""
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
    if unit == byte or (unit == "%" and byte > "\x7f"):
        return True
    if not in_query or unescaped(unit) != unescaped(byte):
        return False
    # Only the raw slash of a pattern's path is strict, for an Allow: the query of a Disallow's target is unescaped.
    return unit != "/" or in_pattern_query


def _places(text: str, piece: str, position: int) -> Iterator[int]:
    at = position - 1
    while (at := text.find(piece, at + 1, MAX_SEARCHED)) >= 0:
        yield at


def _is_spelt(pattern: str) -> bool:
    """Whether what a pattern matches depends on spelling."""
    return "%" in pattern or (not pattern.isascii() and (ESCAPED_SLASH in pattern or ESCAPED_MARK in pattern))


def _cost(pattern: str, exact: str | None = None) -> int:
    """The work to match a pattern, for each byte of the target, at most."""
    longest = max(map(len, pattern.split("*")))
    return (longest + _PIECE) * _SLOW if exact is not None or _is_spelt(pattern) else longest


def _without_origin(value: str, origin: Origin | str | None) -> str:
    """A path as it is, an absolute URL of the origin without that; for any other text ``!``, which matches nothing."""
    if value.startswith(("/", "*")):
        return value
    match = _ABSOLUTE.fullmatch(value)
    with suppress(InvalidURLError):
        if match and Origin.of(match[1]) == (Origin.of(origin) if isinstance(origin, str) else origin):
            return match[2] if match[2].startswith("/") else f"/{match[2]}"
    return "!"


def read_patterns(lines: str, origin: Origin | str | None) -> list[str]:
    """Patterns, one in a line, in their normal form, in units."""
    if not _are_paths(lines):
        lines = "\n".join([_without_origin(value, origin) for value in lines.split("\n")])
    return pattern_units(lines).split("\n")


@dataclass(slots=True, eq=False, repr=False)
class Patterns:
    """The patterns of all rules of one kind, in their normal form and in the order of the rules.

    Most patterns have no wildcard, or one at their end. Without it they are *heads*: they match what begins with them.
    The others are *wild*. A wild pattern is tried only if the target contains its needle, a text that every match
    contains. A key is what several needles have in common: their first bytes, or a character of queries. It is looked
    for first.
    """

    patterns: tuple[str, ...]
    few: tuple[str, ...] = field(default=(), init=False)
    """The heads, unless they are many."""
    keys: tuple[str, ...] = field(default=(), init=False)
    """A target that begins with none of `few` and contains none of these matches nothing. Every target contains "": it
    is the first key if there are many heads or keys."""
    _heads: tuple[str, ...] = field(init=False)
    """Without the wildcards at their ends."""
    _starred: dict[str, str] = field(init=False)
    """The patterns of the heads that had one."""
    _parents: tuple[int, ...] | None = field(default=None, init=False)
    """For each of the heads, the index of the longest other one that it begins with; -1 if there is none. None until
    the heads are sorted."""
    _scans: int = field(default=0, init=False)
    """How often they were tried one after the other."""
    _wild: tuple[tuple[str, ...], ...] = field(default=(), init=False)
    """For each of `_wild_keys`, needles and wild patterns by turns. The pattern is empty if every target that contains
    the needle matches. A key with one needle is that needle; if every target that contains it matches, the key says
    all, and its tuple is empty."""
    _wild_keys: tuple[str, ...] = field(init=False)
    """A target that contains none of these matches no wild pattern."""
    _max_length: int = field(default=MAX_SEARCHED, init=False)
    """The wild patterns are matched with limits, and as they are spelt, against longer targets; 0: against any."""
    _undecided: ClassVar = False
    """Whether a pattern counts as matching that only the end of a very long target could tell."""

    def __post_init__(self) -> None:
        self._heads, self._starred = self.patterns, _NONE
        lines = "\n".join(self.patterns)
        if "*" in lines or "$" in lines or "%" in lines:
            self._index(lines)
        self._wild_keys = self.keys
        self.few = self._heads if len(self._heads) <= _FEW else ()
        if len(self._heads) > _FEW or len(self.keys) > _MANY_TEXTS:
            self.keys = ("", *self.keys)

    def _index(self, lines: str) -> None:
        """Tell heads from wild patterns, and find needles and keys."""
        is_spelt = _is_spelt(lines)
        starred: dict[str, str] = {}
        groups: dict[str, list[str]] = {}
        # A pattern that comes again is tried once.
        marks = [mark for mark in "*$%" if mark in lines]
        marked = dict.fromkeys([each for mark in marks for each in self.patterns if mark in each])
        for pattern in marked:
            head, star, needle = pattern.rstrip("*$").rpartition("*")
            if not star and pattern == f"{needle}*" and "%" not in needle:
                starred[needle] = pattern
                continue
            if len(needle) < _LONG or is_spelt:
                # Of equally long pieces the last: the first may be a slash, which every target has.
                needle = max(reversed(_NOT_LITERAL.split(pattern.removesuffix("$"))), key=len)
            # A target begins with a slash: if it contains any other needle, it matches a slash, a wildcard and that.
            tried = "" if head == "/" and pattern == f"/*{needle}" and needle[0] != "/" else pattern
            key = "?" if "?" in needle else "=" if "=" in needle else needle[:_LONG]
            groups.setdefault(key, []).extend((needle, tried))
        self._heads = (*filterfalse(marked.__contains__, self.patterns), *starred)
        self._starred = starred or _NONE
        self.keys = tuple([group[0] if len(group) == 2 else key for key, group in groups.items()])
        self._wild = tuple([tuple(group) if group[1] or len(group) > 2 else () for group in groups.values()])
        # One byte for the search of a needle, and two for each byte of a pattern.
        self._max_length = 0 if is_spelt else min(MAX_SEARCHED, MAX_WORK // (3 * len(lines)))

    def matches_further(self, target: str, key: str) -> bool:
        """Whether a pattern matches a target that begins with none of `few`.

        Args:
            target: with its query unescaped.
            key: the first of `keys` that it contains.
        """
        if key and not self._wild[self._wild_keys.index(key)]:
            return True
        return any(self._matching(target)) if key else bool(self.best(target))

    def best(self, target: str, exact: str | None = None) -> str:
        """The longest pattern that matches, of equally long ones the first; empty if none does.

        Args:
            target: with its query unescaped.
            exact: for an Allow, the target with its query as written, if that differs.
        """
        if self._scans < _SCANS:
            self._scans += 1
            best = max(filter(target.startswith, self._heads), key=len, default="")
        else:
            if self._parents is None:
                self._parents = self._sort()
            heads, parents = self._heads, self._parents
            # The longest head is the nearest before the target, or a head of that.
            at = bisect_right(heads, target) - 1
            while at >= 0 and not target.startswith(heads[at]):
                at = parents[at]
            best = heads[at] if at >= 0 else ""
        if not (self._wild_keys or self._starred):
            return best
        found = [best] if best else []
        if self._starred and (best or "" in self._starred):
            # A wildcard counts: behind a head that is shorter by a byte it makes a pattern as long.
            found = [self._starred.get(best, best), self._starred.get(best[:-1], "")]
        for key in ("",) if len(self._wild_keys) > _MANY_TEXTS else self._wild_keys:
            if key in target:
                found += self._matching(target, exact)
                break
        if len(found) < 2:
            return best or "".join(found)
        longest = max(map(normal_length, found))
        equal = [pattern for pattern in found if normal_length(pattern) == longest]
        return next(filter(set(equal).__contains__, self.patterns)) if len(equal) > 1 else equal[0]

    def is_certain(self, pattern: str, target: str) -> bool:
        """Whether a pattern that `best` gave is known to match, or only not known not to."""
        if len(target) <= self._max_length or target.startswith(pattern):
            return True
        return len(target) * _cost(pattern) <= MAX_WORK and matches(pattern, target)

    def _matching(self, target: str, exact: str | None = None) -> Iterator[str]:
        """The wild patterns that match."""
        if exact is not None or len(target) > self._max_length:
            yield from self._affordable(target, exact)
            return
        for key, group in zip(self._wild_keys, self._wild):  # noqa: B905  # If strict, it is twice as slow.
            if key in target:
                turns = iter(group or (key, ""))
                for needle, pattern in zip(turns, turns):  # noqa: B905
                    if needle in target and (not pattern or _matches_plain(pattern, target, self._undecided)):
                        yield pattern or f"/*{needle}"

    def _affordable(self, target: str, exact: str | None) -> Iterator[str]:
        """The wild patterns that match, as far as `MAX_WORK` goes. The first Disallow beyond it counts as a match."""
        left = MAX_WORK // len(target)
        groups = zip(self._wild_keys, self._wild, strict=True)
        turns = list(chain.from_iterable(group or (key, "") for key, group in groups))
        # Either contains the first bytes of each needle that the target contains.
        parts: Container[str] = target
        if len(turns) > 2 * _MANY_TEXTS:
            parts = {target[at : at + size] for size in range(_LONG + 1) for at in range(len(target))}
        for needle, pattern in zip(turns[::2], turns[1::2], strict=True):
            if needle[:_LONG] not in parts or ((left := left - len(needle)) >= 0 and needle not in target):
                continue
            pattern = pattern or f"/*{needle}"  # noqa: PLW2901  # Here it may be spelt in another way.
            left -= _cost(pattern, exact)
            if left < 0:
                if self._undecided:
                    yield pattern
                return
            if matches(pattern, target, exact, undecided=self._undecided):
                yield pattern

    def _sort(self) -> tuple[int, ...]:
        """Sort the heads; return the parent of each."""
        self._heads = heads = tuple(sorted(set(self._heads)))
        parents: list[int] = []
        begun: list[int] = []
        for index, head in enumerate(heads):
            while begun and not head.startswith(heads[begun[-1]]):
                begun.pop()
            parents.append(begun[-1] if begun else -1)
            begun.append(index)
        return tuple(parents)


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class DisallowPatterns(Patterns):
    """The patterns of all Disallow rules, and beside them those of all Allow rules."""

    allow: Patterns
    _undecided: ClassVar = True


NO_PATTERNS: Final = Patterns(())
"""Few files have an Allow."""
