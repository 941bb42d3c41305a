"""Which rule decides: the longest that matches, Allow before Disallow (RFC 9309 §2.2.2, §2.2.3).

A site's text is never made into a regular expression: a wildcard is a few substring searches, left to right,
none of which looks back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._errors import InvalidURLError
from robotgate._normal import PLAIN_TARGET, in_query, normalise_pattern, normalise_target, units
from robotgate._urls import Origin
from robotgate._verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate._parse import RequestRate, VisitTime

ROBOTS_TXT: Final = "/robots.txt"

_BUCKET_WIDTH: Final = 5
_ABSOLUTE: Final = re.compile(r"(https?://[^/?]*)(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one target may be fetched, and by which rule."""

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    """The rule that decided; None where none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None where none matched."""


class _Pattern:
    """One rule's pattern in units, cut at its wildcards."""

    __slots__ = ("head", "is_exact", "pieces", "tail")

    def __init__(self, units: str) -> None:
        has_end = units.endswith("$")
        self.head, *pieces = units.removesuffix("$").split("*")
        self.is_exact = has_end and not pieces
        self.tail = pieces.pop() if has_end and pieces else ""
        self.pieces = tuple(filter(None, pieces))

    @property
    def is_prefix(self) -> bool:
        return not (self.is_exact or self.pieces or self.tail)

    @property
    def needs_query(self) -> bool:
        return "?" in self.tail or any("?" in piece for piece in self.pieces)

    @property
    def needle(self) -> str:
        """A text that every match holds after the head: the longest, for it is the rarest."""
        return max((*self.pieces, self.tail), key=len)

    def matches(self, target: str) -> bool:
        """Whether the pattern matches a target that is known to begin with its head."""
        if self.is_exact:
            return len(target) == len(self.head)
        position = len(self.head)
        for piece in self.pieces:
            found = target.find(piece, position)
            if found < 0:
                return False
            position = found + len(piece)
        return len(target) - len(self.tail) >= position and target.endswith(self.tail)


class _UndecidedPattern(_Pattern):
    """A pattern with ``%2F`` or ``%3F`` behind a wildcard: only the match tells whether it stands in the query.

    In a path such a piece is found as it is, in a query unescaped. Queries in the normal form hold none of the
    two escapes, so a piece that is found as it is was found in the path.
    """

    __slots__ = ()

    @property
    def needle(self) -> str:
        settled = (piece for piece in (*self.pieces, self.tail) if in_query(piece) == piece)
        return max(settled, key=len, default="")

    def matches(self, target: str) -> bool:
        query = target.find("?") + 1 or len(target) + 1
        position = len(self.head)
        for piece in self.pieces:
            found, length = target.find(piece, position), len(piece)
            if found < 0:
                unescaped = in_query(piece)
                found, length = target.find(unescaped, max(position, query)), len(unescaped)
            if found < 0:
                return False
            position = found + length
        if len(target) - len(self.tail) >= position and target.endswith(self.tail):
            return True
        tail = in_query(self.tail)
        return len(target) - len(tail) >= max(position, query) and target.endswith(tail)


def _compile(normal: str) -> _Pattern:
    octets = units(normal)
    behind_wildcard = octets.partition("?")[0].partition("*")[2]
    return _Pattern(octets) if in_query(behind_wildcard) == behind_wildcard else _UndecidedPattern(octets)


_Matcher = Callable[[str], bool]
_Headed = tuple[int, str, _Matcher | None]
"""A rank, what the target must begin with, and what else it must satisfy."""
_Floating = tuple[int, str, str, _Matcher]
"""A rank, what the target must hold, what it must begin with, and what else it must satisfy."""


