"""The programs of docs when a site fails: each bad site costs a line, and no other page and no traceback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.examples.conftest import HTML, ROOT
from tests.examples.test_bad_sites import BAD, GOOD, HANGS_UP, NO_NAME, TOO_LONG, sites
from tests.gate.servers import endless, hang_up
from tests.test_readme import blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.conftest import Program
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

__all__ = ["sites"]

pytestmark = pytest.mark.slow

URLS: Final = (*BAD, GOOD)
QUOTED: Final = ", ".join(f'"{url}"' for url in URLS)
PROXY: Final = 'proxy="http://127.0.0.1:8009"'


def program_of(page: str, part: str) -> str:
    """The program of a page that has this in it."""
    found = blocks((ROOT / "docs" / page).read_text(encoding="utf-8"), "python")
    (code,) = (code for code in found if '__name__ == "__main__"' in code and part in code)
    return code.replace(PROXY, "")


@pytest.mark.parametrize(
    ("page", "part", "replaced"),
    [
        ("aiohttp.md", "gated_session", None),
        ("spider.md", "MAX_PAGES", None),
        ("deploying.md", "SIGTERM", None),
        ("httpx.md", "gated_client", None),
        ("private-addresses.md", "PublicConnector", '"https://example.org/"'),
        ("tutorial.md", "URLS =", '"http://example.com/"'),
    ],
)
async def test_bad_sites_among_the_urls(
    page: str, part: str, replaced: str | None, *, run: Program, sites: Web
) -> None:
    """A server that hangs up, a name that does not resolve and a page without an end come before the good page."""
    code, arguments = program_of(page, part), " ".join(URLS)
    if replaced is not None:
        code, arguments = code.replace(replaced, QUOTED), ""
    await run.ended_well(arguments, code=code)
    assert sites.count(GOOD) == 1


async def test_errors_of_the_tutorial(run: Program, sites: Web) -> None:
    """The program that prints a line for each kind of error has one for these sites, too."""
    code = program_of("tutorial.md", "HostUnavailableError")
    shown = ("example.org/private/diary", "www.example.net/", "example.org/no-such-page", "example.net/busy")
    for url, bad in zip(shown, (HANGS_UP, TOO_LONG, NO_NAME, GOOD), strict=True):
        code = code.replace(f'await visit(gate, "http://{url}")', f'await visit(gate, "{bad}")')
    await run.ended_well("", code=code)
    assert sites.count(GOOD) == 1


async def test_crawlee(run: Program, sites: Web, tmp_path: Path) -> None:
    """The program of docs/crawlee.md. Crawlee logs each failure with its traceback, and goes on."""
    pytest.importorskip("crawlee")
    program = tmp_path / "program.py"
    program.write_text(program_of("crawlee.md", "GateHttpClient"))
    ran = await run(f"python {program} {HANGS_UP} {TOO_LONG} {NO_NAME} {GOOD}")
    assert ran.status == 0, ran.err
    assert ran.line(GOOD) == f"200 {GOOD}"
    assert sites.count(GOOD) == 1


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("page", "part", "replaced"),
    [
        ("fetch.md", "iter_chunked", None),
        ("turn.md", "http.client", None),
        ("store.md", "Recheck", None),
    ],
)
async def test_one_bad_site(
    page: str, part: str, replaced: str | None, *, run: Program, tmp_path: Path
) -> None:
    """A program of one URL ends with a line that says what failed."""
    code = program_of(page, part)

    async def visit(number: int, url: str) -> None:
        program = tmp_path / f"program{number}.py"
        program.write_text(
            code.replace("cache.db", f"cache{number}.db").replace(replaced or "\0", f'"{url}"')
        )
        ran = await run(f"python {program} {url} page{number}.html")
        assert "Traceback" not in ran.err
        if part == "http.client" and url == TOO_LONG:
            assert ran.lines == [f"200 {url} 10000000"]
        else:
            assert ran.status == 1
            assert ran.err.splitlines()[-1].endswith(")")

    await asyncio.gather(*(visit(number, url) for number, url in enumerate((HANGS_UP, TOO_LONG, NO_NAME))))


async def test_worker_with_redis(run: Program, sites: Web, server: RedisServer) -> None:
    """The worker of docs/fleet.md that shares a store."""
    server.settle("examplebot:")
    code = program_of("fleet.md", "StoreLost")
    ran = await run.ended_well(server.url, code=code, stdin="\n".join(URLS))
    assert len(ran.lines) == len(URLS)
    assert sites.count(GOOD) == 1


async def test_bad_pages_of_a_sitemap(run: Program, sites: Web) -> None:
    """The program of docs/spider.md that reads sitemaps, which some of its sites do not have."""
    sites.serve("https://example.org/robots.txt", "Sitemap: https://example.org/pages.txt")
    sites.serve("https://example.org/pages.txt", "\n".join(URLS))
    starts = f"{' '.join(BAD)} https://example.org/"
    ran = await run.ended_well(starts, code=program_of("spider.md", "sitemap_urls"))
    assert ran.line(GOOD).startswith("200 ")
    assert len(ran.lines) == len(URLS)


@pytest.mark.parametrize(
    ("page", "part", "arguments"),
    [
        ("moving-from-scrapy.md", "Selector", ""),
        ("tutorial.md", "class Spider", ""),
        ("scrapy.md", "LinkSpider", "https://example.org/"),
    ],
)
async def test_bad_pages_behind_links(
    page: str, part: str, arguments: str, *, run: Program, internet: Web
) -> None:
    """A spider follows a link to a page that comes, whatever becomes of the links before."""
    pages = [f"https://example.org/{name}" for name in ("hangs-up", "too-long", "next")]
    internet.serve("https://example.org/", "".join(f'<a href="{url}">' for url in pages), headers=HTML)
    internet.handle(pages[0], hang_up())
    internet.handle(pages[1], endless(b"#" * 65536, headers=HTML))
    await run.ended_well(arguments, code=program_of(page, part).replace("http://", "https://"))
    assert internet.count(pages[2]) == 1
