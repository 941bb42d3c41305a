"""The elements of a page that state preferences: meta, link and script. At most the first 64 KiB are read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

from robotgate.usage.rsl import RSL_TYPE

MAX_HEAD: Final = 65_536
"""Characters of a page that are read."""


@dataclass(slots=True)
class PageElements:
    """The elements that were found, in their order."""

    metas: list[tuple[str, str]] = field(default_factory=list)
    """Name and content of each meta element."""
    links: list[tuple[str, str]] = field(default_factory=list)
    """URL and type of each link to a licence."""
    rsl: list[str] = field(default_factory=list)
    """The text of each script element that is an RSL document."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = PageElements()
        self._is_rsl = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "script"):
            return
        values: dict[str, str] = {}
        for name, value in attrs:
            # Of repeated attributes the first counts, in HTML. A value may be written on several lines.
            values.setdefault(name, " ".join((value or "").split()))
        if tag == "meta":
            self.found.metas.append((values.get("name", ""), values.get("content", "")))
        elif tag == "link" and "license" in values.get("rel", "").lower().split():
            self.found.links.append((values.get("href", ""), _media_type(values)))
        elif tag == "script" and _media_type(values) == RSL_TYPE:
            self._is_rsl = True
            self.found.rsl.append("")

    def handle_data(self, data: str) -> None:
        if self._is_rsl:
            self.found.rsl[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_rsl = self._is_rsl and tag != "script"


def _media_type(values: dict[str, str]) -> str:
    return values.get("type", "").partition(";")[0].strip().lower()


def read_page(html: str) -> PageElements:
    """Find the elements, up to the first that cannot be parsed."""
    reader = _Reader()
    # Some releases of the parser raise these for unknown declarations.
    with suppress(AssertionError, ValueError):
        reader.feed(html[:MAX_HEAD])
    return reader.found
