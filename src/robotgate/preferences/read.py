"""From robotgate's values, and those of other clients, to a `Preferences`: the statements of headers and of pages.

Of a page, its meta, link and script elements are read, in its first 64 KiB. A script element may hold an RSL document
(RSL 1.0 §4.6.2). Its URLs and its payments are read, its permissions are not.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from typing import Final
from xml.etree import ElementTree as ET

from robotgate.preferences.tdmrep import TdmRep
from robotgate.preferences.values import (
    HEADER_READERS,
    Reading,
    is_rsl,
    licence,
    read_robots_rules,
    structured_fields,
)
from robotgate.rules.grammar import names, product_token
from robotgate.rules.robotstxt import RobotsTxt, UnreadFile
from robotgate.statements import RSL_TYPE, Preference, Preferences, Purpose, Source, Standard, Statement

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

MAX_HEADER: Final = 65_536
"""Characters of all header fields that are read."""
MAX_HEAD: Final = 65_536
"""Characters of a page that are read."""
_NAMESPACE: Final = "{https://rslstandard.org/rsl}"
_NAMING: Final = {f"{_NAMESPACE}{name}": name for name in ("standard", "custom", "terms")}
"""Elements whose text is a URL: of a shared licence (§3.8), of the publisher's own (§3.9), of terms to read (§3.17)."""
_PAYMENT: Final = "payment"
"""An element that says what is paid for: its type, and amounts with their currency."""
_JOINED: Final = frozenset({"content-usage", "robots-tag"})
"""Structured fields, of which all lines are one value (RFC 9651 §4.2)."""
PAGE_TYPES: Final = ("text/html", "application/xhtml+xml")


