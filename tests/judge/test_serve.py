"""``robotgate demo --serve``: sites for a program of the reader's own, and what it prints of each request."""

from __future__ import annotations

import asyncio
import gzip
import re
import signal
import socket
import sys
import time
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import aiohttp
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Program

from robotgate import DisallowedError, RobotGate
from robotgate.cli.app import robotgate
from robotgate.cli.demo import demo
from robotgate.judge.servers import LOOPBACK, SiteServer, listening, public_keys
from robotgate.judge.sites import Site, draw_plan, examples
from robotgate.signing import AgentForm, Ed25519Signer, SigningKey
from robotgate.signing.directory import directory_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEMO: Final = Program()
PROXY: Final = re.compile(r"http://127\.0\.0\.1:\d+")
PLAN: Final = draw_plan(1, 500)


@asynccontextmanager
async def serving(*keys: SigningKey, auto_decompress: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose proxy is in front of the sites, which know some keys."""
    public = public_keys(directory_body(keys))
    async with (
        listening(SiteServer(PLAN, lambda _request, _visit: None, keys=public), 0) as port,
        aiohttp.ClientSession(proxy=f"http://{LOOPBACK}:{port}", auto_decompress=auto_decompress) as session,
    ):
        yield session


def _site(kind: str, number: int = 0) -> Site:
    return next(sites[number] for row, sites in PLAN.groups if row.name == kind)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_a_program_of_ones_own_crawls_the_sites() -> None:
    """By their names, through the proxy that is printed first. Each request is printed as it comes; Ctrl-C ends it."""
    process = await DEMO.start("demo", "--serve", "--port", "0")
    greeting = [await _line(process) for _ in range(len(examples()) + 3)]
    proxy = PROXY.search(greeting[0])
    assert proxy is not None
    async with (
        aiohttp.ClientSession(proxy=proxy[0]) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=0.01) as gate,
    ):
        assert greeting[1].split(maxsplit=1) == ["http://example.org/", examples()[0].kind.name]
        assert greeting[-2].startswith("and to 118 sites of the demonstration, such as http://site-1.test/")
        with pytest.raises(DisallowedError) as refused:
            await gate.fetch("http://example.org/private/diary")
        page = await gate.fetch("http://example.org/old-tea")
        other = await gate.fetch(greeting[-2].split()[-1])

    assert str(refused.value.verdict.rule) == "Disallow: /private/"
    assert (page.url, page.status) == ("http://example.org/tea", 200)
    assert other.status == 200
    printed = [(await _line(process)).split() for _ in range(5)]
    assert all(float(seconds) >= 0 and unit == "s" for seconds, unit, *_ in printed)
    assert [rest for _, _, *rest in printed] == [
        ["200", "GET", "http://example.org/robots.txt", "ExampleBot/1.0"],
        ["301", "GET", "http://example.org/old-tea", "ExampleBot/1.0"],
        ["200", "GET", "http://example.org/tea", "ExampleBot/1.0"],
        ["200", "GET", PLAN.sites[0].root + "/robots.txt", "ExampleBot/1.0"],
        ["200", "GET", other.url, "ExampleBot/1.0"],
    ]
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        rest = await process.communicate()
    assert (process.returncode, rest) == (0, (b"", b""))


async def test_every_url_is_answered() -> None:
    """Never by a proxy that hangs up: the reader would look for the mistake in his program."""
    wanted = {
        "http://example.com/no-such-page": 404,
        "http://no-such-site.example/": 502,
        "http://www.example.net/robots.txt": 500,
        "http://example.net/busy": 429,
    }
    async with serving() as session:
        for url, status in wanted.items():
            async with session.get(url) as response:
                assert response.status == status
        # A page that has not changed is confirmed without its body.
        async with session.get("http://example.org/") as response:
            etag = {"If-None-Match": response.headers["ETag"]}
        for url, status in (("http://example.org/", 304), ("http://example.org/tea", 200)):
            async with session.get(url, headers=etag) as response:
                assert response.status == status
        # There is no https.
        with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
            await session.get("https://example.org/")
        assert refused.value.status == 502


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"\x00\xff\x16", b"400"),
        (b"GET http://EXAMPLE.org:80/tea HTTP/1.0", b"200"),
        (b"GET / HTTP/1.0\r\nHost: a:99999", b"500"),
        (b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example:443", b"502"),
    ],
)
async def test_an_odd_request_is_answered(
    request_line: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no request at all is not told with a traceback."""
    async with listening(SiteServer(PLAN, lambda _request, _visit: None), 0) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(request_line + b"\r\n\r\n")
        assert status in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_a_tunnel_to_plain_http_is_one() -> None:
    """Node.js asks for it."""
    async with listening(SiteServer(PLAN, lambda _request, _visit: None), 0) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /tea HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
        assert b"<title>Tea</title>" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_the_sites_are_as_peculiar_as_their_names() -> None:
    """On the wire: compressed if the client takes it, cut off, busy, redirected, and with paths that clients escape."""
    zipped, torn, chain = _site("gzip in gzip"), _site("robots.txt cut off"), _site("five redirects")
    busy, dated = _site("429, Retry-After: 2"), _site("Retry-After with a date")
    async with serving(auto_decompress=False) as session:
        async with session.get(zipped.root + "/robots.txt") as response:
            assert response.headers["Content-Encoding"] == "gzip, gzip"
            assert gzip.decompress(gzip.decompress(await response.read())) == zipped.robots.content("")
        for refusal in ("identity", "gzip;q=0", "gzip; q=0.00, br"):
            async with session.get(
                zipped.root + "/robots.txt?again", headers={"Accept-Encoding": refusal}
            ) as response:
                assert (response.headers.get("Content-Encoding"), await response.text()) == (
                    None,
                    zipped.robots.text,
                )
        async with session.get(torn.root + "/robots.txt") as response:
            assert (response.status, response.content_length) == (200, 2000)
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        async with session.get(chain.root + "/robots.txt") as response:
            assert (len(response.history), await response.text()) == (5, chain.robots.text)
        for site in (busy, dated):
            answers = []
            for _ in range(3):
                async with session.get(site.root + site.pages[0].path) as response:
                    answers.append((response.status, response.headers.get("Retry-After")))
            assert [status for status, _ in answers] == [200, 429, 200]
            pause = answers[1][1] or ""
            assert pause == "2" or 1.9 <= parsedate_to_datetime(pause).timestamp() - time.time() <= 3.0
        parked = _site("parking host", 1).root + "/robots.txt"
        async with session.get(parked, allow_redirects=False) as response:
            assert response.headers["Location"] == _site("parking host").root + "/robots.txt"
        for name in ("é, plain in a rule", "é, escaped in a rule", "an escape in a URL", "%2F in a rule"):
            for page in _site(name).pages:
                async with session.get(_site(name).root + page.path) as response:
                    assert response.status == 200


async def test_a_robots_txt_changes_after_a_second() -> None:
    """As its max-age says; other files stay as they are."""
    site = _site("robots.txt that changes")
    texts: list[str] = []
    async with serving() as session:
        while texts[:1] == texts[-1:]:
            async with session.get(site.root + "/robots.txt") as response:
                assert response.headers["Cache-Control"] == "max-age=1"
                texts.append(await response.text())
    assert len(texts) > 2
    assert "Disallow: /news/\n" in texts[-1]


async def test_the_rules_are_written_for_whoever_asks_first() -> None:
    """By the name in its User-Agent; what a browser asks of its maker's host does not count."""
    for agent, token in (
        ("Foo-Bot/2.0 (+https://a.example)", "Foo-Bot"),
        ("Mozilla/5.0 (compatible; Bar/1)", "Bar"),
        ("MJ12bot/v1.4.8", "MJ12bot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101", "unknown"),
        ("", "unknown"),
    ):
        async with serving() as session:
            site = _site("a group of its own").root + "/robots.txt"
            async with session.get("http://updates.example/", headers={"User-Agent": "Other/1"}) as response:
                assert response.status == 502
            async with session.get(site, headers={"User-Agent": agent}) as response:
                assert f"User-agent: {token}\n" in await response.text()


async def test_pages_that_ask_for_signatures_get_them() -> None:
    """Only requests with a valid signature of a key that is known, for this host, now; robots.txt is for all."""
    site = _site("asks for signatures")
    url = site.root + site.pages[-1].path
    key = SigningKey.generate()
    signer = Ed25519Signer(key, agent_url="https://bot.test")
    good = dict(signer.headers("GET", url, time.time()))
    other = Ed25519Signer(SigningKey.generate(), agent_url="https://bot.test")
    whole = Ed25519Signer(
        key,
        agent_url="https://bot.test",
        form=AgentForm.IETF_00,
        components=("@method", "@target-uri"),
        label="b",
    )
    tried = [
        ({}, 403),
        (good, 200),
        (dict(whole.headers("GET", url, time.time())), 200),
        (whole.headers("POST", url, time.time()), 403),
        (whole.headers("GET", f"{url}?", time.time()), 403),
        (good | {"Signature-Agent": '"https://thief.test"'}, 403),
        (good | {"Signature": "sig1=:AAAA:"}, 403),
        (good | {"Signature": "?"}, 403),
        (signer.headers("GET", "http://other.test/", time.time()), 403),
        (signer.headers("GET", url, time.time() - 100), 403),
        (other.headers("GET", url, time.time()), 403),
    ]
    async with serving(SigningKey.generate(), key) as session:
        for headers, status in tried:
            async with session.get(url, headers=headers) as response:
                assert response.status == status
                assert "web-bot-auth" in response.headers["Accept-Signature"]
        async with session.get(site.root + "/robots.txt") as response:
            assert response.status == 200


async def test_the_sitemap_is_one() -> None:
    """A parser of the protocol finds its URLs, and each of them is a page."""
    async with serving() as session:
        async with session.get("http://example.org/sitemap.xml") as response:
            assert response.content_type == "application/xml"
            root = ET.fromstring(await response.read())
        name = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
        assert root.tag == f"{name}urlset"
        urls = [location.text or "" for location in root.iterfind(f"{name}url/{name}loc")]
        assert len(urls) == 3
        for url in urls:
            async with session.get(url) as response:
                assert response.status == 200


def test_the_urls_of_the_sites_can_be_listed() -> None:
    """One a line, as a crawler takes them; without those with https, which --serve does not serve."""
    ended = CliRunner().invoke(demo, ["--list", "--pages", "500"])

    assert ended.exit_code == 0
    served = {url for url in PLAN.urls if url.startswith("http:")}
    listed = set(ended.output.splitlines())
    assert {*served, "http://example.org/"} < listed
    assert listed.isdisjoint({*PLAN.urls} - served)


def test_a_port_that_is_taken() -> None:
    """One line that names the option, and no traceback."""
    with socket.create_server((LOOPBACK, 0)) as other:
        port = str(other.getsockname()[1])
        ended = CliRunner().invoke(robotgate, ["demo", "--serve", "--port", port])
    assert ended.exit_code == 2
    assert f"Error: port {port} cannot be used (address already in use): see --port\n" in ended.output


@pytest.mark.parametrize("option", [("--workers", "2"), ("--json", "-")])
def test_options_of_a_crawl_do_not_go_with_it(option: tuple[str, str]) -> None:
    """Nothing is crawled, so nothing could be shared or reported."""
    ended = CliRunner().invoke(demo, ["--serve", *option])
    assert ended.exit_code == 2
    assert "--serve and --list crawl nothing" in ended.output


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().rstrip()
