"""robots.txt without I/O: from bytes to rules, and from rules to answers.

Reading order, as a file comes: `grammar` and `parser` (from bytes to rules), `rules` (the rules of one crawler),
`normal` (one spelling of paths, and units), `match` (how a rule is found), `verdict` (an answer and its reason);
`robotstxt` is the value that users hold.
"""

from robotgate.rules.grammar import RequestRate, RuleKind, VisitTime
from robotgate.rules.parser import Group, Record
from robotgate.rules.robotstxt import CleanParam
from robotgate.rules.rules import Decision, Rules

__all__ = ["CleanParam", "Decision", "Group", "Record", "RequestRate", "RuleKind", "Rules", "VisitTime"]
