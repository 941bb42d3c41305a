"""What lint can find, as one table, and the collection of what it found in a file, sorted and limited.

`FindingCode` has what can be wrong with a line of robots.txt, how severe it is, and what to write instead; docs/lint.md
is generated from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from robotgate.lint.lines import Line


class Severity(Enum):
    """Which crawlers read a line differently from what its author probably meant."""

    ERROR = "error"
    """Every crawler that follows RFC 9309, or that knows the field."""
    WARNING = "warning"
    """Some crawlers in use today."""
    INFO = "info"
    """Few or only historical crawlers."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table."""

    severity: Severity
    message: str
    """The problem, as a phrase."""
    rfc9309: str
    """What RFC 9309 says about such a line."""
    remedy: str
    """What to write instead."""
    most: int = 100
    """How many lines of one file are reported individually; the rest are only counted."""


_error = partial(Check, Severity.ERROR)
_warning = partial(Check, Severity.WARNING)
_info = partial(Check, Severity.INFO, most=20)
_remark = partial(Check, Severity.INFO, most=1)
_IGNORED: Final = "The line is not in the grammar (§2.2) and is ignored."
_TOKEN: Final = "A product token consists of letters, `_` and `-` (§2.2.1)."
_OUTSIDE: Final = "Not defined; crawlers may read it, but it must not affect the defined fields (§2.2.4)."


