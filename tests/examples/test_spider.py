"""examples/spider.py, those with other clients and those of the command line, run as a user runs them."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest
from tests.dashboard.browser import PROGRAM, led_to
from tests.examples.conftest import DELAY, HTML, links, usage
from tests.gate.servers import endless, hang_up

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.conftest import Program
    from tests.gate.servers import Web


async def test_spider_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Each page of its hosts once, robots.txt first, a second between; no disallowed page, no other host."""
    home, www = "https://example.org", "https://www.example.org"
    internet.serve(f"{home}/robots.txt", "User-agent: *\nDisallow: /private")
    elsewhere = ("https://example.com/", "mailto:a@example.org", "//[", "data:,x")
    internet.serve(
        f"{home}/", links("/a?x=1&amp;y=2#top", "/a?x=1&y=2", "/private/1", *elsewhere), headers=HTML
    )
    internet.redirect(f"{www}/", "/circle")
    internet.redirect(f"{www}/circle", "/", body=b"see there")
    ran = await run(usage("spider.py"))
    assert (ran.status, ran.err) == (0, "")
    assert internet.counts() == {
        f"{home}/robots.txt": 1,
        f"{home}/": 1,
        f"{home}/a?x=1&y=2": 1,
        f"{www}/robots.txt": 1,
        f"{www}/": 1,
        f"{www}/circle": 1,
    }
    assert min(internet.gaps("example.org") + internet.gaps("www.example.org")) >= DELAY
    assert {visit.headers["From"] for visit in internet.visits} == {"you@example.org"}
    assert ran.line("not for us:").endswith("by line 2 of its robots.txt: Disallow: /private")
    assert ran.line("/circle").startswith(f"302 {www}/circle (9 bytes")


@pytest.mark.slow
async def test_what_sites_do_to_spiders(run: Program, internet: Web) -> None:
    """Endless pages, pages made to be read for ever, failures and dead hosts cost it a line each; the limit holds."""
    starts = [f"https://{name}.example.org/" for name in ("endless", "tangle", "broken", "closed", "deep")]
    tangle = "<a " * 300_000 + "<a href='" * 100_000 + links("/beyond")
    internet.handle(starts[0], endless(b"<p>" * 10_000, headers=HTML))
    internet.serve(starts[1], tangle, headers=HTML)
    internet.serve(starts[2], links("/never"), status=500, headers=HTML)
    internet.serve(f"{starts[3]}robots.txt", status=503)
    internet.serve(starts[4], links(*(f"/{number}" for number in range(1000))), headers=HTML)
    command = f"python examples/spider.py --contact bot@example.org --limit 7 {' '.join(starts)}"
    ran = await run(f"{command} https://nobody.invalid/")
    assert ran.status == 0
    assert "max_bytes=2000000" in ran.line(starts[0])
    assert ran.line(f"{starts[1]} ").startswith("200 ")
    assert ran.line(starts[2]).startswith("500 ")
    assert "robots.txt is requested again in" in ran.line(starts[3])
    assert "robots.txt is requested again in" in ran.line("nobody.invalid")
    assert len(ran.lines) == 7
    assert len(internet.visits) == 5 + 4 + 1


@pytest.mark.slow
async def test_crawlee_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Pages are told of, a refused one too; each robots.txt is requested once."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("with_crawlee.py"))
    assert ran.status == 0, ran.err
    assert ran.line("org/: ") == "https://example.org/: 200"
    assert ran.line("com/page: ") == "https://example.com/page: robots_txt"
    sites = ("https://example.org", "https://example.com")
    assert internet.counts() == {f"{site}/robots.txt": 1 for site in sites} | {f"{sites[0]}/": 1}


@pytest.mark.slow
@pytest.mark.real("chromium")
async def test_playwright_as_its_docstring_says(run: Program, internet: Web, tmp_path: Path) -> None:
    """Titles are printed; what is refused is told, and not requested, though a page names it."""
    pytest.importorskip("playwright", reason="no playwright: pip install playwright")
    internet.serve("https://example.org/robots.txt", "User-agent: *\nDisallow: /private")
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    internet.serve("https://example.org/", "<title>Home</title><img src=/private/image>", headers=HTML)
    chromium = tmp_path / "chromium"
    arguments = shlex.join([str(PROGRAM), led_to(internet), "--ignore-certificate-errors"])
    chromium.write_text(f'#!/bin/sh\nexec {arguments} "$@"\n')
    chromium.chmod(0o755)
    ran = await run(f"{usage('with_playwright.py')} --chromium {chromium}")
    assert ran.status == 0, ran.err
    assert ran.line("org/: ") == "https://example.org/: 200, Home"
    assert ran.line("image").startswith(
        "not loaded: https://example.org/private/image is disallowed by line 2"
    )
    assert ran.line("com/page: ").startswith(
        "https://example.com/page: https://example.com/page is disallowed"
    )
    assert set(internet.urls) - {"https://example.org/favicon.ico"} == {
        "https://example.org/robots.txt",
        "https://example.org/",
        "https://example.com/robots.txt",
    }


async def test_aiohttp_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Five hundred tasks for one host: each page once, robots.txt once, and the ends are counted."""
    internet.serve("https://example.org/robots.txt", "User-agent: *\nDisallow: /private")
    internet.serve("https://example.org/broken", status=500)
    pages = [f"https://example.org/{page}" for page in (*range(498), "private/1", "broken")]
    ran = await run(usage("with_aiohttp.py").replace(" <", " --delay 0 <"), stdin="\n".join(pages))
    assert (ran.status, ran.err) == (0, "")
    assert ran.lines == ["200: 498", "DisallowedError: 1", "500: 1"]
    assert set(internet.counts().values()) == {1}


async def test_requests_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Threads wait for their turns; what is refused and what breaks off is a line each."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    internet.handle("https://example.net/", hang_up())
    ran = await run(f"{usage('with_requests.py')} https://example.org/2 https://example.net/")
    assert (ran.status, "Traceback" in ran.err) == (0, False)
    assert ran.line("org/: ").endswith(": 200, 6 bytes")
    assert ran.line("com/page: ").endswith("by line 2 of its robots.txt: Disallow: /page")
    assert "aborted" in ran.line("net/: ")
    assert min(internet.gaps("example.org")) >= DELAY
    assert {visit.headers["From"] for visit in internet.visits} == {"you@example.org"}


async def test_crawl_goes_on_as_its_comment_says(run: Program, internet: Web, tmp_path: Path) -> None:
    """By the options of its file; the second time nothing is left to be requested."""
    urls = ["https://example.org/", "https://www.example.org/"]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    for _ in range(2):
        ran = await run(usage("crawl.sh"))
        assert (ran.status, ran.lines) == (0, []), ran.err
        assert set(internet.counts().values()) == {1}
    rows = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert sorted(row["url"] for row in rows) == urls
    assert {visit.headers["User-Agent"] for visit in internet.visits} == {"ExampleCrawl/1.0"}


async def test_sitemap_into_fetch_as_its_comment_says(run: Program, internet: Web) -> None:
    """What the sitemap names is fetched, at one pace and with one robots.txt."""
    page, site_map = "https://example.org/page", "https://example.org/map.txt"
    internet.serve("https://example.org/robots.txt", f"Sitemap: {site_map}")
    internet.serve(site_map, page)
    ran = await run(usage("sitemap_into_fetch.sh"))
    assert (ran.status, [json.loads(line)["url"] for line in ran.lines]) == (0, [page]), ran.err
    assert internet.urls == ["https://example.org/robots.txt", site_map, page]
    assert min(internet.gaps("example.org")) >= DELAY
