"""From robotgate's values, and those of other clients, to a `Usage`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import names
from robotgate.rules.robotstxt import RobotsTxt, product_token
from robotgate.usage.page import MAX_HEAD, read_page
from robotgate.usage.robots import FIELDS, RobotsStatements
from robotgate.usage.statement import Source, Standard, Statement, Usage, shown
from robotgate.usage.tdmrep import TdmRep
from robotgate.usage.values import (
    RSL_TYPE,
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
    from collections.abc import Iterator

    from robotgate.rules.verdict import Verdict
    from robotgate.web.response import Response

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

MAX_HEADER: Final = 65_536
"""Characters of all header fields that are read."""
_HEADERS: Final = frozenset(
    {
        "content-usage",
        "content-signal",
        "link",
        "tdm-reservation",
        "tdm-policy",
        "x-robots-tag",
        "robots-tag",
    }
)
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
    """What a site prefers for a page that any client has read. Sends no request.

    Whatever the site wrote is accepted: what cannot be read is unknown, and its `Statement.problem` says so.

    Args:
        headers: of the response: a mapping, one with several values of a name (as aiohttp's), or pairs. Give each field
            line of its own where the client can (httpx: ``response.headers.multi_items()``): a user agent in
            X-Robots-Tag holds for the rest of its line.
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
        ValueError: `robots` or `tdmrep` without what it needs.
    """
    structured_fields()
    statements: list[Statement] = []
    if robots is not None:
        if url is None or agent is None:
            raise ValueError("robots needs url and agent")
        file = RobotsTxt.parse(_if_it_speaks(robots), url) if isinstance(robots, bytes) else robots
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
    """What a robots.txt says of a URL.

    Raises:
        InvalidURLError: as `RobotsTxt.allowed`.
        ModuleNotFoundError: the extra ``usage`` is not installed.
    """
    structured_fields()
    is_allowed = robots.allowed(url, agent)
    return Usage.of(RobotsStatements(robots, agent).of(robots.units_of(url), is_allowed=is_allowed))


def usage_of_verdict(verdict: Verdict) -> Usage:
    """What the robots.txt of a verdict says of its URL."""
    structured_fields()
    known = verdict.robots
    if known is None:
        return Usage()
    file, agent = known
    robots = RobotsTxt.parse(_if_it_speaks(file), verdict.url) if isinstance(file, bytes) else file
    return robots.usage(verdict.url, agent)


def _if_it_speaks(robots: bytes) -> bytes:
    """A robots.txt, or nothing in place of one without statements: most need not be parsed."""
    return robots if FIELDS.search(robots) else b""


def usage_of_response(response: Response, *, has_robots: bool = True) -> Usage:
    """What robots.txt, tdmrep.json, the headers and the page say of a response.

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


def _statement(
    standard: Standard, source: Source, field: str, words: str, reading: Reading | None
) -> Iterator[Statement]:
    """One statement; none if it is for others."""
    if reading is not None:
        yield Statement(
            standard=standard,
            source=source,
            field=shown(field),
            words=shown(words),
            says=reading.says,
            problem=reading.problem,
            note=reading.note,
        )


def _of_headers(headers: Headers, token: str | None, now: float) -> list[Statement]:
    """The statements of the header fields of a response."""
    found: list[Statement] = []
    values: dict[str, list[tuple[str, str]]] = {}
    left = MAX_HEADER
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        key = name.lower()
        if key not in _HEADERS:
            continue
        left -= len(value)
        if left < 0:
            standard = _STANDARD_OF_HEADER[key]
            problem = Reading(
                problem=f"beyond the first {MAX_HEADER:,} characters of headers, so it is not read"
            )
            found += _statement(standard, Source.HEADER, name, value, problem)
            break
        values.setdefault(key, []).append((name, value))
    for key, lines in values.items():
        if key == "content-usage":
            # A structured field may be spread over several lines, and is read as one (RFC 9651 §4.2).
            name, joined = lines[0][0], ", ".join(value for _, value in lines)
            found += _statement(
                Standard.CONTENT_USAGE, Source.HEADER, name, joined, read_content_usage(joined)
            )
            continue
        if key == "robots-tag":
            name, joined = lines[0][0], ", ".join(value for _, value in lines)
            reading = read_robots_tag(joined, token)
            found += _statement(Standard.ROBOTS_TAG, Source.HEADER, name, joined, reading)
            continue
        for name, value in lines:
            found += _of_line(key, name, value, token, now)
    policies = [value.strip() for _, value in values.get("tdm-policy", ())]
    return [_with_policy(each, policies) for each in found]


_STANDARD_OF_HEADER: Final = {
    "content-usage": Standard.CONTENT_USAGE,
    "content-signal": Standard.CONTENT_SIGNAL,
    "link": Standard.LICENSE_LINK,
    "tdm-reservation": Standard.TDMREP,
    "tdm-policy": Standard.TDMREP,
    "x-robots-tag": Standard.ROBOTS_RULES,
    "robots-tag": Standard.ROBOTS_TAG,
}


def _of_line(key: str, name: str, value: str, token: str | None, now: float) -> Iterator[Statement]:
    """The statements of one field line."""
    standard = _STANDARD_OF_HEADER[key]
    if key == "link":
        yield from (_license(Source.HEADER, name, value, *link) for link in licence_links(value))
    elif key == "content-signal":
        yield from _statement(standard, Source.HEADER, name, value, read_content_signal(value))
    elif key == "tdm-reservation":
        yield from _statement(standard, Source.HEADER, name, value, read_reservation(value))
    elif key == "x-robots-tag":
        reading = read_robots_rules(value, token, now=now)
        yield from _statement(standard, Source.HEADER, name, value, reading)


def _license(source: Source, field: str, words: str, url: str, is_rsl: bool) -> Statement:  # noqa: FBT001  # Called by position only.
    return Statement(
        standard=Standard.RSL if is_rsl else Standard.LICENSE_LINK,
        source=source,
        field=field,
        words=shown(words),
        reference=shown(url) or None,
    )


def _of_page(html: str, token: str | None, now: float) -> list[Statement]:
    """The statements of the elements of a page."""
    found: list[Statement] = []
    page = read_page(html)
    for name, content in page.metas:
        key = name.lower()
        if key == "tdm-reservation":
            found += _statement(Standard.TDMREP, Source.META, name, content, read_reservation(content))
        elif key == "robots" or (token is not None and key and names(key, token)):
            reading = read_robots_rules(content, token, now=now, has_agents=False)
            found += _statement(Standard.ROBOTS_RULES, Source.META, name, content, reading)
    policies = [content.strip() for name, content in page.metas if name.lower() == "tdm-policy"]
    found = [_with_policy(each, policies) for each in found]
    found += [_license(Source.META, "link", url, url, kind == RSL_TYPE) for url, kind in page.links]
    found += [
        _license(Source.META, "script", kind, "", True) for kind in page.scripts if kind == RSL_TYPE
    ]  # As above.
    return found


def _with_policy(statement: Statement, policies: list[str]) -> Statement:
    """A reservation with its policy, which counts only beside a reservation of 1."""
    if statement.standard is not Standard.TDMREP or not policies or statement.words.strip() != "1":
        return statement
    return replace(statement, reference=shown(policies[0]) or None)


_RANK: Final = {Source.FILE: 0, Source.HEADER: 1, Source.META: 2}


def _with_one_reservation(statements: list[Statement]) -> list[Statement]:
    """Let the reservation nearest to the page replace the others: meta, then header, then file (TDMRep)."""
    set_at = [_RANK[each.source] for each in statements if each.standard is Standard.TDMREP and each.says]
    if not set_at:
        return statements
    rank = max(set_at)
    return [
        replace(each, says=(), reference=None, note="replaced by a reservation nearer to the page")
        if each.standard is Standard.TDMREP and each.says and _RANK[each.source] < rank
        else each
        for each in statements
    ]
