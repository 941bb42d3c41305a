"""The answer: what a site prefers for each purpose, and the statements that say so.

These values need no other module: errors and verdicts hold them. What reads them from texts stands above `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_STATEMENTS: Final = 1_000
"""Statements that a `Preferences` lists, at most; all count."""


class Purpose(StrEnum):
    """What a crawler does with a page. A member equals its name as a string."""

    SEARCH = "search"
    """Find the page for a query and lead users to it."""
    AI_INPUT = "ai_input"
    """Give the page to a generative model as input: answers, grounding, summaries."""
    AI_TRAIN = "ai_train"
    """Train or fine-tune a model."""
    TDM = "tdm"
    """Mine text and data (Directive (EU) 2019/790, article 4)."""
    INDEX = "index"
    """Keep the page in a search index."""
    FOLLOW = "follow"
    """Follow the page's links."""
    ARCHIVE = "archive"
    """Show a stored copy."""
    SNIPPET = "snippet"
    """Show an excerpt."""


class Preference(Enum):
    """What a site says about a purpose."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    UNKNOWN = "unknown"
    """The site says nothing that can be read. No standard gives this a meaning."""


class Source(Enum):
    """Where a statement was found."""

    ROBOTS_TXT = "robots.txt"
    HEADER = "header"
    META = "page"
    """An element of the page: meta, link or script."""
    FILE = "tdmrep.json"
    """``/.well-known/tdmrep.json``."""


class Standard(Enum):
    """By which standard a statement is read."""

    CONTENT_USAGE = "AIPREF Content-Usage"
    """draft-ietf-aipref-attach-05 with the labels of draft-ietf-aipref-vocab-08."""
    CONTENT_SIGNAL = "Content-Signal"
    """Cloudflare's content signals."""
    RSL = "RSL 1.0"
    """Really Simple Licensing."""
    LICENSE_LINK = "rel=license"
    """A link to any licence (RFC 4946)."""
    TDMREP = "TDMRep"
    """The TDM Reservation Protocol of a W3C community group, 2024-05-10."""
    ROBOTS_RULES = "robots meta rules"
    """X-Robots-Tag and the robots meta element, as search engines document them."""
    ROBOTS_TAG = "Robots-Tag"
    """draft-illyes-repext-03."""


RSL_TYPE: Final = "application/rsl+xml"
"""The media type of RSL documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a site about the use of its pages."""

    standard: Standard
    source: Source
    field: str
    """The name of the robots.txt field, header or meta element, as written."""
    words: str
    """Its value as written, cut to 500 characters, unprintable ones as escapes."""
    line: int | None = None
    """The line in robots.txt, from 1."""
    says: tuple[tuple[Purpose, Preference], ...] = ()
    """What counts of it in the answer."""
    reference: str | None = None
    """The URL of a licence, a licence server or a policy that it names. robotgate does not read these."""
    note: str | None = None
    """How it was read, where sources disagree or a stronger statement replaces it."""
    problem: str | None = None
    """What in it could not be read; that part is unknown."""

    def __str__(self) -> str:
        where = self.source.value if self.line is None else f"{self.source.value} line {self.line}"
        remarks = "".join(f" ({remark})" for remark in (self.note, self.problem) if remark)
        return f"{where}: {self.field}: {self.words}{remarks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What a site prefers for one URL and one crawler.

    For each purpose: disallowed if any statement disallows it, else allowed if any allows it, else unknown
    (draft-ietf-aipref-vocab §5.1). A preference does not change whether the URL may be fetched.
    """

    search: Preference = Preference.UNKNOWN
    ai_input: Preference = Preference.UNKNOWN
    ai_train: Preference = Preference.UNKNOWN
    tdm: Preference = Preference.UNKNOWN
    index: Preference = Preference.UNKNOWN
    follow: Preference = Preference.UNKNOWN
    archive: Preference = Preference.UNKNOWN
    snippet: Preference = Preference.UNKNOWN
    statements: tuple[Statement, ...] = ()
    """What was found, in the order robots.txt, tdmrep.json, headers, page. At most 1,000 statements are listed."""

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Preferences:
        """Combine statements."""
        combined = combine(pair for statement in statements for pair in statement.says)
        kept = statements
        if len(kept) > MAX_STATEMENTS:
            # The first of those that decide about a purpose, wherever they stand.
            first = {pair: statement for statement in reversed(statements) for pair in statement.says}
            deciding = [first[pair] for pair in combined]
            kept = list(dict.fromkeys([*statements[: MAX_STATEMENTS - len(Purpose)], *deciding]))
        answers = {purpose.value: preference for purpose, preference in combined}
        return cls(**answers, statements=tuple(kept))

    def preference(self, purpose: Purpose | str) -> Preference:
        """The preference for a purpose.

        Raises:
            ValueError: there is no such purpose.
        """
        answer: Preference = getattr(self, Purpose(purpose).value)
        return answer

    def deciding(self, purpose: Purpose | str) -> tuple[Statement, ...]:
        """The statements that the preference for a purpose comes from; none if it is unknown.

        Raises:
            ValueError: there is no such purpose.
        """
        pair = Purpose(purpose), self.preference(purpose)
        return tuple(statement for statement in self.statements if pair in statement.says)

    @property
    def licenses(self) -> tuple[str, ...]:
        """The URLs of licences, each once. What they permit is not judged."""
        return self._references(Standard.RSL, Standard.LICENSE_LINK)

    @property
    def policies(self) -> tuple[str, ...]:
        """The URLs of the TDM policies that hold, each once."""
        return self._references(Standard.TDMREP)

    def _references(self, *standards: Standard) -> tuple[str, ...]:
        found = [each.reference for each in self.statements if each.standard in standards]
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def problems(self) -> tuple[Statement, ...]:
        """The statements of which a part could not be read."""
        return tuple(statement for statement in self.statements if statement.problem)


def combine(pairs: Iterable[tuple[Purpose, Preference]]) -> tuple[tuple[Purpose, Preference], ...]:
    """For each purpose the strictest preference: disallowed, else allowed. Purposes without either are left out."""
    found: dict[Purpose, Preference] = {}
    for purpose, preference in pairs:
        if preference is Preference.DISALLOWED or (preference is Preference.ALLOWED and purpose not in found):
            found[purpose] = preference
    return tuple((purpose, found[purpose]) for purpose in Purpose if purpose in found)
