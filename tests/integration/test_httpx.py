"""`GateTransport` judges and paces an httpx client. What counts is what the servers saw."""

from __future__ import annotations

import asyncio
import pickle
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import LOOPBACK, cut_off, dripping, hang_up, silent
from tests.waiting import until

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    MemoryStore,
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

    from robotgate.sites import RobotsRecord
    from robotgate.urls import Origin

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
NEXT: Final = f"{SITE}/next"
PRIVATE: Final = f"{SITE}/private"
RULES: Final = "User-agent: *\nDisallow: /private"
DELAY: Final = 0.06
LARGE: Final = b"x" * 2_000_000


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


class BrokenStore(MemoryStore):
    """A store that cannot read."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Fail."""
        raise StoreError("the disk is gone: put it back")


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


def free_port() -> int:
    """A port of loopback without a listener."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


async def test_disallowed_page_never_reaches_the_server(web: Web, client: httpx.AsyncClient) -> None:
    """A refusal is an error of robotgate with the line that decided, and an httpx error that retries do not catch."""
    web.serve(ROBOTS, RULES)
    assert (await client.get(PAGE)).text == "a page"
    with pytest.raises(DisallowedError) as caught:
        await client.get(PRIVATE)
    error = caught.value
    assert error.verdict.rule is not None
    assert error.verdict.rule.line == 2
    assert isinstance(error, httpx.RequestError)
    assert httpx.TransportError not in type(error).__mro__
    assert error.request.url == PRIVATE
    assert str(error) == str(error.__cause__)
    assert web.counts() == {ROBOTS: 1, PAGE: 1}


async def test_refusal_can_be_pickled(web: Web, client: httpx.AsyncClient) -> None:
    """A refusal passes from a worker process to another, like the errors of robotgate."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError) as caught:
        await client.get(PRIVATE)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, httpx.RequestError)
    assert isinstance(copy, DisallowedError)
    assert (str(copy), copy.verdict) == (str(caught.value), caught.value.verdict)


async def test_refusal_without_a_client(gate: RobotGate) -> None:
    """A refusal knows its request when the transport is called directly, and its name in a log says what it is."""
    request = httpx.Request("GET", "http://10.0.0.1/")
    async with GateTransport(gate) as transport:
        with pytest.raises(NonPublicAddressError) as caught:
            await transport.handle_async_request(request)
    assert isinstance(caught.value, httpx.RequestError)
    assert caught.value.request is request
    assert repr(caught.value).startswith('NonPublicAddressRequestError("not a public address')