def parse_preferences(
    headers: Headers = (),
    html: str | bytes | None = None,
    *,
    robots: RobotsTxt | bytes | None = None,
    tdmrep: TdmRep | bytes | None = None,
    url: str | None = None,
    agent: str | None = None,
    now: float | None = None,
) -> Preferences:
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
        ModuleNotFoundError: the extra ``preferences`` is not installed.
        TypeError: a name or value of `headers` is no text.
        ValueError: `robots` or `tdmrep` without what it needs.
    """
    structured_fields()
    statements: list[Statement] = []
    if robots is not None:
        if url is None or agent is None:
            raise ValueError("robots needs url and agent")
        file = UnreadFile(robots) if isinstance(robots, bytes) else robots
        statements += file.preferences(url, agent).statements
    if tdmrep is not None:
        if url is None:
            raise ValueError("tdmrep needs url")
        rules = TdmRep.parse(tdmrep) if isinstance(tdmrep, bytes) else tdmrep
        statements += rules.of(RobotsTxt.parse(b"", url)._units_of(url))
    token = None if agent is None else product_token(agent).lower()
    now = time.time() if now is None else now
    statements += _of_headers(headers, token, now)
    if html is not None:
        text = html[: 4 * MAX_HEAD].decode("utf-8", "replace") if isinstance(html, bytes) else html
        statements += _of_page(text, token, now)
    return Preferences.of(_with_one_reservation(statements))


def _of_headers(headers: Headers, token: str | None, now: float) -> list[Statement]:
    """The statements of the header fields of a response."""
    found: list[Statement] = []
    values: dict[str, list[tuple[str, str]]] = {}
    left = MAX_HEADER
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers: give text, not {type(name).__name__} and {type(value).__name__}")
        key = name.lower()
        if key not in HEADER_READERS:
            continue
        left -= len(value)
        if left < 0:
            problem = f"beyond the first {MAX_HEADER:,} characters of headers, so it is not read"
            beyond = Reading(broken=[problem])
            found.append(beyond.statement(HEADER_READERS[key][0], Source.HEADER, name, value))
            break
        values.setdefault(key, []).append((name, value))
    for key, lines in values.items():
        standard, read = HEADER_READERS[key]
        joined = [(lines[0][0], ", ".join(value for _, value in lines))]
        for name, value in joined if key in _JOINED else lines:
            readings = read(value, token, now)
            found += [reading.statement(standard, Source.HEADER, name, value) for reading in readings]
    return found


def _of_page(html: str, token: str | None, now: float) -> list[Statement]:
    """The statements of the elements of a page, up to the first that cannot be parsed.

    Args:
        token: our product token, in lower case; None if unknown.
        now: seconds since the epoch.
    """
    reader = _PageReader(token, now)
    # Some releases of the parser raise these for unknown declarations.
    with suppress(AssertionError, ValueError):
        reader.feed(html[:MAX_HEAD])
    for document in reader.rsl:
        named, problems = _read_rsl(document)
        found = [
            (name, words, Reading(reference=None if name == _PAYMENT else words))
            for name, words in dict.fromkeys(named)
            if words
        ]
        if problems or not found:
            found.append(("script", RSL_TYPE, Reading(broken=problems)))
        for name, words, reading in found:
            reader.statements.append(reading.statement(Standard.RSL, Source.META, name, words))
    return reader.statements


class _PageReader(HTMLParser):
    def __init__(self, token: str | None, now: float) -> None:
        super().__init__(convert_charrefs=True)
        self.statements: list[Statement] = []
        self.rsl: list[str] = []
        """The text of each script element that is an RSL document."""
        self._is_rsl = False
        self._token = token
        self._now = now

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "script"):
            return
        # Of repeated attributes the first counts, in HTML. A value may be written on several lines.
        values = {name: " ".join((value or "").split()) for name, value in reversed(attrs)}
        url, kind = values.get("href", ""), values.get("type", "")
        if tag == "meta":
            self._read_meta(values.get("name", ""), values.get("content", ""))
        elif tag == "link" and "license" in values.get("rel", "").lower().split():
            reading = licence(url, kind)
            self.statements.append(reading.statement(Standard.LICENSE_LINK, Source.META, "link", url))
        elif tag == "script" and is_rsl(kind):
            self._is_rsl = True
            self.rsl.append("")

    def handle_data(self, data: str) -> None:
        if self._is_rsl:
            self.rsl[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_rsl = self._is_rsl and tag != "script"

    def _read_meta(self, name: str, content: str) -> None:
        key = name.lower()
        if key in ("tdm-reservation", "tdm-policy"):
            standard, read = HEADER_READERS[key]
            readings = read(content, self._token, self._now)
        elif key == "robots" or (self._token is not None and key and names(key, self._token)):
            standard = Standard.ROBOTS_RULES
            readings = read_robots_rules(content, self._token, self._now, has_agents=False)
        else:
            return
        self.statements += [reading.statement(standard, Source.META, name, content) for reading in readings]


def _read_rsl(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """What an RSL document names up to its first error, and that error.

    These are names of elements, each with its URL as it is written, and ``server``: the attribute of a content element
    that names a licence server (§3.3). A payment has the words ``crawl USD 0.015``: its type, then its amounts.
    """
    found: list[tuple[str, str]] = []
    if "<!DOCTYPE" in text:
        # Entities are declared in it, and one may stand for a gigabyte or another file.
        return found, ["it declares a document type, so it is not read"]
    source = io.StringIO(text.strip().encode("utf-8", "replace").decode())
    root: str | None = None
    try:
        for event, element in ET.iterparse(source, ("start", "end")):  # noqa: S314  # There are no entities.
            root = root or element.tag
            if root != f"{_NAMESPACE}rsl":
                return found, ["not an rsl element of https://rslstandard.org/rsl"]
            if event == "end" and element.tag in _NAMING and not len(element):
                found.append((_NAMING[element.tag], (element.text or "").strip()))
            elif event == "end" and element.tag == f"{_NAMESPACE}{_PAYMENT}":
                amounts = [
                    f"{each.get('currency', '')} {(each.text or '').strip()}"
                    for each in element.findall(f"{_NAMESPACE}amount")
                ]
                if amounts:
                    found.append((_PAYMENT, " ".join([element.get("type", ""), *amounts]).strip()))
            elif event == "start" and element.tag == f"{_NAMESPACE}content":
                found.append(("server", element.get("server", "")))
    except ET.ParseError as error:
        return found, [f"not well-formed XML ({error})"]
    return found, []


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
