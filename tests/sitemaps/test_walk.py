"""`gate.sitemap_urls` at real servers: which files are fetched, and what comes of those that are broken or hostile."""

from __future__ import annotations

import asyncio
import gzip
import logging
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import cut_off, dripping, endless, hang_up
from tests.gate.test_hostile_bodies import bomb

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    RobotGate,
)
from robotgate.sitemaps import SitemapEntry, SitemapFault

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

SITE: Final = "https://site.example"
OTHER: Final = "https://other.example"
ROBOTS: Final = f"{SITE}/robots.txt"
MAP: Final = f"{SITE}/sitemap.xml"
PAGES: Final = [f"{SITE}/{name}" for name in ("a", "b", "c")]


def urlset(*urls: str) -> str:
    """A sitemap that lists these."""
    return f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>"


def index(*urls: str) -> str:
    """An index that lists these sitemaps."""
    sitemaps = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{sitemaps}</sitemapindex>"


def name_in_robots(web: Web, *urls: str, rules: str = "") -> None:
    """Serve a robots.txt that names these sitemaps."""
    web.serve(ROBOTS, "\n".join([*(f"Sitemap: {url}" for url in urls), "User-agent: *", rules]))


async def walk(
    gate: RobotGate, url: str = SITE, *, is_sitemap: bool = False, max_sitemaps: int = 100
) -> tuple[list[str], list[SitemapFault]]:
    """The URLs of a walk, and its faults."""
    faults: list[SitemapFault] = []
    entries = gate.sitemap_urls(url, is_sitemap=is_sitemap, max_sitemaps=max_sitemaps, on_fault=faults.append)
    return [entry.loc async for entry in entries], faults


async def test_sitemaps_of_robots_txt_are_read(web: Web, gate: RobotGate) -> None:
    """All that it names, in their order, each once; of other origins too."""
    name_in_robots(web, MAP, f"{OTHER}/map.txt", MAP, f"{MAP}#again")
    web.serve(MAP, urlset(*PAGES[:2]))
    web.serve(f"{OTHER}/map.txt", PAGES[2])
    faults: list[SitemapFault] = []
    entries = [entry async for entry in gate.sitemap_urls(f"{SITE}/any", on_fault=faults.append)]
    assert entries == [
        SitemapEntry(loc=PAGES[0], sitemap=MAP),
        SitemapEntry(loc=PAGES[1], sitemap=MAP),
        SitemapEntry(loc=PAGES[2], sitemap=f"{OTHER}/map.txt"),
    ]
    assert faults == []
    assert web.urls == [ROBOTS, MAP, f"{OTHER}/robots.txt", f"{OTHER}/map.txt"]


async def test_pages_can_be_fetched_in_the_loop(web: Web, gate: RobotGate) -> None:
    """The turn of a sitemap is over before its first URL comes: no loop waits for itself."""
    web.serve(MAP, urlset(*PAGES))
    async with asyncio.timeout(20):
        async for entry in gate.sitemap_urls(MAP, is_sitemap=True):
            assert (await gate.fetch(entry.loc)).status == 200
    assert web.urls == [ROBOTS, MAP, *PAGES]


async def test_sitemaps_are_fetched_in_turn(web: Web, open_gate: OpenGate) -> None:
    """A delay apart, like any other requests to a host."""
    gate = await open_gate(delay=0.1)
    children = [f"{MAP}/{number}" for number in range(3)]
    web.serve(MAP, index(*children))
    for child in children:
        web.serve(child, urlset(child))
    assert await walk(gate, MAP, is_sitemap=True) == (children, [])
    assert min(web.gaps("site.example")) >= 0.1


async def test_sitemap_is_asked_for_by_name(web: Web, gate: RobotGate) -> None:
    """The request names the crawler, and accepts no coding but gzip."""
    web.serve(MAP, urlset(*PAGES))
    await walk(gate, MAP, is_sitemap=True)
    headers = web.visit(MAP).headers
    assert headers["User-Agent"] == gate._identity.user_agent
    assert headers["Accept-Encoding"] == "gzip"