def test_synchronous_client_is_told_what_it_needs() -> None:
    """An `httpx.Client` with the transport fails with words, both in a block and at its first request."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    transport = GateTransport(gate)
    with pytest.raises(TypeError, match=r"needs an httpx\.AsyncClient"):
        httpx.Client(transport=transport).get(PAGE)  # type: ignore[arg-type]
    with (
        pytest.raises(TypeError, match=r"needs an httpx\.AsyncClient"),
        httpx.Client(transport=transport),  # type: ignore[arg-type]
    ):
        pass


async def test_tasks_are_paced(web: Web, open_gate: OpenGate) -> None:
    """The delay holds from the end of each response to the next request, robots.txt included, one request at a time."""
    gate = await open_gate(delay=DELAY)
    async with crawler(web, gate) as client:
        answers = await asyncio.gather(*(client.get(f"{PAGE}/{number}") for number in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    gaps = web.gaps("site.example")
    assert len(gaps) == 10
    assert min(gaps) >= DELAY
    assert web.peak() == 1
    assert web.count(ROBOTS) == 1


async def test_waiting_is_on_no_time_out_of_httpx(web: Web, open_gate: OpenGate) -> None:
    """A turn may come later than all timeouts of httpx: they count the request only."""
    gate = await open_gate(delay=1)
    async with crawler(web, gate, timeout=0.8) as client:
        assert [(await client.get(url)).status_code for url in (PAGE, NEXT)] == [200, 200]
    assert min(web.gaps("site.example")) >= 1


async def test_each_hop_of_a_redirect_is_judged(web: Web, client: httpx.AsyncClient) -> None:
    """Each hop of a redirect is judged by the rules of its own host."""
    web.serve("http://other.example/robots.txt", RULES)
    web.redirect(PAGE, "http://other.example/fine")
    web.redirect(NEXT, "http://other.example/private")
    assert (await client.get(PAGE)).url == "http://other.example/fine"
    with pytest.raises(DisallowedError):
        await client.get(NEXT)
    assert web.count("http://other.example/private") == 0


@pytest.mark.parametrize("body", [b"", LARGE], ids=["none", "large"])
async def test_each_hop_of_a_redirect_is_paced(web: Web, open_gate: OpenGate, body: bytes) -> None:
    """Each hop of a redirect waits for its turn, whatever body the redirect has."""
    gate = await open_gate(delay=DELAY)
    web.redirect(PAGE, "/next", body=body)
    async with crawler(web, gate) as client:
        assert (await client.get(PAGE)).url == NEXT
    assert web.urls == [ROBOTS, PAGE, NEXT]
    assert min(web.gaps("site.example")) >= DELAY


async def test_both_rounds_of_an_authentication_are_paced(web: Web, open_gate: OpenGate) -> None:
    """Digest authentication sends two requests, and the second one waits for its turn."""
    gate = await open_gate(delay=DELAY)

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        if "Authorization" in request.headers:
            return aioweb.Response(text="welcome")
        challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
        return aioweb.Response(status=401, headers={"WWW-Authenticate": challenge})

    web.handle(PAGE, answer)
    async with crawler(web, gate) as client:
        response = await client.get(PAGE, auth=httpx.DigestAuth("user", "word"))
    assert response.text == "welcome"
    assert web.counts() == {ROBOTS: 1, PAGE: 2}
    assert min(web.gaps("site.example")) >= DELAY


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


async def test_stream_that_breaks_off_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """The turn of a stream that breaks off ends, even if the response is not closed."""
    web.handle(PAGE, cut_off(b"x", length=9))
    response = await client.send(client.build_request("GET", PAGE), stream=True)
    with pytest.raises(httpx.RemoteProtocolError):
        await anext(chunk async for chunk in response.aiter_raw(9))
    assert gate.host(PAGE).open_turns == 0
    await response.aclose()


async def test_stream_in_a_block_ends_with_it(web: Web, gate: RobotGate, client: httpx.AsyncClient) -> None:
    """The turn of a stream ends with its block, so the same task can go on at once."""
    web.serve(PAGE, LARGE)
    for _ in range(3):
        async with client.stream("GET", PAGE) as response:
            assert response.status_code == 200
        assert gate.host(PAGE).open_turns == 0
    assert web.count(PAGE) == 3


async def test_asking_within_an_open_stream_is_told_of(web: Web, client: httpx.AsyncClient) -> None:
    """A task that asks for the turn that it holds gets an error at once."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE):
        with pytest.raises(NestedTurnError) as caught:
            await client.get(NEXT)
    assert isinstance(caught.value, httpx.HTTPError)


async def test_identity_is_added(web: Web, client: httpx.AsyncClient) -> None:
    """The gate's User-Agent replaces httpx's own, From is added, and other headers stay."""
    response = await client.get(PAGE, headers={"X-Mine": "1"})
    for visit in web.visits:
        assert visit.headers.getall("User-Agent") == ["ExampleBot/1.0"]
        assert visit.headers["From"] == "bot@example.org"
    assert web.visit(PAGE).headers["X-Mine"] == "1"
    assert response.request.headers["User-Agent"] == "ExampleBot/1.0"


async def test_user_agent_has_to_name_the_token(web: Web, client: httpx.AsyncClient) -> None:
    """A User-Agent of the caller is kept if it names the token, and refused before anything is sent if not."""
    with pytest.raises(OptionError, match="ExampleBot"):
        await client.get(PAGE, headers={"User-Agent": "Other/1.0"})
    assert web.visits == []
    agent = "Mozilla/5.0 (compatible; examplebot/2.0)"
    await client.get(PAGE, headers={"User-Agent": agent})
    assert web.visit(PAGE).headers["User-Agent"] == agent


