"""What can be wrong with one line by itself: its octets, and its value."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from robotgate._errors import InvalidURLError
from robotgate._lint_fields import PACES, SECOND_FIELD, check_field
from robotgate._lint_lines import RULES, Kind
from robotgate._lint_table import FindingCode
from robotgate._robotstxt import RobotsTxt
from robotgate._urls import Origin

if TYPE_CHECKING:
    from robotgate._lint_findings import Findings
    from robotgate._lint_lines import Line

MAX_WELCOME_DELAY: Final = 60.0
"""Seconds. With a longer one, this gate's default stays away, and others make of it what they like."""

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


def check_octets(line: Line, findings: Findings) -> None:
    """Find what is no text: in comments, too."""
    octets = line.octets
    if _UNPRINTABLE.search(octets) is None:
        return
    for code, pattern in (
        (FindingCode.NUL, _NUL),
        (FindingCode.OTHER_LINE_END, _OTHER_LINE_END),
        (FindingCode.CONTROL_CHARACTER, _CONTROL),
    ):
        match = pattern.search(octets)
        if match is not None:
            findings.add(code, line, match.span())
    try:
        octets.decode()
    except UnicodeDecodeError as error:
        findings.add(FindingCode.NOT_UTF_8, line, (error.start, error.end))


def token_of(value: bytes) -> bytes | None:
    """Whom a User-agent line names, in lower case; None for nobody."""
    match = _TOKEN.match(value)
    return None if match is None else match[0].lower()


def check_agent(line: Line, findings: Findings) -> None:
    """Find names that no crawler has, or that not all find."""
    if SECOND_FIELD.search(line.value):
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
        # Of a name of several words, the first alone is hardly the crawler's.
        suggestion = None if rest[:1] in b" \t" and token != b"*" else b"User-agent: " + value[: len(token)]
        findings.add(code, line, (span[0] + len(token), span[1]), suggestion=suggestion)
    if token is not None and re.search(rb"[0-9]", token):
        findings.add(FindingCode.AGENT_WITH_DIGITS, line, span)


def check_rule(line: Line, site: Origin | None, findings: Findings) -> None:
    """Find paths that match nothing, or not what they seem to."""
    value = line.value
    if not value:
        if line.kind is Kind.ALLOW:
            findings.add(FindingCode.EMPTY_ALLOW, line, suggestion=b"Disallow:")
        return
    if SECOND_FIELD.search(value):
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
    _check_for_1994(line, findings)


def _is_elsewhere(address: bytes, site: Origin | None) -> bool:
    """Whether a URL is known to be another site's."""
    try:
        return site is not None and Origin.of(address.decode()) != site
    except (InvalidURLError, UnicodeDecodeError):
        return True


def _at(line: Line, start: int, end: int) -> tuple[int, int]:
    return line.value_at + start, line.value_at + end


def _check_characters(line: Line, field: bytes, findings: Findings) -> None:
    value = line.value
    number_sign = line.octets[len(line.content) : len(line.content) + 1] == b"#"
    if number_sign and line.content[-1:] not in (b" ", b"\t"):
        findings.add(
            FindingCode.NUMBER_SIGN_IN_PATH,
            line,
            (len(line.content), len(line.octets)),
            suggestion=field + value + b" " + line.octets[len(line.content) :],
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
    return b"".join(b"%%%02X" % octet for octet in match[0])


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
    octet = bytes.fromhex(match[1].decode())
    return octet if _UNRESERVED.fullmatch(octet) else match[0].upper()


def _check_for_1994(line: Line, findings: Findings) -> None:
    if line.kind is Kind.ALLOW:
        findings.add(FindingCode.CLASSIC_ALLOW, line, line.field_span)
    special = re.search(rb"\*|\$$", line.value)
    if special is not None:
        findings.add(FindingCode.CLASSIC_WILDCARD, line, _at(line, *special.span()))


def check_sitemap(line: Line, site: Origin | None, findings: Findings) -> None:
    """Find sitemaps that cannot be fetched."""
    if _WEB_ADDRESS.match(line.value) is None:
        here = (
            None
            if site is None or not line.value
            else b"Sitemap: " + str(site).encode() + b"/" + line.value.lstrip(b"/")
        )
        findings.add(
            FindingCode.SITEMAP_NOT_ABSOLUTE, line, line.value_span if line.value else None, suggestion=here
        )


def check_pace(line: Line, findings: Findings) -> None:
    """Find paces that cannot be read, or not by all."""
    pace = RobotsTxt.parse(b"User-agent: *\n" + line.content).rules("*")
    delay = pace.crawl_delay
    if delay is None:
        if not (pace.request_rates or pace.visit_times):
            findings.add(FindingCode.PACE_UNREADABLE, line, line.value_span)
        return
    if _WHOLE_SECONDS.fullmatch(line.value) is None:
        suggestion = b"Crawl-delay: %d" % max(1, math.ceil(min(delay, MAX_WELCOME_DELAY)))
        findings.add(FindingCode.DELAY_WITH_REST, line, line.value_span, suggestion=suggestion)
    if delay > MAX_WELCOME_DELAY:
        findings.add(FindingCode.DELAY_TOO_LONG, line, line.value_span)


def check_line(line: Line, site: Origin | None, findings: Findings) -> None:
    """Check a line by itself.

    Args:
        site: whose file it is, if that is known.
    """
    check_octets(line, findings)
    check_field(line, findings)
    if line.kind is Kind.USER_AGENT:
        check_agent(line, findings)
    elif line.kind in RULES:
        check_rule(line, site, findings)
    elif line.kind is Kind.SITEMAP:
        check_sitemap(line, site, findings)
    elif line.kind is Kind.RECORD and line.field.lower() in PACES:
        check_pace(line, findings)
