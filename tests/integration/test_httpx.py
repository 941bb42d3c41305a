"""`GateTransport` judges and paces an httpx client. What counts is what the servers saw."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from aiohttp import web as aioweb
from tests.failing import FailingStore
from tests.gate.servers import (
    DELAY,
    LARGE,
    LOOPBACK,
    NEXT,
    PAGE,
    PRIVATE,
    ROBOTS,
    RULES,
    SITE,
    cut_off,
    dripping,
    hang_up,
    silent,
    unused_port,
)
from tests.waiting import until

from robotgate import (
    Budget,
    BudgetExceededError,
    DisallowedError,
    GateClosedError,
    HostOverride,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    RobotGate,
    StoreError,
    TooSoonError,
)
from robotgate.integrations.httpx import GateTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web


class ToTheWeb(httpx.AsyncHTTPTransport):
    """Sends every request to the web of the test, whatever host it names."""

    def __init__(self, web: Web, *, retries: int = 0, limits: httpx.Limits | None = None) -> None:
        super().__init__(retries=retries, limits=limits or httpx.Limits())
        self._web = web

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to loopback, with the Host header that it has."""
        here = request.url.copy_with(host=LOOPBACK, port=self._web.port)
        moved = httpx.Request(
            request.method,
            here,
            headers=request.headers,
            stream=request.stream,
            extensions={"target": request.url.raw_path, **request.extensions},
        )
        return await super().handle_async_request(moved)


@asynccontextmanager
async def crawler(
    web: Web, gate: RobotGate, *, refusals_as_responses: bool = False, timeout: float = 5
) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose requests pass the gate."""
    transport = GateTransport(gate, ToTheWeb(web), refusals_as_responses=refusals_as_responses)
    async with httpx.AsyncClient(transport=transport, follow_redirects=True, timeout=timeout) as client:
        yield client


@pytest.fixture
async def client(web: Web, gate: RobotGate) -> AsyncIterator[httpx.AsyncClient]:
    """A client behind a gate without delay."""
    async with crawler(web, gate) as client:
        yield client


async def test_disallowed_page_never_reaches_the_server(web: Web, client: httpx.AsyncClient) -> None:
    """A refusal is an error of robotgate with the line that decided, and an httpx error that retries do not catch.

    It can be pickled for another process. A `target` that is sent is what the rules judge, not the URL beside it.
    """
    web.serve(ROBOTS, RULES)
    assert (await client.get(PAGE)).text == "a page"
    with pytest.raises(DisallowedError):
        await client.get(PAGE, extensions={"target": b"/private"})
    with pytest.raises(DisallowedError) as caught:
        await client.get(PRIVATE)
    error = caught.value
    assert error.verdict.rule is not None
    assert error.verdict.rule.line == 2
    assert isinstance(error, httpx.RequestError)
    assert httpx.TransportError not in type(error).__mro__
    assert error.request.url == PRIVATE
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, httpx.RequestError)
    assert isinstance(copy, DisallowedError)
    assert (str(copy), copy.verdict) == (str(error), error.verdict)
    assert web.counts() == {ROBOTS: 1, PAGE: 1}


def test_synchronous_client_is_told_what_it_needs() -> None:
    """An `httpx.Client` with the transport fails with words."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(TypeError, match=r"needs an httpx\.AsyncClient"):
        httpx.Client(transport=GateTransport(gate)).get(PAGE)  # type: ignore[arg-type]


async def test_tasks_are_paced(web: Web, open_gate: OpenGate) -> None:
    """The delay holds from the end of each response to the next request, robots.txt included, one request at a time.

    Redirects, both rounds of an authentication and what has a higher priority take a turn each.
    """
    gate = await open_gate(delay=DELAY)
    web.redirect(f"{PAGE}/0", "/next", body=LARGE)
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'}
    web.serve(PRIVATE, status=401, headers=challenge)
    first: dict[str, object] = {"robotgate": {"priority": 1}}
    async with crawler(web, gate) as client:
        waiting = [asyncio.create_task(client.get(f"{PAGE}/{number}")) for number in range(6)]
        await web.arrivals(1)
        await client.get(f"{SITE}/urgent", extensions=first)
        answers = [
            *await asyncio.gather(*waiting),
            await client.get(PRIVATE, auth=httpx.DigestAuth("a", "b")),
        ]
    assert [answer.status_code for answer in answers] == [200] * 6 + [401]
    assert (web.count(ROBOTS), web.count(NEXT), web.count(PRIVATE)) == (1, 1, 2)
    assert f"{SITE}/urgent" in web.urls[1:3]
    gaps = web.gaps("site.example")
    assert len(gaps) == 10
    assert min(gaps) >= DELAY
    assert web.peak() == 1


