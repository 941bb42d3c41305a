"""`Rules`: the rules that bind one product token, which answer whether a target may be fetched.

Tables for matching are built by the first question, and dropped by `Rules.cool_down` when nothing was asked for a
while: they take about three times the memory of the file, and can be built again in some tens of microseconds.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, NamedTuple

from robotgate.rules.grammar import EVERYBODY, RULE_LINE, canonical, rule_values, text_of
from robotgate.rules.match import Patterns
from robotgate.rules.normal import (
    ESCAPED_MARK,
    ESCAPED_SLASH,
    as_sent,
    is_plain,
    normal_length,
    with_query_unescaped,
)
from robotgate.rules.verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from robotgate.rules.grammar import RequestRate, VisitTime
    from robotgate.urls import Origin


_MAX_DECISIONS: Final = 256
"""How many decisions are kept for further questions."""
ROBOTS_TXT: Final = "/robots.txt"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one target may be fetched, and by which rule."""

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    """The rule that decided; None if none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None if none matched."""


class GivenRules:
    """Rules given as values."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Keep the rules."""
        self._rules = tuple(rules)

    def values(self, kind: RuleKind) -> list[str]:
        """The patterns of the rules of one kind, as written."""
        return [rule.path_pattern.replace("\n", "%0A") for rule in self._rules if rule.kind is kind]

    def rule(self, kind: RuleKind, ordinal: int) -> Rule:
        """One rule, counted from 0 among those of its kind."""
        return [rule for rule in self._rules if rule.kind is kind][ordinal]

    def cool_down(self) -> None:
        """Nothing is cached."""


class WrittenRules:
    """Rules in the text of a file: parts of its canonical form, one after the other."""

    __slots__ = ("_file", "_packed", "_places")

    def __init__(self, file: bytes | str, parts: Iterable[tuple[int, int, int]]) -> None:
        """Take parts of a file.

        Args:
            file: the file as served, or its canonical form. It is kept, not copied: most rules are read once.
            parts: for each part, its begin and end in the canonical form and the number of its first line. Each part
                ends with a line feed.
        """
        self._file = file
        # Bytes take half the memory of an array.
        self._packed = array("I", chain.from_iterable(parts)).tobytes()
        self._places: tuple[str, dict[RuleKind, array[int]]] | None = None

    def values(self, kind: RuleKind) -> list[str]:
        """The patterns of the rules of one kind, as written."""
        return rule_values(self._text(), is_disallow=kind is RuleKind.DISALLOW)

    def rule(self, kind: RuleKind, ordinal: int) -> Rule:
        """One rule, counted from 0 among those of its kind."""
        if self._places is None:
            found = {each: array("I") for each in RuleKind}
            text = self._text()
            for found_match, found_line in self._lines(text):
                found[_kind(found_match)].extend((found_match.start(), found_line))
            self._places = text, found
        text, found = self._places
        offset, line = found[kind][2 * ordinal : 2 * ordinal + 2]
        match = RULE_LINE.match(text, offset)
        if match is None:
            raise IndexError(ordinal)
        return _rule(match, line)

    def cool_down(self) -> None:
        """Drop the cached text and positions."""
        self._places = None

    def _lines(self, text: str) -> Iterator[tuple[re.Match[str], int]]:
        """The rules, each with the number of its line."""
        begins, ends, first_lines = self._parts()
        lengths = [end - begin for begin, end in zip(begins, ends, strict=True)]
        starts = list(accumulate(lengths[:-1], initial=0))
        part = counted = line = 0
        for match in RULE_LINE.finditer(text):
            at = match.start()
            while part < len(starts) and starts[part] <= at:
                counted, line = starts[part], first_lines[part]
                part += 1
            line += text.count("\n", counted, at + 1)
            counted = at + 1
            yield match, line

    def _text(self) -> str:
        text = canonical(self._file) if isinstance(self._file, bytes) else self._file
        begins, ends, _ = self._parts()
        return "".join([text[begin:end] for begin, end in zip(begins, ends, strict=True)])

    def _parts(self) -> tuple[array[int], array[int], array[int]]:
        parts = array("I", self._packed)
        return parts[::3], parts[1::3], parts[2::3]


