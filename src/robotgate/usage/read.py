"""From robotgate's values, and those of other clients, to a `Usage`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.rules.robotstxt import RobotsTxt, product_token
from robotgate.usage.page import MAX_HEAD, read_page
from robotgate.usage.robots import FIELDS, RobotsStatements
from robotgate.usage.statement import Preference, Purpose, Source, Standard, Statement, Usage
from robotgate.usage.tdmrep import TdmRep
from robotgate.usage.values import (
    Reading,
    read_content_signal,
    read_content_usage,
    read_licence_links,
    read_reservation,
    read_robots_rules,
    read_robots_tag,
    structured_fields,
)

if TYPE_CHECKING:
    from robotgate.web.response import Response

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

MAX_HEADER: Final = 65_536
"""Characters of all header fields that are read."""
_Reader: TypeAlias = "Callable[[str, str | None, float], list[Reading]]"
"""Reads a value. The other arguments are our product token, in lower case, and the time."""
_READERS: Final[Mapping[str, tuple[Standard, _Reader]]] = {
    "content-usage": (Standard.CONTENT_USAGE, lambda value, *_: [read_content_usage(value)]),
    "content-signal": (Standard.CONTENT_SIGNAL, lambda value, *_: [read_content_signal(value)]),
    "link": (Standard.LICENSE_LINK, lambda value, *_: read_licence_links(value)),
    "tdm-reservation": (Standard.TDMREP, lambda value, *_: [read_reservation(value)]),
    "tdm-policy": (Standard.TDMREP, lambda value, *_: [Reading(reference=value)]),
    "x-robots-tag": (
        Standard.ROBOTS_RULES,
        lambda value, token, now: read_robots_rules(value, token, now=now),
    ),
    "robots-tag": (Standard.ROBOTS_TAG, lambda value, token, _: read_robots_tag(value, token)),
}
"""By the name of the header field."""
_JOINED: Final = frozenset({"content-usage", "robots-tag"})
"""Structured fields, of which all lines are one value (RFC 9651 §4.2)."""
_PAGE_TYPES: Final = ("text/html", "application/xhtml+xml")


def parse_usage(
    headers: Headers = (),
    html: str | bytes | None = None,
    *,
    robots: RobotsTxt | bytes | None = None,
    tdmrep: TdmRep | bytes | None = None,
    url: str | None = None,
    agent: str | None = None,
    now: float | None = None,
) -> Usage:
    """Read the preferences of a site for a page, whatever client has read the page. Sends no request.

    Any text is accepted. If a statement cannot be read, its preferences are unknown, and `Statement.problem` says why.

    Args:
        headers: of the response: a mapping, one with several values of a name (as aiohttp's), or pairs. Give each field
            line of its own where the client can (httpx: ``response.headers.multi_items()``): a user agent in
            X-Robots-Tag holds for the rest of its line. Decode names and values that are bytes, as Scrapy has them.
        html: the page, or its beginning; 64 KiB are read. Bytes are taken for UTF-8.
        robots: the site's robots.txt; needs `url` and `agent`.
        tdmrep: the site's ``/.well-known/tdmrep.json``; needs `url`.
        url: the page's URL, absolute.
        agent: your product token, or a User-Agent that begins with it. Without it, statements to named crawlers are
            left out.
        now: seconds since the epoch, for ``unavailable_after``; by default the time of the call.

    Raises:
        InvalidURLError: `url` is not an absolute http or https URL.
        ModuleNotFoundError: the extra ``usage`` is not installed.
        TypeError: a name or value of `headers` is no text.
        ValueError: `robots` or `tdmrep` without what it needs.
    """
    structured_fields()
    statements: list[Statement] = []
    if robots is not None:
        if url is None or agent is None:
            raise ValueError("robots needs url and agent")
        if isinstance(robots, bytes):
            # Most files have no statements, and need not be parsed.
            robots = RobotsTxt.parse(robots if FIELDS.search(robots) else b"", url)
        is_allowed = robots.allowed(url, agent)
        statements += RobotsStatements(robots, agent).of(robots.units_of(url), is_allowed=is_allowed)
    if tdmrep is not None:
        if url is None:
            raise ValueError("tdmrep needs url")
        rules = TdmRep.parse(tdmrep) if isinstance(tdmrep, bytes) else tdmrep
        statements += rules.of(RobotsTxt.parse(b"", url).units_of(url))
    token = None if agent is None else product_token(agent).lower()
    now = time.time() if now is None else now
    statements += _of_headers(headers, token, now)
    if html is not None:
        text = html[: 4 * MAX_HEAD].decode("utf-8", "replace") if isinstance(html, bytes) else html
        statements += read_page(text, token, now)
    return Usage.of(_with_one_reservation(statements))


def usage_of_response(response: Response, *, has_robots: bool = True) -> Usage:
    """The preferences for a response, in robots.txt, tdmrep.json, headers and page.

    Args:
        has_robots: whether robots.txt is read.
    """
    kind = response.headers.get("Content-Type", _PAGE_TYPES[0]).partition(";")[0].strip().lower()
    html = None
    if kind in _PAGE_TYPES:
        html = response.body[: 4 * MAX_HEAD].decode(response.encoding, errors="replace")
    known = response.verdict.robots
    return parse_usage(
        response.headers,
        html,
        robots=None if known is None or not has_robots else known[0],
        tdmrep=response.tdmrep,
        url=response.verdict.url,
        agent=None if known is None else known[1],
    )


def _of_headers(headers: Headers, token: str | None, now: float) -> list[Statement]:
    """The statements of the header fields of a response."""
    found: list[Statement] = []
    values: dict[str, list[tuple[str, str]]] = {}
    left = MAX_HEADER
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers: give text, not {type(name).__name__} and {type(value).__name__}")
        key = name.lower()
        if key not in _READERS:
            continue
        left -= len(value)
        if left < 0:
            problem = f"beyond the first {MAX_HEADER:,} characters of headers, so it is not read"
            beyond = Reading(broken=[problem])
            found.append(beyond.statement(_READERS[key][0], Source.HEADER, name, value))
            break
        values.setdefault(key, []).append((name, value))
    for key, lines in values.items():
        standard, read = _READERS[key]
        joined = [(lines[0][0], ", ".join(value for _, value in lines))]
        for name, value in joined if key in _JOINED else lines:
            readings = read(value, token, now)
            found += [reading.statement(standard, Source.HEADER, name, value) for reading in readings]
    return found


_RESERVED: Final = (Purpose.TDM, Preference.DISALLOWED)


def _with_one_reservation(statements: list[Statement]) -> list[Statement]:
    """Let the reservation and the policy nearest to the page replace the others: page, then header, then file (TDMRep).

    A policy counts only beside a reservation.

    Args:
        statements: in the order file, header, page.
    """
    stated = [each for each in statements if each.standard is Standard.TDMREP]
    reserved_by = [each.source for each in stated if each.says][-1:]
    policy_by = [each.source for each in stated if each.reference][-1:]
    if not any(_RESERVED in each.says for each in stated if each.source in reserved_by):
        policy_by = []
    settled = []
    for each in statements:
        kept = each
        if each.standard is Standard.TDMREP and each.source not in policy_by:
            kept = replace(kept, reference=None)
        if each.standard is Standard.TDMREP and each.says and each.source not in reserved_by:
            kept = replace(kept, says=(), note="replaced by a reservation nearer to the page")
        settled.append(kept)
    return settled