class FindingCode(Enum):
    """What lint looks for. The values are stable, so scripts may depend on them."""

    _value_: str

    def __init__(self, check: Check) -> None:
        self._value_ = self.name.lower().replace("_", "-")
        self.check = check
        """What the table says about it."""

    @classmethod
    def _missing_(cls, value: object) -> FindingCode | None:
        return next((code for code in cls if code.value == value), None)

    FILE_TOO_LARGE = _error(
        "the file is larger than 512,000 bytes: the rest is not read",
        "A crawler need not read more than 500 KiB (§2.5).",
        "Fewer rules: a prefix covers all that begins with it.",
    )
    HTML = _error(
        "a web page, not a robots.txt",
        "None of its lines is a record; without records everything may be fetched (§2.2.2).",
        "A plain text file, or status 404.",
    )
    UTF_16 = _error(
        "the file is in UTF-16: almost no crawler can read it",
        "The file must be UTF-8 (§2.3).",
        "UTF-8 without a byte order mark.",
    )
    NOT_UTF_8 = _error(
        "bytes that are not UTF-8: some crawlers discard the file",
        "The file must be UTF-8 (§2.3); crawlers may try to parse other bytes (§2.2.2).",
        "UTF-8; in a path, percent escapes.",
    )
    BYTE_ORDER_MARK = _warning(
        "a byte order mark: some crawlers ignore its line",
        "Not part of the grammar (§2.2).",
        "UTF-8 without a byte order mark.",
    )
    BARE_CR = _warning(
        "the line ends with CR alone: some crawlers join it with the next",
        "CR, LF and CRLF all end a line (§2.2).",
        "LF or CRLF.",
    )
    LINE_TOO_LONG = _error(
        "the line is longer than 16 KiB: crawlers drop or truncate it",
        "Crawlers may set limits (§2.5).",
        "A prefix or a wildcard.",
    )
    NUL = _error(
        "a NUL byte: for some crawlers the line ends here",
        "Control characters are not part of the grammar (§2.2).",
        "No NUL; if there are many, the file may not be text.",
    )
    CONTROL_CHARACTER = _warning(
        "an invisible control character, which is compared like any other",
        "Control characters are not part of the grammar (§2.2).",
        "No such character; in a path, its percent escape.",
    )
    OTHER_LINE_END = _warning(
        "a character at which some crawlers begin a new line",
        "Only CR and LF end a line (§2.2).",
        "No such character; in a path, its percent escape.",
    )

    MISSING_COLON = _error(
        "there is no colon after the field name",
        f"{_IGNORED} Some crawlers accept the line if it has exactly two words.",
        "A colon after the field name.",
    )
    NO_FIELD = _warning("the line names no field", _IGNORED, "`#` before a comment; else no line.")
    MISSPELT_FIELD = _error(
        "the field name is misspelt",
        f"{_IGNORED} Some crawlers accept some misspellings.",
        "The correct name, such as User-agent, Disallow, Allow or Sitemap.",
    )
    UNKNOWN_FIELD = _warning(
        "no crawler is known to read this field", _OUTSIDE, "`#` before a comment; else no line."
    )
    RETIRED_FIELD = _warning(
        "no large crawler reads this field now",
        _OUTSIDE,
        "For Noindex, an X-Robots-Tag header or a robots meta element; for Host, redirects.",
        most=1,
    )
    EXTENSION_FIELD = _remark(
        "only some crawlers know this field", _OUTSIDE, "No change; do not rely on it alone."
    )
    TWO_IN_ONE_LINE = _error(
        "a second record in the same line: it is read as part of the first",
        "A record ends with its line (§2.2).",
        "One record per line.",
    )

    BEFORE_ANY_GROUP = _error(
        "the line stands above any User-agent line: it applies to no crawler",
        "Rules before the first User-agent line should be ignored (§2.2.2).",
        "A User-agent line above; `User-agent: *` for all crawlers.",
    )
    DELAY_BETWEEN_AGENTS = _error(
        "the rules below also bind the agents above the Crawl-delay; other crawlers begin a new group here",
        "Only Allow and Disallow end a run of User-agent lines; other lines between them do not count (§2.2.4).",
        "The Crawl-delay below the rules; or `Disallow:` below it for agents without rules.",
    )
    RECORD_BETWEEN_AGENTS = _warning(
        "another kind of record above a User-agent line: some crawlers begin a new group",
        "Only Allow and Disallow end a run of User-agent lines (§2.2.4): the rules below also bind the agents above.",
        "The record below the rules, or at the end of the file.",
    )
    BLANK_BETWEEN_AGENTS = _warning(
        "a blank line between User-agent lines: some crawlers begin a new group",
        "Blank lines do not end a group (§2.2): the rules below also bind the agents above.",
        "No blank line; or `Disallow:` above it for agents without rules.",
    )
    BLANK_IN_GROUP = _warning(
        "a blank line within the group: readers of the 1994 standard end the group there",
        "Blank lines do not end a group (§2.2).",
        "No blank line; a line with just `#` looks the same.",
        most=1,
    )
    GROUP_WITHOUT_RULES = _warning(
        "a group without rules: its crawler may fetch everything, whatever `*` says",
        "A crawler that a group names does not obey the group for `*` (§2.2.1).",
        "`Disallow:` if that is intended; else the rules, or no group.",
    )
    DUPLICATE_GROUP = _warning(
        "another group names the same agent: some crawlers obey only the first",
        "Groups that name the same agent are combined (§2.2.1).",
        "One group with all rules.",
    )

    EMPTY_AGENT = _error(
        "the line names no crawler; some crawlers read it as `*`",
        _IGNORED,
        "`User-agent: *`, or a crawler's name.",
    )
    AGENT_WITHOUT_TOKEN = _error(
        "no crawler can have this name: the group applies to none",
        _TOKEN,
        "The name that the crawler's operator documents.",
    )
    AGENT_WITH_VERSION = _warning(
        "some crawlers do not recognise their name with a version after it",
        _TOKEN,
        "The name alone: it covers all versions.",
    )
    AGENT_WITH_REST = _warning(
        "some crawlers do not recognise their name with more text after it",
        _TOKEN,
        "The name alone; a User-agent line for each name.",
    )
    AGENT_WITH_DIGITS = _remark(
        "a name with digits: some crawlers do not recognise it",
        _TOKEN,
        "No change if that is the crawler's name.",
    )

    PATH_WITHOUT_SLASH = _error(
        "a path without a leading `/`: the rule never matches",
        "A path begins with `/` (§2.2); comparison begins at the first byte (§2.2.2).",
        "The path from the root, with a leading `/`.",
    )
    ABSOLUTE_URL = _error(
        "an absolute URL: for most crawlers it never matches",
        "A path begins with `/` (§2.2); a file applies only to its own scheme, host and port (§2.3).",
        "The path alone, in the robots.txt of that host.",
    )
    CONTRADICTED_RULE = _error(
        "an Allow for the same path wins over this Disallow",
        "Of an equally long Allow and Disallow, the Allow should be used (§2.2.2).",
        "One of the two.",
    )
    NEVER_DECIDES = _error(
        "a longer rule matches all that this one does: this one never decides",
        "The rule with the most bytes decides, wherever it stands (§2.2.2).",
        "A longer path for the rule that should win; else no rule.",
    )
    NUMBER_SIGN_IN_PATH = _warning(
        "the path ends before the `#`: a comment follows",
        "`#` begins a comment wherever it stands (§2.2.3).",
        "A space before a comment. No server sees what follows `#` in a URL, so no rule can match it.",
    )
    BLANK_IN_PATH = _warning(
        "a space or tab in the path: some crawlers end the path there",
        "A path has no spaces or tabs (§2.2).",
        "One path per line; %20 for a space in the path.",
    )
    DOLLAR_INSIDE = _warning(
        "`$` within a path is literal, though some crawlers differ",
        "`$` stands for the end of the pattern (§2.2.3).",
        "`$` at the end; %24 for a literal `$`.",
    )
    BROKEN_ESCAPE = _warning(
        "a percent sign without two hexadecimal digits",
        "Not defined; a literal percent sign is %25 in a URL (§2.2.2).",
        "%25 for a percent sign; else the complete escape.",
    )
    EMPTY_ALLOW = _warning(
        "an Allow without a path has no effect; some crawlers refuse everything",
        "An empty pattern matches nothing (§2.2).",
        "No line; or `Disallow:`, where it is the only rule of its group, to allow everything.",
    )
    EMPTY_DISALLOW = _warning(
        "an empty Disallow beside other rules has no effect; some crawlers allow everything",
        "An empty pattern matches nothing (§2.2).",
        "`Disallow:` only as the single rule of a group.",
    )
    DUPLICATE_RULE = _info(
        "the rule repeats an earlier one", "Equal rules may be treated as one (§2.2.2).", "The rule once."
    )
    ORDER_MATTERS = _info(
        "crawlers that obey the first matching rule stop at a shorter one above",
        "The rule with the most bytes decides, wherever it stands (§2.2.2).",
        "The longer rule above the shorter.",
    )
    LEADING_WILDCARD = _info(
        "the path begins with `*` and not with `/`: some crawlers never match it",
        "A path begins with `/` (§2.2), though an example omits it (§5.1).",
        "`/*` where `*` stands.",
    )
    NON_ASCII_PATH = _info(
        "letters outside ASCII: for some crawlers they differ from their escapes",
        "They are escaped before they are compared (§2.2.2).",
        "Percent escapes of the UTF-8 bytes.",
    )
    LOWER_CASE_ESCAPE = _info(
        "a percent escape in lower case: for some crawlers it differs from upper case",
        "Not defined; in RFC 3986 the two are equal and upper case is preferred.",
        "Upper-case hexadecimal digits.",
    )
    ESCAPED_UNRESERVED = _info(
        "an escape of a character that needs none: for some crawlers the two differ",
        "Such an escape is decoded before comparing (§2.2.2).",
        "The character itself.",
    )
    CLASSIC_ALLOW = _remark(
        "readers of the 1994 standard do not know Allow",
        "Allow and Disallow are the two kinds of rules (§2.2.2).",
        "No change if only RFC 9309 matters to you.",
    )
    CLASSIC_WILDCARD = _remark(
        "readers of the 1994 standard read `*` and a final `$` as characters of the path",
        "`*` matches any run of characters, a final `$` the end (§2.2.3).",
        "No change if only RFC 9309 matters to you.",
    )

    PACE_UNREADABLE = _error(
        "no crawler can read this value",
        _OUTSIDE,
        "Seconds in digits, as `Crawl-delay: 5`; `Request-rate: 1/10m`; `Visit-time: 0600-0845`.",
    )
    DELAY_WITH_REST = _warning(
        "not whole seconds: some crawlers ignore the line or read its first digits",
        _OUTSIDE,
        "Whole seconds, without a unit.",
    )
    PACE_FORM = _warning(
        "a form that only some crawlers can read",
        _OUTSIDE,
        "`Request-rate: 1/10m`; `Visit-time: 0600-0845`.",
    )
    PACE_OUTSIDE_GROUPS = _warning(
        "the line stands above any User-agent line: some crawlers obey it, whatever their name, others ignore it",
        _OUTSIDE,
        "The line below `User-agent: *`, or below each User-agent line that it is meant for.",
    )
    DELAY_TOO_LONG = _warning(
        "a delay of more than a minute: crawlers do not visit, or ignore it",
        _OUTSIDE,
        "At most 60 seconds; or `Disallow: /`.",
    )
    DELAY_AGAIN = _warning(
        "another Crawl-delay in the group: crawlers use the first, the last, the smallest or the largest",
        _OUTSIDE,
        "One Crawl-delay per group.",
    )
    SITEMAP_NOT_ABSOLUTE = _error(
        "not an absolute URL: crawlers ignore this Sitemap",
        "Not defined; crawlers may read it or not (§2.2.4).",
        "A whole URL, as `https://www.example.com/sitemap.xml`.",
    )

    STATEMENT_UNREADABLE = _error(
        "no crawler can read this statement about use: it is ignored, wholly or in part",
        _OUTSIDE,
        "`Content-Usage: train-ai=n`, `Content-Signal: ai-train=no`, or `License:` with an absolute URL.",
    )
    STATEMENT_UNKNOWN_LABEL = _warning(
        "a label that this field does not have: crawlers ignore it",
        _OUTSIDE,
        "Content-Usage: `train-ai`, `ai-use`, `search`; Content-Signal: `search`, `ai-input`, `ai-train`, `use`.",
    )
    STATEMENT_OUTSIDE_GROUPS = _warning(
        "the line stands above any User-agent line: some readers take it for the whole file, others ignore it",
        _OUTSIDE,
        "The line below `User-agent: *`, or below each User-agent line that it is meant for.",
    )


