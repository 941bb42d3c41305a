"""Checks of single lines: their bytes, their field name and their value."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from robotgate.errors import InvalidURLError
from robotgate.lint.lines import RULES, Kind
from robotgate.lint.table import FindingCode
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.urls import Origin

if TYPE_CHECKING:
    from robotgate.lint.findings import Findings
    from robotgate.lint.lines import Line

_NAMES: Final = (b"User-agent", b"Disallow", b"Allow", b"Sitemap", b"Crawl-delay")
_FIELDS: Final = {name.lower().replace(b"-", b""): name for name in _NAMES}
_SPELT: Final = frozenset(name.lower() for name in _NAMES)
_ALSO_MEANT: Final = {
    b"disallowed": b"Disallow",
    b"disallowing": b"Disallow",
    b"allowed": b"Allow",
    b"agent": b"User-agent",
}
PACES: Final = frozenset({b"crawl-delay", b"request-rate", b"visit-time"})
_EXTENSIONS: Final = PACES | frozenset(
    b"clean-param comment content-signal content-usage license llm-policy robot-version".split()
)
_RETIRED: Final = frozenset(
    {b"cache-delay", b"domain", b"host", b"no-index", b"noarchive", b"nofollow", b"noindex", b"revisit-after"}
)
_NOT_LETTERS: Final = re.compile(rb"[^a-z]")
_FIELD_WITHOUT_COLON: Final = re.compile(
    rb"(user-agent|disallow|allow|sitemap|crawl-delay)(?![a-z-])", re.IGNORECASE
)
_SECOND_FIELD: Final = re.compile(
    rb"(?:(?<=\s)|(?<=\\[rn]))((?:user-agent|disallow|allow|sitemap|crawl-delay)\s*:.*)", re.IGNORECASE
)
_PERHAPS_A_FIELD: Final = re.compile(rb"[a-z ._-]{3,20}")


def _check_field(line: Line, findings: Findings) -> None:
    """Find missing, misspelt and unusual field names."""
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
    second = None if is_prose else _SECOND_FIELD.search(line.value)
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
    """The field that a misspelt name probably means: at most one letter added, missing, changed or swapped."""
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
    """The name, and the name without each of its letters: two names one mistake apart share one of these."""
    return [letters, *(letters[:index] + letters[index + 1 :] for index in range(len(letters)))]


_NEARLY: Final = {variant: field for letters, field in _FIELDS.items() for variant in _variants(letters)}


_MAX_WELCOME_DELAY: Final = 60.0
"""Seconds. By default robotgate refuses to wait longer; other crawlers differ."""

_UNPRINTABLE: Final = re.compile(rb"[^\x20-\x7e\t]")
_NUL: Final = re.compile(rb"\x00")
_OTHER_LINE_END: Final = re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")
_CONTROL: Final = re.compile(rb"[\x01-\x08\x0e-\x1b\x1f\x7f]")

_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]+|\*(?=[ \t]|$)")
_NON_ASCII: Final = re.compile(rb"[\x80-\xff]+")
_ESCAPE: Final = re.compile(rb"%(?:([0-9A-Fa-f]{2})|)")
_UNRESERVED: Final = re.compile(rb"[A-Za-z0-9._~-]")
_ABSOLUTE: Final = re.compile(rb"([a-z][a-z0-9+.-]*://[^/?#]*)(.*)", re.IGNORECASE)
_WEB_ADDRESS: Final = re.compile(rb"https?://[^/?#\s]+", re.IGNORECASE)
_WHOLE_SECONDS: Final = re.compile(rb"[0-9]+")


def _check_bytes(line: Line, findings: Findings) -> None:
    """Find bytes that are not text, in comments too."""
    raw = line.raw
    if _UNPRINTABLE.search(raw) is None:
        return
    for code, pattern in (
        (FindingCode.NUL, _NUL),
        (FindingCode.OTHER_LINE_END, _OTHER_LINE_END),
        (FindingCode.CONTROL_CHARACTER, _CONTROL),
    ):
        match = pattern.search(raw)
        if match is not None:
            findings.add(code, line, match.span())
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        findings.add(FindingCode.NOT_UTF_8, line, (error.start, error.end))


def token_of(value: bytes) -> bytes | None:
    """The product token that a User-agent value names, in lower case; None if it names none."""
    match = _TOKEN.match(value)
    return None if match is None else match[0].lower()


def _check_agent(line: Line, findings: Findings) -> None:
    """Find names that no crawler can have, or that some crawlers do not recognise."""
    if _SECOND_FIELD.search(line.value):
        return
    value, span = line.value, line.value_span
    token = token_of(value)
    if not value:
        findings.add(FindingCode.EMPTY_AGENT, line)
    elif token is None:
        findings.add(FindingCode.AGENT_WITHOUT_TOKEN, line, span)
    elif len(token) < len(value):
        rest = value[len(token) :]
        code = FindingCode.AGENT_WITH_VERSION if rest.startswith(b"/") else FindingCode.AGENT_WITH_REST
        # The first word of a longer name is probably not the crawler's whole name.
        suggestion = None if rest[:1] in b" \t" and token != b"*" else b"User-agent: " + value[: len(token)]
        findings.add(code, line, (span[0] + len(token), span[1]), suggestion=suggestion)
    if token is not None and re.search(rb"[0-9]", token):
        findings.add(FindingCode.AGENT_WITH_DIGITS, line, span)


def _check_rule(line: Line, site: Origin | None, findings: Findings) -> None:
    """Find paths that never match, or do not match what they seem to."""
    value = line.value
    if not value:
        if line.kind is Kind.ALLOW:
            findings.add(FindingCode.EMPTY_ALLOW, line, suggestion=b"Disallow:")
        return
    if _SECOND_FIELD.search(value):
        return
    field = b"Allow: " if line.kind is Kind.ALLOW else b"Disallow: "
    absolute = _ABSOLUTE.fullmatch(value)
    if absolute is not None:
        path = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
        suggestion = None if _is_elsewhere(absolute[1], site) else field + path
        findings.add(FindingCode.ABSOLUTE_URL, line, line.value_span, suggestion=suggestion)
    elif value.startswith(b"*"):
        findings.add(FindingCode.LEADING_WILDCARD, line, _at(line, 0, 1), suggestion=field + b"/" + value)
    elif not value.startswith(b"/"):
        findings.add(FindingCode.PATH_WITHOUT_SLASH, line, line.value_span, suggestion=field + b"/" + value)
    _check_characters(line, field, findings)
    _check_escapes(line, field, findings)
    _check_for_classic(line, findings)


def _is_elsewhere(address: bytes, site: Origin | None) -> bool:
    """Whether a URL is known to belong to another site."""
    try:
        return site is not None and Origin.of(address.decode()) != site
    except (InvalidURLError, UnicodeDecodeError):
        return True


def _at(line: Line, start: int, end: int) -> tuple[int, int]:
    return line.value_at + start, line.value_at + end


def _check_characters(line: Line, field: bytes, findings: Findings) -> None:
    value = line.value
    number_sign = line.raw[len(line.content) : len(line.content) + 1] == b"#"
    if number_sign and line.content[-1:] not in (b" ", b"\t"):
        findings.add(
            FindingCode.NUMBER_SIGN_IN_PATH,
            line,
            (len(line.content), len(line.raw)),
            suggestion=field + value + b" " + line.raw[len(line.content) :],
        )
    dollar = value.find(b"$", 0, -1)
    if dollar >= 0:
        suggestion = field + value[:-1].replace(b"$", b"%24") + value[-1:]
        findings.add(FindingCode.DOLLAR_INSIDE, line, _at(line, dollar, dollar + 1), suggestion=suggestion)
    blank = re.search(rb"[ \t]+", value)
    if blank is not None:
        suggestion = field + value.replace(b" ", b"%20").replace(b"\t", b"%09")
        findings.add(FindingCode.BLANK_IN_PATH, line, _at(line, *blank.span()), suggestion=suggestion)
    foreign = _NON_ASCII.search(value)
    if foreign is not None:
        suggestion = field + _NON_ASCII.sub(_escaped, value)
        findings.add(FindingCode.NON_ASCII_PATH, line, _at(line, *foreign.span()), suggestion=suggestion)


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"".join(b"%%%02X" % byte for byte in match[0])


def _check_escapes(line: Line, field: bytes, findings: Findings) -> None:
    wanted = {FindingCode.BROKEN_ESCAPE, FindingCode.ESCAPED_UNRESERVED, FindingCode.LOWER_CASE_ESCAPE}
    for match in _ESCAPE.finditer(line.value):
        code = _escape_code(match)
        if code in wanted:
            wanted.remove(code)
            suggestion = field + _ESCAPE.sub(_respelt, line.value)
            findings.add(code, line, _at(line, *match.span()), suggestion=suggestion)


def _escape_code(match: re.Match[bytes]) -> FindingCode | None:
    if match[1] is None:
        return FindingCode.BROKEN_ESCAPE
    if _UNRESERVED.fullmatch(bytes.fromhex(match[1].decode())):
        return FindingCode.ESCAPED_UNRESERVED
    return None if match[1] == match[1].upper() else FindingCode.LOWER_CASE_ESCAPE


def _respelt(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        return b"%25"
    byte = bytes.fromhex(match[1].decode())
    return byte if _UNRESERVED.fullmatch(byte) else match[0].upper()


def _check_for_classic(line: Line, findings: Findings) -> None:
    if line.kind is Kind.ALLOW:
        findings.add(FindingCode.CLASSIC_ALLOW, line, line.field_span)
    special = re.search(rb"\*|\$$", line.value)
    if special is not None:
        findings.add(FindingCode.CLASSIC_WILDCARD, line, _at(line, *special.span()))


def _check_sitemap(line: Line, site: Origin | None, findings: Findings) -> None:
    """Find Sitemap values that are not absolute URLs."""
    if _WEB_ADDRESS.match(line.value) is None:
        suggestion = b"Sitemap: %s/%s" % (str(site).encode(), line.value.lstrip(b"/"))
        findings.add(
            FindingCode.SITEMAP_NOT_ABSOLUTE,
            line,
            line.value_span if line.value else None,
            suggestion=suggestion if site is not None and line.value else None,
        )


def _check_pace(line: Line, findings: Findings) -> None:
    """Find Crawl-delay and similar values that no crawler, or not every crawler, can read."""
    pace = RobotsTxt.parse(b"User-agent: *\n" + line.content).rules("*")
    delay = pace.crawl_delay
    if delay is None:
        if not (pace.request_rates or pace.visit_times):
            findings.add(FindingCode.PACE_UNREADABLE, line, line.value_span)
        return
    if _WHOLE_SECONDS.fullmatch(line.value) is None:
        suggestion = b"Crawl-delay: %d" % max(1, math.ceil(min(delay, _MAX_WELCOME_DELAY)))
        findings.add(FindingCode.DELAY_WITH_REST, line, line.value_span, suggestion=suggestion)
    if delay > _MAX_WELCOME_DELAY:
        findings.add(FindingCode.DELAY_TOO_LONG, line, line.value_span)


def check_line(line: Line, site: Origin | None, findings: Findings) -> None:
    """Check one line by itself.

    Args:
        line: any line of the file.
        site: the origin that the file belongs to, if known.
        findings: where findings are added.
    """
    _check_bytes(line, findings)
    _check_field(line, findings)
    if line.kind is Kind.USER_AGENT:
        _check_agent(line, findings)
    elif line.kind in RULES:
        _check_rule(line, site, findings)
    elif line.kind is Kind.SITEMAP:
        _check_sitemap(line, site, findings)
    elif line.kind is Kind.RECORD and line.field.lower() in PACES:
        _check_pace(line, findings)
