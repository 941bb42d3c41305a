"""The checks of single lines: their bytes, their field name and their value."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from robotgate.errors import InvalidURLError
from robotgate.lint.findings import FindingCode, Findings
from robotgate.rules.grammar import Field, text_of
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.urls import Origin

if TYPE_CHECKING:
    from robotgate.lint.lines import Line

RULES: Final = frozenset({Field.ALLOW, Field.DISALLOW})
PACE: Final = frozenset({Field.CRAWL_DELAY, Field.REQUEST_RATE, Field.VISIT_TIME})
_STATEMENTS: Final = (b"Content-Usage", b"Content-Signal", b"License")
"""Fields about the use of pages."""
_NAMES: Final = (b"User-agent", b"Disallow", b"Allow", b"Sitemap", b"Crawl-delay", *_STATEMENTS)
_SPELT: Final = frozenset(name.lower() for name in _NAMES)
_FIELDS: Final = {name.lower().replace(b"-", b""): name for name in _NAMES} | {
    **dict.fromkeys((b"disallowed", b"disallowing"), b"Disallow"),
    b"allowed": b"Allow",
    b"agent": b"User-agent",
}
"""By the letters of a name."""
_IS_STATEMENT: Final = frozenset(name.lower() for name in _STATEMENTS)
_RETIRED: Final = b"cache-delay domain host no-index noarchive nofollow noindex revisit-after".split()
_EXTENSIONS: Final = (
    b"clean-param comment content-signal content-usage crawl-delay license llm-policy request-rate robot-version"
    b" visit-time"
).split()
_OTHER_FIELDS: Final = {
    **dict.fromkeys(_RETIRED, FindingCode.RETIRED_FIELD),
    **dict.fromkeys(_EXTENSIONS, FindingCode.EXTENSION_FIELD),
}
"""Fields that not all crawlers read."""
_NOT_LETTERS: Final = re.compile(rb"[^a-z]")
_FIELD: Final = rb"(?:user-agent|disallow|allow|sitemap|crawl-delay)"
_FIELD_WITHOUT_COLON: Final = re.compile(rb"(%b)(?![a-z-])" % _FIELD, re.IGNORECASE)
_SECOND_FIELD: Final = re.compile(rb"(?:(?<=\s)|(?<=\\[rn]))(%b\s*:.*)" % _FIELD, re.IGNORECASE)
_PERHAPS_A_FIELD: Final = re.compile(rb"[a-z ._-]{3,20}")


def _check_field(line: Line, findings: Findings) -> None:
    """Find missing, misspelt and unusual field names."""
    name, content, span = line.field.lower(), line.content.strip(), line.field_span
    meant = _meant_field(name)
    if line.is_too_long:
        findings.add(FindingCode.LINE_TOO_LONG, line)
    elif line.is_record and not line.has_colon:
        findings.add(
            FindingCode.MISSING_COLON, line, span, suggestion=_record(meant or line.field, line.value)
        )
    elif line.has_colon and meant is not None and name not in _SPELT:
        findings.add(FindingCode.MISSPELT_FIELD, line, span, suggestion=_record(meant, line.value))
    elif line.has_colon and name in _OTHER_FIELDS:
        findings.add(_OTHER_FIELDS[name], line, span, kind=name.decode())
    elif line.kind is not None or not content:
        return
    elif known := _FIELD_WITHOUT_COLON.match(content):
        value = content[known.end() :].lstrip(b" \t:=\xef\xbc\x9a")
        suggestion = _record(_FIELDS[_letters(known[1])], value)
        findings.add(FindingCode.MISSING_COLON, line, span, suggestion=suggestion)
    elif line.is_record:
        findings.add(FindingCode.UNKNOWN_FIELD, line, span)
    else:
        findings.add(FindingCode.NO_FIELD, line, suggestion=b"# " + content)


def _record(field: bytes, value: bytes) -> bytes | None:
    """The line to write; None for an empty value, which means little in any line and is found there, too."""
    return field + b": " + value if value else None


def _meant_field(name: bytes) -> bytes | None:
    """The field that a misspelt name probably means: at most one letter added, missing, changed or swapped."""
    if _PERHAPS_A_FIELD.fullmatch(name) is None or len(letters := _letters(name)) < 4:
        return None
    return next((_NEARLY[variant] for variant in _variants(letters) if variant in _NEARLY), None)


def _letters(name: bytes) -> bytes:
    return _NOT_LETTERS.sub(b"", name.lower())


def _variants(letters: bytes) -> list[bytes]:
    """The name, and the name without each of its letters: two names one mistake apart share one of these."""
    return [letters, *(letters[:index] + letters[index + 1 :] for index in range(len(letters)))]


_NEARLY: Final = {variant: field for letters, field in _FIELDS.items() for variant in _variants(letters)}


_MAX_WELCOME_DELAY: Final = 60.0
"""Seconds. By default robotgate refuses to wait longer; other crawlers differ."""

_ODD_BYTES: Final = (
    (FindingCode.NUL, re.compile(rb"\x00")),
    (FindingCode.OTHER_LINE_END, re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")),
    (FindingCode.CONTROL_CHARACTER, re.compile(rb"[\x01-\x08\x0e-\x1b\x1f\x7f]")),
)
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]+|\*(?=[ \t]|$)")
_ABSOLUTE: Final = re.compile(rb"([a-z][a-z0-9+.-]*://[^/?#]*)(.*)", re.IGNORECASE)
_WEB_ADDRESS: Final = re.compile(rb"https?://[^/?#\s]+", re.IGNORECASE)
_USUAL_FORMS: Final = {
    Field.CRAWL_DELAY: re.compile(rb"[0-9]+"),
    Field.REQUEST_RATE: re.compile(rb"[0-9]+/[0-9]+[smh]?(?:[ \t]+[0-9]{4}-[0-9]{4})?"),
    Field.VISIT_TIME: re.compile(rb"[0-9]{4}-[0-9]{4}"),
}
"""What every crawler that knows the field can read."""
_UNRESERVED: Final = rb"%(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])"


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"".join(b"%%%02X" % byte for byte in match[0])


def _unescaped(match: re.Match[bytes]) -> bytes:
    """The character of an escape; behind half an escape, which it would complete, the escape."""
    is_behind_half = re.search(rb"%[0-9A-Fa-f]?\Z", match.string[max(match.start() - 2, 0) : match.start()])
    return match[0] if is_behind_half else unquote_to_bytes(match[0])


_ODD_PATHS: Final = (
    (FindingCode.LEADING_WILDCARD, re.compile(rb"\A\*"), b"/*"),
    (FindingCode.DOLLAR_INSIDE, re.compile(rb"\$(?!\Z)"), _escaped),
    (FindingCode.BLANK_IN_PATH, re.compile(rb"[ \t]+"), _escaped),
    (FindingCode.NON_ASCII_PATH, re.compile(rb"[\x80-\xff]+"), _escaped),
    (FindingCode.BROKEN_ESCAPE, re.compile(rb"%(?![0-9A-Fa-f]{2})"), _escaped),
    (FindingCode.ESCAPED_UNRESERVED, re.compile(_UNRESERVED), _unescaped),
    (
        FindingCode.LOWER_CASE_ESCAPE,
        re.compile(rb"(?!%b)%%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f])" % _UNRESERVED),
        lambda match: match[0].upper(),
    ),
)
"""What is odd in a path, and how it is better spelt."""


def _check_bytes(line: Line, findings: Findings) -> None:
    """Find bytes that are not text, in comments too."""
    raw = line.raw
    for code, pattern in _ODD_BYTES:
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
    value, span = line.value, line.value_span
    field = b"Allow: " if line.kind is Field.ALLOW else b"Disallow: "
    absolute = _ABSOLUTE.fullmatch(value)
    if absolute is not None:
        path = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
        suggestion = None if _is_elsewhere(absolute[1], site) else field + path
        findings.add(FindingCode.ABSOLUTE_URL, line, span, suggestion=suggestion)
    elif not value.startswith((b"/", b"*")):
        findings.add(FindingCode.PATH_WITHOUT_SLASH, line, span, suggestion=field + b"/" + value)
    comment_at = len(line.content)
    if line.raw[comment_at : comment_at + 1] == b"#" and line.content[-1:] not in (b" ", b"\t"):
        suggestion = field + value + b" " + line.raw[comment_at:]
        findings.add(
            FindingCode.NUMBER_SIGN_IN_PATH, line, (comment_at, len(line.raw)), suggestion=suggestion
        )
    for code, pattern, respelt in _ODD_PATHS:
        odd = pattern.search(value)
        if odd is not None:
            better = pattern.sub(respelt, value)
            # Without its escape, a path that lacks its slash may read as the URL of a site.
            is_no_better = pattern.search(better) or (absolute is None and _ABSOLUTE.fullmatch(better))
            findings.add(code, line, _at(line, odd), suggestion=None if is_no_better else field + better)
    if line.kind is Field.ALLOW:
        findings.add(FindingCode.CLASSIC_ALLOW, line, line.field_span)
    special = re.search(rb"\*|\$$", value)
    if special is not None:
        findings.add(FindingCode.CLASSIC_WILDCARD, line, _at(line, special))


def _is_elsewhere(address: bytes, site: Origin | None) -> bool:
    """Whether a URL is known to belong to another site."""
    try:
        return site is not None and Origin.of(address.decode()) != site
    except (InvalidURLError, UnicodeDecodeError):
        return True


def _at(line: Line, match: re.Match[bytes]) -> tuple[int, int]:
    """Where in a line something in its value stands."""
    return line.value_at + match.start(), line.value_at + match.end()


def _check_sitemap(line: Line, site: Origin | None, findings: Findings) -> None:
    """Find Sitemap values that are not absolute URLs."""
    if _WEB_ADDRESS.match(line.value) is None:
        span, suggestion = line.value_span if line.value else None, None
        if line.value and site is not None:
            suggestion = b"Sitemap: %s/%s" % (str(site).encode(), line.value.lstrip(b"/"))
        findings.add(FindingCode.SITEMAP_NOT_ABSOLUTE, line, span, suggestion=suggestion)


def _check_pace(line: Line, findings: Findings) -> None:
    """Find Crawl-delay and similar values that no crawler, or not every crawler, can read."""
    pace = RobotsTxt.parse(b"User-agent: *\n" + line.content).rules("*")
    if pace.crawl_delay is not None:
        code, meant = FindingCode.DELAY_WITH_REST, b"Crawl-delay: %d" % math.ceil(pace.crawl_delay)
    elif pace.request_rate is not None:
        code, rate = FindingCode.PACE_FORM, pace.request_rate
        meant = b"Request-rate: %d/%d" % (rate.documents, math.ceil(rate.seconds))
        if rate.start_minute is not None and rate.end_minute is not None:
            meant += b" " + _hours(rate.start_minute, rate.end_minute)
    elif pace.visit_times:
        code, hours = FindingCode.PACE_FORM, pace.visit_times[0]
        meant = b"Visit-time: " + _hours(hours.start_minute, hours.end_minute)
    else:
        findings.add(FindingCode.PACE_UNREADABLE, line, line.value_span)
        return
    if line.kind is not None and _USUAL_FORMS[line.kind].fullmatch(line.value) is None:
        findings.add(code, line, line.value_span, suggestion=meant)
    if (pace.crawl_delay or 0.0) > _MAX_WELCOME_DELAY:
        findings.add(FindingCode.DELAY_TOO_LONG, line, line.value_span)


def _hours(start_minute: int, end_minute: int) -> bytes:
    return b"%02d%02d-%02d%02d" % (*divmod(start_minute, 60), *divmod(end_minute, 60))


def _check_statement(line: Line, findings: Findings) -> None:
    """Find what no reader understands in a statement about the use of pages."""
    from robotgate.preferences.robots import READERS  # noqa: PLC0415  # Few files have such lines.

    try:
        reading = READERS[line.field.lower().decode()](text_of(line.value.decode("latin-1")))
    except ModuleNotFoundError:
        # Structured fields are read by a library of the extra `preferences`; without it they are not checked.
        return
    if reading.broken:
        findings.add(FindingCode.STATEMENT_UNREADABLE, line, line.value_span)
    elif reading.unknown:
        findings.add(FindingCode.STATEMENT_UNKNOWN_LABEL, line, line.value_span)


def check_line(line: Line, site: Origin | None, findings: Findings) -> None:
    """Check one line by itself.

    Args:
        line: any line of the file.
        site: the origin that the file belongs to, if known.
        findings: where findings are added.
    """
    _check_bytes(line, findings)
    _check_field(line, findings)
    second = None if line.kind is None else _SECOND_FIELD.search(line.value)
    if second is not None:
        start = line.value_at + second.start(1)
        findings.add(FindingCode.TWO_IN_ONE_LINE, line, (start, line.value_span[1]), suggestion=second[1])
    if line.kind in PACE:
        _check_pace(line, findings)
    elif line.is_record and line.field.lower() in _IS_STATEMENT:
        _check_statement(line, findings)
    elif line.kind is Field.SITEMAP:
        _check_sitemap(line, site, findings)
    elif second is not None:
        # The value is not what it was meant to be.
        return
    elif line.kind is Field.USER_AGENT:
        _check_agent(line, findings)
    elif line.kind in RULES and line.value:
        _check_rule(line, site, findings)