async def test_waiting_is_on_no_time_out_of_httpx(web: Web, open_gate: OpenGate) -> None:
    """A turn may come later than all timeouts of httpx: they count the request only."""
    gate = await open_gate(delay=1)
    async with crawler(web, gate, timeout=0.8) as client:
        assert [(await client.get(url)).status_code for url in (PAGE, NEXT)] == [200, 200]
    assert min(web.gaps("site.example")) >= 1


async def test_each_hop_of_a_redirect_is_judged(web: Web, client: httpx.AsyncClient) -> None:
    """By the rules of its own host; one to a private address is refused."""
    web.serve("http://other.example/robots.txt", RULES)
    web.redirect(PAGE, "http://other.example/fine")
    web.redirect(NEXT, "http://other.example/private")
    web.redirect(f"{SITE}/inside", f"http://127.0.0.1:{web.port}/")
    assert (await client.get(PAGE)).url == "http://other.example/fine"
    for url, kind in ((NEXT, DisallowedError), (f"{SITE}/inside", NonPublicAddressError)):
        with pytest.raises(kind):
            await client.get(url)
    assert web.count("http://other.example/private") == 0


@pytest.mark.parametrize("way", ["read", "closed", "broken off"])
async def test_large_stream_holds_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient, way: str
) -> None:
    """The turn of a stream ends when it has been read to its end, or closed."""
    web.serve(PAGE, LARGE)
    response = await client.send(client.build_request("GET", PAGE), stream=True)
    assert gate.host(PAGE).open_turns == 1
    if way == "read":
        assert len(await response.aread()) == len(LARGE)
        assert gate.host(PAGE).bytes_read == len(LARGE)
    elif way == "broken off":
        async for _ in response.aiter_bytes(1000):
            assert gate.host(PAGE).open_turns == 1
            break
    await response.aclose()
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


