"""Readers of the values of all standards. They accept any text, and raise nothing.

Content-Usage and Robots-Tag are structured fields (RFC 9651), which the library http-sf reads; it comes with the extra
``preferences``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.clock import parse_date
from robotgate.errors import needs_extra
from robotgate.events import printable
from robotgate.rules.grammar import EVERYBODY, names
from robotgate.statements import RSL_TYPE, Preference, Purpose, Source, Standard, Statement, combine
from robotgate.urls import LINK, read_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType


Says: TypeAlias = tuple[tuple[Purpose, Preference], ...]


def _yes(*purposes: str) -> Says:
    return tuple((Purpose(name), Preference.ALLOWED) for name in purposes)


def _no(*purposes: str) -> Says:
    return tuple((Purpose(name), Preference.DISALLOWED) for name in purposes)


CONTENT_USAGE_LABELS: Final = {
    label: {"y": _yes(purpose), "n": _no(purpose)}
    for label, purpose in (("train-ai", "ai_train"), ("ai-use", "ai_input"), ("search", "search"))
}
"""The labels of draft-ietf-aipref-vocab-08, and what their values say."""
CONTENT_SIGNAL_KEYS: Final[Mapping[str, Mapping[str, Says]]] = {
    **{
        key: {"yes": _yes(purpose), "no": _no(purpose)}
        for key, purpose in (("search", "search"), ("ai-input", "ai_input"), ("ai-train", "ai_train"))
    },
    "use": {
        # Use the page once, and keep nothing.
        "immediate": _no("search", "ai_train", "index", "archive"),
        # Keep the page, index it and cite it.
        "reference": _yes("search", "index") + _no("ai_train"),
        "full": _yes("search", "ai_input", "ai_train", "index", "archive"),
    },
}
"""The keys of Content-Signal, and what their values say."""
_NO_SNIPPET: Final = _no("snippet", "ai_input")
"""Google's documentation bars the page from AI answers too."""
ROBOTS_RULES: Final[Mapping[str, Says]] = {
    "all": _yes("index", "follow"),
    "index": _yes("index"),
    "follow": _yes("follow"),
    "archive": _yes("archive"),
    "snippet": _yes("snippet"),
    "noindex": _no("index"),
    "nofollow": _no("follow"),
    "none": _no("index", "follow"),
    "nosnippet": _NO_SNIPPET,
    "noarchive": _no("archive", "ai_input", "ai_train"),
    "nocache": _no("archive", "ai_train"),
    "noai": _no("ai_train", "ai_input"),
    "noimageai": _no("ai_train", "ai_input"),
    "noml": _no("ai_train"),
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
_ROBOTS_TAG_RULES: Final = {name: ROBOTS_RULES[name] for name in ("noindex", "nosnippet")}
_WEEKDAY: Final = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")
_MAX_SHOWN: Final = 40
_MAX_PROBLEM: Final = 200
MAX_WORDS: Final = 500
"""Characters of a statement that are kept."""


@dataclass(slots=True)
class Reading:
    """What one value says."""

    says: list[tuple[Purpose, Preference]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """The names in it that mean nothing here."""
    broken: list[str] = field(default_factory=list)
    """What else could not be read."""
    note: str | None = None
    reference: str | None = None
    """The URL of a licence or policy."""
    standard: Standard | None = None
    """If it is not that of the field."""

    @property
    def problem(self) -> str | None:
        """What could not be read, as one text of bounded length."""
        problems = self.broken + self.unknown
        first = [_shown(problem[:_MAX_PROBLEM]) for problem in dict.fromkeys(problems[:3])]
        more = len(problems) - 3
        return "; ".join(first + ([f"and {more} more"] if more > 0 else [])) or None

    def statement(
        self, standard: Standard, source: Source, field: str, words: str, line: int | None = None
    ) -> Statement:
        """The statement that the value stands in; the arguments are its attributes, as written."""
        return Statement(
            standard=self.standard or standard,
            source=source,
            field=_shown(field),
            words=_shown(words),
            line=line,
            says=combine(self.says),
            reference=_shown((self.reference or "").strip()) or None,
            note=self.note,
            problem=self.problem,
        )


def structured_fields() -> ModuleType:
    """The library for structured fields.

    Raises:
        ModuleNotFoundError: it is not installed; the message names the extra.
    """
    with needs_extra("preferences", "robotgate.preferences"):
        import http_sf  # noqa: PLC0415  # Only the extra `preferences` has it.
    return http_sf


def _structured(text: str, kind: str) -> object:
    """A structured field; None if it is malformed."""
    library = structured_fields()
    try:
        found: object = library.parse(text.strip(" \t").encode("utf-8", "replace"), tltype=kind)
    except (library.StructuredFieldError, ValueError, OverflowError):
        return None
    return found


def read_content_usage(text: str) -> Reading:
    """A Content-Usage value: a Dictionary of labels with the Tokens ``y`` and ``n`` (draft-ietf-aipref-vocab §6)."""
    found = _structured(text, "dictionary")
    if not isinstance(found, dict):
        return Reading(broken=["not a structured dictionary, so all of it is unknown"])
    reading = Reading(broken=[] if found else ["it is empty"])
    token = structured_fields().Token
    for label, member in found.items():
        values = CONTENT_USAGE_LABELS.get(label)
        value = member[0] if isinstance(member, tuple) else None
        if values is None:
            reading.unknown.append(f"{label} is no label")
        elif isinstance(value, token) and str(value) in values:
            reading.says += values[str(value)]
        else:
            reading.broken.append(f"{label} is neither y nor n")
    return reading


def read_content_signal(text: str) -> Reading:
    """A Content-Signal value: a comma list of ``key=value``."""
    reading = Reading(broken=[] if text.strip(" \t,") else ["it is empty"])
    for part in _parts(text):
        key, equals, value = (word.strip(" \t").lower() for word in part.partition("="))
        values = CONTENT_SIGNAL_KEYS.get(key)
        if values is None:
            (reading.unknown if equals else reading.broken).append(f"{key} is no key")
        elif value in values:
            reading.says += values[value]
        else:
            reading.broken.append(f"{key} has no known value")
    return reading


def read_robots_rules(text: str, token: str | None, now: float, *, has_agents: bool = True) -> list[Reading]:
    """The rules of one X-Robots-Tag field line or one robots meta element; nothing if they are for others.

    Args:
        text: the value of one line; a user agent holds for the rest of its line.
        token: our product token, in lower case; None if unknown.
        now: seconds since the epoch, for ``unavailable_after``.
        has_agents: whether a user agent with a colon may stand before rules.
    """
    reading = Reading()
    said: dict[str, Says] = {}
    is_ours = True
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
        says = ROBOTS_RULES.get(rule) if not colon else _said_with_value(rule, value, now)
        if says is None:
            problem = "has no known value" if colon else "is no rule"
            reading.unknown.append(f"{rule[:_MAX_SHOWN]} {problem}")
        else:
            said[f"{rule}:{value}"] = says
    if "noarchive:" in said and "nocache:" in said:
        # With both, Bing's documentation applies nocache alone.
        said["noarchive:"] = said["nocache:"]
    reading.says = [pair for says in said.values() for pair in says]
    reading.note = "; ".join(note for rule, note in _NOTES.items() if f"{rule}:" in said) or None
    return [reading] if said or reading.unknown else []


def _said_with_value(rule: str, value: str, now: float) -> Says | None:
    """What a rule with a value says; None if it has no meaning."""
    if rule == "max-snippet" and _NUMBER.fullmatch(value):
        return _NO_SNIPPET if int(value) == 0 else _yes("snippet")
    if rule == "unavailable_after" and (date := parse_date(value)) is not None:
        return _no("index") if date.timestamp() <= now else ()
    return () if rule in ("max-image-preview", "max-video-preview") else None


def _rule_of(part: str) -> tuple[str, bool, str]:
    rule, colon, value = part.partition(":")
    return rule.strip(" \t").lower(), bool(colon), value.strip(" \t")


def read_robots_tag(text: str, token: str | None) -> list[Reading]:
    """A Robots-Tag value: a List of product tokens with rules as parameters; nothing if all are for others.

    The rules for ``*`` hold for everybody, beside one's own (draft-illyes-repext-03).
    """
    found = _structured(text.lower(), "list")
    if not isinstance(found, list):
        return [Reading(broken=["not a structured list, so all of it is unknown"])]
    reading = Reading()
    word = structured_fields().Token
    for name, rules in found:
        if not isinstance(name, word) or str(name) not in (EVERYBODY, token):
            continue
        for rule, value in rules.items():
            if rule in _ROBOTS_TAG_RULES and value is True:
                reading.says += _ROBOTS_TAG_RULES[rule]
            else:
                reading.unknown.append(f"{rule[:_MAX_SHOWN]} is no rule of it")
    return [reading] if reading.says or reading.unknown else []


def read_licence_links(text: str) -> list[Reading]:
    """The licences of one line of a Link header."""
    found = []
    for target, pairs in read_links(text):
        # Of repeated parameters the first counts (RFC 8288 §3.3).
        parameters = dict(reversed(pairs))
        # A link with an anchor is about another resource (RFC 8288 §3.2).
        if "license" in parameters.get("rel", "").lower().split() and "anchor" not in parameters:
            found.append(licence(target, parameters.get("type", "")))
    # Most links are not about licences, so what is wrong with these does not matter.
    if "license" in LINK.sub("", text).lower():
        found.append(Reading(broken=["it names a licence, but not in a link that can be read"]))
    return found


def licence(url: str, kind: str) -> Reading:
    """A link to a licence, with its media type as written."""
    return Reading(reference=url, standard=Standard.RSL if is_rsl(kind) else None)


def is_rsl(kind: str) -> bool:
    """Whether a media type, as written, is that of RSL documents."""
    return kind.partition(";")[0].strip().lower() == RSL_TYPE


def read_reservation(text: str) -> Reading:
    """A tdm-reservation: 1 or 0."""
    value = text.strip(" \t")
    if value in ("0", "1"):
        return Reading([*_no("tdm")] if value == "1" else [*_yes("tdm")])
    return Reading(broken=["neither 0 nor 1, so it is unset"])


def _parts(text: str) -> Iterator[str]:
    return (part for part in text.split(",") if part.strip(" \t"))


def _shown(words: str) -> str:
    """Words as they are kept: bounded, and on one line."""
    return printable(words[:MAX_WORDS])


Reader: TypeAlias = "Callable[[str, str | None, float], list[Reading]]"
"""Reads a value. The other arguments are our product token, in lower case, and the time."""
HEADER_READERS: Final[Mapping[str, tuple[Standard, Reader]]] = {
    "content-usage": (Standard.CONTENT_USAGE, lambda value, *_: [read_content_usage(value)]),
    "content-signal": (Standard.CONTENT_SIGNAL, lambda value, *_: [read_content_signal(value)]),
    "link": (Standard.LICENSE_LINK, lambda value, *_: read_licence_links(value)),
    "tdm-reservation": (Standard.TDMREP, lambda value, *_: [read_reservation(value)]),
    "tdm-policy": (Standard.TDMREP, lambda value, *_: [Reading(reference=value)]),
    "x-robots-tag": (Standard.ROBOTS_RULES, read_robots_rules),
    "robots-tag": (Standard.ROBOTS_TAG, lambda value, token, _: read_robots_tag(value, token)),
}
"""By the name of the header field."""
