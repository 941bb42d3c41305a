"""`Rules`: the rules that bind one product token, which answer whether a target may be fetched.

Tables for matching are built by the first question: they take about three times the memory of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from robotgate.rules.grammar import AFTER_VALUE, EVERYBODY, RULES, RuleKind, canonical, text_of
from robotgate.rules.match import NO_PATTERNS, DisallowPatterns, Patterns, are_normal, read_patterns
from robotgate.rules.normal import (
    ESCAPED_MARK,
    ESCAPED_SLASH,
    as_sent,
    is_plain,
    normal_length,
    with_query_unescaped,
)
from robotgate.rules.verdict import Reason, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from robotgate.rules.grammar import RequestRate, VisitTime
    from robotgate.urls import Origin


_MAX_DECISIONS: Final = 1_024
"""How many decisions are kept for further questions."""
_TABLES: Final[WeakValueDictionary[int, DisallowPatterns]] = WeakValueDictionary()
"""By a hash of the rules as written: of 699 real files 154 have those of another."""
FOR_EVERYBODY: Final = (EVERYBODY,)
ROBOTS_TXT: Final = "/robots.txt"
_EVERYTHING: Final = re.compile(r"/|/?\*+\$?")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one target may be fetched, and by which rule."""

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    """The rule that decided; None if none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None if none matched."""


@dataclass(slots=True)
class GivenRules:
    """Rules given as values."""

    rules: tuple[Rule, ...]

    def tables(self, origin: Origin | str | None) -> DisallowPatterns:
        """The patterns of the rules."""
        written = [[path.replace("\n", "%0A") for path, _ in self.lines(kind)] for kind in RuleKind]
        return _tables_of(*(read_patterns("\n".join(values), origin)[: len(values)] for values in written))

    def lines(self, kind: RuleKind) -> Iterator[tuple[str, int]]:
        """The rules of one kind: the pattern and the line of each."""
        return ((rule.path_pattern, rule.line) for rule in self.rules if rule.kind is kind)


@dataclass(slots=True)
class WrittenRules:
    """Rules in the text of a file: parts of its canonical form, one after the other."""

    file: bytes | str
    """As served, or its canonical form."""
    parts: tuple[int, ...]
    """By turns the begin and the end of each in the canonical form. Each part ends with a line feed."""
    text: str = ""
    """The canonical form, until the rules are read: most are read once. For each later reading it is made anew."""

    def tables(self, origin: Origin | str | None) -> DisallowPatterns:
        """The patterns of the rules. Files with equal ones share them."""
        text, self.text = self.text or self._text(), ""
        text = "".join([text[begin:end] for begin, end in self._bounds()])
        written: list[list[str]] = [rule.findall(text) for rule in RULES.values()]
        lines = "\n".join(chain.from_iterable(written))
        if not are_normal(lines):
            for ignored in AFTER_VALUE:
                lines = ignored.sub("", lines)
            patterns = iter(read_patterns(text_of(lines), origin))
            written = [list(islice(patterns, len(values))) for values in written]
        key = hash(lines)
        tables = _TABLES.get(key)
        if tables is None or [[*tables.allow.patterns], [*tables.patterns]] != written:
            tables = _TABLES[key] = _tables_of(*written)
        return tables

    def lines(self, kind: RuleKind) -> Iterator[tuple[str, int]]:
        """The rules of one kind: the pattern and the line of each."""
        text = self._text()
        number = counted = 0
        for begin, end in self._bounds():
            for match in RULES[kind].finditer(text, begin, end):
                number += text.count("\n", counted, match.start() + 1)
                counted = match.start() + 1
                yield text_of(match[1].partition("#")[0]), number

    def _bounds(self) -> Iterator[tuple[int, int]]:
        return zip(self.parts[::2], self.parts[1::2])  # noqa: B905  # If strict, it takes longer.

    def _text(self) -> str:
        return canonical(self.file) if isinstance(self.file, bytes) else self.file


def _tables_of(allowed: list[str], disallowed: list[str]) -> DisallowPatterns:
    return DisallowPatterns(tuple(disallowed), Patterns(tuple(allowed)) if allowed else NO_PATTERNS)