_BYTES_BEFORE: Final = 60
"""How much of a long line is shown before the place that a finding is about."""
_BYTES_SHOWN: Final = 160
_MAX_SUGGESTED_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A line that some crawlers read differently from what its author probably meant."""

    code: FindingCode
    line: int
    """The line's number in the file, from 1."""
    column: int
    """Where in the line the finding begins: bytes, from 1."""
    text: str
    """The line, or the part of a long line around the place; unprintable characters are spelt out."""
    start: int
    """``text[start:end]`` is the place that the finding is about."""
    end: int
    suggestion: str | None = None
    """The line to write instead, if lint knows one; `remedy` gives advice in any case."""
    related_line: int | None = None
    """The number of another line that the finding refers to."""
    further_lines: int = 0
    """On the last finding of its kind: how many more lines have the same problem and no finding of their own."""

    @property
    def severity(self) -> Severity:
        """How severe the problem is."""
        return self.code.check.severity

    @property
    def message(self) -> str:
        """The problem, as a phrase."""
        return self.code.check.message

    @property
    def rfc9309(self) -> str:
        """What RFC 9309 says about such a line."""
        return self.code.check.rfc9309

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return self.code.check.remedy

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity.value}: {self.message} [{self.code.value}]"


class Findings:
    """Collects findings. It keeps as many of each kind as the table says, and counts the rest."""

    def __init__(self) -> None:
        self._kept: defaultdict[tuple[FindingCode, str], list[Finding]] = defaultdict(list)
        self._further: Counter[tuple[FindingCode, str]] = Counter()

    def add(
        self,
        code: FindingCode,
        line: Line,
        span: tuple[int, int] | None = None,
        *,
        suggestion: bytes | None = None,
        related_line: int | None = None,
        kind: str = "",
    ) -> None:
        """Add a finding.

        Args:
            code: the kind of problem.
            line: the line that has it.
            span: the place within `Line.raw`; by default the line's content.
            suggestion: the line to write instead; dropped unless it is short printable text.
            related_line: the number of another line that the finding refers to.
            kind: findings of one code but different kinds are counted separately. There must be few kinds.
        """
        kept = self._kept[code, kind]
        if len(kept) >= code.check.most:
            self._further[code, kind] += 1
            return
        at, end = line.content_span if span is None else span
        text, start, end = _excerpt(line.raw, at, max(at, end))
        write = None if suggestion is None else _line_to_write(suggestion)
        finding = Finding(code=code, line=line.number, column=at + 1, text=text, start=start, end=end)
        kept.append(replace(finding, suggestion=write, related_line=related_line))

    def all(self) -> tuple[Finding, ...]:
        """All findings, sorted by line and column."""
        ranks = {code: rank for rank, code in enumerate(FindingCode)}
        for key, further in self._further.items():
            self._kept[key][-1] = replace(self._kept[key][-1], further_lines=further)
        found = chain.from_iterable(self._kept.values())
        return tuple(sorted(found, key=lambda each: (each.line, each.column, ranks[each.code])))


def _excerpt(raw: bytes, start: int, end: int) -> tuple[str, int, int]:
    """The text to show of a line, and where in that text the place begins and ends."""
    first = 0 if len(raw) <= _BYTES_SHOWN else max(0, start - _BYTES_BEFORE)
    last = min(len(raw), first + _BYTES_SHOWN)
    before = ("…" if first else "") + _printable(raw[first : min(start, last)])
    place = _printable(raw[min(start, last) : min(end, last)])
    after = _printable(raw[min(end, last) : last]) + ("…" if last < len(raw) else "")
    return before + place + after, len(before), len(before) + len(place)


def _line_to_write(suggestion: bytes) -> str | None:
    # What is not UTF-8 becomes lone surrogates, which are not printable.
    text = suggestion.decode(errors="surrogateescape")
    return text if len(suggestion) <= _MAX_SUGGESTED_BYTES and text.isprintable() else None


def _printable(raw: bytes) -> str:
    """Bytes as text without control characters: they could control a terminal."""
    text = raw.decode(errors="backslashreplace").replace("\t", " ")
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)
