"""`GateTransport`: an httpx client, judged and paced. Measured at the servers."""

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
    from tests.gate.servers import Web

    from robotgate._pacing import HostState

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
NEXT: Final = f"{SITE}/next"
PRIVATE: Final = f"{SITE}/private"
RULES: Final = "User-agent: *\nDisallow: /private"
DELAY: Final = 0.06
LARGE: Final = b"x" * 2_000_000


class ToTheWeb(httpx.AsyncHTTPTransport):
    """Sends every request to the web of the test, whatever host it names: the `connector` of httpx."""

    def __init__(self, web: Web, *, retries: int = 0, limits: httpx.Limits | None = None) -> None:
        super().__init__(retries=retries, limits=limits or httpx.Limits())
        self._web = web

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As the name of the host would lead here."""
        here = request.url.copy_with(host=LOOPBACK, port=self._web.port)
        moved = httpx.Request(
            request.method,
            here,
            headers=request.headers,
            stream=request.stream,
            extensions={"target": request.url.raw_path, **request.extensions},
        )
        return await super().handle_async_request(moved)


class FullStore(MemoryStore):
    """Takes nothing more, from some moment on, for so many times."""

    failures = 0

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As memory, while there is room."""
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is full: make room")
        super().remember_host(pace_key, state)


@asynccontextmanager
async def crawler(
    web: Web, gate: RobotGate, *, refusals_as_responses: bool = False, timeout: float = 5
) -> AsyncIterator[httpx.AsyncClient]:
    """A client as crawlers have them."""
    transport = GateTransport(gate, ToTheWeb(web), refusals_as_responses=refusals_as_responses)
    async with httpx.AsyncClient(transport=transport, follow_redirects=True, timeout=timeout) as client:
        yield client


@pytest.fixture
async def client(web: Web, gate: RobotGate) -> AsyncIterator[httpx.AsyncClient]:
    """A client behind a gate without delay."""
    async with crawler(web, gate) as client:
        yield client


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


async def test_disallowed_page_never_reaches_the_server(web: Web, client: httpx.AsyncClient) -> None:
    """A refusal is raised where the request was made, with the line that says so."""
    web.serve(ROBOTS, RULES)
    assert (await client.get(PAGE)).text == "a page"
    with pytest.raises(DisallowedError) as caught:
        await client.get(PRIVATE)
    assert caught.value.verdict.rule is not None
    assert caught.value.verdict.rule.line == 2
    assert web.counts() == {ROBOTS: 1, PAGE: 1}


async def test_refusal_is_an_error_of_both_libraries(web: Web, client: httpx.AsyncClient) -> None:
    """Handlers of httpx see it, with its request; those that retry what a transport met with do not."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(httpx.RequestError) as caught:
        await client.get(PRIVATE)
    kinds = type(caught.value).__mro__
    assert DisallowedError in kinds
    assert httpx.TransportError not in kinds
    assert caught.value.request.url == PRIVATE
    assert str(caught.value) == str(caught.value.__cause__)


async def test_refusal_knows_its_request_without_a_client(gate: RobotGate) -> None:
    """Whoever calls the transport himself has it as well."""
    request = httpx.Request("GET", "http://10.0.0.1/")
    async with GateTransport(gate) as transport:
        with pytest.raises(httpx.RequestError) as caught:
            await transport.handle_async_request(request)
    assert caught.value.request is request


async def test_refusal_can_be_pickled(web: Web, client: httpx.AsyncClient) -> None:
    """It crosses from a worker process to another as robotgate's own do."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError) as caught:
        await client.get(PRIVATE)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, httpx.RequestError)
    assert isinstance(copy, DisallowedError)
    assert (str(copy), copy.verdict) == (str(caught.value), caught.value.verdict)


