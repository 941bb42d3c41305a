"""Which rule decides: the longest that matches, Allow before Disallow (RFC 9309 §2.2.2, §2.2.3).

A crawler asks most questions of rules that do not match: that none does is told first, by the `Table` of each kind.
Which rule is the longest is asked only where rules of both kinds match, or who asks wants to know; then there is a
`Ranking`, which answers by the lengths of rules rather than by their number.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from robotgate._errors import InvalidURLError
from robotgate._normal import normalise_pattern, units
from robotgate._urls import Origin
from robotgate._wildcards import RankedWildcards, Wildcards, split_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

_ABSOLUTE: Final = re.compile(r"(https?://[^/?]*)(.*)", re.IGNORECASE | re.DOTALL)
_FEW: Final = 12
"""So many prefixes are tried one by one as fast as they are searched."""
_LENGTH_SHIFT: Final = 32
_LAST: Final = (1 << _LENGTH_SHIFT) - 1


class Table:
    """The patterns of one kind, ready to say whether one of them matches."""

    __slots__ = ("_are_few", "_exact", "_prefixes", "_wildcards")

    def __init__(self, prefixes: set[str], patterns: Iterable[str]) -> None:
        """Take patterns apart.

        Args:
            prefixes: what targets may begin with to match.
            patterns: other patterns, in units, each once.
        """
        exact: set[str] = set()
        wildcards: list[str] = []
        for pattern in patterns:
            head, is_open, needs_more = split_pattern(pattern)
            if needs_more:
                wildcards.append(pattern)
            elif is_open:
                prefixes.add(head)
            else:
                exact.add(head)
        self._are_few = len(prefixes) <= _FEW
        self._prefixes = tuple(prefixes) if self._are_few else _shortest(prefixes)
        self._exact = frozenset(exact) if exact else None
        self._wildcards = Wildcards(wildcards) if wildcards else None

    def matches(self, target: str) -> bool:
        """Whether a target in units matches one of the patterns."""
        prefixes = self._prefixes
        if self._are_few:
            if target.startswith(prefixes):
                return True
        else:
            # All between a prefix and a text that begins with it begin with it, too, and are no entries.
            at = bisect_right(prefixes, target)
            if at and target.startswith(prefixes[at - 1]):
                return True
        if self._exact is not None and target in self._exact:
            return True
        return self._wildcards is not None and self._wildcards.matches(target)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can match."""
        return not (self._prefixes or self._exact or self._wildcards)

    @property
    def is_universal(self) -> bool:
        """Whether everything is known to match."""
        return "/".startswith(self._prefixes)


def _shortest(prefixes: set[str]) -> tuple[str, ...]:
    """The prefixes that begin with no other, in order."""
    kept: list[str] = []
    last = "\n"
    for prefix in sorted(prefixes):
        if not prefix.startswith(last):
            kept.append(prefix)
            last = prefix
    return tuple(kept)


class Ranking:
    """The patterns of one kind, ready to say which of those that match is best: the longest, of several the first."""

    __slots__ = ("_exact", "_is_by_length", "_lengths", "_prefixes", "_wildcards")

    def __init__(self, patterns: dict[str, int]) -> None:
        """Sort patterns, given with their ranks (see `rank`) by their normal forms."""
        self._prefixes: dict[str, int] = {}
        self._exact: dict[str, int] = {}
        wildcards: dict[str, int] = {}
        self._is_by_length = True
        for normal, rank in patterns.items():
            octets = units(normal)
            head, is_open, needs_more = split_pattern(octets)
            found = wildcards if needs_more else self._prefixes if is_open else self._exact
            key = octets if needs_more else head
            if rank > found.get(key, -1):
                found[key] = rank
            if is_open and not needs_more and "*" in normal:
                self._is_by_length = False
        tops: dict[int, int] = {}
        for prefix, rank in self._prefixes.items():
            tops[len(prefix)] = max(rank, tops.get(len(prefix), -1))
        self._lengths = sorted(tops.items(), reverse=True)
        self._wildcards = RankedWildcards(wildcards) if wildcards else None

    def best(self, target: str, above: int = -1) -> int:
        """The rank of the best pattern that matches a target in units, if it is greater than `above`; else that."""
        best = max(above, self._exact.get(target, -1)) if self._exact else above
        prefixes = self._prefixes
        for length, top in self._lengths:
            if top <= best:
                continue
            rank = prefixes.get(target[:length], -1)
            if rank > best:
                best = rank
                if self._is_by_length:
                    break
        return best if self._wildcards is None else self._wildcards.best(target, best)


def rank(normal: str, ordinal: int) -> int:
    """A number that is the greater, the better a rule: the longer its normal form, the earlier it stands."""
    return (len(normal) << _LENGTH_SHIFT) + _LAST - ordinal


def shortest_rank(length: int) -> int:
    """No rank of a rule so long is less."""
    return length << _LENGTH_SHIFT


def length_of(rank: int) -> int:
    """How long a ranked rule is: what rules of different kinds are compared by."""
    return rank >> _LENGTH_SHIFT


def ordinal_of(rank: int) -> int:
    """Where a ranked rule stands among all."""
    return _LAST - (rank & _LAST)


def normal_pattern(pattern: str, origin: Origin | str | None) -> str:
    """A rule's pattern in its normal form; empty for one that can never match.

    Args:
        pattern: as it was written. That it is an absolute URL of `origin` counts as that URL's path.
        origin: whose file this is, or any URL of it.
    """
    path = pattern if pattern.startswith(("/", "*")) else path_of(pattern, origin)
    return normalise_pattern(path) if path else ""


def path_of(pattern: str, origin: Origin | str | None) -> str:
    """The path of a pattern that is an absolute URL of an origin; empty for any other."""
    match = _ABSOLUTE.fullmatch(pattern) if origin is not None else None
    if match is None:
        return ""
    try:
        is_own = Origin.of(match[1]) == (Origin.of(origin) if isinstance(origin, str) else origin)
    except InvalidURLError:
        return ""
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return path if is_own else ""
