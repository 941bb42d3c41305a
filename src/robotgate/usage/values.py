"""Readers of the values of all standards. They accept any text, and raise nothing.

Content-Usage and Robots-Tag are structured fields (RFC 9651), which the library http-sf reads; it comes with the extra
``usage``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import TYPE_CHECKING, Final

from robotgate.links import read_links
from robotgate.rules.grammar import EVERYBODY, names
from robotgate.usage.rsl import RSL_TYPE
from robotgate.usage.statement import Preference, Purpose, Statement, combine, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from robotgate.usage.statement import Source, Standard

_Pair = tuple[Purpose, Preference]
_YES: Final = Preference.ALLOWED
_NO: Final = Preference.DISALLOWED

CONTENT_USAGE_LABELS: Final = {
    "train-ai": Purpose.AI_TRAIN,
    "ai-use": Purpose.AI_INPUT,
    "search": Purpose.SEARCH,
}
"""The labels of draft-ietf-aipref-vocab-08."""
CONTENT_SIGNAL_KEYS: Final = {
    "search": Purpose.SEARCH,
    "ai-input": Purpose.AI_INPUT,
    "ai-train": Purpose.AI_TRAIN,
}
CONTENT_USES: Final[dict[str, tuple[_Pair, ...]]] = {
    # Use the page once, and keep nothing.
    "immediate": tuple(
        (purpose, _NO) for purpose in (Purpose.SEARCH, Purpose.AI_TRAIN, Purpose.INDEX, Purpose.ARCHIVE)
    ),
    # Keep the page, index it and cite it.
    "reference": ((Purpose.SEARCH, _YES), (Purpose.INDEX, _YES), (Purpose.AI_TRAIN, _NO)),
    "full": tuple(
        (purpose, _YES)
        for purpose in (
            Purpose.SEARCH,
            Purpose.AI_INPUT,
            Purpose.AI_TRAIN,
            Purpose.INDEX,
            Purpose.ARCHIVE,
        )
    ),
}
"""The preferences of each value of the key ``use`` of Content-Signal."""
_NO_SNIPPET: Final = ((Purpose.SNIPPET, _NO), (Purpose.AI_INPUT, _NO))
"""Google's documentation bars the page from AI answers too."""
ROBOTS_RULES: Final[dict[str, tuple[_Pair, ...]]] = {
    "all": ((Purpose.INDEX, _YES), (Purpose.FOLLOW, _YES)),
    "index": ((Purpose.INDEX, _YES),),
    "follow": ((Purpose.FOLLOW, _YES),),
    "archive": ((Purpose.ARCHIVE, _YES),),
    "snippet": ((Purpose.SNIPPET, _YES),),
    "noindex": ((Purpose.INDEX, _NO),),
    "nofollow": ((Purpose.FOLLOW, _NO),),
    "none": ((Purpose.INDEX, _NO), (Purpose.FOLLOW, _NO)),
    "nosnippet": _NO_SNIPPET,
    "noarchive": ((Purpose.ARCHIVE, _NO), (Purpose.AI_INPUT, _NO), (Purpose.AI_TRAIN, _NO)),
    "nocache": ((Purpose.ARCHIVE, _NO), (Purpose.AI_TRAIN, _NO)),
    "noai": ((Purpose.AI_TRAIN, _NO), (Purpose.AI_INPUT, _NO)),
    "noimageai": ((Purpose.AI_TRAIN, _NO), (Purpose.AI_INPUT, _NO)),
    "noml": ((Purpose.AI_TRAIN, _NO),),
    **dict.fromkeys(
        ("indexifembedded", "notranslate", "noimageindex", "nositelinkssearchbox", "noodp", "noydir"), ()
    ),
}
"""The rules of X-Robots-Tag and robots meta elements; those without a purpose of ours are known and say nothing.

noarchive and nocache are read as Bing's documentation (2023) extends them."""
_NOTES: Final = {
    "noimageai": "noimageai is meant for images",
    "noarchive": "Bing's documentation reads noarchive for AI too, others for archives only",
    "nocache": "Bing's documentation leaves AI the URL, title and snippet, others read nocache for archives only",
}
_VALUED_RULES: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)
"""Rules with a colon and a value. Before other colons stands a user agent."""
ROBOTS_TAG_RULES: Final = {name: ROBOTS_RULES[name] for name in ("noindex", "nosnippet")}
_WEEKDAY: Final = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")
_MAX_DATE: Final = 60
_MAX_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Reading:
    """What one value says."""

    says: tuple[_Pair, ...] = ()
    problem: str | None = None
    """What could not be read."""
    note: str | None = None
    is_broken: bool = False
    """Whether more than an unknown name could not be read."""
    reference: str | None = None
    """The URL of a licence or policy."""

    def statement(
        self, standard: Standard, source: Source, field: str, words: str, line: int | None = None
    ) -> Statement:
        """The statement that the value stands in; the arguments are its attributes, as written."""
        return Statement(
            standard=standard,
            source=source,
            field=shown(field),
            words=shown(words),
            line=line,
            says=self.says,
            reference=shown((self.reference or "").strip()) or None,
            note=self.note,
            problem=self.problem,
        )


