"""The gate in real crawls of Crawlee: what reaches the servers, and what Crawlee makes of refusals."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import BasicCrawlingContext, HttpCrawler, HttpCrawlingContext
from crawlee.errors import ProxyError
from crawlee.proxy_configuration import ProxyConfiguration, ProxyInfo
from crawlee.storage_clients import MemoryStorageClient
from tests.gate.network import ASKS, Proxy

from robotgate import Budget
from robotgate.integrations.crawlee import GateHttpClient

if TYPE_CHECKING:
    from crawlee import SkippedReason
    from crawlee.statistics import FinalStatistics
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"
RULES: Final = "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 0"
"""All other crawlers are shut out: the rules for the gate's own token count."""


@pytest.fixture(autouse=True)
def _new_queue() -> None:
    """Crawlers of one process share a queue, which remembers what was crawled."""
    service_locator.storage_instance_manager.clear_cache()


class Crawl:
    """One crawler, and what its callbacks were told."""

    def __init__(
        self,
        gate: RobotGate,
        *,
        respect: bool = False,
        proxies: ProxyConfiguration | None = None,
        retry_on_blocked: bool = True,
    ) -> None:
        self.pages: dict[str, bytes] = {}
        self.skipped: list[str] = []
        self.failed: dict[str, str] = {}
        self.crawler = HttpCrawler(
            http_client=GateHttpClient(gate, on_skipped_request=self.skip),
            respect_robots_txt_file=respect,
            retry_on_blocked=retry_on_blocked,
            proxy_configuration=proxies,  # type: ignore[arg-type]  # Its annotation leaves None out.
            navigation_timeout=timedelta(hours=1),  # type: ignore[call-arg]  # Not in its annotations.
            max_request_retries=1,
            concurrency_settings=ConcurrencySettings(min_concurrency=8, desired_concurrency=8),
            storage_client=MemoryStorageClient(),
            configure_logging=False,
        )
        self.crawler.on_skipped_request(self.skip)
        self.crawler.failed_request_handler(self.fail)
        self.crawler.router.default_handler(self.handle)

    async def run(self, *urls: str) -> FinalStatistics:
        """Crawl to the end."""
        return await self.crawler.run(list(urls))

    async def handle(self, context: HttpCrawlingContext) -> None:
        """Keep a page."""
        assert context.request.loaded_url is not None
        self.pages[context.request.loaded_url] = await context.http_response.read()

    async def skip(self, url: str, reason: SkippedReason) -> None:
        """Note a URL that was skipped."""
        assert reason == "robots_txt"
        self.skipped.append(url)

    async def fail(self, context: BasicCrawlingContext | HttpCrawlingContext, error: Exception) -> None:
        """Note a request that failed."""
        self.failed[context.request.url] = type(error).__name__


@pytest.mark.parametrize("respect", [False, True])
async def test_crawl_obeys_the_gate(gate: RobotGate, web: Web, *, respect: bool) -> None:
    """Each robots.txt is requested once, nothing that is refused is sent, and Crawlee's callback is told of it."""
    hosts = [f"http://host-{number}.example" for number in range(5)]
    for host in hosts:
        web.serve(f"{host}/robots.txt", RULES)
        web.serve(f"{host}/page", host)
    crawl = Crawl(gate, respect=respect)
    done = await crawl.run(*(f"{host}/{path}" for host in hosts for path in ("page", "private", "page?a=1")))
    assert done.requests_finished == 10
    assert done.requests_failed == 0
    assert sorted(crawl.skipped) == [f"{host}/private" for host in hosts]
    assert crawl.pages[f"{hosts[0]}/page"] == hosts[0].encode()
    assert web.counts() == {
        f"{host}/{path}": 1 for host in hosts for path in ("robots.txt", "page", "page?a=1")
    }
    assert {visit.headers["User-Agent"].split()[0] for visit in web.visits} == {"ExampleBot/1.0"}


@pytest.mark.parametrize("respect", [False, True])
@pytest.mark.parametrize(
    ("body", "headers"),
    [(RULES.encode(), {"Content-Encoding": "utf-8"}), (gzip.compress(RULES.encode()), {})],
    ids=["named utf-8", "gzip without a name"],
)
async def test_rules_in_other_forms_are_obeyed(
    gate: RobotGate, web: Web, body: bytes, headers: dict[str, str], *, respect: bool
) -> None:
    """Whoever asks: the gate, or Crawlee for its own robots.txt."""
    web.serve(f"{SITE}/robots.txt", body, headers=headers)
    crawl = Crawl(gate, respect=respect)
    await crawl.run(f"{SITE}/page", f"{SITE}/private")
    assert list(crawl.pages) == [f"{SITE}/page"]
    assert crawl.skipped == [f"{SITE}/private"]


async def test_a_forbidden_page_is_asked_for_once(gate: RobotGate, web: Web) -> None:
    """With the option that docs/crawlee.md names; Crawlee would ask for it with session after session."""
    web.serve(f"{SITE}/page", status=403)
    crawl = Crawl(gate, retry_on_blocked=False)
    await crawl.run(f"{SITE}/page")
    assert web.count(f"{SITE}/page") == 1
    assert list(crawl.failed) == [f"{SITE}/page"]


