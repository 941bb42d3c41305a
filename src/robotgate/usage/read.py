"""From robotgate's values, and those of other clients, to a `Usage`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.rules.grammar import names
from robotgate.rules.robotstxt import RobotsTxt, product_token
from robotgate.usage.page import MAX_HEAD, read_page
from robotgate.usage.robots import FIELDS, RobotsStatements
from robotgate.usage.rsl import RSL_TYPE, read_rsl
from robotgate.usage.statement import Preference, Purpose, Source, Standard, Statement, Usage
from robotgate.usage.tdmrep import TdmRep
from robotgate.usage.values import (
    Reading,
    licence_links,
    read_content_signal,
    read_content_usage,
    read_reservation,
    read_robots_rules,
    read_robots_tag,
    structured_fields,
)

if TYPE_CHECKING:
    from robotgate.rules.verdict import Verdict
    from robotgate.web.response import Response

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

MAX_HEADER: Final = 65_536
"""Characters of all header fields that are read."""
_Reader: TypeAlias = "Callable[[str, str | None, float], Reading | None]"
"""Reads a value. The other arguments are our product token, in lower case, and the time. None: it is for others."""
_READERS: Final[Mapping[str, tuple[Standard, _Reader]]] = {
    "content-usage": (Standard.CONTENT_USAGE, lambda value, *_: read_content_usage(value)),
    "content-signal": (Standard.CONTENT_SIGNAL, lambda value, *_: read_content_signal(value)),
    "tdm-reservation": (Standard.TDMREP, lambda value, *_: read_reservation(value)),
    "tdm-policy": (Standard.TDMREP, lambda value, *_: Reading(reference=value)),
    "x-robots-tag": (
        Standard.ROBOTS_RULES,
        lambda value, token, now: read_robots_rules(value, token, now=now),
    ),
    "robots-tag": (Standard.ROBOTS_TAG, lambda value, token, _: read_robots_tag(value, token)),
}
"""Header fields of one statement a line. A line of Link has one for each licence."""
_LINK: Final = Standard.LICENSE_LINK
_STANDARDS: Final = {name: standard for name, (standard, _) in _READERS.items()} | {"link": _LINK}
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
        file = RobotsTxt.parse(_if_stated(robots), url) if isinstance(robots, bytes) else robots
        statements += file.usage(url, agent).statements
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
        statements += _of_page(text, token, now)
    return Usage.of(_with_one_reservation(statements))


def usage_of_robots(robots: RobotsTxt, url: str, agent: str) -> Usage:
    """The preferences in a robots.txt for a URL.

    Raises:
        InvalidURLError: as `RobotsTxt.allowed`.
        ModuleNotFoundError: the extra ``usage`` is not installed.
    """
    structured_fields()
    is_allowed = robots.allowed(url, agent)
    return Usage.of(RobotsStatements(robots, agent).of(robots.units_of(url), is_allowed=is_allowed))


def usage_of_verdict(verdict: Verdict) -> Usage:
    """The preferences for the URL of a verdict, in its robots.txt."""
    structured_fields()
    known = verdict.robots
    if known is None:
        return Usage()
    file, agent = known
    robots = RobotsTxt.parse(_if_stated(file), verdict.url) if isinstance(file, bytes) else file
    return robots.usage(verdict.url, agent)


def _if_stated(robots: bytes) -> bytes:
    """A robots.txt, or an empty one if it has no statements. Most have none, and need not be parsed."""
    return robots if FIELDS.search(robots) else b""


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
        if key not in _STANDARDS:
            continue
        left -= len(value)
        if left < 0:
            beyond = Reading(
                problem=f"beyond the first {MAX_HEADER:,} characters of headers, so it is not read"
            )
            found.append(beyond.statement(_STANDARDS[key], Source.HEADER, name, value))
            break
        values.setdefault(key, []).append((name, value))
    for key, lines in values.items():
        if key in ("content-usage", "robots-tag"):
            # The lines of a structured field are joined (RFC 9651 §4.2).
            found += _of_line(key, lines[0][0], ", ".join(value for _, value in lines), token, now)
            continue
        for name, value in lines:
            found += _of_line(key, name, value, token, now)
    return found


def _of_line(key: str, name: str, value: str, token: str | None, now: float) -> list[Statement]:
    """The statements of one field line."""
    read: list[tuple[Standard, Reading | None]]
    if key == "link":
        links = licence_links(value)
        read = [(Standard.RSL if is_rsl else _LINK, Reading(reference=url)) for url, is_rsl in links]
    else:
        standard, reader = _READERS[key]
        read = [(standard, reader(value, token, now))]
    return [
        reading.statement(standard, Source.HEADER, name, value)
        for standard, reading in read
        if reading is not None
    ]


def _of_page(html: str, token: str | None, now: float) -> list[Statement]:
    """The statements of the elements of a page."""
    found: list[Statement] = []
    page = read_page(html)
    for name, content in page.metas:
        key = name.lower()
        if key in ("tdm-reservation", "tdm-policy"):
            standard, reader = _READERS[key]
            reading = reader(content, token, now)
        elif key == "robots" or (token is not None and key and names(key, token)):
            standard = Standard.ROBOTS_RULES
            reading = read_robots_rules(content, token, now=now, has_agents=False)
        else:
            continue
        if reading is not None:
            found.append(reading.statement(standard, Source.META, name, content))
    for url, kind in page.links:
        standard = Standard.RSL if kind == RSL_TYPE else _LINK
        found.append(Reading(reference=url).statement(standard, Source.META, "link", url))
    for document in map(read_rsl, page.rsl):
        found += [
            Reading(reference=url).statement(Standard.RSL, Source.META, name, url)
            for name, url in document.references
        ]
        if document.problem or not document.references:
            reading = Reading(problem=document.problem)
            found.append(reading.statement(Standard.RSL, Source.META, "script", RSL_TYPE))
    return found


_RANK: Final = {Source.FILE: 0, Source.HEADER: 1, Source.META: 2}


def _with_one_reservation(statements: list[Statement]) -> list[Statement]:
    """Let the reservation and the policy nearest to the page replace the others: page, then header, then file (TDMRep).

    A policy counts only beside a reservation.
    """
    stated = [each for each in statements if each.standard is Standard.TDMREP]
    set_at = max((_RANK[each.source] for each in stated if each.says), default=-1)
    policy_at = max((_RANK[each.source] for each in stated if each.reference), default=-1)
    is_reserved = any(
        (Purpose.TDM, Preference.DISALLOWED) in each.says for each in stated if _RANK[each.source] == set_at
    )

    def settled(each: Statement) -> Statement:
        rank = _RANK.get(each.source, 0)
        if each.standard is not Standard.TDMREP:
            return each
        if not is_reserved or rank < policy_at:
            each = replace(each, reference=None)
        if each.says and rank < set_at:
            return replace(each, says=(), note="replaced by a reservation nearer to the page")
        return each

    return list(map(settled, statements))