async def test_twenty_tasks_are_paced(web: Web, open_gate: OpenGate) -> None:
    """From the end of one answer to the next request, robots.txt included; one at a time."""
    gate = await open_gate(delay=DELAY)
    async with crawler(web, gate) as client:
        answers = await asyncio.gather(*(client.get(f"{PAGE}/{number}") for number in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    gaps = web.gaps("site.example")
    assert len(gaps) == 20
    assert min(gaps) >= DELAY
    assert web.peak() == 1
    assert web.count(ROBOTS) == 1


async def test_waiting_is_on_no_time_out_of_httpx(web: Web, open_gate: OpenGate) -> None:
    """Httpx counts the parts of a request; a turn may be longer in coming than all of them."""
    gate = await open_gate(delay=0.5)
    async with crawler(web, gate, timeout=0.25) as client:
        assert [(await client.get(url)).status_code for url in (PAGE, NEXT)] == [200, 200]
    assert min(web.gaps("site.example")) >= 0.5


async def test_each_hop_of_a_redirect_is_judged(web: Web, client: httpx.AsyncClient) -> None:
    """By the rules of its own host."""
    web.serve("http://other.example/robots.txt", RULES)
    web.redirect(PAGE, "http://other.example/fine")
    web.redirect(NEXT, "http://other.example/private")
    assert (await client.get(PAGE)).url == "http://other.example/fine"
    with pytest.raises(DisallowedError):
        await client.get(NEXT)
    assert web.count("http://other.example/private") == 0


@pytest.mark.parametrize("body", [b"", b"moved", LARGE], ids=["none", "small", "large"])
async def test_each_hop_of_a_redirect_is_paced(web: Web, open_gate: OpenGate, body: bytes) -> None:
    """Whatever body the redirect has."""
    gate = await open_gate(delay=DELAY)
    web.redirect(PAGE, "/next", body=body)
    async with crawler(web, gate) as client:
        assert (await client.get(PAGE)).url == NEXT
    assert web.urls == [ROBOTS, PAGE, NEXT]
    assert min(web.gaps("site.example")) >= DELAY


async def test_both_rounds_of_an_authentication_are_paced(web: Web, open_gate: OpenGate) -> None:
    """Digest asks first, and then with an answer to the challenge."""
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
    """Until it is read to its end, or closed."""
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
    """Though nobody closes it: there is nothing left to come."""
    web.handle(PAGE, cut_off(b"x", length=9))
    response = await client.send(client.build_request("GET", PAGE), stream=True)
    with pytest.raises(httpx.RemoteProtocolError):
        await anext(chunk async for chunk in response.aiter_raw(9))
    assert gate.host(PAGE).open_turns == 0
    await response.aclose()


async def test_stream_in_a_block_ends_with_it(web: Web, gate: RobotGate, client: httpx.AsyncClient) -> None:
    """Who only wants the status may go on at once, in the same task."""
    web.serve(PAGE, LARGE)
    for _ in range(3):
        async with client.stream("GET", PAGE) as response:
            assert response.status_code == 200
        assert gate.host(PAGE).open_turns == 0
    assert web.count(PAGE) == 3


async def test_asking_within_an_open_stream_is_told_of(web: Web, client: httpx.AsyncClient) -> None:
    """A task that would wait for itself hears so at once."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE):
        with pytest.raises(NestedTurnError) as caught:
            await client.get(NEXT)
    assert isinstance(caught.value, httpx.HTTPError)


async def test_identity_is_added(web: Web, client: httpx.AsyncClient) -> None:
    """In place of httpx's own User-Agent; From beside it; other headers as they are."""
    response = await client.get(PAGE, headers={"X-Mine": "1"})
    for visit in web.visits:
        assert visit.headers.getall("User-Agent") == ["ExampleBot/1.0"]
        assert visit.headers["From"] == "bot@example.org"
    assert web.visit(PAGE).headers["X-Mine"] == "1"
    assert response.request.headers["User-Agent"] == "ExampleBot/1.0"


async def test_user_agent_that_names_the_token_is_kept(web: Web, client: httpx.AsyncClient) -> None:
    """A crawler may say more of itself."""
    agent = "Mozilla/5.0 (compatible; examplebot/2.0)"
    await client.get(PAGE, headers={"User-Agent": agent})
    assert web.visit(PAGE).headers["User-Agent"] == agent


async def test_user_agent_of_somebody_else_is_refused(web: Web, client: httpx.AsyncClient) -> None:
    """Obeying one name and sending another tells site owners nothing."""
    with pytest.raises(OptionError, match="ExampleBot"):
        await client.get(PAGE, headers={"User-Agent": "Other/1.0"})
    assert web.visits == []


async def test_block_is_heard(web: Web, open_gate: OpenGate) -> None:
    """429 with Retry-After stops the next request to the host, and says for how long."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "100"})
    async with crawler(web, gate) as client:
        assert (await client.get(PAGE)).status_code == 429
        with pytest.raises(HostUnavailableError) as caught:
            await client.get(NEXT)
    assert isinstance(caught.value, httpx.RequestError)
    assert 90 < caught.value.retry_after <= 100
    assert web.count(NEXT) == 0


async def test_disallowed_page_as_a_response(web: Web, gate: RobotGate) -> None:
    """On request a refusal is a 403, which says why."""
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


async def test_blocked_host_as_a_response(web: Web, open_gate: OpenGate) -> None:
    """On request it is a 503 that says when to come again."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=503, headers={"Retry-After": "100"})
    async with crawler(web, gate, refusals_as_responses=True) as client:
        await client.get(PAGE)
        response = await client.get(NEXT)
    assert response.status_code == 503
    assert 90 < int(response.headers["Retry-After"]) <= 100
    assert isinstance(response.extensions["robotgate"], HostUnavailableError)
    assert web.count(NEXT) == 0


async def test_turn_that_comes_too_late_as_a_response(web: Web, open_gate: OpenGate) -> None:
    """`max_wait` of the request itself: a 503 that says when its turn would come, rounded up."""
    gate = await open_gate(delay=5)
    async with crawler(web, gate, refusals_as_responses=True) as client:
        response = await client.get(PAGE, extensions={"robotgate": {"max_wait": 1}})
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert isinstance(response.extensions["robotgate"], TooSoonError)
    assert web.count(PAGE) == 0


async def test_mistakes_are_never_responses(web: Web, gate: RobotGate) -> None:
    """Whatever was asked for: they are none of the site's."""
    async with crawler(web, gate, refusals_as_responses=True) as client:
        with pytest.raises(NonPublicAddressError):
            await client.get("http://127.0.0.1/")
        await gate.aclose()
        with pytest.raises(GateClosedError) as caught:
            await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)


async def test_priority_of_a_request_counts(web: Web, open_gate: OpenGate) -> None:
    """Of those who wait for one host, the higher goes first."""
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
    ("given", "message"),
    [
        ({"max_wiat": 3}, r"^extensions\[\"robotgate\"\]: .*'max_wiat'; known are max_wait, priority$"),
        ({3: 3}, r"^extensions\[\"robotgate\"\]: .* 3; known are max_wait, priority$"),
        (None, r"^extensions\[\"robotgate\"\]=None: give a dict"),
        (30, r"^extensions\[\"robotgate\"\]=30: give a dict"),
        ({"max_wait": -1}, r"^max_wait=-1: give"),
        ({"max_wait": "3"}, r"^max_wait='3': give"),
        ({"priority": None}, r"^priority=None: give"),
    ],
)
async def test_wrong_option_of_a_request_is_refused(
    web: Web, gate: RobotGate, given: object, message: str
) -> None:
    """A misspelt one would go unheeded. A mistake of the program is none of httpx's errors, and never a response."""
    async with crawler(web, gate, refusals_as_responses=True) as client:
        with pytest.raises(OptionError, match=message) as caught:
            await client.get(PAGE, extensions={"robotgate": given})
    assert not isinstance(caught.value, httpx.HTTPError)
    assert web.visits == []