@pytest.mark.slow
async def test_more_hosts_than_crawlee_remembers(gate: RobotGate, web: Web) -> None:
    """Crawlee keeps the rules of a thousand hosts, and alone would request each of these robots.txt twice."""
    hosts = [f"http://host-{number}.example" for number in range(1_010)]
    crawl = Crawl(gate, respect=True)
    await crawl.run(*(f"{host}/" for host in hosts))
    assert len(crawl.pages) == len(hosts)
    assert web.counts() == {f"{host}/{path}": 1 for host in hosts for path in ("robots.txt", "")}


async def test_redirects_are_judged(gate: RobotGate, web: Web) -> None:
    """One to a page that is disallowed is not followed, and skips the request."""
    web.serve("http://other.example/robots.txt", "User-agent: *\nDisallow: /private")
    web.redirect(f"{SITE}/moved", f"{SITE}/there")
    web.redirect(f"{SITE}/shut", "http://other.example/private")
    crawl = Crawl(gate)
    await crawl.run(f"{SITE}/moved", f"{SITE}/shut")
    assert list(crawl.pages) == [f"{SITE}/there"]
    assert crawl.skipped == [f"{SITE}/shut"]
    assert web.count("http://other.example/private") == 0


@pytest.mark.parametrize("respect", [False, True])
async def test_closed_hosts_are_left_alone(open_gate: OpenGate, web: Web, *, respect: bool) -> None:
    """Whether Crawlee asks first or not; it repeats what failed, and the gate sends none of it. Others are paced."""
    gate = await open_gate(max_block=60.0, delay=0.2)
    busy, shut = "http://busy.example/page", "http://shut.example/page"
    web.serve(busy, status=503, headers={"Retry-After": "3600"})
    web.serve("http://shut.example/robots.txt", status=500)
    crawl = Crawl(gate, respect=respect)
    await crawl.run(busy, shut, *(f"{SITE}/{number}" for number in range(4)))
    assert len(crawl.pages) == 4
    assert (web.count(busy), web.count(shut), web.count("http://shut.example/robots.txt")) == (1, 0, 1)
    assert crawl.failed[busy] == "HostUnavailableError"
    gaps = web.gaps("site.example")
    assert len(gaps) == 4
    assert min(gaps) >= 0.2 - 0.05


async def test_budget_is_not_exceeded(open_gate: OpenGate, web: Web) -> None:
    """Crawlee repeats what is refused, and the gate sends none of it."""
    gate = await open_gate(budget=Budget(pages=2))
    crawl = Crawl(gate)
    await crawl.run(*(f"{SITE}/{number}" for number in range(4)), "http://other.example/page")
    assert list(crawl.failed.values()) == ["BudgetExceededError"] * 2
    assert len(crawl.pages) == 3
    assert sum(web.count(f"{SITE}/{number}") for number in range(4)) == 2


async def test_handlers_requests_go_through_the_gate(gate: RobotGate, web: Web) -> None:
    """`send_request` and streams: headers and payload arrive, the body comes in parts."""
    client = GateHttpClient(gate)
    web.serve(f"{SITE}/big", b"x" * 300_000)
    sent = await client.send_request(
        f"{SITE}/form",
        method="POST",
        headers={"X-Test": "yes"},
        payload=b"a=1",
        timeout=timedelta(seconds=30),
    )
    assert sent.status_code == 200
    visit = web.visit(f"{SITE}/form")
    assert (visit.method, visit.body, visit.headers["X-Test"]) == ("POST", b"a=1", "yes")
    async with client.stream(f"{SITE}/big") as response:
        chunks = [chunk async for chunk in response.read_stream()]
    assert b"".join(chunks) == b"x" * 300_000
    assert web.count(f"{SITE}/robots.txt") == 1


async def test_robots_txt_takes_the_proxy_of_its_page(gate: RobotGate, web: Web) -> None:
    """That of Crawlee's configuration: the site sees no address of ours."""
    proxy = Proxy(web)
    await proxy.open()
    crawl = Crawl(gate, proxies=ProxyConfiguration(proxy_urls=[proxy.url]))
    await crawl.run(f"{SITE}/page")
    await proxy.close()
    assert list(crawl.pages) == [f"{SITE}/page"]
    assert proxy.asked == [f"{SITE}/robots.txt", f"{SITE}/page"]
    assert web.urls == proxy.asked


@pytest.mark.parametrize("asks", [True, False], ids=["407", "down"])
async def test_proxy_that_fails_is_crawlees_error(gate: RobotGate, web: Web, *, asks: bool) -> None:
    """For robots.txt, for a page and for a stream: Crawlee answers it with another proxy; the site is asked nothing."""
    proxy = Proxy(web, says=ASKS)
    web.serve(f"{SITE}/robots.txt", RULES)
    await proxy.open()
    info = ProxyInfo(
        url=proxy.url, scheme="http", hostname="127.0.0.1", port=proxy.port, username="", password=""
    )
    if not asks:
        await proxy.close()
    client = GateHttpClient(gate)
    for _ in range(2):
        with pytest.raises(ProxyError, match="407" if asks else None):
            await client.send_request(f"{SITE}/page", proxy_info=info)
        gate.learn(SITE, b"")
    with pytest.raises(ProxyError):
        async with client.stream(f"{SITE}/page", proxy_info=info):
            pass
    if asks:
        await proxy.close()
    assert web.visits == []
