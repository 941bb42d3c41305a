"""The statements of a page: its meta, link and script elements. At most the first 64 KiB are read.

A script element may hold an RSL document (RSL 1.0 §4.6.2). Its URLs are read, its permissions are not.
"""

from __future__ import annotations

import io
from contextlib import suppress
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from robotgate.rules.grammar import names
from robotgate.usage.statement import Source, Standard
from robotgate.usage.values import RSL_TYPE, Reading, is_rsl, licence, read_reservation, read_robots_rules

if TYPE_CHECKING:
    from robotgate.usage.statement import Statement

MAX_HEAD: Final = 65_536
"""Characters of a page that are read."""
_NAMESPACE: Final = "{https://rslstandard.org/rsl}"
_NAMING: Final = {f"{_NAMESPACE}{name}": name for name in ("standard", "custom", "terms")}
"""Elements whose text is a URL: of a shared licence (§3.8), of the publisher's own (§3.9), of terms to read (§3.17)."""


def read_page(html: str, token: str | None, now: float) -> list[Statement]:
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
        found = [(name, url, Reading(reference=url)) for name, url in dict.fromkeys(named) if url]
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
        values: dict[str, str] = {}
        for name, value in attrs:
            # Of repeated attributes the first counts, in HTML. A value may be written on several lines.
            values.setdefault(name, " ".join((value or "").split()))
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
        key, standard = name.lower(), Standard.TDMREP
        if key == "tdm-reservation":
            readings = [read_reservation(content)]
        elif key == "tdm-policy":
            readings = [Reading(reference=content)]
        elif key == "robots" or (self._token is not None and key and names(key, self._token)):
            standard = Standard.ROBOTS_RULES
            readings = read_robots_rules(content, self._token, now=self._now, has_agents=False)
        else:
            return
        self.statements += [reading.statement(standard, Source.META, name, content) for reading in readings]


def _read_rsl(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """What an RSL document names up to its first error, and that error.

    These are names of elements, each with its URL as it is written, and ``server``: the attribute of a content element
    that names a licence server (§3.3).
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
            elif event == "start" and element.tag == f"{_NAMESPACE}content":
                found.append(("server", element.get("server", "")))
    except ET.ParseError as error:
        return found, [f"not well-formed XML ({error})"]
    return found, []
