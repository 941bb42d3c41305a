"""The add-on in crawls of the real Scrapy, each in a process of its own. What counts is what the servers saw."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pytest
from aiohttp import web as aiohttp_web
from tests.conftest import AGENT, CONTACT
from tests.gate.network import Proxy
from tests.gate.servers import cut_off, endless, hang_up, silent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gate.servers import Web

ADDONS: Final = {"robotgate.integrations.scrapy.Addon": 300}
DELAY: Final = 0.3
LATE: Final = 0.05
"""Seconds. A server notes the end of an answer after its bytes have left. The crawl, another process, may have read
them by then. The delays here are well above."""
CRAWL: Final = "tests.integration.scrapy_crawl"
LEAKS: Final = ("Unclosed", "never retrieved", "was destroyed", "never awaited")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawled:
    """The result of a crawl, as Scrapy reports it."""

    code: int
    log: str
    seen: list[tuple[int, str]]
    refused: dict[str, tuple[str, str]]
    """By URL: the kind of the error, and its text."""
    failed: dict[str, tuple[str, str]]
    stats: dict[str, float]

    def told(self) -> dict[str, float]:
        """The statistics of the gate, without the times."""
        return {
            name.removeprefix("robotgate/"): value
            for name, value in self.stats.items()
            if name.startswith("robotgate/") and "seconds" not in name
        }


class Crawl(Protocol):
    """Crawls some URLs, or some requests given as `scrapy.Request` takes them."""

    async def __call__(self, *requests: str | dict[str, object], **settings: object) -> Crawled:
        """With a delay of 0.3 s, unless told otherwise."""
        ...


@pytest.fixture
def crawl() -> Crawl:
    """Runs Scrapy with the add-on."""

    async def crawl(*requests: str | dict[str, object], **settings: object) -> Crawled:
        wanted = [{"url": request} if isinstance(request, str) else request for request in requests]
        known = {
            "ADDONS": ADDONS,
            "ROBOTGATE_AGENT": AGENT,
            "ROBOTGATE_CONTACT": CONTACT,
            "ROBOTGATE_OPTIONS": {"delay": DELAY},
        }
        code, out, log = await run(
            "-m", CRAWL, stdin=json.dumps({"requests": wanted, "settings": {**known, **settings}})
        )
        assert [word for word in LEAKS if word in log] == []
        told = json.loads(out or "{}")
        return Crawled(
            code=code,
            log=log,
            seen=[(status, url) for status, url in told.get("seen", [])],
            refused={url: (kind, text) for url, kind, text in told.get("refused", [])},
            failed={url: (kind, text) for url, kind, text in told.get("failed", [])},
            stats=told.get("stats", {}),
        )

    return crawl


async def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Run Python to its end: exit code, standard output and standard error."""
    async with asyncio.timeout(60):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, log = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return process.returncode, out.decode(), log.decode()


@pytest.fixture
def one(web: Web) -> str:
    """A site with a disallowed folder."""
    site = f"http://one.test:{web.port}"
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private\n")
    return site


@pytest.fixture
def two(web: Web) -> str:
    """A site without robots.txt, on another host."""
    return f"http://two.test:{web.port}"