async def test_damage_is_told_and_costs_one_entry(web: Web, gate: RobotGate) -> None:
    """Bare ampersands, and a second root: what stands behind is read, and one fault counts the entries."""
    damaged = [PAGES[0], f"{SITE}/?a=1&b=2", PAGES[1], f"{SITE}/?c&d"]
    web.serve(MAP, urlset(*damaged) + urlset(PAGES[2]))
    urls, (fault,) = await walk(gate, MAP, is_sitemap=True)
    assert urls == PAGES
    assert (fault.url, fault.cause.partition(",")[0]) == (MAP, "2 entries are damaged and left out")
    assert "line 1" in fault.cause


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (MAP, DisallowedError),
        (f"{OTHER}/map.xml", HostUnavailableError),
        ("http://127.0.0.1:8000/x", NonPublicAddressError),
        ("http://169.254.169.254/latest", NonPublicAddressError),
    ],
)
async def test_sitemap_that_is_refused_as_a_page_would_be_is_a_fault(
    web: Web, gate: RobotGate, refused: str, kind: type[Exception]
) -> None:
    """By the rules, though robots.txt names it; by a block; by a private address. The others are read."""
    allowed = f"{SITE}/allowed.xml"
    name_in_robots(web, refused, allowed, rules="Disallow: /sitemap")
    web.serve(allowed, urlset(*PAGES))
    gate.block("other.example")
    urls, (fault,) = await walk(gate)
    assert (urls, fault.url) == (PAGES, refused)
    assert isinstance(fault.error, kind)
    assert web.urls == [ROBOTS, allowed]


async def test_index_stays_within_its_origin(web: Web, gate: RobotGate) -> None:
    """It cannot send the gate to other sites, not even to another port; one fault tells of all."""
    inside = f"{SITE}/inside.xml"
    outside = [f"{OTHER}/x.xml", "https://site.example:8443/x.xml", "http://site.example/x.xml"]
    name_in_robots(web, MAP)
    web.serve(MAP, index(*outside, inside))
    web.serve(inside, urlset(*PAGES))
    urls, (fault,) = await walk(gate)
    assert (urls, fault.url) == (PAGES, MAP)
    assert "3 sitemaps are of another origin" in fault.cause
    assert web.urls == [ROBOTS, MAP, inside]


async def test_index_of_another_origin_that_is_named(web: Web, gate: RobotGate) -> None:
    """Is followed, within that origin only."""
    foreign = f"{OTHER}/index.xml"
    name_in_robots(web, foreign)
    web.serve(foreign, index(f"{OTHER}/map.xml", f"{SITE}/private.xml"))
    web.serve(f"{OTHER}/map.xml", urlset(*PAGES))
    urls, (fault,) = await walk(gate)
    assert (urls, fault.url) == (PAGES, foreign)
    assert f"{SITE}/private.xml" not in web.urls


async def test_index_that_has_moved(web: Web, gate: RobotGate) -> None:
    """Names sitemaps of where it was, or of where it is."""
    children = [f"{SITE}/old.xml", f"{OTHER}/new.xml"]
    web.redirect(MAP, f"{OTHER}/index.xml")
    web.serve(f"{OTHER}/index.xml", index(*children))
    for child in children:
        web.serve(child, urlset(child))
    assert await walk(gate, MAP, is_sitemap=True) == (children, [])


async def test_cycles_end(web: Web, gate: RobotGate) -> None:
    """Indexes that name themselves and one another."""
    second, leaf = f"{SITE}/second.xml", f"{SITE}/leaf.xml"
    web.serve(MAP, index(MAP, second, f"{MAP}#x"))
    web.serve(second, index(MAP, second, leaf))
    web.serve(leaf, urlset(*PAGES))
    assert await walk(gate, MAP, is_sitemap=True) == (PAGES, [])
    assert web.urls == [ROBOTS, MAP, second, leaf]


async def test_depth_is_bounded(web: Web, gate: RobotGate) -> None:
    """Each index names another: the fourth is not followed."""
    for level in range(9):
        web.serve(f"{MAP}{level}", index(f"{MAP}{level + 1}"))
    urls, (fault,) = await walk(gate, f"{MAP}0", is_sitemap=True)
    assert (urls, fault.url) == ([], f"{MAP}3")
    assert web.urls == [ROBOTS, *(f"{MAP}{level}" for level in range(4))]