async def test_gate_may_be_closed_before_a_stream(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """A response that has begun can be read to its end after the gate was closed."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE) as response:
        await gate.aclose()
        assert len(await response.aread()) == len(LARGE)


@pytest.mark.parametrize("location", [NEXT, f"{PAGE}#there"])
async def test_response_that_was_read_before_ends_its_turn(gate: RobotGate, location: str) -> None:
    """As one of `httpx.MockTransport`, or of a cache: its body counts, and may say that we were too fast."""
    problem = b'{"type": "https://iana.org/assignments/http-problem-types#quota-exceeded"}'
    answers = [
        httpx.Response(302, headers={"Location": location}, text="moved"),
        httpx.Response(200, text="a page"),
        httpx.Response(403, headers={"Content-Type": "application/problem+json"}, content=problem),
    ]
    transport = GateTransport(gate, httpx.MockTransport(lambda _: answers.pop(0)))
    gate.learn(PAGE, b"")
    async with asyncio.timeout(5), httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        assert (await client.get(PAGE)).text == "a page"
        view = gate.host(PAGE)
        assert (view.open_turns, view.bytes_read) == (0, len("moved") + len("a page"))
        assert (await client.get(PAGE)).status_code == 403
    assert gate.host(PAGE).blocked_until_at is not None
    assert gate.host(PAGE).open_turns == 0


async def test_asking_within_an_open_stream_is_told_of(web: Web, client: httpx.AsyncClient) -> None:
    """A task that asks for the turn that it holds gets an error at once."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE):
        with pytest.raises(NestedTurnError) as caught:
            await client.get(NEXT)
    assert isinstance(caught.value, httpx.HTTPError)


async def test_every_request_says_who_asks(web: Web, client: httpx.AsyncClient) -> None:
    """The gate's User-Agent replaces httpx's, and From is added; the caller's has to name the token."""
    with pytest.raises(OptionError, match="ExampleBot"):
        await client.get(PAGE, headers={"User-Agent": "Other/1.0"})
    assert web.visits == []
    response = await client.get(PAGE, headers={"X-Mine": "1"})
    for visit in web.visits:
        assert visit.headers.getall("User-Agent") == ["ExampleBot/1.0"]
        assert visit.headers["From"] == "bot@example.org"
    assert web.visit(PAGE).headers["X-Mine"] == "1"
    assert response.request.headers["User-Agent"] == "ExampleBot/1.0"
    agent = "Mozilla/5.0 (compatible; examplebot/2.0)"
    await client.get(NEXT, headers={"User-Agent": agent})
    assert web.visit(NEXT).headers["User-Agent"] == agent


async def test_block_holds_the_next_request(web: Web, open_gate: OpenGate) -> None:
    """A 429 with Retry-After stops the next request, and the refusal says how long: as an error, or as a 503."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "100"})
    async with crawler(web, gate) as client:
        assert (await client.get(PAGE)).status_code == 429
        with pytest.raises(HostUnavailableError) as caught:
            await client.get(NEXT)
    assert 90 < caught.value.retry_after <= 100
    async with crawler(web, gate, refusals_as_responses=True) as client:
        response = await client.get(NEXT)
    assert response.status_code == 503
    assert 90 < int(response.headers["Retry-After"]) <= 100
    assert isinstance(response.extensions["robotgate"], HostUnavailableError)
    assert web.count(NEXT) == 0


async def test_budget_is_not_exceeded(web: Web, open_gate: OpenGate) -> None:
    """The refusal is an error of httpx, or a 503: with the time of the next page where there will be one."""
    gate = await open_gate(budget=Budget(pages=1))
    async with crawler(web, gate) as client:
        assert (await client.get(PAGE)).status_code == 200
        with pytest.raises(BudgetExceededError) as caught:
            await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)
    async with crawler(web, gate, refusals_as_responses=True) as client:
        endless = await client.get(PAGE)
        gate.override("*", HostOverride(budget=Budget(pages=1, per=100)))
        response = await client.get(PAGE)
    assert (endless.status_code, endless.headers.get("Retry-After")) == (503, None)
    assert 90 < int(response.headers["Retry-After"]) <= 100
    assert web.count(PAGE) == 1


async def test_refusals_can_be_responses(web: Web, open_gate: OpenGate) -> None:
    """By the rules, a 403 whose text is the reason; a turn after the request's own `max_wait`, a 503 with its time.

    A private address and a closed gate raise: the site has not refused.
    """
    web.serve(ROBOTS, RULES)
    gate = await open_gate(delay=5)
    async with crawler(web, gate, refusals_as_responses=True) as client:
        response = await client.get(PRIVATE)
        late = await client.get(PAGE, extensions={"robotgate": {"max_wait": 1}})
        with pytest.raises(NonPublicAddressError):
            await client.get("http://127.0.0.1/")
        await gate.aclose()
        with pytest.raises(GateClosedError) as caught:
            await client.get(PAGE)
    assert (response.status_code, "Disallow: /private" in response.text) == (403, True)
    refusal = response.extensions["robotgate"]
    assert isinstance(refusal, DisallowedError)
    assert not refusal.verdict.allowed
    with pytest.raises(httpx.HTTPStatusError):
        response.raise_for_status()
    assert (late.status_code, late.headers["Retry-After"]) == (503, "5")
    assert isinstance(late.extensions["robotgate"], TooSoonError)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.counts() == {ROBOTS: 1}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"max_wiat": 3}, TypeError, "unexpected keyword argument 'max_wiat'"),
        (None, TypeError, "must be a mapping, not NoneType"),
        ({"max_wait": -1}, OptionError, r"^max_wait=-1: give"),
        ({"priority": None}, OptionError, r"^priority=None: give"),
    ],
)
async def test_wrong_option_of_a_request_is_refused(
    web: Web, gate: RobotGate, given: object, kind: type[Exception], message: str
) -> None:
    """A wrong option in `extensions` raises an error, never a response or an httpx error, and nothing is sent."""
    async with crawler(web, gate, refusals_as_responses=True) as client:
        with pytest.raises(kind, match=message) as caught:
            await client.get(PAGE, extensions={"robotgate": given})
    assert not isinstance(caught.value, httpx.HTTPError)
    assert web.visits == []


@pytest.mark.parametrize("handler", [silent(), dripping()], ids=["sending", "streaming"])
async def test_cancellation_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient, handler: Handler
) -> None:
    """A request that is cancelled before its response, or while the body arrives, frees its host at once."""
    web.handle(PAGE, handler)
    asking = asyncio.create_task(client.get(PAGE))
    await web.arrivals(2)
    await until(lambda: gate.host(PAGE).open_turns == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


@pytest.mark.parametrize("handler", [hang_up(), cut_off(b"x", length=9)], ids=["no answer", "half a body"])
async def test_failure_ends_the_turn_and_is_no_outage(
    web: Web, gate: RobotGate, client: httpx.AsyncClient, handler: Handler
) -> None:
    """An error of a server that was reached ends the turn, and the host stays open; so does one of a response hook."""
    web.handle(PAGE, handler)
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get(PAGE)
    assert gate.host(PAGE).open_turns == 0

    async def insist(response: httpx.Response) -> None:
        response.raise_for_status()

    web.serve(PRIVATE, LARGE, status=500)
    client.event_hooks = {"request": [], "response": [insist]}
    with pytest.raises(httpx.HTTPStatusError):
        await client.get(PRIVATE)
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


async def test_request_hook_and_trace_work_as_without_a_gate(web: Web, client: httpx.AsyncClient) -> None:
    """A request hook and a trace of the caller see each hop once, and the caller's request stays as it was."""
    web.redirect(PAGE, "/next")
    seen: list[str] = []
    events: list[str] = []

    async def note(request: httpx.Request) -> None:
        seen.append(str(request.url))

    async def trace(event: str, _: object) -> None:
        events.append(event)

    client.event_hooks = {"request": [note], "response": []}
    request = client.build_request("GET", PAGE, extensions={"trace": trace})
    await client.send(request)
    assert seen == [PAGE, NEXT]
    assert request.extensions["trace"] is trace
    assert events.count("http11.send_request_headers.started") == 2


@pytest.mark.parametrize(
    ("url", "extensions"),
    [
        *((url, {}) for url in (f"{SITE}/open/%2e%2e/private", f"{SITE}/open/%2e%2E?x", "http://127.1/")),
        *((url, {}) for url in ("http://[fe80::1%25lo]/", "ftp://site.example/", "/page")),
        *((PAGE, {"target": target}) for target in (b"/open/../private", "/privät".encode(), None)),
        *((PAGE, {"target": target}) for target in (b"http://127.0.0.1/private", b"private", b"*")),
        *((PAGE, {"target": target}) for target in (b"/open private", b"/open?\x7f")),
        (f"{SITE}:65536/", {}),
    ],
)
async def test_url_that_servers_may_read_otherwise_is_refused(
    web: Web, client: httpx.AsyncClient, url: str, extensions: dict[str, object]
) -> None:
    """A URL that the server may read differently than the rules is refused: httpx sends escaped dot segments.

    So is a `target` in the extensions that is not a plain path in bytes.
    """
    web.serve(ROBOTS, RULES)
    with pytest.raises(InvalidURLError) as caught:
        await client.get(url, extensions=extensions)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == []


@pytest.mark.parametrize("target", ["/page?q=%20+", "/a%2Fb", "/%7Euser/%C3%A4", "/x;y=.1/..."])
async def test_what_is_judged_is_what_is_sent(web: Web, client: httpx.AsyncClient, target: str) -> None:
    """The rules judge the exact bytes of the target that httpx sends."""
    web.serve(ROBOTS, f"User-agent: *\nDisallow: /\nAllow: {target}$")
    assert (await client.get(f"{SITE}{target}")).status_code == 200
    assert web.urls[-1] == f"{SITE}{target}"


async def test_empty_query_is_judged_as_it_is_sent(web: Web, client: httpx.AsyncClient) -> None:
    """The rules judge a URL with an empty query with its question mark: httpx sends it, and aiohttp does not."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /\nAllow: /page?$")
    sent: list[str] = []

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        sent.append(request.raw_path)
        return aioweb.Response()

    web.handle(PAGE, answer)
    assert (await client.get(f"{PAGE}?")).status_code == 200
    assert sent == ["/page?"]


async def test_store_that_fails_is_an_error_of_both_libraries(web: Web, open_gate: OpenGate) -> None:
    """A store that fails raises a `StoreError` that is an httpx error too, and nothing is sent."""
    gate = await open_gate(store=FailingStore("load_record"))
    async with crawler(web, gate) as client:
        with pytest.raises(StoreError, match="make room") as caught:
            await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.visits == []


async def test_request_that_was_not_sent_waits_for_another_turn(web: Web, gate: RobotGate) -> None:
    """A server that restarts costs a second, and no page; so does a POST."""

    class Restarting(ToTheWeb):
        downs = 1

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if self.downs and request.url.path != "/robots.txt":
                self.downs -= 1
                raise httpx.ConnectError("refused") from ConnectionRefusedError()
            return await super().handle_async_request(request)

    gate.learn(PAGE, b"")
    async with httpx.AsyncClient(transport=GateTransport(gate, Restarting(web))) as client:
        response = await client.post(PAGE, content=b"order")
    assert response.status_code == 200
    assert web.visit(PAGE).body == b"order"
    assert gate.host(PAGE).visits == 2


@pytest.mark.parametrize(
    ("url", "kind", "cause"),
    [
        ("http://localhost:{port}/", HostUnavailableError, "it refuses connections"),
        ("http://nowhere.invalid/", HostUnavailableError, "its name cannot be resolved"),
        ("https://127.0.0.1:{web.tls_port}/", httpx.ConnectError, "its TLS handshake fails"),
        ("https://127.0.0.1:{web.port}/", httpx.ConnectError, "its TLS handshake fails"),
    ],
    ids=["port", "name", "certificate", "no TLS"],
)
async def test_host_that_cannot_be_reached_opens_the_circuit(
    web: Web, open_gate: OpenGate, url: str, kind: type[Exception], cause: str
) -> None:
    """A refused connection, a name without an address, a wrong certificate and a failing handshake close the host for
    the next requests. `retries=` of httpx stay within one turn.
    """
    gate = await open_gate(allow_private_addresses=True, give_up_after=0.0)
    page = url.format(web=web, port=unused_port())
    gate.learn(page, b"")
    transport = GateTransport(gate, httpx.AsyncHTTPTransport(retries=1))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(kind):
            await client.get(page)
        with pytest.raises(HostUnavailableError, match=cause):
            await client.get(page)
    assert gate.host(page).visits == 1


@pytest.mark.parametrize(
    ("handler", "kind", "cause"),
    [
        (silent(), httpx.ReadTimeout, "it does not answer in time"),
        (hang_up(), httpx.RemoteProtocolError, "it closes the connection without an answer"),
    ],
    ids=["silent", "hangs up"],
)
async def test_host_that_gives_no_answers_opens_the_circuit(
    web: Web, open_gate: OpenGate, handler: Handler, kind: type[Exception], cause: str
) -> None:
    """One request without a status is a slow page; several in a row close the host for the next requests."""
    gate = await open_gate(give_up_after=0.0)
    gate.learn(PAGE, b"")
    web.handle(PAGE, handler)
    async with crawler(web, gate, timeout=0.1) as client:
        for _ in range(3):
            assert gate.host(PAGE).unreachable_until_at is None
            with pytest.raises(kind):
                await client.get(PAGE)
        with pytest.raises(HostUnavailableError, match=cause):
            await client.get(NEXT)


async def test_full_pool_is_no_outage(web: Web, gate: RobotGate) -> None:
    """A timeout of httpx's connection pool says nothing about the host."""
    web.handle(PAGE, silent())
    transport = ToTheWeb(web, limits=httpx.Limits(max_connections=1))
    async with httpx.AsyncClient(
        transport=GateTransport(gate, transport), timeout=httpx.Timeout(None, pool=0.05)
    ) as client:
        holding = asyncio.create_task(client.get(PAGE))
        await web.arrivals(2)
        other = "http://other.example/page"
        with pytest.raises(httpx.PoolTimeout):
            await client.get(other)
        assert gate.host(other).unreachable_until_at is None
        assert gate.host(other).open_turns == 0
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding


async def test_error_that_the_caller_is_handling_is_not_the_cause(web: Web, open_gate: OpenGate) -> None:
    """An error of this machine says nothing about the host, even while the caller handles a refused connection."""
    gate = await open_gate(allow_private_addresses=True)
    page = f"http://{LOOPBACK}:{web.port}/"
    elsewhere = f"http://localhost:{unused_port()}/"
    for url in (page, elsewhere):
        gate.learn(url, b"")
    # No interface of this machine has this address: EADDRNOTAVAIL.
    here = GateTransport(gate, httpx.AsyncHTTPTransport(local_address="192.0.2.1"))
    async with httpx.AsyncClient(transport=here) as client, httpx.AsyncHTTPTransport() as other:
        try:
            await other.handle_async_request(httpx.Request("GET", elsewhere))
        except httpx.ConnectError:
            with pytest.raises(httpx.ConnectError):
                await client.get(page)
    assert gate.host(page).visits == 1
    assert gate.host(page).unreachable_until_at is None


async def test_inner_transport_is_closed_with_the_client(web: Web, gate: RobotGate) -> None:
    """Closing the client closes the inner transport and its connections. A ResourceWarning would fail this test."""
    async with crawler(web, gate) as client:
        await client.get(PAGE)
    with pytest.raises(RuntimeError, match="closed"):
        await client.get(PAGE)
