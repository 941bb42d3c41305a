"""Pages over HTTPS: the gate's share of what a page takes, and what a page takes with its links read.

As `benchmarks.crawl`, with TLS 1.3 and a certificate authority of its own. Bare aiohttp asks for each robots.txt as
well, so that what a gate takes more is all the gate's. There are twice as many hosts as tasks, so that bare aiohttp,
too, has one connection to a host: with a handshake each, more would decide the comparison.

A page of the web has more than the 1.6 KB of the benchmarks' pages. Half of all HTML documents take 33 KB or more to
send, and nine of ten are compressed (https://almanac.httparchive.org/en/2024/markup#document-size). So pages of 33 KB
by gzip are measured as well. Those whose links are read have 64 KB, and 200 links.
"""

from __future__ import annotations

import gzip
import os
import random
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import trustme
from parsel import Selector

from benchmarks import _clients as ours
from benchmarks._bench import alone, interleaved
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import page_urls, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._site import Site

PACKAGES: Final = ("robotgate", "aiohttp", "parsel")
TASKS: Final = 50
BARE: Final = "bare aiohttp, and robots.txt unread"
FETCH: Final = "`gate.fetch`"
MIDDLEWARE: Final = "`gate.middleware`"
READ: Final = "`gate.fetch`, links read by parsel"
DOORS: Final = (FETCH, MIDDLEWARE)
COLUMNS: Final = (
    Column("cpu", "CPU of a page, µs", shows_spread=True),
    Column("share", "the gate's share of it", 3, shows_spread=True),
)
RATE: Final = (Column("rate", "pages/s of a core", shows_spread=True),)
LINKS: Final = 200
"""Of a large page."""
_TEXT: Final = "".join(
    f'<p>{"Something to read. " * 14}<a href="/page/{number}">Page {number}</a></p>\n'
    for number in range(LINKS)
)
LARGE: Final = f"<!doctype html><title>A page</title>{_TEXT}".encode()
_random: Final = random.Random(1)
_LINES: Final = "".join(f"<p>Something to read: {_random.getrandbits(96):x}</p>\n" for _ in range(2_080))
MEDIAN: Final = gzip.compress(f"<!doctype html><title>A page</title>{_LINES}".encode())
"""A page of the web."""
GZIP: Final = b"\r\nContent-Encoding: gzip"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is crawled."""

    hosts: int
    pages: int
    """Of each."""
    rounds: int


@contextmanager
def authority() -> Iterator[Path]:
    """The certificate of all hosts, by an authority that the processes trust which are begun meanwhile."""
    authority = trustme.CA()
    with TemporaryDirectory() as folder:
        certificate, trusted = Path(folder, "hosts.pem"), Path(folder, "authority.pem")
        authority.issue_cert("*.site.example").private_key_and_cert_chain_pem.write_to_path(certificate)
        authority.cert_pem.write_to_path(trusted)
        name = ssl.get_default_verify_paths().openssl_cafile_env
        os.environ[name] = str(trusted)
        try:
            yield certificate
        finally:
            del os.environ[name]


async def by_reading(urls: Sequence[str], _: float, tasks: int) -> None:
    """`gate.fetch`, and the links of each page."""
    async with ours.open_gate() as gate:

        async def fetch(url: str) -> None:
            response = await gate.fetch(url)
            links = Selector(response.body.decode()).css("a::attr(href)").getall()
            if len({urljoin(url, link) for link in links}) != LINKS:
                raise RuntimeError(f"{url}: {len(links)} links")

        await ours.visit_all(fetch, urls, tasks)


CRAWLS: Final = {
    BARE: ours.bare_with_robots,
    FETCH: ours.by_fetch,
    MIDDLEWARE: ours.by_middleware,
    READ: by_reading,
}


def cost(name: str, shape: Shape, site: Site) -> dict[str, float]:
    """What a page takes."""
    urls = page_urls(shape.hosts, shape.pages, site.port, "{}.site.example".format, scheme="https")
    cpu = alone(ours.measured, CRAWLS[name], urls, tasks=TASKS).cpu / len(urls)
    return {"cpu": cpu * 1e6, "rate": 1 / cpu}


def compare(findings: Findings, shape: Shape, site: Site, at_most: float, of: str = "") -> None:
    """Measure bare aiohttp and the gate's ways at some pages.

    Args:
        of: their size, if it is another than that of the benchmarks' pages.
    """
    figures = interleaved(shape.rounds, {name: partial(cost, name, shape, site) for name in (BARE, *DOORS)})
    where = f"{shape.hosts} hosts, {shape.pages} pages of each{of and f', of {of}'}"
    for name in DOORS:
        figures[name]["share"] = [1 - each for each in ratio(figures[BARE]["cpu"], figures[name]["cpu"])]
        findings.goal(
            f"{name}, share of a page's CPU over TLS; {where}", figures[name]["share"], at_most=at_most
        )
    findings.table(f"{'web-' if of else ''}{shape.hosts}x{shape.pages}", where, COLUMNS, figures, ours=DOORS)


def measure(effort: Effort) -> Findings:
    """Few hosts with many pages, many with few, pages of the web, and pages whose links are read."""
    findings = Findings()
    warm = effort.pick(Shape(100, 2, 1), Shape(100, 50, 5))
    with authority() as certificate:
        with serving(certificate=certificate) as site:
            compare(findings, warm, site, 0.10)
            compare(findings, effort.pick(Shape(100, 1, 1), Shape(500, 5, 5)), site, 0.15)
        with serving(certificate=certificate, body=MEDIAN, fields=GZIP) as site:
            compare(findings, warm, site, 0.10, "33 KB by gzip")
        with serving(certificate=certificate, body=LARGE) as site:
            figures = interleaved(warm.rounds, {READ: partial(cost, READ, warm, site)})
        where = f"{warm.hosts} hosts, {warm.pages} pages of each, of 64 KB"
        findings.table("read", where, (COLUMNS[0], *RATE), figures, ours=[READ])
    return findings