@pytest.mark.parametrize("as_response", [False, True], ids=["error", "response"])
async def test_block_holds_the_next_request(web: Web, open_gate: OpenGate, *, as_response: bool) -> None:
    """A 429 with Retry-After stops the next request, and the refusal says how long: as an error, or as a 503."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "100"})
    async with crawler(web, gate, refusals_as_responses=as_response) as client:
        assert (await client.get(PAGE)).status_code == 429
        if as_response:
            response = await client.get(NEXT)
            assert response.status_code == 503
            assert 90 < int(response.headers["Retry-After"]) <= 100
            assert isinstance(response.extensions["robotgate"], HostUnavailableError)
        else:
            with pytest.raises(HostUnavailableError) as caught:
                await client.get(NEXT)
            assert 90 < caught.value.retry_after <= 100
    assert web.count(NEXT) == 0


async def test_disallowed_page_as_a_response(web: Web, gate: RobotGate) -> None:
    """With `refusals_as_responses`, a refusal by the rules is a 403 whose text is the reason."""
    web.serve(ROBOTS, RULES)
    async with crawler(web, gate, refusals_as_responses=True) as client:
        response = await client.get(PRIVATE)
    assert response.status_code == 403
    assert "Disallow: /private" in response.text
    refusal = response.extensions["robotgate"]
    assert isinstance(refusal, DisallowedError)
    assert not refusal.verdict.allowed
    with pytest.raises(httpx.HTTPStatusError):
        response.raise_for_status()
    assert web.counts() == {ROBOTS: 1}


async def test_turn_that_comes_too_late_as_a_response(web: Web, open_gate: OpenGate) -> None:
    """A turn after the request's own `max_wait` is a 503 with the time of the turn, rounded up."""
    gate = await open_gate(delay=5)
    async with crawler(web, gate, refusals_as_responses=True) as client:
        response = await client.get(PAGE, extensions={"robotgate": {"max_wait": 1}})
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert isinstance(response.extensions["robotgate"], TooSoonError)
    assert web.count(PAGE) == 0


async def test_mistakes_are_never_responses(web: Web, gate: RobotGate) -> None:
    """A private address and a closed gate raise, even with `refusals_as_responses`: the site has not refused."""
    async with crawler(web, gate, refusals_as_responses=True) as client:
        with pytest.raises(NonPublicAddressError):
            await client.get("http://127.0.0.1/")
        await gate.aclose()
        with pytest.raises(GateClosedError) as caught:
            await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)


async def test_priority_of_a_request_counts(web: Web, open_gate: OpenGate) -> None:
    """Of the requests that wait for one host, the one with the higher priority goes first."""
    gate = await open_gate(delay=DELAY)
    web.serve(PAGE, takes=0.2)
    async with crawler(web, gate) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.get(PAGE))
        await web.arrivals(2)
        tasks.create_task(client.get(NEXT))
        await until(lambda: gate.host(PAGE).waiting == 1)
        tasks.create_task(client.get(f"{SITE}/urgent", extensions={"robotgate": {"priority": 1}}))
    assert web.urls == [ROBOTS, PAGE, f"{SITE}/urgent", NEXT]


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


