"""The add-on in crawls of the real Scrapy, each in a process of its own. What counts is what the servers saw."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

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
RULES: Final = b"User-agent: *\nDisallow: /private\n"
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


async def crawl(*requests: str | dict[str, object], key: Path | None = None, **settings: object) -> Crawled:
    """Run Scrapy with the add-on, and a delay of 0.3 s unless told otherwise.

    Args:
        requests: URLs, or what `scrapy.Request` takes.
        key: the file of a key to sign with.
    """
    spec = {
        "requests": [{"url": request} if isinstance(request, str) else request for request in requests],
        "settings": {
            "ADDONS": ADDONS,
            "ROBOTGATE_AGENT": AGENT,
            "ROBOTGATE_CONTACT": CONTACT,
            "ROBOTGATE_OPTIONS": {"delay": DELAY},
            **settings,
        },
        "key": None if key is None else str(key),
    }
    code, out, log = await run("-m", CRAWL, stdin=json.dumps(spec))
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
    return site_of(web, "one", RULES)


@pytest.fixture
def two(web: Web) -> str:
    """A site without robots.txt, on another host."""
    return site_of(web, "two")


def site_of(web: Web, name: str, robots: bytes | None = None, **headers: str) -> str:
    """A site, with a robots.txt if one is given; ``_`` in the name of a header stands for a hyphen."""
    site = f"http://{name}.test:{web.port}"
    if robots is not None:
        web.serve(
            f"{site}/robots.txt",
            robots,
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )
    return site


async def test_what_may_not_be_fetched_is_never_asked_for(web: Web, one: str, two: str) -> None:
    """Nor what is behind a redirect. The error and the log name the rule and the URL, and DOWNLOAD_DELAY is warned of.

    A URL with a dot segment is refused, as Scrapy sends it unchanged, and servers resolve it; so is a request whose
    User-Agent does not name us. All others have our User-Agent and From.
    """
    dotted = [f"{one}{path}" for path in ("/private/%2e%2e/ok", "/ok/../x", "/ok/.%2E?x", "/./ok", "/ok/.")]
    moved = [f"{two}/moved/{number}" for number in range(len(dotted))]
    for url, target in zip([*moved, f"{two}/moved"], [*dotted, f"{one}/private/2"], strict=True):
        web.redirect(url, target)
    own = "Mozilla/5.0 (compatible; ExampleBot/2)"
    crawled = await crawl(
        *(f"{one}/", f"{one}/private/1", f"{two}/moved", f"{one}/ok?/../x", *dotted, *moved),
        {"url": f"{one}/2", "headers": {"User-Agent": own, "From": "me@a.test"}},
        {"url": f"{one}/3", "headers": {"User-Agent": "Mozilla/5.0"}},
        ROBOTGATE_OPTIONS={"delay": 0},
        DOWNLOAD_DELAY=0.01,
    )
    pages = [f"{one}/", f"{two}/moved", f"{one}/ok?/../x", f"{one}/2", *moved]
    assert sorted(web.urls) == sorted([f"{one}/robots.txt", f"{two}/robots.txt", *pages])
    for asked, refused in ((f"{one}/private/1", f"{one}/private/1"), (f"{two}/moved", f"{one}/private/2")):
        kind, text = crawled.refused.pop(asked)
        assert kind == "DisallowedError"
        assert text == f"{refused} is disallowed by line 2 of its robots.txt: Disallow: /private"
        assert f"[robotgate.scrapy] INFO: <GET {refused}> is refused: {text}" in crawled.log
    kinds = {url: kind for url, (kind, _) in crawled.refused.items()}
    assert kinds == dict.fromkeys([*dotted, *moved], "InvalidURLError")
    kind, text = crawled.failed[f"{one}/3"]
    assert (kind, "does not name 'ExampleBot'" in text) == ("OptionError", True)
    assert {(visit.headers["User-Agent"], visit.headers["From"]) for visit in web.visits} == {
        (AGENT, CONTACT),
        (own, "me@a.test"),
    }
    assert crawled.told() == {
        "allowed": len(pages) + 1,
        "disallowed": 2,
        "refused": 10,
        "robots_fetched": 2,
        "turns": len(pages),
    }
    assert crawled.log.count("[robotgate.scrapy] WARNING: DOWNLOAD_DELAY=0.01") == 1
    assert "ROBOTGATE_OPTIONS = {'delay': 0.01}" in crawled.log


async def test_robots_txt_decides_whatever_it_is(web: Web) -> None:
    """Unreadable, it closes its site; endless, compressed, a bomb or in another form, its first rules hold.

    It may redirect to another host, but not to a private address; the body of a 404 is not read. It is requested once
    more if a connection is closed before an answer: Scrapy keeps connections, and this one may have been idle.
    """
    bomb = gzip.compress(RULES + b"#" * 10_000_000, 1)
    broken = site_of(web, "broken")
    web.serve(f"{broken}/robots.txt", status=500)
    half = site_of(web, "half")
    web.handle(f"{half}/robots.txt", cut_off(b"User-agent: *\nDisallow:", length=1000))
    shut = {
        broken: "HTTP status 500",
        half: "",
        site_of(web, "garbage", b"no gzip", Content_Encoding="gzip"): "",
        site_of(web, "binary", bytes(range(256)), Content_Encoding="utf-8"): "",
        site_of(web, "nowhere"): "its name cannot be resolved",
        "http://one.test:1": "it refuses connections",
    }
    endless_one, elsewhere, astray, missing = (
        site_of(web, name) for name in ("endless", "to", "astray", "no")
    )
    web.handle(f"{endless_one}/robots.txt", endless(RULES * 1000))
    web.redirect(f"{elsewhere}/robots.txt", f"{endless_one}/robots.txt")
    web.redirect(f"{astray}/robots.txt", f"http://127.0.0.1:{web.port}/robots.txt")
    web.serve(f"{missing}/robots.txt", b"no gzip", status=404, headers={"Content-Encoding": "gzip"})
    idle = site_of(web, "idle")
    closing = [hang_up()]

    async def closed_once(request: aiohttp_web.Request) -> aiohttp_web.StreamResponse:
        return await closing.pop()(request) if closing else aiohttp_web.Response(body=RULES)

    web.handle(f"{idle}/robots.txt", closed_once)
    ruled = [
        idle,
        endless_one,
        elsewhere,
        site_of(web, "bomb", bomb, Content_Encoding="gzip"),
        site_of(web, "named", RULES, Content_Encoding="utf-8"),
        site_of(web, "packed", gzip.compress(RULES)),
    ]
    crawled = await crawl(
        *(f"{site}/" for site in (*shut, astray, missing)),
        *(f"{site}/{page}" for site in ruled for page in ("private", "open")),
        ROBOTGATE_OPTIONS={"delay": 0},
    )
    assert sorted(crawled.seen) == sorted([(200, f"{missing}/"), *((200, f"{site}/open") for site in ruled)])
    assert {url: kind for url, (kind, _) in crawled.refused.items()} == (
        dict.fromkeys((f"{site}/" for site in shut), "HostUnavailableError")
        | dict.fromkeys((f"{astray}/", *(f"{site}/private" for site in ruled)), "DisallowedError")
    )
    pages = sorted(url for url in web.urls if not url.endswith("/robots.txt"))
    assert pages == sorted(url for _, url in crawled.seen)
    for site, why in shut.items():
        assert why in crawled.refused[f"{site}/"][1]
    assert {web.count(f"{site}/robots.txt") for site in (*ruled[2:], *list(shut)[:4], astray)} == {1}
    assert web.count(f"{idle}/robots.txt") == 2
    assert (crawled.told()["robots_unreachable"], crawled.told()["unavailable"]) == (len(shut) + 1, len(shut))


async def test_turns_are_paced(web: Web, one: str, two: str) -> None:
    """The delay holds from the end of each response, robots.txt, redirects, failures and retries included.

    ``dont_obey_robotstxt`` passes the rules, even unreadable ones, and keeps the delay. Twenty hosts are crawled at
    once: the first page of each is sent before any is answered. A lost request is sent again by Scrapy's retry only.
    """
    web.serve(f"{one}/slow", takes=0.2)
    web.serve(f"{one}/broken", status=500)
    web.redirect(f"{one}/moved", f"{one}/there")
    web.serve(f"{two}/robots.txt", status=500)
    lost = f"{site_of(web, 'lost')}/dropped"
    web.handle(lost, hang_up())
    hosts = [f"site-{number}" for number in range(20)]
    all_asked = asyncio.Barrier(len(hosts))

    async def answer(_: aiohttp_web.Request) -> aiohttp_web.StreamResponse:
        await all_asked.wait()
        return aiohttp_web.Response()

    for host in hosts:
        web.handle(f"{site_of(web, host)}/0", answer)
    disobeying: list[dict[str, object]] = [
        {"url": f"{two}/private/{page}", "meta": {"dont_obey_robotstxt": True}} for page in "12"
    ]
    crawled = await crawl(
        *(f"{one}/{name}" for name in ("slow", "broken", "moved", "a")),
        *disobeying,
        *(f"{site_of(web, host)}/{page}" for host in hosts for page in range(2)),
        lost,
        RETRY_TIMES=1,
    )
    assert (web.count(f"{one}/robots.txt"), web.count(f"{one}/broken"), web.count(lost)) == (1, 2, 2)
    names = [f"{host}.test" for host in ("one", "two", "lost", *hosts)]
    assert [len(web.gaps(name)) for name in names] == [6, 2, 2, *[2] * len(hosts)]
    assert min(gap for name in names for gap in web.gaps(name)) >= DELAY - LATE
    assert len(crawled.seen) == 3 + 2 + 20 * 2
    assert crawled.failed.keys() == {f"{one}/broken", lost}
    assert crawled.stats["robotgate/waited_seconds"] >= DELAY * 6 * 0.8
    assert "WARNING: DOWNLOAD_DELAY" not in crawled.log


async def test_patience_is_bounded(web: Web, one: str, two: str) -> None:
    """`max_wait` and `max_block` refuse what comes too late, retries included; a page that times out is retried.

    A page whose turn comes later than `DOWNLOAD_TIMEOUT` is sent in its turn. After a 429 the host waits as it asks.
    """
    web.handle(f"{one}/1", silent())
    web.serve(f"{two}/robots.txt", "User-agent: *\nCrawl-delay: 5")
    late = site_of(web, "late", b"User-agent: *\nCrawl-delay: 0.8")
    busy, down = site_of(web, "busy"), site_of(web, "down")
    web.serve(f"{busy}/1", status=429, headers={"Retry-After": "5"})
    web.serve(f"{down}/1", status=503, headers={"Retry-After": "3600"})
    asking, answers = site_of(web, "asking"), iter([429])

    async def answer(_: aiohttp_web.Request) -> aiohttp_web.StreamResponse:
        return aiohttp_web.Response(status=next(answers, 200), headers={"Retry-After": "1"})

    web.handle(f"{asking}/1", answer)
    pages = [f"{busy}/1", f"{down}/1", f"{busy}/2"]
    crawled = await crawl(
        *(f"{one}/1", f"{one}/2", f"{two}/1", f"{late}/1", f"{asking}/1", f"{asking}/2", *pages),
        ROBOTGATE_OPTIONS={"delay": 0, "max_wait": 1.5, "max_block": 1.2},
        DOWNLOAD_TIMEOUT=0.5,
    )
    assert {url: kind for url, (kind, _) in crawled.refused.items()} == {
        f"{two}/1": "TooSoonError",
        **dict.fromkeys(pages, "HostUnavailableError"),
    }
    assert sorted(url for _, url in crawled.seen) == sorted(
        [f"{one}/2", f"{late}/1", f"{asking}/1", f"{asking}/2"]
    )
    counts = [web.count(f"{site}/1") for site in (one, two, late, asking, busy, down)]
    assert counts == [3, 0, 1, 2, 1, 1]
    assert min(web.gaps("late.test")) >= 0.8 - LATE
    first = [visit.url for visit in web.visits if visit.host == "asking.test"].index(f"{asking}/1")
    assert web.gaps("asking.test")[first] >= 1 - LATE


async def test_budget_is_not_exceeded(web: Web, one: str, two: str) -> None:
    """Pages beyond it are refused without a retry, and counted; another host goes on."""
    pages = [f"{one}/{number}" for number in range(4)]
    options = {"delay": 0, "budget": {"pages": 2}}
    crawled = await crawl(*pages, f"{two}/1", ROBOTGATE_OPTIONS=options)
    assert [kind for kind, _ in crawled.refused.values()] == ["BudgetExceededError"] * 2
    assert crawled.stats["robotgate/budget_exceeded"] == 2
    assert sum(map(web.count, pages)) == 2
    assert web.count(f"{two}/1") == 1


async def test_site_sees_the_proxy_of_the_spider_only(web: Web) -> None:
    """robots.txt, pages and redirected pages take the proxy that the spider gives; by a tunnel for https.

    A proxy that asks for credentials opens no site: the request fails by the proxy's name, without the password.
    """
    requests: list[dict[str, object]] = []
    good, *bad = [Proxy(web) for _ in range(4)]
    for proxy in (good, *bad):
        await proxy.open()
    for scheme in ("http", "https"):
        site = f"{scheme}://nowhere.test"
        web.serve(f"{site}/robots.txt", RULES.decode())
        web.redirect(f"{site}/moved", f"{site}/private/2")
        requests += [
            {"url": f"{site}/{path}", "meta": {"proxy": good.url}} for path in ("", "private/1", "moved")
        ]
    refusing = {
        "http://rules.nowhere.test/private": "http://rules.nowhere.test/robots.txt",
        "http://page.nowhere.test/page": "http://page.nowhere.test/page",
        "https://tunnel.nowhere.test/page": "tunnel.nowhere.test:443",
    }
    for proxy, (url, refused) in zip(bad, refusing.items(), strict=True):
        proxy.refuses = refused
        requests.append({"url": url, "meta": {"proxy": proxy.url.replace("//", "//user:word@")}})
    crawled = await crawl(*requests, ROBOTGATE_OPTIONS={"delay": 0})
    names = [proxy.url for proxy in bad]
    for proxy in (good, *bad):
        await proxy.close()
    sites = ("http://nowhere.test", "https://nowhere.test")
    assert sorted(crawled.seen) == [(200, f"{site}/") for site in sites]
    for url, name in zip(refusing, names, strict=True):
        text = crawled.refused.pop(url)[1]
        assert f"nowhere.test was not reached: the proxy {name} " in text
        assert "word" not in text
    assert set(crawled.refused) == {f"{site}/{path}" for site in sites for path in ("private/1", "moved")}
    assert all(f"{site}/private/2 is disallowed by line 2" in crawled.log for site in sites)
    seen = [f"{site}/{path}" for site in sites for path in ("robots.txt", "", "moved")]
    assert sorted(web.urls) == sorted([*seen, "http://page.nowhere.test/robots.txt"])
    assert {each for each in good.served if each.startswith("GET")} == {f"GET {url}" for url in seen[:3]}
    assert set(good.served) - {f"GET {url}" for url in seen} == {"CONNECT nowhere.test:443"}
    assert crawled.stats["robotgate/proxy_failed"] == 3


@pytest.mark.slow
async def test_robots_txt_takes_the_proxy_of_a_middleware(web: Web) -> None:
    """With its password. The site has no address here, so a request that does not go through the proxy fails."""
    page, proxy = "http://nowhere.test/", f"http://user:word@127.0.0.1:{web.port}"
    crawled = await crawl(
        page, ROBOTGATE_OPTIONS={"delay": 0}, DOWNLOADER_MIDDLEWARES={f"{CRAWL}.ByProxy": 700}, PROXY=proxy
    )
    assert [visit.url.rpartition("http://nowhere.test")[2] for visit in web.visits] == ["/robots.txt", "/"]
    assert [visit.headers.get("Proxy-Authorization") for visit in web.visits] == ["Basic dXNlcjp3b3Jk"] * 2
    assert crawled.seen == [(200, page)]


@pytest.mark.slow
async def test_next_crawl_goes_on_where_the_last_one_ended(web: Web, one: str, tmp_path: Path) -> None:
    """With a store in a file, a second crawl knows the robots.txt, and waits for the delay that the first one left."""
    options = {"delay": 2.0, "store": str(tmp_path / "cache.db")}
    last = await crawl(f"{one}/1", ROBOTGATE_OPTIONS=options)
    following = await crawl(f"{one}/2", ROBOTGATE_OPTIONS=options)
    assert last.seen + following.seen == [(200, f"{one}/1"), (200, f"{one}/2")]
    assert web.urls == [f"{one}/robots.txt", f"{one}/1", f"{one}/2"]
    assert min(web.gaps("one.test")) >= 2 - LATE
    assert following.told() == {"allowed": 1, "turns": 1}
    assert "Traceback" not in last.log + following.log


@pytest.mark.slow
async def test_slow_host_takes_no_places_of_others(web: Web, one: str, two: str) -> None:
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


@pytest.mark.slow
async def test_cached_page_takes_no_turn(web: Web, one: str, tmp_path: Path) -> None:
    """A page from Scrapy's HTTP cache takes no turn. robots.txt is never taken from it."""
    cached = partial(crawl, f"{one}/", HTTPCACHE_ENABLED=True, HTTPCACHE_DIR=str(tmp_path))
    first, again = await cached(), await cached()
    assert first.seen == again.seen == [(200, f"{one}/")]
    assert web.count(f"{one}/") == 1
    assert again.told() == {"allowed": 1, "robots_fetched": 1}
    # The default policy of the cache would keep robots.txt for ever.
    assert web.count(f"{one}/robots.txt") == 2