async def test_disallowed_pages_are_never_asked_for(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """A disallowed page is not sent, nor is one behind a redirect. The error and the log name the rule and the URL."""
    web.redirect(f"{two}/moved", f"{one}/private/2")
    crawled = await crawl(f"{one}/", f"{one}/private/1", f"{two}/moved", ROBOTGATE_OPTIONS={"delay": 0})
    assert sorted(web.urls) == sorted([f"{one}/robots.txt", f"{one}/", f"{two}/robots.txt", f"{two}/moved"])
    for asked, refused in ((f"{one}/private/1", f"{one}/private/1"), (f"{two}/moved", f"{one}/private/2")):
        kind, text = crawled.refused[asked]
        assert kind == "DisallowedError"
        assert text == f"{refused} is disallowed by line 2 of its robots.txt: Disallow: /private"
        assert f"[robotgate.scrapy] INFO: <GET {refused}> is refused: {text}" in crawled.log
    assert crawled.told() == {"allowed": 2, "disallowed": 2, "robots_fetched": 2, "turns": 2}
    assert "Traceback" not in crawled.log


@pytest.mark.slow
async def test_next_crawl_goes_on_where_the_last_one_ended(
    web: Web, one: str, crawl: Crawl, tmp_path: Path
) -> None:
    """With a store in a file, a second crawl knows the robots.txt, and waits for the delay that the first one left."""
    options = {"delay": 2.0, "store": str(tmp_path / "cache.db")}
    last = await crawl(f"{one}/1", ROBOTGATE_OPTIONS=options)
    following = await crawl(f"{one}/2", ROBOTGATE_OPTIONS=options)
    assert last.seen + following.seen == [(200, f"{one}/1"), (200, f"{one}/2")]
    assert web.urls == [f"{one}/robots.txt", f"{one}/1", f"{one}/2"]
    assert min(web.gaps("one.test")) >= 2 - LATE
    assert following.told() == {"allowed": 1, "turns": 1}
    assert "Traceback" not in last.log + following.log


async def test_path_that_servers_may_read_otherwise_is_refused(web: Web, one: str, crawl: Crawl) -> None:
    """A URL with a dot segment in its path is refused: Scrapy sends it unchanged, and servers resolve it."""
    paths = ["/private/%2e%2e/ok", "/private/../ok", "/ok/.%2E?x", "/./ok", "/ok/."]
    dotted, plain = [f"{one}{path}" for path in paths], f"{one}/ok?/../x"
    moved = [f"{one}/moved/{number}" for number in range(len(paths))]
    for url, target in zip(moved, dotted, strict=True):
        web.redirect(url, target)
    crawled = await crawl(*dotted, *moved, plain, ROBOTGATE_OPTIONS={"delay": 0})
    assert sorted(web.urls) == sorted([f"{one}/robots.txt", *moved, plain])
    assert {url: kind for url, (kind, _) in crawled.refused.items()} == dict.fromkeys(
        [*dotted, *moved], "InvalidURLError"
    )
    assert crawled.told()["refused"] == 2 * len(paths)


async def test_delay_holds_from_the_end_of_each_response(web: Web, one: str, crawl: Crawl) -> None:
    """The delay holds after robots.txt, redirects, failures and retries as after any page."""
    web.serve(f"{one}/slow", takes=0.2)
    web.serve(f"{one}/broken", status=500)
    web.redirect(f"{one}/moved", f"{one}/there")
    crawled = await crawl(*(f"{one}/{name}" for name in ("slow", "broken", "moved", "a")), RETRY_TIMES=1)
    assert web.count(f"{one}/robots.txt") == 1
    assert web.count(f"{one}/broken") == 2
    gaps = web.gaps("one.test")
    assert len(gaps) == 6
    assert min(gaps) >= DELAY - LATE
    assert crawled.stats["robotgate/waited_seconds"] >= DELAY * 6 * 0.8
    assert [url for _, url in crawled.seen] == [f"{one}/slow", f"{one}/there", f"{one}/a"]


async def test_download_timeout_does_not_count_the_wait(web: Web, one: str, crawl: Crawl) -> None:
    """A page whose turn comes later than `DOWNLOAD_TIMEOUT` is sent in its turn."""
    crawled = await crawl(f"{one}/", ROBOTGATE_OPTIONS={"delay": 0.9}, DOWNLOAD_TIMEOUT=0.6)
    assert crawled.seen == [(200, f"{one}/")]
    assert min(web.gaps("one.test")) >= 0.9 - LATE


async def test_hosts_are_served_side_by_side(web: Web, crawl: Crawl) -> None:
    """Twenty hosts are crawled at once: the first page of each is sent before any first page is answered."""
    hosts = [f"site-{number}.test" for number in range(20)]
    all_asked = asyncio.Barrier(len(hosts))

    async def answer(_: aiohttp_web.Request) -> aiohttp_web.StreamResponse:
        await all_asked.wait()
        return aiohttp_web.Response()

    for host in hosts:
        web.handle(f"http://{host}:{web.port}/0", answer)
    crawled = await crawl(*(f"http://{host}:{web.port}/{page}" for host in hosts for page in range(3)))
    assert len(crawled.seen) == 20 * 3
    assert all(min(web.gaps(host)) >= DELAY - LATE for host in hosts)


@pytest.mark.slow
async def test_slow_host_takes_no_places_of_others(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """With two places in all, the pages of a slow host take one, and the other host's pages go on."""
    web.serve(f"{one}/robots.txt", "User-agent: *\nCrawl-delay: 1.5")
    for page in range(5):
        link = f'<a href="{page + 1}">the next</a>'
        web.serve(f"{two}/{page}", link, headers={"Content-Type": "text/html"})
    await crawl(
        *(f"{one}/{page}" for page in range(2)),
        f"{two}/0",
        ROBOTGATE_OPTIONS={"delay": 0},
        CONCURRENT_REQUESTS=2,
    )
    assert min(web.gaps("one.test")) >= 1.5 - LATE
    pages = [url for url in web.urls if not url.endswith("/robots.txt")]
    assert pages == [*(f"{two}/{page}" for page in range(6)), f"{one}/0", f"{one}/1"]


async def test_429_holds_the_whole_host(web: Web, one: str, crawl: Crawl) -> None:
    """After a 429, the retry and the other pages of the host wait as long as Retry-After says."""
    answers = iter([aiohttp_web.Response(status=429, headers={"Retry-After": "1"})])

    async def answer(_: aiohttp_web.Request) -> aiohttp_web.StreamResponse:
        return next(answers, aiohttp_web.Response())

    web.handle(f"{one}/1", answer)
    crawled = await crawl(f"{one}/1", f"{one}/2", ROBOTGATE_OPTIONS={"delay": 0})
    assert web.count(f"{one}/1") == 2
    first = web.urls.index(f"{one}/1")
    assert web.gaps("one.test")[first] >= 1 - LATE
    assert sorted(crawled.seen) == [(200, f"{one}/1"), (200, f"{one}/2")]
    assert crawled.told()["hosts_blocked"] == 1


async def test_dropped_connection_is_not_sent_again_in_the_same_turn(
    web: Web, one: str, crawl: Crawl
) -> None:
    """A request that is lost with a kept connection is sent again by Scrapy's retry only, in a turn of its own."""
    web.handle(f"{one}/dropped", hang_up())
    crawled = await crawl(f"{one}/dropped", RETRY_TIMES=1)
    assert web.urls == [f"{one}/robots.txt", *[f"{one}/dropped"] * 2]
    assert min(web.gaps("one.test")) >= DELAY - LATE
    assert crawled.failed.keys() == {f"{one}/dropped"}
    assert crawled.told()["turns"] == 2


async def test_block_longer_than_max_block_is_refused(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """A host that asks for more time than `max_block` has its retries and its other pages refused."""
    web.serve(f"{one}/1", status=429, headers={"Retry-After": "5"})
    web.serve(f"{two}/1", status=503, headers={"Retry-After": "3600"})
    pages = [f"{one}/1", f"{two}/1", *(f"{one}/{page}" for page in (2, 3))]
    crawled = await crawl(*pages, ROBOTGATE_OPTIONS={"delay": 0, "max_block": 1})
    assert web.counts() == dict.fromkeys(
        [f"{one}/robots.txt", f"{one}/1", f"{two}/robots.txt", f"{two}/1"], 1
    )
    assert {url: kind for url, (kind, _) in crawled.refused.items()} == dict.fromkeys(
        pages, "HostUnavailableError"
    )
    assert crawled.told()["unavailable"] == 4


async def test_max_wait_bounds_all_waits(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """With `max_wait`, a late turn is refused; a page that times out is retried, and costs no other page."""
    web.handle(f"{one}/1", silent())
    web.serve(f"{two}/robots.txt", "User-agent: *\nCrawl-delay: 5")
    options = {"delay": 0, "max_wait": 1}
    crawled = await crawl(f"{one}/1", f"{one}/2", f"{two}/1", ROBOTGATE_OPTIONS=options, DOWNLOAD_TIMEOUT=0.5)
    assert web.counts() == {f"{one}/robots.txt": 1, f"{one}/1": 3, f"{one}/2": 1, f"{two}/robots.txt": 1}
    assert {url: kind for url, (kind, _) in crawled.refused.items()} == {f"{two}/1": "TooSoonError"}
    assert crawled.told()["too_soon"] == 1


async def test_unreadable_robots_txt_closes_its_site(web: Web, crawl: Crawl) -> None:
    """A robots.txt with a 5xx, a cut-off or garbled body, or no server closes its site, and the error says why."""
    sites = {name: f"http://{name}.test:{web.port}" for name in ("broken", "half", "garbage", "nowhere")}
    web.serve(f"{sites['broken']}/robots.txt", status=500)
    web.handle(f"{sites['half']}/robots.txt", cut_off(b"User-agent: *\nDisallow:", length=1000))
    web.serve(f"{sites['garbage']}/robots.txt", b"no gzip", headers={"Content-Encoding": "gzip"})
    crawled = await crawl(*(f"{site}/" for site in sites.values()), "http://one.test:1/")
    assert [url for url in web.urls if not url.endswith("/robots.txt")] == []
    assert set(web.counts().values()) == {1}
    assert {kind for kind, _ in crawled.refused.values()} == {"HostUnavailableError"}
    assert len(crawled.refused) == 5
    assert "it refuses connections" in crawled.refused["http://one.test:1/"][1]
    assert "its name cannot be resolved" in crawled.refused[f"{sites['nowhere']}/"][1]
    assert "HTTP status 500" in crawled.refused[f"{sites['broken']}/"][1]
    assert f"[robotgate.scrapy] INFO: <GET {sites['broken']}/> is refused: broken.test is" in crawled.log
    assert crawled.told() == {
        "hosts_blocked": 2,
        "robots_fetched": 5,
        "robots_unreachable": 5,
        "unavailable": 5,
    }


async def test_robots_txt_may_be_hostile(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """An endless robots.txt is stopped, a compressed bomb is not expanded, and their first rules hold. The body
    of a 404 is not read.
    """
    three = f"http://three.test:{web.port}"
    web.serve(f"{three}/robots.txt", b"no gzip", status=404, headers={"Content-Encoding": "gzip"})
    web.handle(f"{one}/robots.txt", endless(b"User-agent: *\nDisallow: /private\n"))
    bomb = gzip.compress(b"User-agent: *\nDisallow: /private\n" + b"#" * 50_000_000)
    web.serve(f"{two}/robots.txt", bomb, headers={"Content-Encoding": "gzip"})
    crawled = await crawl(
        *(f"{site}/{page}" for site in (one, two) for page in ("private", "open")), f"{three}/"
    )
    assert set(crawled.refused) == {f"{one}/private", f"{two}/private"}
    assert sorted(crawled.seen) == [(200, f"{one}/open"), (200, f"{three}/"), (200, f"{two}/open")]


async def test_robots_txt_in_other_forms_is_read(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """With a charset for its encoding, and compressed without a word of it; what is no text closes its site."""
    three = f"http://three.test:{web.port}"
    rules = b"User-agent: *\nDisallow: /private\n"
    web.serve(f"{one}/robots.txt", rules, headers={"Content-Encoding": "utf-8"})
    web.serve(f"{two}/robots.txt", gzip.compress(rules))
    web.serve(f"{three}/robots.txt", bytes(range(256)), headers={"Content-Encoding": "utf-8"})
    crawled = await crawl(*(f"{site}/{page}" for site in (one, two, three) for page in ("private", "open")))
    refused = {f"{one}/private", f"{two}/private", f"{three}/private", f"{three}/open"}
    assert set(crawled.refused) == refused
    assert sorted(crawled.seen) == [(200, f"{one}/open"), (200, f"{two}/open")]


async def test_robots_txt_may_redirect(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """A robots.txt may redirect to another host: the file binds the first site, and the hop waits for its own host."""
    web.redirect(f"{two}/robots.txt", f"{one}/robots.txt")
    crawled = await crawl(f"{two}/private", f"{two}/open", f"{one}/open")
    assert set(crawled.refused) == {f"{two}/private"}
    assert web.count(f"{one}/robots.txt") == 2
    assert min(web.gaps("one.test")) >= DELAY - LATE
    assert crawled.stats["downloader/response_status_count/302"] == 1


async def test_robots_txt_that_leads_astray_closes_its_site(web: Web, one: str, crawl: Crawl) -> None:
    """A robots.txt that redirects to a private address closes its site with a `DisallowedError`."""
    web.redirect(f"{one}/robots.txt", f"http://127.0.0.1:{web.port}/robots.txt")
    crawled = await crawl(f"{one}/")
    assert web.urls == [f"{one}/robots.txt"]
    assert crawled.refused[f"{one}/"][0] == "DisallowedError"
    assert crawled.told()["disallowed"] == 1


async def test_request_that_need_not_obey_is_paced(web: Web, one: str, two: str, crawl: Crawl) -> None:
    """``dont_obey_robotstxt`` passes the rules, even unreadable ones, and keeps the delay."""
    web.serve(f"{two}/robots.txt", status=500)
    requests: list[dict[str, object]] = [
        {"url": f"{site}/private/{page}", "meta": {"dont_obey_robotstxt": True}}
        for site in (one, two)
        for page in "12"
    ]
    crawled = await crawl(*requests)
    assert len(crawled.seen) == 4
    assert all(min(web.gaps(host)) >= DELAY - LATE for host in ("one.test", "two.test"))


@pytest.mark.parametrize("chosen_by", ["middleware", "spider"])
async def test_robots_txt_takes_the_proxy_of_the_pages(web: Web, crawl: Crawl, chosen_by: str) -> None:
    """A robots.txt goes through the proxy of its pages, with its password, whether a middleware or the spider chose it.

    The site has no address here, so a request that does not go through the proxy fails.
    """
    page, proxy = "http://nowhere.test/", f"http://user:word@127.0.0.1:{web.port}"
    chosen: dict[str, object] = {"DOWNLOADER_MIDDLEWARES": {f"{CRAWL}.ByProxy": 700}, "PROXY": proxy}
    by_spider = chosen_by == "spider"
    crawled = await crawl(
        {"url": page, "meta": {"proxy": proxy}} if by_spider else page,
        ROBOTGATE_OPTIONS={"delay": 0},
        **({} if by_spider else chosen),
    )
    assert [visit.url.partition("http://nowhere.test")[2][-11:] for visit in web.visits] == [
        "/robots.txt",
        page[-11:],
    ]
    assert [visit.headers.get("Proxy-Authorization") for visit in web.visits] == ["Basic dXNlcjp3b3Jk"] * 2
    assert crawled.seen == [(200, page)]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_site_sees_the_proxy_of_the_spider_only(web: Web, crawl: Crawl, scheme: str) -> None:
    """robots.txt, pages and redirected pages take the proxy that the spider gives; by a tunnel for https."""
    proxy = Proxy(web)
    await proxy.open()
    site = f"{scheme}://nowhere.test"
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private")
    web.redirect(f"{site}/moved", f"{site}/private/2")
    requests: list[dict[str, object]] = [
        {"url": f"{site}/{path}", "meta": {"proxy": proxy.url}} for path in ("", "private/1", "moved")
    ]
    crawled = await crawl(*requests, ROBOTGATE_OPTIONS={"delay": 0})
    await proxy.close()
    assert crawled.seen == [(200, f"{site}/")]
    assert set(crawled.refused) == {f"{site}/private/1", f"{site}/moved"}
    assert f"{site}/private/2 is disallowed by line 2" in crawled.log
    assert sorted(web.urls) == sorted([f"{site}/robots.txt", f"{site}/", f"{site}/moved"])
    if scheme == "http":
        assert sorted(proxy.served) == sorted(f"GET {url}" for url in web.urls)
    else:
        assert set(proxy.served) == {"CONNECT nowhere.test:443"}


async def test_delay_of_scrapy_is_warned_of_once(one: str, crawl: Crawl) -> None:
    """The log says what to write instead, once for a crawl; without the setting it says nothing."""
    crawled = await crawl(f"{one}/1", f"{one}/2", ROBOTGATE_OPTIONS={"delay": 0}, DOWNLOAD_DELAY=0.1)
    assert len(crawled.seen) == 2
    assert crawled.log.count("[robotgate.scrapy] WARNING: DOWNLOAD_DELAY=0.1") == 1
    assert "ROBOTGATE_OPTIONS = {'delay': 0.1}" in crawled.log
    assert "WARNING: DOWNLOAD_DELAY" not in (await crawl(f"{one}/3")).log


async def test_every_request_says_who_asks(web: Web, one: str, crawl: Crawl) -> None:
    """Every request has our User-Agent and From. Another User-Agent has to name the token, or nothing is sent."""
    crawled = await crawl(
        f"{one}/1",
        {
            "url": f"{one}/2",
            "headers": {"User-Agent": "Mozilla/5.0 (compatible; ExampleBot/2)", "From": "me@a.test"},
        },
        {"url": f"{one}/3", "headers": {"User-Agent": "Mozilla/5.0"}},
        ROBOTGATE_OPTIONS={"delay": 0},
    )
    agents = {visit.url.removeprefix(one): visit.headers["User-Agent"] for visit in web.visits}
    assert agents == {"/robots.txt": AGENT, "/1": AGENT, "/2": "Mozilla/5.0 (compatible; ExampleBot/2)"}
    contacts = [visit.headers.getall("From") for visit in web.visits]
    assert sorted(contacts) == [[CONTACT], [CONTACT], ["me@a.test"]]
    kind, text = crawled.failed[f"{one}/3"]
    assert kind == "OptionError"
    assert "does not name 'ExampleBot'" in text


async def test_cached_page_takes_no_turn(web: Web, one: str, tmp_path: Path, crawl: Crawl) -> None:
    """A page from Scrapy's HTTP cache takes no turn. robots.txt is never taken from it."""
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    first = await crawl(f"{one}/", **cache)
    again = await crawl(f"{one}/", **cache)
    assert first.seen == again.seen == [(200, f"{one}/")]
    assert web.count(f"{one}/") == 1
    assert again.told() == {"allowed": 1, "robots_fetched": 1}
    # The default policy of the cache would keep robots.txt for ever.
    assert web.count(f"{one}/robots.txt") == 2


async def test_handlers_of_others_send_what_has_its_turn(crawl: Crawl) -> None:
    """A download handler of another package is wrapped too, even one that returns Deferreds and has no `close`."""
    crawled = await crawl(
        "http://one.test/1", "http://one.test/one-by-one", DOWNLOAD_HANDLERS={"http": f"{CRAWL}.OldHandler"}
    )
    assert crawled.code == 0
    assert crawled.seen == [(200, "http://one.test/1"), (200, "http://one.test/one-by-one")]
    assert crawled.told()["turns"] == 2


async def test_more_may_be_under_way_at_one_host(web: Web, one: str, crawl: Crawl) -> None:
    """``concurrency_per_host`` raises Scrapy's own limits."""
    for page in range(4):
        web.serve(f"{one}/{page}", takes=0.7)
    await crawl(
        *(f"{one}/{page}" for page in range(4)),
        ROBOTGATE_OPTIONS={"delay": DELAY, "concurrency_per_host": 2},
    )
    assert web.peak() == 2


async def test_parser_alone_serves_scrapys_own_middleware(web: Web, one: str, crawl: Crawl) -> None:
    """With ``ROBOTSTXT_PARSER`` alone, Scrapy's own middleware applies our rules."""
    crawled = await crawl(
        f"{one}/open",
        f"{one}/private",
        ADDONS={},
        ROBOTSTXT_OBEY=True,
        ROBOTSTXT_PARSER="robotgate.integrations.scrapy.RobotParser",
    )
    assert sorted(web.urls) == [f"{one}/open", f"{one}/robots.txt"]
    assert crawled.failed[f"{one}/private"] == ("IgnoreRequest", "Forbidden by robots.txt")
    assert crawled.stats["robotstxt/forbidden"] == 1


async def test_wrong_setting_stops_the_crawl(web: Web, one: str, crawl: Crawl) -> None:
    """A wrong option ends the crawl before its first request, and the log names the setting."""
    crawled = await crawl(f"{one}/", ROBOTGATE_OPTIONS={"delya": 2})
    assert crawled.code == 1
    assert re.search(r"OptionError: ROBOTGATE_OPTIONS: unexpected keyword argument 'delya'", crawled.log)
    assert web.urls == []


async def test_other_reactors_are_refused(web: Web, one: str, crawl: Crawl) -> None:
    """A reactor other than asyncio's ends the crawl before its first request, and the log names the setting."""
    crawled = await crawl(f"{one}/", TWISTED_REACTOR="twisted.internet.selectreactor.SelectReactor")
    assert crawled.code == 1
    assert "OptionError: TWISTED_REACTOR: robotgate needs 'twisted.internet.asyncioreactor" in crawled.log
    assert web.urls == []


async def test_shell_passes_the_gate(web: Web) -> None:
    """``scrapy shell`` with the add-on fetches robots.txt before its page."""
    settings = {
        "ADDONS": json.dumps(ADDONS),
        "ROBOTGATE_AGENT": AGENT,
        "ROBOTGATE_CONTACT": CONTACT,
        "ROBOTGATE_OPTIONS": '{"delay": 0, "allow_private_addresses": true}',
    }
    site = f"http://127.0.0.1:{web.port}"
    web.serve(f"{site}/", "hello")
    options = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    code, out, log = await run("-m", "scrapy", "shell", *options, "-c", "response.text", f"{site}/")
    assert code == 0, log
    assert out.strip() == "hello"
    assert web.urls == [f"{site}/robots.txt", f"{site}/"]
    assert [word for word in LEAKS if word in log] == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxy_that_asks_for_credentials_opens_no_site(web: Web, crawl: Crawl, scheme: str) -> None:
    """For robots.txt or for a page: the request fails by the proxy's name, and nothing is fetched."""
    proxy = Proxy(web)
    await proxy.open()
    site, url = f"{scheme}://nowhere.test", proxy.url
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private")
    request: dict[str, object] = {
        "url": f"{site}/private",
        "meta": {"proxy": url.replace("//", "//user:word@")},
    }
    proxy.refuses = f"{site}/robots.txt" if scheme == "http" else "nowhere.test:443"
    refused = await crawl(request, ROBOTGATE_OPTIONS={"delay": 0})
    proxy.refuses = f"{site}/page" if scheme == "http" else proxy.refuses
    page = await crawl({**request, "url": f"{site}/page"}, ROBOTGATE_OPTIONS={"delay": 0})
    await proxy.close()
    for crawled in (refused, page):
        ((_, text),) = crawled.refused.values()
        assert crawled.seen == []
        assert f"nowhere.test was not reached: the proxy {url} " in text
        assert "word" not in text
        assert crawled.stats["robotgate/proxy_failed"] == 1