def _kind(match: re.Match[str]) -> RuleKind:
    return RuleKind.DISALLOW if match[1] else RuleKind.ALLOW


def _rule(match: re.Match[str], line: int) -> Rule:
    return Rule(_kind(match), text_of(match[2]), line)


class _Asks(NamedTuple):
    """What the groups say besides their rules."""

    crawl_delay: float | None = None
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()
    warnings: tuple[str, ...] = ()


_NOTHING: Final = _Asks()
_FOR_EVERYBODY: Final = (EVERYBODY,)


class Rules:
    """The rules that bind one product token. Immutable."""

    __slots__ = ("_agents", "_allow", "_asks", "_decisions", "_disallow", "_is_asked", "_origin", "_source")

    def __init__(
        self,
        rules: Iterable[Rule] | WrittenRules,
        *,
        agents: Iterable[str] = (),
        crawl_delay: float | None = None,
        request_rates: Iterable[RequestRate] = (),
        visit_times: Iterable[VisitTime] = (),
        origin: Origin | str | None = None,
        warnings: Iterable[str] = (),
    ) -> None:
        """Take rules, in any order. Of equal rules the first is used.

        Args:
            rules: the rules of all groups that bind the token.
            agents: the values of these groups' User-agent lines; empty if no group binds the token.
            crawl_delay: the largest Crawl-delay asked of the token: seconds.
            request_rates: every Request-rate asked of the token.
            visit_times: every Visit-time asked of the token.
            origin: the origin of the file, or any URL of it. A rule that is an absolute URL there counts as its path.
            warnings: places that other crawlers read differently.
        """
        self._source = rules if isinstance(rules, WrittenRules) else GivenRules(rules)
        # Most files have the same values here, so they share one object.
        named = tuple(agents)
        self._agents = _FOR_EVERYBODY if named == _FOR_EVERYBODY else named
        asks = _Asks(crawl_delay, tuple(request_rates), tuple(visit_times), tuple(warnings))
        self._asks = _NOTHING if asks == _NOTHING else asks
        self._origin = origin
        self._is_asked = False
        self._allow: Patterns | None = None
        self._disallow: Patterns | None = None
        self._decisions: dict[tuple[str, str], Decision] | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        """The values of the User-agent lines above these rules; empty if no group binds the token."""
        return self._agents

    @property
    def crawl_delay(self) -> float | None:
        """The largest Crawl-delay asked of the token: seconds; None if there is none. It may be zero."""
        return self._asks.crawl_delay

    @property
    def request_rates(self) -> tuple[RequestRate, ...]:
        """Every Request-rate asked of the token, with its hours."""
        return self._asks.request_rates

    @property
    def request_rate(self) -> RequestRate | None:
        """The slowest Request-rate asked of the token, regardless of its hours."""
        return max(self._asks.request_rates, key=lambda rate: rate.seconds_per_document, default=None)

    @property
    def visit_times(self) -> tuple[VisitTime, ...]:
        """Every Visit-time asked of the token."""
        return self._asks.visit_times

    @property
    def warnings(self) -> tuple[str, ...]:
        """Places where we follow RFC 9309, but other crawlers, and perhaps the author, read the file differently."""
        return self._asks.warnings

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched. Dot segments are resolved, as clients do before they send.

        Raises:
            InvalidURLError: `target` neither begins with ``/`` nor is ``*``.
        """
        if not is_plain(target) or "/." in target:
            target = as_sent(target)
        return self.allows_units(target)

    def allows_units(self, target: str) -> bool:
        """Like `allows`, for the units of a target's normal form."""
        self._is_asked = True
        # Read each attribute once: another thread may drop the tables meanwhile.
        disallow = self._disallow or self._read(RuleKind.DISALLOW)
        exact = None
        if not target.isascii():
            exact, target = _strict_and_loose(target)
        if not disallow.matches(target) or target == ROBOTS_TXT:
            return True
        best = (self._allow or self._read(RuleKind.ALLOW)).best(target, exact)
        return best != "" and normal_length(best) >= normal_length(disallow.best(target))

    def decide(self, target: str) -> Decision:
        """Whether a path and query may be fetched, by which rule, and which rule opposes it.

        Raises:
            InvalidURLError: see `allows`.
        """
        return self.decide_units(as_sent(target))

    def decide_units(self, target: str) -> Decision:
        """Like `decide`, for the units of a target's normal form."""
        self._is_asked = True
        if target == ROBOTS_TXT:
            return _IS_ROBOTS_TXT
        exact = None
        if not target.isascii():
            exact, target = _strict_and_loose(target)
        allow = self._allow or self._read(RuleKind.ALLOW)
        disallow = self._disallow or self._read(RuleKind.DISALLOW)
        best = allow.best(target, exact), disallow.best(target)
        decisions = self._decisions
        if decisions is None or len(decisions) > _MAX_DECISIONS:
            decisions = self._decisions = {}
        decision = decisions.get(best)
        if decision is None:
            decision = decisions[best] = self._decide(allow, disallow, *best)
        if decision.allowed or disallow.is_certain(best[1], target):
            return decision
        return replace(decision, reason=Reason.URL_TOO_LONG)

    def _decide(self, allow: Patterns, disallow: Patterns, allowing: str, disallowing: str) -> Decision:
        """The decision by the best pattern of each kind."""
        if not allowing and not disallowing:
            return Decision(True, Reason.NO_RULE_MATCHES if self._agents else Reason.NO_GROUP)
        for_allow = self._rule(allow, RuleKind.ALLOW, allowing)
        for_disallow = self._rule(disallow, RuleKind.DISALLOW, disallowing)
        if normal_length(allowing) >= normal_length(disallowing):
            return Decision(True, Reason.ALLOWED_BY_RULE, for_allow, for_disallow)
        return Decision(False, Reason.DISALLOWED_BY_RULE, for_disallow, for_allow)

    def _rule(self, patterns: Patterns, kind: RuleKind, pattern: str) -> Rule | None:
        return self._source.rule(kind, patterns.patterns.index(pattern)) if pattern else None

    @property
    def disallows_nothing(self) -> bool:
        """Whether these rules can refuse no path."""
        return (self._disallow or self._read(RuleKind.DISALLOW)).is_empty

    @property
    def disallows_everything(self) -> bool:
        """Whether these rules refuse every path but /robots.txt."""
        allow = self._allow or self._read(RuleKind.ALLOW)
        return allow.is_empty and (self._disallow or self._read(RuleKind.DISALLOW)).is_universal

    def cool_down(self) -> bool:
        """Drop the tables, unless a question was asked since the last call. The next question builds them again.

        Returns:
            Whether the tables are dropped.
        """
        if self._is_asked:
            self._is_asked = False
            return False
        self._source.cool_down()
        self._allow = self._disallow = None
        self._decisions = None
        return True

    def _read(self, kind: RuleKind) -> Patterns:
        is_disallow = kind is RuleKind.DISALLOW
        patterns = Patterns(self._source.values(kind), self._origin, is_disallow=is_disallow)
        if is_disallow:
            self._disallow = patterns
        else:
            self._allow = patterns
        return patterns

    def __repr__(self) -> str:
        count = sum(len(set(self._read(kind).patterns)) for kind in RuleKind)
        return f"<Rules for {', '.join(self._agents[:5]) or 'nobody'}: {count} rules>"


def _strict_and_loose(target: str) -> tuple[str | None, str]:
    """A target as an Allow is compared with it, if that differs, and with its query unescaped."""
    if ESCAPED_SLASH not in target and ESCAPED_MARK not in target:
        return None, target
    loose = with_query_unescaped(target)
    return None if loose == target else target, loose


_IS_ROBOTS_TXT: Final = Decision(True, Reason.ROBOTS_TXT)
ALLOW_ALL: Final = Rules(())
"""No rules: everything may be fetched."""

DENY_ALL: Final = Rules((Rule(RuleKind.DISALLOW, "/", 0),), agents=(EVERYBODY,))
"""Nothing but /robots.txt may be fetched. Its only rule, at line 0, stands in no file."""
