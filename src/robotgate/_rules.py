"""The rules that bind one product token, asked whether a path may be fetched."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from robotgate._lines import RULE_LINE, canonical, text_of
from robotgate._match import Ranking, Table, length_of, normal_pattern, ordinal_of, rank, shortest_rank
from robotgate._normal import target_units, units
from robotgate._pace import EVERYBODY
from robotgate._verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from robotgate._speed import RequestRate, VisitTime
    from robotgate._urls import Origin

ROBOTS_TXT: Final = "/robots.txt"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one target may be fetched, and by which rule."""

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    """The rule that decided; None where none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None where none matched."""


SortedOut = tuple[tuple[set[str], set[str]], tuple[set[str], set[str]], set[tuple[bool, str]]]
"""Of the Allow and of the Disallow rules, plain prefixes, then patterns in the normal form without escapes; of all
others, whether it is a Disallow, and the pattern."""


class Source(Protocol):
    """Where rules are written: read when the first question comes, and again when one asks for a rule by name."""

    def sorted_out(self) -> SortedOut:
        """All rules, by kind and by how plain they are."""

    def __iter__(self) -> Iterator[Rule]:
        """All rules in their order."""

    def __getitem__(self, ordinal: int) -> Rule:
        """One of them, counted from 0."""


class ListedRules(tuple[Rule, ...]):
    """Rules given as such."""

    __slots__ = ()

    def sorted_out(self) -> SortedOut:
        """As `Source.sorted_out`: none is known to be plain."""
        others = {(rule.kind is RuleKind.DISALLOW, rule.path_pattern) for rule in self}
        return (set(), set()), (set(), set()), others


class WrittenRules:
    """Rules as they stand in a file: parts of its canonical form, one after the other."""

    __slots__ = ("_asked_for", "_file", "_packed")

    def __init__(self, file: bytes | str, parts: Iterable[tuple[int, int, int]]) -> None:
        """Take parts of a file.

        Args:
            file: as it was served, or its canonical form. It is kept, not copied: most rules are read once.
            parts: where each begins and ends in the canonical form, and the number of the line that it begins in;
                each ends with a line feed.
        """
        self._file = file
        # As octets, half of what it takes as an array.
        self._packed = array("I", chain.from_iterable(parts)).tobytes()
        self._asked_for: tuple[str, array[int], array[int]] | None = None

    def sorted_out(self) -> SortedOut:
        """As `Source.sorted_out`."""
        prefixes: tuple[set[str], set[str]] = set(), set()
        patterns: tuple[set[str], set[str]] = set(), set()
        others: set[tuple[bool, str]] = set()
        for kind, prefix, pattern, other in RULE_LINE.findall(self._text()):
            if prefix:
                prefixes[kind != ""].add(prefix)
            elif pattern:
                patterns[kind != ""].add(pattern)
            elif other:
                others.add((kind != "", text_of(other)))
        return prefixes, patterns, others

    def __iter__(self) -> Iterator[Rule]:
        """All rules in their order."""
        text = self._text()
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
            yield _rule(text, match, line)

    def __getitem__(self, ordinal: int) -> Rule:
        """One of them, counted from 0."""
        asked_for = self._asked_for
        if asked_for is None:
            text = self._text()
            offsets = array("I", (match.start() for match in RULE_LINE.finditer(text)))
            asked_for = self._asked_for = text, offsets, array("I", (rule.line for rule in self))
        text, offsets, lines = asked_for
        match = RULE_LINE.match(text, offsets[ordinal])
        if match is None:
            raise IndexError(ordinal)
        return _rule(text, match, lines[ordinal])

    def cool_down(self) -> None:
        """Let go of what was made to answer by."""
        self._asked_for = None

    def _text(self) -> str:
        text = canonical(self._file) if isinstance(self._file, bytes) else self._file
        begins, ends, _ = self._parts()
        return "".join([text[begin:end] for begin, end in zip(begins, ends, strict=True)])

    def _parts(self) -> tuple[array[int], array[int], array[int]]:
        parts = array("I", self._packed)
        return parts[::3], parts[1::3], parts[2::3]


def _rule(text: str, match: re.Match[str], line: int) -> Rule:
    kind = RuleKind.DISALLOW if match[1] else RuleKind.ALLOW
    begin = max(match.start(2), match.start(3), match.start(4))
    return Rule(kind, text_of(text[begin : match.end()]), line)


class _Asks(NamedTuple):
    """What a group says besides its rules."""

    crawl_delay: float | None = None
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()
    warnings: tuple[str, ...] = ()


_NOTHING: Final = _Asks()
_FOR_EVERYBODY: Final = (EVERYBODY,)


