"""The words of lint: what can be wrong with a line of robots.txt, how bad it is, and what to write instead.

`CHECKS` is all that lint knows to say; docs/lint.md is printed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Severity(Enum):
    """Who reads a line otherwise than its author meant."""

    ERROR = "error"
    """Whoever follows RFC 9309, or whoever knows the field at all."""
    WARNING = "warning"
    """Some crawlers that are in use."""
    INFO = "info"
    """Readers of old, or nobody: good to know all the same."""


class FindingCode(Enum):
    """What lint looks for. The values are stable: scripts may name them."""

    FILE_TOO_LARGE = "file-too-large"
    HTML = "html"
    UTF_16 = "utf-16"
    NOT_UTF_8 = "not-utf-8"
    BYTE_ORDER_MARK = "byte-order-mark"
    BARE_CR = "bare-cr"
    LINE_TOO_LONG = "line-too-long"
    NUL = "nul"
    CONTROL_CHARACTER = "control-character"
    OTHER_LINE_END = "other-line-end"

    MISSING_COLON = "missing-colon"
    NO_FIELD = "no-field"
    MISSPELT_FIELD = "misspelt-field"
    UNKNOWN_FIELD = "unknown-field"
    RETIRED_FIELD = "retired-field"
    EXTENSION_FIELD = "extension-field"
    TWO_IN_ONE_LINE = "two-in-one-line"

    BEFORE_ANY_GROUP = "before-any-group"
    DELAY_BETWEEN_AGENTS = "delay-between-agents"
    RECORD_BETWEEN_AGENTS = "record-between-agents"
    BLANK_BETWEEN_AGENTS = "blank-between-agents"
    BLANK_IN_GROUP = "blank-in-group"
    GROUP_WITHOUT_RULES = "group-without-rules"
    DUPLICATE_GROUP = "duplicate-group"

    EMPTY_AGENT = "empty-agent"
    AGENT_WITHOUT_TOKEN = "agent-without-token"
    AGENT_WITH_VERSION = "agent-with-version"
    AGENT_WITH_REST = "agent-with-rest"
    AGENT_WITH_DIGITS = "agent-with-digits"

    PATH_WITHOUT_SLASH = "path-without-slash"
    ABSOLUTE_URL = "absolute-url"
    CONTRADICTED_RULE = "contradicted-rule"
    NEVER_DECIDES = "never-decides"
    NUMBER_SIGN_IN_PATH = "number-sign-in-path"
    BLANK_IN_PATH = "blank-in-path"
    DOLLAR_INSIDE = "dollar-inside"
    BROKEN_ESCAPE = "broken-escape"
    EMPTY_ALLOW = "empty-allow"
    EMPTY_DISALLOW = "empty-disallow"
    DUPLICATE_RULE = "duplicate-rule"
    ORDER_MATTERS = "order-matters"
    LEADING_WILDCARD = "leading-wildcard"
    NON_ASCII_PATH = "non-ascii-path"
    LOWER_CASE_ESCAPE = "lower-case-escape"
    ESCAPED_UNRESERVED = "escaped-unreserved"
    CLASSIC_ALLOW = "classic-allow"
    CLASSIC_WILDCARD = "classic-wildcard"

    PACE_UNREADABLE = "pace-unreadable"
    DELAY_WITH_REST = "delay-with-rest"
    DELAY_TOO_LONG = "delay-too-long"
    DELAY_AGAIN = "delay-again"
    SITEMAP_NOT_ABSOLUTE = "sitemap-not-absolute"


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table: what lint says of a line."""

    severity: Severity
    message: str
    """What is the matter."""
    rfc9309: str
    """What RFC 9309 makes of such a line."""
    remedy: str
    """What to write instead."""
    most: int = 100
    """How many lines of a file are told of one by one; the rest are counted."""


_ERROR: Final = Severity.ERROR
_WARNING: Final = Severity.WARNING
_INFO: Final = Severity.INFO
_IGNORED: Final = "The line is none of the grammar (§2.2) and is passed over."
_TOKEN: Final = "A product token is letters, `_` and `-`, nothing else (§2.2.1)."
_OUTSIDE: Final = (
    "Not defined; crawlers may read it or not, and it must not disturb what is defined (§2.2.4)."
)