async def test_number_of_sitemaps_is_bounded(web: Web, gate: RobotGate) -> None:
    """An index that names many, over all files of the walk."""
    children = [f"{SITE}/{number}.xml" for number in range(1000)]
    web.serve(MAP, index(*children))
    for child in children:
        web.serve(child, urlset(child))
    urls, (fault,) = await walk(gate, MAP, is_sitemap=True, max_sitemaps=5)
    assert urls == children[:4]
    assert "max_sitemaps" in fault.cause
    assert len(web.urls) == 6


def broken_chunk(body: bytes) -> Handler:
    """A body, and a chunk that is none."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        response = aioweb.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.write(b"no chunk\r\n")
        request.transport.close()
        return response

    return answer


BEGUN: Final = urlset(*PAGES).removesuffix("</urlset>").encode()


@pytest.mark.parametrize(
    ("handler", "cause"),
    [
        pytest.param(bomb(BEGUN, b" ", mebibytes=60), "longer than", id="bomb"),
        pytest.param(endless(f"<url><loc>{PAGES[0]}</loc></url>".encode() * 1000), "", id="endless, no root"),
        pytest.param(endless(BEGUN), "", id="endless"),
        pytest.param(cut_off(BEGUN, length=100_000), "ClientPayloadError", id="hang-up in the body"),
        pytest.param(broken_chunk(BEGUN), "chunk", id="broken chunk"),
        pytest.param(hang_up(), "ServerDisconnectedError", id="hang-up"),
    ],
)
async def test_hostile_server_costs_one_file(web: Web, gate: RobotGate, handler: Handler, cause: str) -> None:
    """What was read before the fault comes; then the walk goes on with the next file."""
    name_in_robots(web, f"{SITE}/hostile.xml", MAP)
    web.handle(f"{SITE}/hostile.xml", handler)
    web.serve(MAP, urlset(f"{SITE}/last"))
    urls, (fault, *more) = await walk(gate)
    assert (fault.url, more) == (f"{SITE}/hostile.xml", [])
    assert cause in fault.cause
    assert urls[-1] == f"{SITE}/last"
    assert urls[:-1] in ([], PAGES)
    assert gate.host(SITE).open_turns == 0


async def test_many_urls_of_an_endless_file(web: Web, gate: RobotGate) -> None:
    """The first 50,000; then its connection is closed."""
    web.handle(MAP, endless(f"{PAGES[0]}\n".encode() * 1000))
    urls, (fault,) = await walk(gate, MAP, is_sitemap=True)
    assert (len(urls), fault.cause) == (50_000, "more than 50,000 URLs")


async def test_file_that_drips_ends_with_the_timeout(web: Web, open_gate: OpenGate) -> None:
    """The session's total timeout holds for a sitemap, too."""
    web.handle(MAP, dripping())
    timeout = aiohttp.ClientTimeout(total=0.3)
    async with aiohttp.ClientSession(connector=web.connector(), timeout=timeout) as session:
        urls, (fault,) = await walk(await open_gate(session=session), MAP, is_sitemap=True)
    assert urls == []
    assert isinstance(fault.error, TimeoutError)


async def test_lies_in_content_encoding_do_not_matter(web: Web, gate: RobotGate) -> None:
    """The file's own bytes say whether it is gzip."""
    body = urlset(*PAGES).encode()
    for coding in (None, "gzip", "br", "deflate", "identity", "gzip, gzip", "nonsense"):
        for sent in (gzip.compress(body), body):
            web.serve(MAP, sent, headers={} if coding is None else {"Content-Encoding": coding})
            assert await walk(gate, MAP, is_sitemap=True) == (PAGES, []), coding


async def test_answer_that_is_no_file_is_a_fault(web: Web, gate: RobotGate) -> None:
    """Whatever its body says."""
    for status in (204, 206, 404, 410, 500):
        web.serve(MAP, urlset(*PAGES), status=status)
        assert await walk(gate, MAP, is_sitemap=True) == ([], [SitemapFault(MAP, f"HTTP status {status}")])