@pytest.mark.slow
async def test_handlers_of_others_send_what_has_its_turn() -> None:
    """A download handler of another package is wrapped too, even one that returns Deferreds and has no `close`."""
    crawled = await crawl(
        "http://one.test/1", "http://one.test/one-by-one", DOWNLOAD_HANDLERS={"http": f"{CRAWL}.OldHandler"}
    )
    assert crawled.code == 0
    assert crawled.seen == [(200, "http://one.test/1"), (200, "http://one.test/one-by-one")]
    assert crawled.told()["turns"] == 2


@pytest.mark.slow
async def test_problem_type_blocks_the_host(web: Web, one: str) -> None:
    """A body that says that the crawl is too fast holds its host up, as a 429 does."""
    body = b'{"type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}'
    web.serve(f"{one}/403", body, status=403, headers={"Content-Type": "application/problem+json"})
    crawled = await crawl(f"{one}/403")
    assert crawled.stats["robotgate/hosts_blocked"] == 1


@pytest.mark.slow
async def test_more_may_be_under_way_at_one_host(web: Web, one: str) -> None:
    """``concurrency_per_host`` raises Scrapy's own limits."""
    for page in range(4):
        web.serve(f"{one}/{page}", takes=0.7)
    await crawl(
        *(f"{one}/{page}" for page in range(4)), ROBOTGATE_OPTIONS={"delay": DELAY, "concurrency_per_host": 2}
    )
    assert web.peak() == 2


@pytest.mark.slow
async def test_parser_alone_serves_scrapys_own_middleware(web: Web, one: str) -> None:
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


@pytest.mark.slow
async def test_other_reactors_are_refused(web: Web, one: str) -> None:
    """A reactor other than asyncio's ends the crawl before its first request, and the log names the setting."""
    crawled = await crawl(f"{one}/", TWISTED_REACTOR="twisted.internet.selectreactor.SelectReactor")
    assert crawled.code == 1
    assert "OptionError: TWISTED_REACTOR: robotgate needs 'twisted.internet.asyncioreactor" in crawled.log
    assert web.urls == []


@pytest.mark.slow
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