def structured_fields() -> ModuleType:
    """The library for structured fields.

    Raises:
        ModuleNotFoundError: it is not installed; the message names the extra.
    """
    try:
        import http_sf  # noqa: PLC0415  # Only the extra `usage` has it.
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "usage preferences need http_sf: pip install 'robotgate[usage]'", name=error.name, path=error.path
        ) from error
    return http_sf


def read_content_usage(text: str) -> Reading:
    """A Content-Usage value: a Dictionary of labels with the Tokens ``y`` and ``n`` (draft-ietf-aipref-vocab §6)."""
    found = _structured(text, "dictionary")
    if not isinstance(found, dict):
        return Reading(problem="not a structured dictionary, so all of it is unknown", is_broken=True)
    token = structured_fields().Token
    says: list[_Pair] = []
    odd: list[str] = []
    is_broken = False
    if not found:
        odd.append("it is empty")
        is_broken = True
    for label, member in found.items():
        purpose = CONTENT_USAGE_LABELS.get(label)
        value = member[0] if isinstance(member, tuple) else None
        if purpose is None:
            odd.append(f"{label} is no label")
        elif isinstance(value, token) and str(value) in ("y", "n"):
            says.append((purpose, _YES if str(value) == "y" else _NO))
        else:
            odd.append(f"{label} is neither y nor n")
            is_broken = True
    return Reading(combine(says), _listed(odd), is_broken=is_broken)


def _structured(text: str, kind: str) -> object:
    """A structured field; None if it is malformed."""
    library = structured_fields()
    try:
        found: object = library.parse(text.strip(" \t").encode("utf-8", "replace"), tltype=kind)
    except (library.StructuredFieldError, ValueError, OverflowError):
        return None
    return found


def read_content_signal(text: str) -> Reading:
    """A Content-Signal value: a comma list of ``key=value``."""
    says: list[_Pair] = []
    odd: list[str] = []
    is_broken = False
    for part in _parts(text):
        key, equals, value = (word.strip(" \t").lower() for word in part.partition("="))
        purpose = CONTENT_SIGNAL_KEYS.get(key)
        if purpose is not None and value in ("yes", "no"):
            says.append((purpose, _YES if value == "yes" else _NO))
        elif key == "use" and value in CONTENT_USES:
            says += CONTENT_USES[value]
        elif purpose is not None or key == "use":
            odd.append(f"{key} has no known value")
            is_broken = True
        else:
            odd.append(f"{key} is no key")
            is_broken = is_broken or not equals
    if not says and not odd:
        odd.append("it is empty")
        is_broken = True
    return Reading(combine(says), _listed(odd), is_broken=is_broken)