async def test_sitemap_line_that_is_no_url_is_a_fault(web: Web, gate: RobotGate) -> None:
    """The other lines count."""
    odd = ["/sitemap.xml", "ftp://site.example/x", "https://", "http://[::1", "javascript:x"]
    name_in_robots(web, *odd, MAP)
    web.serve(MAP, urlset(*PAGES))
    urls, (fault,) = await walk(gate)
    assert (urls, fault.url) == (PAGES, ROBOTS)
    assert f"{len(odd)} " in fault.cause


async def test_site_that_names_no_sitemap_says_so(web: Web, gate: RobotGate) -> None:
    """Without a robots.txt, and by one that has no Sitemap line."""
    web.serve(f"{OTHER}/robots.txt", "User-agent: *")
    for site in (SITE, OTHER):
        urls, (fault,) = await walk(gate, site)
        assert (urls, str(fault)) == ([], f"{site}/robots.txt: it names no sitemap")


async def test_unreadable_robots_txt_is_a_fault(web: Web, gate: RobotGate) -> None:
    """That no URL came, need not mean that there are none."""
    web.serve(ROBOTS, status=503)
    urls, (fault,) = await walk(gate)
    assert (urls, fault.url) == ([], ROBOTS)
    assert "503" in fault.cause


async def test_log_tells_of_faults(web: Web, gate: RobotGate, caplog: pytest.LogCaptureFixture) -> None:
    """In one line each, without credentials, if there is no callback."""
    url = "https://user:secret@site.example/sitemap.xml"
    web.serve(MAP, "<html>\n")
    with caplog.at_level(logging.WARNING, logger="robotgate"):
        assert [entry async for entry in gate.sitemap_urls(url, is_sitemap=True)] == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "site.example/sitemap.xml" in record.getMessage()
    assert "secret" not in record.getMessage()


async def test_loop_can_be_left(web: Web, gate: RobotGate) -> None:
    """Nothing more is fetched, and no turn is open."""
    name_in_robots(web, MAP, f"{SITE}/more.xml")
    web.serve(MAP, urlset(*PAGES))
    async for entry in gate.sitemap_urls(SITE):
        assert entry.loc == PAGES[0]
        break
    assert web.urls == [ROBOTS, MAP]
    assert gate.host(SITE).open_turns == 0


async def test_callback_can_end_the_walk(web: Web, gate: RobotGate) -> None:
    """What it raises leaves the loop."""
    web.serve(MAP, status=404)

    def end(fault: SitemapFault) -> None:
        raise LookupError(fault.cause)

    with pytest.raises(LookupError, match="404"):
        await anext(gate.sitemap_urls(MAP, is_sitemap=True, on_fault=end))


async def test_walk_within_a_turn_of_the_host_is_refused(gate: RobotGate) -> None:
    """It would wait for itself."""
    await gate.check(SITE)
    async with gate.turn(PAGES[0]):
        with pytest.raises(NestedTurnError):
            await anext(gate.sitemap_urls(MAP, is_sitemap=True))


async def test_gate_that_closes_ends_the_walk(web: Web, gate: RobotGate) -> None:
    """With the error that says so, and not as a fault of the site."""
    name_in_robots(web, MAP, f"{SITE}/more.xml")
    web.serve(MAP, urlset(*PAGES))
    entries = gate.sitemap_urls(SITE)
    assert (await anext(entries)).loc == PAGES[0]
    await gate.aclose()
    with pytest.raises(GateClosedError):
        _ = [entry async for entry in entries]


async def test_arguments_that_make_no_sense(gate: RobotGate) -> None:
    """Are refused by the call, before the loop."""
    with pytest.raises(OptionError, match="max_sitemaps"):
        gate.sitemap_urls(SITE, max_sitemaps=0)
    with pytest.raises(OptionError, match="on_fault"):
        gate.sitemap_urls(SITE, on_fault=walk)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="max_wait"):
        gate.sitemap_urls(SITE, max_wait=-1)