async def test_cancellation_while_waiting_leaves_the_queue(web: Web, open_gate: OpenGate) -> None:
    """A cancelled request leaves the queue of its host, and sends nothing."""
    gate = await open_gate(delay=60)
    gate.learn(PAGE, b"")
    async with crawler(web, gate) as client:
        await client.get(PAGE)
        waiting = asyncio.create_task(client.get(NEXT))
        await until(lambda: gate.host(PAGE).waiting == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    view = gate.host(PAGE)
    assert (view.waiting, view.open_turns) == (0, 0)
    assert web.counts() == {PAGE: 1}


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
    """An error of a server that was reached ends the turn, and the host stays open."""
    web.handle(PAGE, handler)
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get(PAGE)
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


async def test_error_of_a_response_hook_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """A response hook that raises before the body is read ends the turn."""
    web.serve(PAGE, LARGE, status=500)

    async def insist(response: httpx.Response) -> None:
        response.raise_for_status()

    client.event_hooks = {"request": [], "response": [insist]}
    with pytest.raises(httpx.HTTPStatusError):
        await client.get(PAGE)
    assert gate.host(PAGE).open_turns == 0


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


async def test_private_address_is_refused(web: Web, client: httpx.AsyncClient) -> None:
    """A redirect to a private address is refused."""
    web.redirect(PAGE, f"http://127.0.0.1:{web.port}/")
    with pytest.raises(NonPublicAddressError) as caught:
        await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == [ROBOTS, PAGE]


@pytest.mark.parametrize(
    "url",
    [
        f"{SITE}/open/%2e%2e/private",
        f"{SITE}/open/%2e%2E?x",
        "http://127.1/",
        "http://[fe80::1%25lo]/",
        "ftp://site.example/",
        "/page",
    ],
)
async def test_url_that_servers_may_read_otherwise_is_refused(
    web: Web, client: httpx.AsyncClient, url: str
) -> None:
    """A URL that the server may read differently than the rules is refused: httpx sends escaped dot segments."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(InvalidURLError) as caught:
        await client.get(url)
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


@pytest.mark.parametrize(
    "target",
    [
        b"/open/../private",
        "/privät".encode(),
        b"http://127.0.0.1/private",
        b"private",
        b"*",
        None,
    ],
)
async def test_target_of_its_own_has_to_be_plain(web: Web, client: httpx.AsyncClient, target: object) -> None:
    """A `target` in the extensions that is not a plain path in bytes is refused."""
    with pytest.raises(InvalidURLError) as caught:
        await client.get(PAGE, extensions={"target": target})
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == []


async def test_target_of_its_own_is_what_is_judged(web: Web, client: httpx.AsyncClient) -> None:
    """The rules judge the `target` that is sent, not the URL beside it."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError):
        await client.get(PAGE, extensions={"target": b"/private"})
    assert web.urls == [ROBOTS]


async def test_store_that_fails_is_an_error_of_both_libraries(web: Web, open_gate: OpenGate) -> None:
    """A store that fails raises a `StoreError` that is an httpx error too, and nothing is sent."""
    gate = await open_gate(store=BrokenStore())
    async with crawler(web, gate) as client:
        with pytest.raises(StoreError, match="put it back") as caught:
            await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.visits == []


async def test_refused_connection_opens_the_circuit(open_gate: OpenGate) -> None:
    """A refused connection closes the host for the next requests. `retries=` of httpx stay within one turn."""
    gate = await open_gate(allow_private_addresses=True, give_up_after=0.0)
    page = f"http://localhost:{free_port()}/page"
    gate.learn(page, b"")
    transport = GateTransport(gate, httpx.AsyncHTTPTransport(retries=1))
    async with httpx.AsyncClient(transport=transport) as client:
        for _ in range(2):
            with pytest.raises(HostUnavailableError, match="it refuses connections"):
                await client.get(page)
    assert gate.host(page).visits == 1


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
        ("http://nowhere.invalid/", HostUnavailableError, "its name cannot be resolved"),
        ("https://127.0.0.1:{web.tls_port}/", httpx.ConnectError, "its TLS handshake fails"),
        ("https://127.0.0.1:{web.port}/", httpx.ConnectError, "its TLS handshake fails"),
    ],
    ids=["name", "certificate", "no TLS"],
)
async def test_host_that_cannot_be_reached_opens_the_circuit(
    web: Web, open_gate: OpenGate, url: str, kind: type[Exception], cause: str
) -> None:
    """A name without an address, a wrong certificate and a failing handshake close the host for the next requests."""
    gate = await open_gate(allow_private_addresses=True, give_up_after=0.0)
    page = url.format(web=web)
    gate.learn(page, b"")
    async with httpx.AsyncClient(transport=GateTransport(gate)) as client:
        with pytest.raises(kind):
            await client.get(page)
        with pytest.raises(HostUnavailableError, match=cause):
            await client.get(page)


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


@pytest.mark.parametrize("page", [PAGE, "https://site.example/page"], ids=["forwarding", "tunnel"])
async def test_dead_proxy_is_no_outage_of_the_host(gate: RobotGate, page: str) -> None:
    """A proxy that refuses connections leaves the host open, though httpx raises the same error for both."""
    gate.learn(page, b"")
    proxied = httpx.AsyncHTTPTransport(proxy=f"http://127.0.0.1:{free_port()}")
    async with httpx.AsyncClient(transport=GateTransport(gate, proxied)) as client:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                await client.get(page)
    assert gate.host(page).unreachable_until_at is None


async def test_error_that_the_caller_is_handling_is_not_the_cause(web: Web, open_gate: OpenGate) -> None:
    """An error of this machine says nothing about the host, even while the caller handles a refused connection."""
    gate = await open_gate(allow_private_addresses=True)
    page = f"http://{LOOPBACK}:{web.port}/"
    elsewhere = f"http://localhost:{free_port()}/"
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


async def test_gate_may_be_closed_before_a_stream(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """A response that has begun can be read to its end after the gate was closed."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE) as response:
        await gate.aclose()
        assert len(await response.aread()) == len(LARGE)


async def test_inner_transport_is_closed_with_the_client(web: Web, gate: RobotGate) -> None:
    """Closing the client closes the inner transport and its connections. A ResourceWarning would fail this test."""
    async with crawler(web, gate) as client:
        await client.get(PAGE)
    with pytest.raises(RuntimeError, match="closed"):
        await client.get(PAGE)


def test_transport_that_waits_for_turns_itself_is_refused() -> None:
    """Each request would wait for two turns."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(OptionError, match=r"^transport=.*not a GateTransport"):
        GateTransport(gate, GateTransport(gate))
