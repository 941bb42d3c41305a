"""Rules that also refuse a URL for which robots.txt disallows a declared purpose of the crawler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.rules import ROBOTS_TXT, Decision, Rules
from robotgate.rules.verdict import Reason, Rule, RuleKind
from robotgate.usage.robots import FIELDS, RobotsStatements
from robotgate.usage.statement import Preference, purposes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate.usage.statement import Purpose, Statement


@dataclass(frozen=True, slots=True)
class StatementRule(Rule):
    """A line about the use of pages, which refuses them to a crawler that declares what the line disallows."""

    statement: str = ""
    """The line as written."""

    def __str__(self) -> str:
        return self.statement


class PurposeRules(Rules):
    """The rules of a file for one token, and its statements about some purposes."""

    __slots__ = ("_purposes", "_rules", "_statements")

    def __init__(self, rules: Rules, statements: RobotsStatements, purposes: frozenset[Purpose]) -> None:
        super().__init__(
            (),
            agents=rules.agents,
            crawl_delay=rules.crawl_delay,
            request_rates=rules.request_rates,
            visit_times=rules.visit_times,
            warnings=rules.warnings,
        )
        self._rules = rules
        self._statements = statements
        self._purposes = purposes

    def allows_units(self, target: str) -> bool:
        """Like `Rules.allows_units`."""
        return self._rules.allows_units(target) and self._refusing_at(target) is None

    def decide_units(self, target: str) -> Decision:
        """Like `Rules.decide_units`. If a statement refuses, `Decision.opposing` is the rule that allows."""
        decision = self._rules.decide_units(target)
        refusing = self._refusing_at(target)
        if not decision.allowed or refusing is None:
            return decision
        rule = StatementRule(RuleKind.DISALLOW, "", refusing.line or 0, f"{refusing.field}: {refusing.words}")
        return Decision(False, Reason.DISALLOWED_BY_USAGE, rule, decision.rule)

    @property
    def disallows_nothing(self) -> bool:
        """Like `Rules.disallows_nothing`."""
        return (
            self._rules.disallows_nothing
            and not self._statements.has_content_usage
            and self._refusing(self._statements.for_every_path) is None
        )

    @property
    def disallows_everything(self) -> bool:
        """Like `Rules.disallows_everything`."""
        return self._rules.disallows_everything or self._refusing(self._statements.for_every_path) is not None

    def _refusing_at(self, target: str) -> Statement | None:
        """The first statement about an allowed target that disallows a purpose."""
        if target == ROBOTS_TXT:
            return None
        return self._refusing(self._statements.of(target, is_allowed=True))

    def _refusing(self, statements: Iterable[Statement]) -> Statement | None:
        """The first statement that disallows a purpose."""
        for statement in statements:
            for purpose, preference in statement.says:
                if preference is Preference.DISALLOWED and purpose in self._purposes:
                    return statement
        return None


def with_purposes(rules: Rules, body: bytes, url: str, token: str, purposes: Iterable[str]) -> Rules:
    """The rules of a file for a crawler that declares purposes."""
    if FIELDS.search(body) is None:
        return rules
    statements = RobotsStatements(RobotsTxt.parse(body, url), token)
    return PurposeRules(rules, statements, purposes_of(purposes))