class Rules:
    """The rules that bind one product token. Immutable."""

    __slots__ = (
        "_decisions",
        "_disallow",
        "_lines",
        "_origin",
        "_source",
        "agents",
        "crawl_delay",
        "request_rates",
        "visit_times",
        "warnings",
    )

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
        self._source = rules if isinstance(rules, WrittenRules) else GivenRules(tuple(rules))
        self.agents: Final = tuple(agents)
        """The values of the User-agent lines above these rules; empty if no group binds the token."""
        self.crawl_delay: Final = crawl_delay
        """The largest Crawl-delay asked of the token: seconds; None if there is none. It may be zero."""
        self.request_rates: Final = tuple(request_rates)
        """Every Request-rate asked of the token, with its hours."""
        self.visit_times: Final = tuple(visit_times)
        """Every Visit-time asked of the token."""
        self.warnings: Final = tuple(warnings)
        """Places where we follow RFC 9309, but other crawlers, and perhaps the author, read the file differently."""
        self._origin = origin
        self._disallow: DisallowPatterns | None = None
        """The patterns, with those of Allow beside them; None until the rules are read."""
        # Shared by all of which no reason was asked, as are most: an empty one each would take a fifth of the memory.
        self._decisions = _NO_DECISIONS
        self._lines = _NO_LINES

    @property
    def request_rate(self) -> RequestRate | None:
        """The slowest Request-rate asked of the token, regardless of its hours."""
        return max(self.request_rates, key=lambda rate: rate.seconds_per_document, default=None)

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched. Dot segments are resolved, as clients do before they send.

        Raises:
            InvalidURLError: `target` neither begins with ``/`` nor is ``*``.
        """
        if is_plain(target) and ("." not in target or "/." not in target):
            return self._allows_units(target)
        return self._allows_units(as_sent(target))

    def _allows_units(self, target: str) -> bool:  # One frame: a call takes a tenth of most answers.
        """Like `allows`, for the units of a target's normal form."""
        exact = None
        if not target.isascii() and (ESCAPED_SLASH in target or ESCAPED_MARK in target):
            target, exact = _loose_and_strict(target)
        disallow = self._disallow or self._read()
        # Here and not in a method: this is all that most questions need.
        if not target.startswith(disallow.few):
            for key in disallow.keys:
                if key in target:
                    if disallow.matches_further(target, key):
                        break
                    return True
            else:
                return True
        # A Disallow matches.
        if target == ROBOTS_TXT:
            return True
        allow = disallow.allow
        if not target.startswith(allow.few):
            for key in allow.keys:
                if key in target:
                    break
            else:
                return False
        best, opposing = allow.best(target, exact), disallow.best(target)
        return normal_length(best) >= normal_length(opposing)

    def decide(self, target: str) -> Decision:
        """Whether a path and query may be fetched, by which rule, and which rule opposes it.

        Raises:
            InvalidURLError: see `allows`.
        """
        return self._decide_units(as_sent(target))

    def _decide_units(self, target: str) -> Decision:
        """Like `decide`, for the units of a target's normal form."""
        if target == ROBOTS_TXT:
            return _IS_ROBOTS_TXT
        target, exact = (target, None) if target.isascii() else _loose_and_strict(target)
        disallow = self._disallow or self._read()
        allow = disallow.allow
        best = allow.best(target, exact) if allow.patterns else "", disallow.best(target)
        decision = self._decisions.get(best)
        if decision is None:
            if len(self._decisions) in (0, _MAX_DECISIONS):
                self._decisions = {}
            decision = self._decisions[best] = self._decide(allow, disallow, *best)
        if decision.allowed or disallow.is_certain(best[1], target):
            return decision
        return replace(decision, reason=Reason.URL_TOO_LONG)

    def _decide(self, allow: Patterns, disallow: Patterns, allowing: str, disallowing: str) -> Decision:
        """The decision by the best pattern of each kind."""
        if not allowing and not disallowing:
            return Decision(True, Reason.NO_RULE_MATCHES if self.agents else Reason.NO_GROUP)
        for_allow = self._rule(allow, RuleKind.ALLOW, allowing)
        for_disallow = self._rule(disallow, RuleKind.DISALLOW, disallowing)
        if normal_length(allowing) >= normal_length(disallowing):
            return Decision(True, Reason.ALLOWED_BY_RULE, for_allow, for_disallow)
        return Decision(False, Reason.DISALLOWED_BY_RULE, for_disallow, for_allow)

    def _rule(self, table: Patterns, kind: RuleKind, pattern: str) -> Rule | None:
        if not pattern:
            return None
        if kind not in self._lines:
            # Of equal ones the first.
            pairs = zip(table.patterns, self._source.lines(kind), strict=True)
            self._lines = {**self._lines, kind: dict(reversed(list(pairs)))}
        return Rule(kind, *self._lines[kind][pattern])

    @property
    def _for_files(self) -> Rules:
        """Those for files that state rules or list URLs, which are used for no purpose."""
        return self

    @property
    def disallows_nothing(self) -> bool:
        """Whether these rules can refuse no path."""
        # "!" begins a pattern that can never match.
        return all(pattern.startswith("!") for pattern in (self._disallow or self._read()).patterns)

    @property
    def disallows_everything(self) -> bool:
        """Whether these rules refuse every path but /robots.txt."""
        disallow = self._disallow or self._read()
        allows_nothing = all(pattern.startswith("!") for pattern in disallow.allow.patterns)
        return allows_nothing and any(map(_EVERYTHING.fullmatch, disallow.patterns))

    def _read(self) -> DisallowPatterns:
        self._disallow = tables = self._source.tables(self._origin)
        return tables

    def __repr__(self) -> str:
        disallow = self._disallow or self._read()
        count = sum(len(set(table.patterns)) for table in (disallow, disallow.allow))
        return f"<Rules for {', '.join(self.agents[:5]) or 'nobody'}: {count} rules>"


def _loose_and_strict(target: str) -> tuple[str, str | None]:
    """A target with its query unescaped, and as an Allow is compared with it, if that differs."""
    loose = with_query_unescaped(target)
    return loose, None if loose == target else target


_NO_DECISIONS: Final[dict[tuple[str, str], Decision]] = {}
_NO_LINES: Final[dict[RuleKind, dict[str, tuple[str, int]]]] = {}
_IS_ROBOTS_TXT: Final = Decision(True, Reason.ROBOTS_TXT)
ALLOW_ALL: Final = Rules(())
"""No rules: everything may be fetched."""

DENY_ALL: Final = Rules((Rule(RuleKind.DISALLOW, "/", 0),), agents=FOR_EVERYBODY)
"""Nothing but /robots.txt may be fetched. Its only rule, at line 0, stands in no file."""