CHECKS: Final[dict[FindingCode, Check]] = {
    FindingCode.FILE_TOO_LARGE: Check(
        _ERROR,
        "the file is larger than 512,000 octets: from this line on it is not read",
        "A crawler need not read more than 500 KiB (§2.5).",
        "Fewer, shorter rules: a prefix covers all that begins with it.",
        most=1,
    ),
    FindingCode.HTML: Check(
        _ERROR,
        "this is a web page, not a robots.txt",
        "Its lines are no records; without any, everything may be fetched (§2.2.2).",
        "Serve a plain text file at /robots.txt, or answer 404.",
        most=1,
    ),
    FindingCode.UTF_16: Check(
        _ERROR,
        "the file is in UTF-16: hardly a crawler can read a line of it",
        "The file must be UTF-8 (§2.3).",
        "Save it as UTF-8, without a byte order mark.",
        most=1,
    ),
    FindingCode.NOT_UTF_8: Check(
        _ERROR,
        "these octets are not UTF-8: some crawlers give up the whole file for them",
        "The file must be UTF-8 (§2.3); crawlers may try to make something of other text (§2.2.2).",
        "Save the file as UTF-8; in a path, write the octets as percent escapes.",
    ),
    FindingCode.BYTE_ORDER_MARK: Check(
        _WARNING,
        "the file begins with a byte order mark: some crawlers lose its first line",
        "Not foreseen by the grammar (§2.2).",
        "Save the file as UTF-8 without a byte order mark.",
        most=1,
    ),
    FindingCode.BARE_CR: Check(
        _WARNING,
        "the line ends with CR alone: some crawlers take it and the next for one line",
        "CR, LF and CRLF all end a line (§2.2).",
        "End lines with LF or CRLF.",
        most=1,
    ),
    FindingCode.LINE_TOO_LONG: Check(
        _ERROR,
        "the line is longer than 16 KiB: crawlers drop it or cut it short",
        "Crawlers may have limits of their own (§2.5).",
        "A shorter line: a prefix or a wildcard does for most paths.",
    ),
    FindingCode.NUL: Check(
        _ERROR,
        "a NUL octet: for some crawlers the line ends here",
        "No part of the grammar, which has no controls (§2.2).",
        "Remove the octet; if there are many, the file is perhaps not text at all.",
    ),
    FindingCode.CONTROL_CHARACTER: Check(
        _WARNING,
        "a control character that nobody sees, yet is compared",
        "No part of the grammar, which has no controls (§2.2).",
        "Remove the character; in a path, write it as a percent escape.",
    ),
    FindingCode.OTHER_LINE_END: Check(
        _WARNING,
        "a character at which some crawlers begin a new line, in a comment, too",
        "Only CR and LF end a line (§2.2).",
        "Remove the character; in a path, write it as a percent escape.",
    ),
    FindingCode.MISSING_COLON: Check(
        _ERROR,
        "there is no colon after the field name",
        f"{_IGNORED} Some crawlers forgive it where just two words stand there.",
        "A colon after the field name.",
    ),
    FindingCode.NO_FIELD: Check(
        _WARNING,
        "the line names no field",
        _IGNORED,
        "A `#` before what is a comment; nothing at all for what is not.",
    ),
    FindingCode.MISSPELT_FIELD: Check(
        _ERROR,
        "the field name is misspelt",
        f"{_IGNORED} Some crawlers forgive some misspellings.",
        "The name as it is spelt: User-agent, Disallow, Allow, Sitemap.",
    ),
    FindingCode.UNKNOWN_FIELD: Check(
        _WARNING,
        "no crawler is known to read this field",
        _OUTSIDE,
        "A `#` before what is a comment; nothing at all for what is not.",
    ),
    FindingCode.RETIRED_FIELD: Check(
        _WARNING,
        "no large crawler reads this field any more",
        _OUTSIDE,
        "For Noindex and the like, an X-Robots-Tag header or a robots meta element; for Host, redirects.",
        most=1,
    ),
    FindingCode.EXTENSION_FIELD: Check(
        _INFO,
        "this field is known to some crawlers only",
        _OUTSIDE,
        "Nothing else: but do not rely on it alone.",
        most=1,
    ),
    FindingCode.TWO_IN_ONE_LINE: Check(
        _ERROR,
        "a second record in the same line: it is taken as part of the first one's value",
        "A record ends with its line (§2.2).",
        "One record a line.",
    ),
    FindingCode.BEFORE_ANY_GROUP: Check(
        _ERROR,
        "the line stands before any User-agent line: it binds nobody",
        "Rules before the first User-agent line should be ignored (§2.2.2).",
        "A User-agent line above it; `User-agent: *` if it is for everybody.",
    ),
    FindingCode.DELAY_BETWEEN_AGENTS: Check(
        _ERROR,
        "the rules below bind the agents above the Crawl-delay, too; other crawlers begin a new group here",
        "Only Allow and Disallow end a run of User-agent lines: what stands between is as good as not there (§2.2.4).",
        "`Disallow:` below the Crawl-delay if the agents above are to have no rules; else the delay below the rules.",
    ),
    FindingCode.RECORD_BETWEEN_AGENTS: Check(
        _WARNING,
        "a record of another kind stands above this User-agent line: some crawlers begin a new group here",
        "Only Allow and Disallow end a run of User-agent lines (§2.2.4): the rules below bind the agents above, too.",
        "The record at the end of the file, or below the rules.",
    ),
    FindingCode.BLANK_BETWEEN_AGENTS: Check(
        _WARNING,
        "a blank line stands between two User-agent lines without a rule: some crawlers begin a new group here",
        "Blank lines end nothing (§2.2): the rules below bind the agents above, too.",
        "No blank line if the rules are for both; `Disallow:` above it if the first agents are to have no rules.",
    ),
    FindingCode.BLANK_IN_GROUP: Check(
        _WARNING,
        "a blank line stands within the group: readers after the standard of 1994 end the group there",
        "Blank lines end nothing (§2.2).",
        "No blank line between the lines of one group; a line with just `#` looks the same.",
        most=1,
    ),
    FindingCode.GROUP_WITHOUT_RULES: Check(
        _WARNING,
        "the group has no rules: who is named here may fetch everything, whatever stands under `*`",
        "Who is named in a group does not obey the one for `*` (§2.2.1).",
        "`Disallow:` if that is meant; else the rules again, or no group.",
    ),
    FindingCode.DUPLICATE_GROUP: Check(
        _WARNING,
        "another group names the same agent: some crawlers obey the first only",
        "Groups that name the same agent are one (§2.2.1).",
        "All rules for the agent in one group.",
    ),
    FindingCode.EMPTY_AGENT: Check(
        _ERROR,
        "the line names nobody; some crawlers take it for everybody",
        _IGNORED,
        "`User-agent: *` for everybody, or a crawler's name.",
    ),
    FindingCode.AGENT_WITHOUT_TOKEN: Check(
        _ERROR,
        "no crawler can be called so: the group binds nobody",
        _TOKEN,
        "The name that the crawler's operator gives for robots.txt.",
    ),
    FindingCode.AGENT_WITH_VERSION: Check(
        _WARNING,
        "with a version behind the name, some crawlers do not recognise it",
        _TOKEN,
        "The name alone: it is for all versions.",
    ),
    FindingCode.AGENT_WITH_REST: Check(
        _WARNING,
        "with more behind the name, some crawlers do not recognise it; the others heed the first word only",
        _TOKEN,
        "The name alone; each further name in a User-agent line of its own.",
    ),
    FindingCode.AGENT_WITH_DIGITS: Check(
        _INFO,
        "a name with digits: some crawlers do not recognise it",
        _TOKEN,
        "Nothing else, if the crawler is called so.",
        most=1,
    ),
    FindingCode.PATH_WITHOUT_SLASH: Check(
        _ERROR,
        "the path does not begin with `/`: the rule never matches",
        "A path begins with `/` (§2.2); comparing begins at its first octet (§2.2.2).",
        "The path from the root, with its `/`.",
    ),
    FindingCode.ABSOLUTE_URL: Check(
        _ERROR,
        "the rule is a whole URL: for most crawlers it never matches",
        "A path begins with `/` (§2.2); a file is for its own scheme, host and port only (§2.3).",
        "The path alone, in the robots.txt of that very host.",
    ),
    FindingCode.CONTRADICTED_RULE: Check(
        _ERROR,
        "an Allow says the opposite of the same path, and wins",
        "Of an equally long Allow and Disallow, the Allow should be used (§2.2.2).",
        "One of the two.",
    ),
    FindingCode.NEVER_DECIDES: Check(
        _ERROR,
        "another rule matches all that this one does, and is the longer: this one never decides",
        "The rule with the most octets decides, wherever it stands (§2.2.2).",
        "A longer path for the rule that is to win, or none of it.",
    ),
    FindingCode.NUMBER_SIGN_IN_PATH: Check(
        _WARNING,
        "the path ends before the `#`: what follows is a comment",
        "`#` begins a comment wherever it stands (§2.2.3).",
        "A blank before a comment. What stands behind `#` in a URL never reaches a server, and no rule can match it.",
    ),
    FindingCode.BLANK_IN_PATH: Check(
        _WARNING,
        "a blank within the path: it is part of the path, but some crawlers end it there",
        "A path has no blanks (§2.2).",
        "One path a line; a blank of the path as %20.",
    ),
    FindingCode.DOLLAR_INSIDE: Check(
        _WARNING,
        "`$` ends a path only as its last character: here it means itself, or to some crawlers something else",
        "`$` stands for the end of the pattern (§2.2.3).",
        "`$` at the very end; %24 for the character itself.",
    ),
    FindingCode.BROKEN_ESCAPE: Check(
        _WARNING,
        "a percent sign without two hexadecimal digits: crawlers differ in what they make of it",
        "Not foreseen; a literal percent sign is %25 in a URL (§2.2.2).",
        "%25 for the percent sign itself; else the whole escape.",
    ),
    FindingCode.EMPTY_ALLOW: Check(
        _WARNING,
        "an Allow without a path does nothing; some crawlers refuse everything for it",
        "An empty pattern matches nothing (§2.2).",
        "`Disallow:` if all is to be allowed; else nothing.",
    ),
    FindingCode.EMPTY_DISALLOW: Check(
        _WARNING,
        "an empty Disallow beside other rules does nothing; to some crawlers it opens everything",
        "An empty pattern matches nothing (§2.2).",
        "`Disallow:` only where it is the one rule of its group.",
    ),
    FindingCode.DUPLICATE_RULE: Check(
        _INFO,
        "the rule has been said before",
        "Equal rules may be taken for one (§2.2.2).",
        "It once.",
        most=20,
    ),
    FindingCode.ORDER_MATTERS: Check(
        _INFO,
        "crawlers that obey the first rule that matches stop at a shorter one above and never come to this",
        "The rule with the most octets decides, wherever it stands (§2.2.2).",
        "The longer rule above the shorter: then all agree.",
        most=20,
    ),
    FindingCode.LEADING_WILDCARD: Check(
        _INFO,
        "the path begins with `*` and not with `/`: some crawlers never match it",
        "A path begins with `/` (§2.2), though an example does without (§5.1).",
        "`/*` where `*` stands.",
        most=20,
    ),
    FindingCode.NON_ASCII_PATH: Check(
        _INFO,
        "letters outside ASCII: some crawlers do not compare them with their escapes",
        "They are escaped before they are compared (§2.2.2).",
        "The percent escapes of their UTF-8 octets.",
        most=20,
    ),
    FindingCode.LOWER_CASE_ESCAPE: Check(
        _INFO,
        "a percent escape in lower case: some crawlers do not compare it with the same in upper case",
        "Not foreseen; RFC 3986 has the two equal and prefers upper case.",
        "Upper-case hexadecimal digits.",
        most=20,
    ),
    FindingCode.ESCAPED_UNRESERVED: Check(
        _INFO,
        "an escape of a character that needs none: some crawlers do not compare it with the character",
        "Such an escape is undone before comparing (§2.2.2).",
        "The character itself.",
        most=20,
    ),
    FindingCode.CLASSIC_ALLOW: Check(
        _INFO,
        "readers after the standard of 1994 know no Allow",
        "Allow and Disallow are the two kinds of rules (§2.2.2).",
        "Nothing else, if RFC 9309 is all you care for.",
        most=1,
    ),
    FindingCode.CLASSIC_WILDCARD: Check(
        _INFO,
        "readers after the standard of 1994 take `*` and a final `$` for characters of the path",
        "`*` is any run of characters, a final `$` the end (§2.2.3).",
        "Nothing else, if RFC 9309 is all you care for.",
        most=1,
    ),
    FindingCode.PACE_UNREADABLE: Check(
        _ERROR,
        "no crawler can read this value",
        _OUTSIDE,
        "Seconds in digits, as `Crawl-delay: 5`; `Request-rate: 1/10m`; `Visit-time: 0600-0845`.",
    ),
    FindingCode.DELAY_WITH_REST: Check(
        _WARNING,
        "more than whole seconds: some crawlers pass over the line, others heed the first digits only",
        _OUTSIDE,
        "Whole seconds, in digits, and no unit.",
    ),
    FindingCode.DELAY_TOO_LONG: Check(
        _WARNING,
        "a delay of more than a minute: crawlers stay away altogether, or heed it no more",
        _OUTSIDE,
        "At most 60 seconds; `Disallow: /` for a crawler that is to stay away.",
    ),
    FindingCode.DELAY_AGAIN: Check(
        _WARNING,
        "the group has another Crawl-delay above: crawlers take the first, the last, the least or the largest",
        _OUTSIDE,
        "One for each group.",
    ),
    FindingCode.SITEMAP_NOT_ABSOLUTE: Check(
        _ERROR,
        "a Sitemap wants a whole URL: crawlers that read it pass over this one",
        "Not defined; crawlers may read it or not (§2.2.4).",
        "The whole URL, as https://www.example.com/sitemap.xml.",
    ),
}
"""What lint says of a line, by what is the matter with it; in the order of docs/lint.md."""