class _Table:
    """The rules of one kind, each under its rank: its place among the rules of both kinds, the best first.

    Rules with a head of some length stand in buckets by its first characters: a target meets few of them. The
    others float; those that need a query are kept apart.
    """

    __slots__ = ("_buckets", "_floating", "_floating_in_query", "_universal", "_widths")

    def __init__(self, patterns: Iterable[tuple[int, _Pattern]]) -> None:
        headed: dict[str, list[_Headed]] = {}
        floating: tuple[list[_Floating], list[_Floating]] = ([], [])
        universal: list[int] = []
        for rank, pattern in patterns:
            if len(pattern.head) > 1 or pattern.is_exact:
                entry = (rank, pattern.head, None if pattern.is_prefix else pattern.matches)
                headed.setdefault(pattern.head[:_BUCKET_WIDTH], []).append(entry)
            elif pattern.is_prefix:
                universal.append(rank)
            else:
                floating[pattern.needs_query].append((rank, pattern.needle, pattern.head, pattern.matches))
        self._universal = universal[0] if universal else None
        self._buckets = {
            key: (tuple({head for _, head, _ in entries}), entries) for key, entries in headed.items()
        }
        self._widths = sorted({len(key) for key in headed})
        self._floating, self._floating_in_query = floating

    def best(self, target: str, limit: int) -> int:
        """The least rank under `limit` of a rule that matches, or `limit`."""
        if self._universal is not None and self._universal < limit:
            limit = self._universal
        for width in self._widths:
            bucket = self._buckets.get(target[:width])
            if bucket is not None and target.startswith(bucket[0]):
                limit = _best_headed(bucket[1], target, limit)
        if self._floating:
            limit = _best_floating(self._floating, target, limit)
        if self._floating_in_query and "?" in target:
            limit = _best_floating(self._floating_in_query, target, limit)
        return limit


def _best_headed(entries: list[_Headed], target: str, limit: int) -> int:
    for rank, head, matches in entries:
        if rank >= limit:
            break
        if target.startswith(head) and (matches is None or matches(target)):
            return rank
    return limit


def _best_floating(entries: list[_Floating], target: str, limit: int) -> int:
    for rank, needle, head, matches in entries:
        if rank >= limit:
            break
        if needle in target and target.startswith(head) and matches(target):
            return rank
    return limit