def read_robots_rules(text: str, token: str | None, *, now: float, has_agents: bool = True) -> Reading | None:
    """The rules of one X-Robots-Tag field line or one robots meta element; None if they are for others.

    Args:
        text: the value of one line; a user agent holds for the rest of its line.
        token: our product token, in lower case; None if unknown.
        now: seconds since the epoch, for ``unavailable_after``.
        has_agents: whether a user agent with a colon may stand before rules.
    """
    said: dict[str, tuple[_Pair, ...]] = {}
    odd: list[str] = []
    is_ours, is_read = True, False
    parts = _parts(text)
    for part in parts:
        rule, colon, value = _rule_of(part)
        if has_agents and colon and rule not in _VALUED_RULES:
            is_ours = rule == EVERYBODY or (token is not None and names(rule, token))
            rule, colon, value = _rule_of(value)
        if rule == "unavailable_after" and _WEEKDAY.fullmatch(value):
            value = f"{value}, {next(parts, '')}"
        if not is_ours or not rule:
            continue
        is_read = True
        pairs = ROBOTS_RULES.get(rule) if not colon else _said_with_value(rule, value, now)
        if pairs is None:
            odd.append(f"{rule[:_MAX_SHOWN]} {'has no known value' if colon else 'is no rule'}")
        else:
            said[f"{rule}:{value}"] = pairs
    if not is_read:
        return None
    if "noarchive:" in said and "nocache:" in said:
        # With both, Bing's documentation applies nocache alone.
        said["noarchive:"] = said["nocache:"]
    notes = [note for rule, note in _NOTES.items() if f"{rule}:" in said]
    return Reading(combine(chain.from_iterable(said.values())), _listed(odd), "; ".join(notes) or None)


def _said_with_value(rule: str, value: str, now: float) -> tuple[_Pair, ...] | None:
    """What a rule with a value says; None if it has no meaning."""
    if rule == "max-snippet" and _NUMBER.fullmatch(value):
        return _NO_SNIPPET if int(value) == 0 else ((Purpose.SNIPPET, _YES),)
    if rule == "unavailable_after" and (instant := _instant(value)) is not None:
        return ((Purpose.INDEX, _NO),) if instant <= now else ()
    return () if rule in ("max-image-preview", "max-video-preview") else None


def _rule_of(part: str) -> tuple[str, bool, str]:
    rule, colon, value = part.partition(":")
    return rule.strip(" \t").lower(), bool(colon), value.strip(" \t")


def _instant(text: str) -> float | None:
    """A date as of RFC 822, RFC 850 or ISO 8601, in seconds since the epoch; None for anything else."""
    if len(text) > _MAX_DATE:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def read_robots_tag(text: str, token: str | None) -> Reading | None:
    """A Robots-Tag value: a List of product tokens with rules as parameters; None if all are for others.

    The rules for ``*`` hold for everybody, beside one's own (draft-illyes-repext-03).
    """
    found = _structured(text.lower(), "list")
    if not isinstance(found, list):
        return Reading(problem="not a structured list, so all of it is unknown")
    says: list[_Pair] = []
    odd: list[str] = []
    is_read = False
    word = structured_fields().Token
    for member in found:
        name, rules = member
        if not isinstance(name, word) or str(name) not in (EVERYBODY, token):
            continue
        is_read = True
        for rule, value in rules.items():
            if rule in ROBOTS_TAG_RULES and value is True:
                says += ROBOTS_TAG_RULES[rule]
            else:
                odd.append(f"{rule[:_MAX_SHOWN]} is no rule of it")
    return Reading(combine(says), _listed(odd)) if is_read else None


def licence_links(text: str) -> Iterator[tuple[str, bool]]:
    """The licences of one line of a Link header: each URL, and whether its type is that of RSL."""
    for target, pairs in read_links(text):
        # Of repeated parameters the first counts (RFC 8288 §3.3).
        parameters = dict(reversed(pairs))
        # A link with an anchor is about another resource (RFC 8288 §3.2).
        if "license" in parameters.get("rel", "").lower().split() and "anchor" not in parameters:
            kind = parameters.get("type", "").partition(";")[0]
            yield target, kind.strip().lower() == RSL_TYPE


def read_reservation(text: str) -> Reading:
    """A tdm-reservation: 1 or 0."""
    value = text.strip(" \t")
    if value in ("0", "1"):
        return Reading(((Purpose.TDM, _NO if value == "1" else _YES),))
    return Reading(problem="neither 0 nor 1, so it is unset")


def _parts(text: str) -> Iterator[str]:
    return (part for part in text.split(",") if part.strip(" \t"))


def _listed(problems: list[str]) -> str | None:
    """Problems as one text, of bounded length."""
    more = len(problems) - 3
    first = [shown(problem[:80]) for problem in dict.fromkeys(problems[:3])]
    return "; ".join(first + ([f"and {more} more"] if more > 0 else [])) or None