class Rules:
    """The rules that bind one product token, ready for matching. Not to be changed."""

    __slots__ = (
        "_agents",
        "_allow",
        "_asks",
        "_disallow",
        "_is_asked",
        "_on_built",
        "_origin",
        "_rankings",
        "_source",
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
        """Take rules, in any order; the first of equal ones is kept.

        Args:
            rules: of all groups that bind the token.
            agents: the values of these groups' User-agent lines; none where no group binds the token.
            crawl_delay: the largest Crawl-delay asked of the token: seconds.
            request_rates: all that is asked of the token.
            visit_times: all that is asked of the token.
            origin: whose file this is, or any URL of it. A rule that is an absolute URL there counts as its path.
            warnings: what others may read otherwise.
        """
        self._source: Source = rules if isinstance(rules, WrittenRules) else ListedRules(rules)
        # Most files say the same of these, and one object is then enough for all.
        named = tuple(agents)
        self._agents = _FOR_EVERYBODY if named == _FOR_EVERYBODY else named
        asks = _Asks(crawl_delay, tuple(request_rates), tuple(visit_times), tuple(warnings))
        self._asks = _NOTHING if asks == _NOTHING else asks
        self._origin = origin
        self._is_asked = False
        self._on_built: Callable[[Rules], object] | None = None
        self._allow: Table | None = None
        self._disallow: Table | None = None
        self._rankings: tuple[Ranking, Ranking] | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        """The values of the User-agent lines that these rules stand under; none if no group binds the token."""
        return self._agents

    @property
    def crawl_delay(self) -> float | None:
        """The largest Crawl-delay asked of the token: seconds. Zero is an answer, too."""
        return self._asks.crawl_delay

    @property
    def request_rates(self) -> tuple[RequestRate, ...]:
        """Every Request-rate asked of the token, with the hours each is for."""
        return self._asks.request_rates

    @property
    def request_rate(self) -> RequestRate | None:
        """The slowest Request-rate asked of the token, whatever its hours."""
        return max(self._asks.request_rates, key=lambda rate: rate.seconds_per_document, default=None)

    @property
    def visit_times(self) -> tuple[VisitTime, ...]:
        """Every Visit-time asked of the token."""
        return self._asks.visit_times

    @property
    def warnings(self) -> tuple[str, ...]:
        """What binds the token by RFC 9309, but not as other crawlers, and perhaps the author, read the file."""
        return self._asks.warnings

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched."""
        return self.allows_units(target_units(target))

    def allows_units(self, target: str) -> bool:
        """As `allows`, for the units of a target's normal form."""
        self._is_asked = True
        disallow = self._disallow or self._tables()[1]
        if not disallow.matches(target) or target == ROBOTS_TXT:
            return True
        # Each is read once: who asks from another thread is answered, though the loop lets go of them meanwhile.
        allow = self._allow
        if allow is not None and not allow.matches(target):
            return False
        for_allow, for_disallow = self._rankings or self._ranked()
        # Allow wins between rules of the same length, so that only longer ones are to be looked for.
        unbeaten = shortest_rank(length_of(for_allow.best(target)) + 1) - 1
        return for_disallow.best(target, unbeaten) <= unbeaten

    def decide(self, target: str) -> Decision:
        """Whether a path and query may be fetched, by which rule, and against which."""
        return self.decide_units(target_units(target))

    def decide_units(self, target: str) -> Decision:
        """As `decide`, for the units of a target's normal form."""
        self._is_asked = True
        if target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT)
        if not any(table.matches(target) for table in self._tables()):
            return Decision(True, Reason.NO_RULE_MATCHES if self._agents else Reason.NO_GROUP)
        allow, disallow = (ranking.best(target) for ranking in self._ranked())
        is_allowed = length_of(allow) >= length_of(disallow)
        winner, loser = (allow, disallow) if is_allowed else (disallow, allow)
        reason = Reason.ALLOWED_BY_RULE if is_allowed else Reason.DISALLOWED_BY_RULE
        opposing = None if loser < 0 else self._source[ordinal_of(loser)]
        return Decision(is_allowed, reason, self._source[ordinal_of(winner)], opposing)

    @property
    def disallows_nothing(self) -> bool:
        """Whether no path can be refused by these rules."""
        return self._tables()[1].is_empty

    @property
    def disallows_everything(self) -> bool:
        """Whether every path is refused, robots.txt itself apart."""
        allow, disallow = self._tables()
        return allow.is_empty and disallow.is_universal

    def tell_when_built(self, callback: Callable[[Rules], object]) -> None:
        """Call back whenever something has been built to match with, for somebody to `cool_down` by and by.

        Rules that stand in no file stay as they are: they are few.
        """
        if isinstance(self._source, WrittenRules):
            self._on_built = callback

    def cool_down(self) -> bool:
        """Let go of what was built to match with, to be built again by the next question; not if there was a question
        since this was last called. Returns whether it is gone.
        """
        if self._is_asked or not isinstance(self._source, WrittenRules):
            self._is_asked = False
            return False
        self._allow = self._disallow = self._rankings = None
        self._source.cool_down()
        return True

    def _tables(self) -> tuple[Table, Table]:
        allow, disallow = self._allow, self._disallow
        if allow is None or disallow is None:
            prefixes, patterns, others = self._source.sorted_out()
            if others:
                normal = {(kind, normal_pattern(other, self._origin)) for kind, other in others}
                allowed = {units(form) for kind, form in normal if form and not kind}
                disallowed = {units(form) for kind, form in normal if form and kind}
                patterns = patterns[0] | allowed, patterns[1] | disallowed
            allow, disallow = map(Table, prefixes, patterns)
            self._allow, self._disallow = allow, disallow
            if self._on_built is not None:
                self._on_built(self)
        return allow, disallow

    def _ranked(self) -> tuple[Ranking, Ranking]:
        rankings = self._rankings
        if rankings is None:
            allow, disallow = self._ranks()
            rankings = self._rankings = Ranking(allow), Ranking(disallow)
        return rankings

    def _ranks(self) -> tuple[dict[str, int], dict[str, int]]:
        ranks: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for ordinal, rule in enumerate(self._source):
            normal = normal_pattern(rule.path_pattern, self._origin)
            if normal:
                ranks[rule.kind is RuleKind.DISALLOW].setdefault(normal, rank(normal, ordinal))
        return ranks

    def __repr__(self) -> str:
        count = sum(map(len, self._ranks()))
        return f"<Rules for {', '.join(self._agents[:5]) or 'nobody'}: {count} rules>"


ALLOW_ALL: Final = Rules(())
"""No rule at all: everything may be fetched."""

DENY_ALL: Final = Rules((Rule(RuleKind.DISALLOW, "/", 0),), agents=(EVERYBODY,))
"""Nothing but robots.txt may be fetched. Its one rule, at line 0, stands in no file."""