class Rules:
    """The rules that bind one product token, ready for matching. Not to be changed."""

    __slots__ = (
        "_agents",
        "_allow",
        "_crawl_delay",
        "_disallow",
        "_ranked",
        "_request_rates",
        "_visit_times",
    )

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        agents: Iterable[str] = (),
        crawl_delay: float | None = None,
        request_rates: Iterable[RequestRate] = (),
        visit_times: Iterable[VisitTime] = (),
        origin: Origin | None = None,
    ) -> None:
        """Compile rules, in any order; the first of equal ones is kept.

        Args:
            rules: of all groups that bind the token.
            agents: the values of these groups' User-agent lines; none where no group binds the token.
            crawl_delay: the largest Crawl-delay asked of the token: seconds.
            request_rates: all that is asked of the token.
            visit_times: all that is asked of the token.
            origin: whose file this is. A rule that is an absolute URL of it counts as that URL's path.
        """
        self._agents = tuple(agents)
        self._crawl_delay = crawl_delay
        self._request_rates = tuple(request_rates)
        self._visit_times = tuple(visit_times)
        allow, disallow = _normal_rules(rules, origin)
        # At the same length Allow comes first: sorting keeps the order of equals.
        ranked = sorted((*allow.items(), *disallow.items()), key=_priority, reverse=True)
        self._ranked = tuple(rule for _, rule in ranked)
        patterns = [(rank, _compile(normal)) for rank, (normal, _) in enumerate(ranked)]
        self._allow = _Table(
            pattern for pattern in patterns if self._ranked[pattern[0]].kind is RuleKind.ALLOW
        )
        self._disallow = _Table(
            pattern for pattern in patterns if self._ranked[pattern[0]].kind is RuleKind.DISALLOW
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """The values of the User-agent lines that these rules stand under; none if no group binds the token."""
        return self._agents

    @property
    def crawl_delay(self) -> float | None:
        """The largest Crawl-delay asked of the token: seconds. Zero is an answer, too."""
        return self._crawl_delay

    @property
    def request_rates(self) -> tuple[RequestRate, ...]:
        """Every Request-rate asked of the token, with the hours each is for."""
        return self._request_rates

    @property
    def request_rate(self) -> RequestRate | None:
        """The slowest Request-rate asked of the token, whatever its hours."""
        return max(self._request_rates, key=lambda rate: rate.seconds_per_document, default=None)

    @property
    def visit_times(self) -> tuple[VisitTime, ...]:
        """Every Visit-time asked of the token."""
        return self._visit_times

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched."""
        return self.allows_normal(target if PLAIN_TARGET.fullmatch(target) else normalise_target(target))

    def allows_normal(self, target: str) -> bool:
        """As `allows`, for a target that is known to be in the normal form."""
        if "%" in target:
            target = units(target)
        nothing = len(self._ranked)
        disallow = self._disallow.best(target, nothing)
        return disallow == nothing or self._allow.best(target, disallow) < disallow or target == ROBOTS_TXT

    def decide(self, target: str) -> Decision:
        """Whether a path and query may be fetched, by which rule, and against which."""
        target = normalise_target(target)
        if target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT)
        octets, nothing = units(target), len(self._ranked)
        allow, disallow = self._allow.best(octets, nothing), self._disallow.best(octets, nothing)
        if allow == disallow:
            return Decision(True, Reason.NO_RULE_MATCHES if self._agents else Reason.NO_GROUP)
        winner, loser = min(allow, disallow), max(allow, disallow)
        reason = Reason.ALLOWED_BY_RULE if winner == allow else Reason.DISALLOWED_BY_RULE
        opposing = None if loser == nothing else self._ranked[loser]
        return Decision(winner == allow, reason, self._ranked[winner], opposing)

    @property
    def disallows_nothing(self) -> bool:
        """Whether no path can be refused by these rules."""
        return all(rule.kind is RuleKind.ALLOW for rule in self._ranked)

    @property
    def disallows_everything(self) -> bool:
        """Whether every path is refused, robots.txt itself apart."""
        kinds = {rule.kind for rule in self._ranked}
        return kinds == {RuleKind.DISALLOW} and not self.allows("/")

    def __repr__(self) -> str:
        return f"<Rules for {', '.join(self._agents[:5]) or 'nobody'}: {len(self._ranked)} rules>"


def _normal_rules(rules: Iterable[Rule], origin: Origin | None) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """The Allow and the Disallow rules that can match, each once, by the normal form of their patterns."""
    allow: dict[str, Rule] = {}
    disallow: dict[str, Rule] = {}
    seen: set[tuple[bool, str]] = set()
    for rule in rules:
        is_allow = rule.kind is RuleKind.ALLOW
        key = (is_allow, rule.path_pattern)
        if key in seen:
            continue
        seen.add(key)
        pattern = _path_of(rule.path_pattern, origin)
        if pattern.startswith(("/", "*")):
            (allow if is_allow else disallow).setdefault(normalise_pattern(pattern), rule)
    return allow, disallow


def _priority(item: tuple[str, Rule]) -> int:
    return len(item[0])


def _path_of(pattern: str, origin: Origin | None) -> str:
    """The pattern, or the path of one that is an absolute URL of this origin; empty for another origin's."""
    if origin is None or pattern.startswith("/"):
        return pattern
    match = _ABSOLUTE.fullmatch(pattern)
    if match is None:
        return pattern
    try:
        is_own = Origin.of(match[1]) == origin
    except InvalidURLError:
        return ""
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return path if is_own else ""


ALLOW_ALL: Final = Rules(())
"""No rule at all: everything may be fetched."""

DENY_ALL: Final = Rules((Rule(RuleKind.DISALLOW, "/", 0),), agents=("*",))
"""Nothing but robots.txt may be fetched. Its one rule, at line 0, stands in no file."""
