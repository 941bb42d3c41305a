"""The sites that the tutorial visits: a few pages with links, under names that are kept for examples (RFC 2606)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiohttp import web

from robotgate.cli._demo_sites import ROBOTS_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path has to say."""

    body: str = ""
    status: int = 200
    kind: str = "text/html"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        """Another one for another body."""
        return f'"{zlib.crc32(self.body.encode()):08x}"'

    def to(self, request: web.BaseRequest) -> web.Response:
        """The response: without a body for who has it already."""
        if self.status != 200:
            return web.Response(
                status=self.status, text=self.body, content_type=self.kind, headers=self.headers
            )
        headers = {**self.headers, "ETag": self.etag}
        if request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(text=self.body, content_type=self.kind, headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSite:
    """One host, whatever the port."""

    story: str
    """What is peculiar about it, in a few words."""
    robots: Answer
    pages: Mapping[str, Answer] = field(default_factory=dict)

    def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request; the query does not matter."""
        if request.url.path == ROBOTS_PATH:
            return self.robots.to(request)
        return self.pages.get(request.url.path, NO_SUCH_PAGE).to(request)


def _page(title: str, *links: str, **headers: str) -> Answer:
    paragraphs = "".join(f'<p><a href="{link}">{link}</a></p>\n' for link in links)
    body = f"<!doctype html>\n<title>{title}</title>\n{paragraphs}"
    return Answer(body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def _rules(*lines: str) -> Answer:
    return Answer("\n".join([*lines, ""]), kind="text/plain")


_TEA: Final = ("http://example.org/", "http://example.org/tea", "http://example.org/coffee")

NO_SUCH_PAGE: Final = Answer("no such page\n", status=404, kind="text/plain")

EXAMPLES: Final[Mapping[str, ExampleSite]] = MappingProxyType(
    {
        "example.org": ExampleSite(
            story="pages with links; Disallow: /private/",
            robots=_rules("User-agent: *", "Disallow: /private/", "Sitemap: http://example.org/sitemap.xml"),
            pages={
                "/": _page("Drinks", "/tea", "/coffee", "/private/diary", "http://example.com/"),
                "/tea": _page("Tea", "/", "/old-tea"),
                "/old-tea": Answer(status=301, headers={"Location": "/tea"}),
                "/coffee": _page("Coffee", "/", "/tea", X_Robots_Tag="noindex"),
                "/private/diary": _page("Diary", "/"),
                "/sitemap.xml": Answer(
                    "".join(f"<loc>{url}</loc>\n" for url in _TEA), kind="application/xml"
                ),
            },
        ),
        "example.com": ExampleSite(
            story="Crawl-delay: 2.5",
            robots=_rules("User-agent: *", "Crawl-delay: 2.5"),
            pages={"/": _page("News", "/today", "http://example.net/"), "/today": _page("Today", "/")},
        ),
        "example.net": ExampleSite(
            story="no robots.txt; /busy answers 429, Retry-After: 2",
            robots=NO_SUCH_PAGE,
            pages={
                "/": _page("Weather", "/busy", "http://www.example.net/"),
                "/busy": Answer("later\n", status=429, kind="text/plain", headers={"Retry-After": "2"}),
            },
        ),
        "www.example.net": ExampleSite(
            story="robots.txt answers 500",
            robots=Answer("out of order\n", status=500, kind="text/plain"),
            pages={"/": _page("Nobody gets here")},
        ),
    }
)
"""By host."""
