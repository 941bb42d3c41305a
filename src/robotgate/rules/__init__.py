"""robots.txt without I/O: from bytes to rules, and from rules to answers.

Reading order: `robotstxt` (the value that users hold), `rules` (the rules of one crawler), `match` (how a rule is
found), `parser` and `grammar` (how a file is read), `normal` (one spelling of paths).
"""

from robotgate.rules.grammar import MAX_BYTES, RequestRate, VisitTime
from robotgate.rules.parser import Dialect, Group, Record, compile_rules
from robotgate.rules.robotstxt import CleanParam, RobotsTxt, product_token
from robotgate.rules.rules import ALLOW_ALL, DENY_ALL, Decision, Rules
from robotgate.rules.verdict import AccessResult, Reason, Rule, RuleKind, Verdict

__all__ = [
    "ALLOW_ALL",
    "DENY_ALL",
    "MAX_BYTES",
    "AccessResult",
    "CleanParam",
    "Decision",
    "Dialect",
    "Group",
    "Reason",
    "Record",
    "RequestRate",
    "RobotsTxt",
    "Rule",
    "RuleKind",
    "Rules",
    "Verdict",
    "VisitTime",
    "compile_rules",
    "product_token",
]
