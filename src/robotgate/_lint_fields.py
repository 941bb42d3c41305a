"""What can be wrong with a line's field: none, a misspelt one, one that few know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from robotgate._lint_lines import Kind
from robotgate._lint_table import FindingCode

if TYPE_CHECKING:
    from robotgate._lint_findings import Findings
    from robotgate._lint_lines import Line

_FIELDS: Final = {
    b"useragent": b"User-agent",
    b"disallow": b"Disallow",
    b"allow": b"Allow",
    b"sitemap": b"Sitemap",
    b"crawldelay": b"Crawl-delay",
}
_SPELT: Final = frozenset({b"user-agent", b"disallow", b"allow", b"sitemap", b"crawl-delay"})
_ALSO_MEANT: Final = {
    b"disallowed": b"Disallow",
    b"disallowing": b"Disallow",
    b"allowed": b"Allow",
    b"agent": b"User-agent",
}
PACES: Final = frozenset({b"crawl-delay", b"request-rate", b"visit-time"})
_EXTENSIONS: Final = PACES | {
    b"clean-param",
    b"comment",
    b"content-signal",
    b"content-usage",
    b"license",
    b"llm-policy",
    b"robot-version",
}
_RETIRED: Final = frozenset(
    {b"cache-delay", b"domain", b"host", b"no-index", b"noarchive", b"nofollow", b"noindex", b"revisit-after"}
)
_NOT_LETTERS: Final = re.compile(rb"[^a-z]")
_FIELD_WITHOUT_COLON: Final = re.compile(
    rb"(user-agent|disallow|allow|sitemap|crawl-delay)(?![a-z-])", re.IGNORECASE
)
SECOND_FIELD: Final = re.compile(
    rb"(?:(?<=\s)|(?<=\\[rn]))((?:user-agent|disallow|allow|sitemap|crawl-delay)\s*:.*)", re.IGNORECASE
)
_PERHAPS_A_FIELD: Final = re.compile(rb"[a-z ._-]{3,20}")


def check_field(line: Line, findings: Findings) -> None:
    """Find fields that are none, or not everybody's."""
    name = line.field.lower()
    meant = None if name in _SPELT or not line.has_colon else _meant_field(name)
    if line.is_too_long:
        findings.add(FindingCode.LINE_TOO_LONG, line)
    elif not line.content.strip():
        return
    elif line.kind is not Kind.NOTHING and not line.has_colon:
        _add_without_colon(line, _meant_field(name) or line.field, line.value, findings)
    elif meant is not None:
        findings.add(FindingCode.MISSPELT_FIELD, line, line.field_span, suggestion=meant + b": " + line.value)
    elif line.kind in (Kind.NOTHING, Kind.RECORD):
        _check_other_field(line, name, findings)
    is_prose = line.kind is Kind.NOTHING or (line.kind is Kind.RECORD and name not in PACES)
    second = None if is_prose else SECOND_FIELD.search(line.value)
    if second is not None:
        start = line.value_at + second.start(1)
        findings.add(FindingCode.TWO_IN_ONE_LINE, line, (start, line.value_span[1]), suggestion=second[1])


def _check_other_field(line: Line, name: bytes, findings: Findings) -> None:
    content = line.content.strip()
    known = _FIELD_WITHOUT_COLON.match(content)
    if name in _RETIRED and line.has_colon:
        findings.add(FindingCode.RETIRED_FIELD, line, line.field_span, kind=name.decode())
    elif name in _EXTENSIONS and line.has_colon:
        findings.add(FindingCode.EXTENSION_FIELD, line, line.field_span, kind=name.decode())
    elif known is not None:
        value = content[known.end() :].lstrip(b" \t:=\xef\xbc\x9a")
        _add_without_colon(line, _FIELDS[_letters(known[1])], value, findings)
    elif line.kind is Kind.NOTHING:
        findings.add(FindingCode.NO_FIELD, line, suggestion=b"# " + content)
    else:
        findings.add(FindingCode.UNKNOWN_FIELD, line, line.field_span)


def _add_without_colon(line: Line, field: bytes, value: bytes, findings: Findings) -> None:
    suggestion = field + b": " + value
    findings.add(FindingCode.MISSING_COLON, line, line.field_span, suggestion=suggestion)


def _meant_field(name: bytes) -> bytes | None:
    """The field that a misspelt name means: one that differs by a letter too many, too few, other or swapped."""
    if _PERHAPS_A_FIELD.fullmatch(name) is None:
        return None
    letters = _letters(name)
    found = _FIELDS.get(letters) or _ALSO_MEANT.get(letters)
    if found is not None or len(letters) < 4:
        return found
    return next((_NEARLY[variant] for variant in _variants(letters) if variant in _NEARLY), None)


def _letters(name: bytes) -> bytes:
    return _NOT_LETTERS.sub(b"", name.lower())


def _variants(letters: bytes) -> list[bytes]:
    """The name itself, and with each of its letters left out: names at one mistake have one in common."""
    return [letters, *(letters[:index] + letters[index + 1 :] for index in range(len(letters)))]


_NEARLY: Final = {variant: field for letters, field in _FIELDS.items() for variant in _variants(letters)}
