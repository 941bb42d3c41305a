"""The preferences of sites about the use of their pages: search, AI input, training, text and data mining, and others.

`parse_usage` reads what any client has fetched; `RobotsTxt.usage`, `Verdict.usage` and `Response.usage` answer for
robotgate's own values. A preference never changes whether a URL may be fetched, unless you declare purposes.

Needs the extra ``usage``. Sends nothing.
"""

from robotgate.usage.read import parse_usage
from robotgate.usage.statement import Preference, Purpose, Source, Standard, Statement, Usage
from robotgate.usage.tdmrep import TdmRep, TdmRule

__all__ = [
    "Preference",
    "Purpose",
    "Source",
    "Standard",
    "Statement",
    "TdmRep",
    "TdmRule",
    "Usage",
    "parse_usage",
]