async def test_error_without_a_twin_is_not_its_own_cause(client: httpx.AsyncClient) -> None:
    """Who follows causes comes to an end."""
    with pytest.raises(OptionError) as caught:
        await client.get(PAGE, extensions={"robotgate": {"max_wait": -1}})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


async def test_refusal_reads_well_in_a_log(client: httpx.AsyncClient) -> None:
    """Nothing of it looks like none of the reader's business."""
    with pytest.raises(NonPublicAddressError) as caught:
        await client.get("http://10.0.0.1/")
    assert repr(caught.value).startswith('NonPublicAddressRequestError("not a public address')


async def test_cancellation_while_waiting_leaves_the_lane(web: Web, open_gate: OpenGate) -> None:
    """Nobody stands in the way of those behind."""
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


async def test_cancellation_while_sending_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """While the answer is awaited."""
    web.handle(PAGE, silent())
    asking = asyncio.create_task(client.get(PAGE))
    await web.arrivals(2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


async def test_cancellation_while_streaming_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """In the midst of the body."""
    web.handle(PAGE, dripping())
    has_begun = asyncio.Event()

    async def read() -> None:
        async with client.stream("GET", PAGE) as response:
            async for _ in response.aiter_raw():
                has_begun.set()

    reading = asyncio.create_task(read())
    await has_begun.wait()
    assert gate.host(PAGE).open_turns == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert gate.host(PAGE).open_turns == 0


@pytest.mark.parametrize(
    ("handler", "error"),
    [(hang_up(), httpx.RemoteProtocolError), (cut_off(b"x", length=9), httpx.RemoteProtocolError)],
    ids=["no answer", "half a body"],
)
async def test_failure_ends_the_turn_and_is_no_outage(
    web: Web, gate: RobotGate, client: httpx.AsyncClient, handler: object, error: type[Exception]
) -> None:
    """What a server did wrong once it was reached sends nobody away."""
    web.handle(PAGE, handler)  # type: ignore[arg-type]
    with pytest.raises(error):
        await client.get(PAGE)
    assert gate.host(PAGE).open_turns == 0
    assert (await client.get(NEXT)).status_code == 200


async def test_error_of_a_response_hook_ends_the_turn(
    web: Web, gate: RobotGate, client: httpx.AsyncClient
) -> None:
    """`raise_for_status` in a hook is how many programs do it; the body has not been read then."""
    web.serve(PAGE, LARGE, status=500)

    async def insist(response: httpx.Response) -> None:
        response.raise_for_status()

    client.event_hooks = {"request": [], "response": [insist]}
    with pytest.raises(httpx.HTTPStatusError):
        await client.get(PAGE)
    assert gate.host(PAGE).open_turns == 0


async def test_request_hook_sees_each_hop_before_its_turn(web: Web, client: httpx.AsyncClient) -> None:
    """Hooks run as without a gate."""
    web.redirect(PAGE, "/next")
    seen: list[str] = []

    async def note(request: httpx.Request) -> None:
        seen.append(str(request.url))

    client.event_hooks = {"request": [note], "response": []}
    await client.get(PAGE)
    assert seen == [PAGE, NEXT]


async def test_trace_of_the_caller_is_kept(web: Web, client: httpx.AsyncClient) -> None:
    """At every hop, once for each event; his request stays as he made it."""
    web.redirect(PAGE, "/next")
    events: list[str] = []

    async def trace(event: str, _: object) -> None:
        events.append(event)

    request = client.build_request("GET", PAGE, extensions={"trace": trace})
    await client.send(request)
    assert request.extensions["trace"] is trace
    assert events.count("http11.send_request_headers.started") == 2


async def test_private_address_is_refused(web: Web, client: httpx.AsyncClient) -> None:
    """As a literal, also where a redirect leads."""
    web.redirect(PAGE, f"http://127.0.0.1:{web.port}/")
    with pytest.raises(NonPublicAddressError) as caught:
        await client.get(PAGE)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == [ROBOTS, PAGE]


@pytest.mark.parametrize(
    "url",
    [
        f"{SITE}/open/%2e%2e/private",
        f"{SITE}/open/.%2E/private",
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
    """Httpx sends an escaped dot segment as it is; servers go where it leads, past the rule that was asked."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(InvalidURLError) as caught:
        await client.get(url)
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == []


@pytest.mark.parametrize("target", ["/page?q=%20+", "/a%2Fb", "/%7Euser/%C3%A4", "/x;y=.1/..."])
async def test_what_is_judged_is_what_is_sent(web: Web, client: httpx.AsyncClient, target: str) -> None:
    """To the octet: httpx spells URLs in another way than aiohttp."""
    web.serve(ROBOTS, f"User-agent: *\nDisallow: /\nAllow: {target}$")
    assert (await client.get(f"{SITE}{target}")).status_code == 200
    assert web.urls[-1] == f"{SITE}{target}"


async def test_empty_query_is_judged_as_it_is_sent(web: Web, client: httpx.AsyncClient) -> None:
    """Httpx sends it, where aiohttp does not."""
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
        b"?/private",
        b"*",
        b"",
        "/page",
        None,
    ],
)
async def test_target_of_its_own_has_to_be_plain(web: Web, client: httpx.AsyncClient, target: object) -> None:
    """What nobody has written as a URL is held to the same, and no form of it passes by the rules for paths."""
    with pytest.raises(InvalidURLError) as caught:
        await client.get(PAGE, extensions={"target": target})
    assert isinstance(caught.value, httpx.RequestError)
    assert web.urls == []


async def test_target_of_its_own_is_what_is_judged(web: Web, client: httpx.AsyncClient) -> None:
    """Httpx lets a request name another path for the wire."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError):
        await client.get(PAGE, extensions={"target": b"/private"})
    assert web.urls == [ROBOTS]


@pytest.mark.parametrize("status", [200, 429])
@pytest.mark.parametrize("failures", [1, 9])
async def test_store_that_fails_leaves_no_connection_behind(
    web: Web, open_gate: OpenGate, status: int, failures: int
) -> None:
    """Be it at the status or at the end: the one connection there is serves the next, and httpx knows the error."""
    store = FullStore()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        store.failures = failures
        return aioweb.Response(status=status, text="a page")

    web.handle(PAGE, answer)
    one = httpx.Limits(max_connections=1)
    gate = await open_gate(store=store)
    transport = GateTransport(gate, ToTheWeb(web, limits=one))
    async with httpx.AsyncClient(transport=transport, timeout=2) as client:
        with pytest.raises(StoreError, match="make room") as caught:
            await client.get(PAGE)
        assert isinstance(caught.value, httpx.RequestError)
        assert str(caught.value.request.url) == PAGE
        assert gate.host(PAGE).open_turns == 0
        store.failures = 0
        assert (await client.get("http://other.example/")).status_code == 200


async def test_refused_connection_opens_the_circuit(open_gate: OpenGate) -> None:
    """Whoever waits for the origin is sent away, and nobody tries it again soon. Retries are of one turn."""
    gate = await open_gate(allow_private_addresses=True)
    page = f"http://localhost:{free_port()}/page"
    gate.learn(page, b"")
    transport = GateTransport(gate, httpx.AsyncHTTPTransport(retries=1))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(page)
        with pytest.raises(HostUnavailableError, match="it refuses connections"):
            await client.get(page)
    assert gate.host(page).visits == 1


async def test_name_that_does_not_resolve_opens_the_circuit(open_gate: OpenGate) -> None:
    """As a refused connection."""
    gate = await open_gate()
    page = "http://nowhere.invalid/"
    gate.learn(page, b"")
    async with httpx.AsyncClient(transport=GateTransport(gate)) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(page)
        with pytest.raises(HostUnavailableError, match="its name cannot be resolved"):
            await client.get(page)


@pytest.mark.parametrize("speaks_tls", [True, False], ids=["certificate", "no TLS"])
async def test_failing_tls_opens_the_circuit(web: Web, open_gate: OpenGate, *, speaks_tls: bool) -> None:
    """A certificate that does not hold, or none of it."""
    gate = await open_gate(allow_private_addresses=True)
    page = f"https://127.0.0.1:{web.tls_port if speaks_tls else web.port}/"
    gate.learn(page, b"")
    async with httpx.AsyncClient(transport=GateTransport(gate)) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(page)
        with pytest.raises(HostUnavailableError, match="its TLS handshake fails"):
            await client.get(page)


async def test_silent_host_opens_the_circuit(web: Web, gate: RobotGate) -> None:
    """A time-out before the status is the host's."""
    web.handle(PAGE, silent())
    async with crawler(web, gate, timeout=0.1) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(PAGE)
        with pytest.raises(HostUnavailableError, match="it does not answer in time"):
            await client.get(NEXT)


async def test_full_pool_is_no_outage(web: Web, gate: RobotGate) -> None:
    """That httpx had no connection to give is our own fault."""
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
    """Httpx tells of it by the same error as of a dead host."""
    gate.learn(page, b"")
    proxied = httpx.AsyncHTTPTransport(proxy=f"http://127.0.0.1:{free_port()}")
    async with httpx.AsyncClient(transport=GateTransport(gate, proxied)) as client:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                await client.get(page)
    assert gate.host(page).unreachable_until_at is None


async def test_what_the_caller_was_at_is_not_taken_for_the_cause(web: Web, open_gate: OpenGate) -> None:
    """A connection that this machine cannot make says nothing of the host, in the handler of a refused one neither."""
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
    """What has been let through comes to its end."""
    web.serve(PAGE, LARGE)
    async with client.stream("GET", PAGE) as response:
        await gate.aclose()
        assert len(await response.aread()) == len(LARGE)


async def test_inner_transport_is_closed_with_the_client(web: Web, gate: RobotGate) -> None:
    """Its idle connections are let go of: a warning would fail this test."""
    async with crawler(web, gate) as client:
        await client.get(PAGE)
    with pytest.raises(RuntimeError, match="closed"):
        await client.get(PAGE)


def test_another_event_loop_than_asyncios_is_told_of() -> None:
    """Under trio, say; here, under none at all."""
    transport = GateTransport(RobotGate("ExampleBot/1.0", contact="bot@example.org"))
    sending = transport.handle_async_request(httpx.Request("GET", PAGE))
    with pytest.raises(RuntimeError, match="under asyncio"):
        sending.send(None)


def test_option_that_makes_no_sense_is_named() -> None:
    """When the transport is made."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(OptionError, match=r"^gate="):
        GateTransport("gate")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^transport="):
        GateTransport(gate, "http://proxy.example")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^transport=.*not a GateTransport"):
        GateTransport(gate, GateTransport(gate))
    with pytest.raises(OptionError, match=r"^refusals_as_responses="):
        GateTransport(gate, refusals_as_responses="yes")  # type: ignore[arg-type]
