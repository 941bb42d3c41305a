"""The preferences of sites about the use of their pages: search, AI input, training, text and data mining, and others.

`parse_preferences` reads what any client has fetched; `RobotsTxt.preferences`, `Verdict.preferences` and
`Response.preferences` answer for robotgate's own values. A preference never changes whether a URL may be fetched,
unless you declare purposes.

Needs the extra ``preferences``. Sends nothing.
"""

from robotgate.preferences.read import parse_preferences
from robotgate.preferences.tdmrep import TdmRep, TdmRule
from robotgate.statements import Preference, Preferences, Purpose, Source, Standard, Statement

__all__ = [
    "Preference",
    "Preferences",
    "Purpose",
    "Source",
    "Standard",
    "Statement",
    "TdmRep",
    "TdmRule",
    "parse_preferences",
]
