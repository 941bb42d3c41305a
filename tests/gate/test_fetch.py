"""`await gate.fetch(url)`: judged and paced hop by hop, and otherwise as aiohttp does it. Measured at real servers."""

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import time
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import cut_off, dripping, endless, hang_up, silent
from yarl import URL

from robotgate import (
    DisallowedError,
    Hop,
    HostUnavailableError,
    InvalidURLError,
    NonPublicAddressError,
    OptionError,
    Reason,
    ResponseTooLargeError,
    RobotGate,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web


SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
OTHER = "http://other.example"
RULES = "User-agent: *\nDisallow: /private"
DELAY = 0.06
BASIC = "Basic dXNlcjpzZWNyZXQ="

pytestmark = [
    # aiohttp 3.14 deprecates what crawlers still use, and what works until aiohttp 4.
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'auth' parameter is deprecated:DeprecationWarning"),
]


def served_pages(web: Web) -> list[str]:
    """What was asked for besides robots.txt, in order, with the method."""
    return [f"{visit.method} {visit.url}" for visit in web.visits if not visit.url.endswith("/robots.txt")]


async def test_page_is_read(web: Web, gate: RobotGate) -> None:
    """Status, headers, body, verdict and times in one value."""
    web.serve(
        PAGE, "grüße", status=203, headers={"X-Kind": "page", "Content-Type": "text/plain; charset=utf-8"}
    )
    response = await gate.fetch(PAGE)
    assert (response.status, response.url, response.history) == (203, PAGE, ())
    assert response.text == "grüße"
    assert response.headers["x-kind"] == "page"
    assert response.verdict.reason is Reason.ROBOTS_TXT_UNAVAILABLE
    assert response.elapsed >= 0
    assert response.waited >= 0


async def test_times_are_told_apart(web: Web, open_gate: OpenGate) -> None:
    """`waited` is the wait for the turn, `elapsed` the request itself."""
    gate = await open_gate(delay=0.2)
    web.serve(PAGE, "slow", takes=0.1)
    began_at = time.monotonic()
    response = await gate.fetch(PAGE)
    assert response.waited >= 0.15
    assert response.elapsed >= 0.1
    assert response.waited + response.elapsed <= time.monotonic() - began_at


async def test_disallowed_page_is_never_sent(web: Web, gate: RobotGate) -> None:
    """A refusal costs no turn."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch(f"{SITE}/private")
    assert caught.value.status == 403
    assert caught.value.chain == ()
    assert web.urls == [ROBOTS]
    assert gate.host(PAGE).visits == 1


async def test_pages_come_one_delay_apart(web: Web, open_gate: OpenGate) -> None:
    """From the end of one answer to the next request, robots.txt included, one at a time, in order of arrival."""
    gate = await open_gate(delay=DELAY)
    pages = [f"{PAGE}/{number}" for number in range(6)]
    for page in pages:
        web.serve(page, takes=0.02)
    await asyncio.gather(*(gate.fetch(page) for page in pages))
    assert web.urls == [ROBOTS, *pages]
    assert min(web.gaps("site.example")) >= DELAY
    assert web.peak() == 1


@pytest.mark.parametrize(
    "lines",
    [
        "User-agent: *\nCrawl-delay: 0.15",
        "User-agent: *\nCrawl-delay: 0,15",
        "User-agent: *\nCrawl-delay: .15",
        "User-agent: *\nCrawl-delay: 150 ms",
        "User-agent: *\nRequest-rate: 1/0.15s",
        "User-agent: *\nRequest-rate: 400 / min",
        "Crawl-delay: 0.15\nUser-agent: *\nDisallow: /private",
    ],
)
async def test_crawl_delay_is_kept(web: Web, gate: RobotGate, lines: str) -> None:
    """The site's own delay, where it is longer than ours; the first page waits for it too."""
    web.serve(ROBOTS, lines)
    await asyncio.gather(*(gate.fetch(f"{PAGE}/{number}") for number in range(3)))
    gaps = web.gaps("site.example")
    assert len(gaps) == 3
    assert min(gaps) >= 0.15


@pytest.mark.parametrize(
    "line", ["Crawl-delay: 11", "Crawl-delay: 1 min", "Request-rate: 1/1 h", "Crawl-delay: 5-20"]
)
async def test_too_long_a_crawl_delay_is_refused(web: Web, open_gate: OpenGate, line: str) -> None:
    """Never visited sooner than it asks."""
    gate = await open_gate(max_delay=10)
    web.serve(ROBOTS, f"User-agent: *\n{line}")
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.verdict.reason is Reason.DELAY_TOO_LONG
    assert web.urls == [ROBOTS]


async def test_hosts_do_not_wait_for_each_other(web: Web, open_gate: OpenGate) -> None:
    """Each host has its own queue: while no host has answered, all have been asked."""
    gate = await open_gate(delay=0.1)
    pages = [f"http://host{number}.example/" for number in range(30)]
    may_answer = asyncio.Event()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await may_answer.wait()
        return aioweb.Response()

    for page in pages:
        web.handle(page, answer)
    fetching = [asyncio.create_task(gate.fetch(page)) for page in pages]
    await web.arrivals(60)
    may_answer.set()
    assert {response.status for response in await asyncio.gather(*fetching)} == {200}


@pytest.mark.parametrize("bound", [1, 4])
async def test_concurrency_bounds_pages_at_the_servers(web: Web, open_gate: OpenGate, bound: int) -> None:
    """Over all hosts."""
    gate = await open_gate(concurrency=bound)
    pages = [f"http://host{number}.example/page" for number in range(12)]
    for page in pages:
        assert await gate.allowed(page)
        web.serve(page, takes=0.02)
    web.visits.clear()
    await asyncio.gather(*(gate.fetch(page) for page in pages))
    assert web.peak() == bound


async def test_concurrency_per_host_lets_requests_overlap(web: Web, open_gate: OpenGate) -> None:
    """Up to so many requests of a host are under way at once, and the delay holds from start to start."""
    gate = await open_gate(delay=0.05, concurrency_per_host=3)
    pages = [f"{PAGE}/{number}" for number in range(5)]
    for page in pages:
        web.serve(page, takes=0.12)
    began_at = time.monotonic()
    await asyncio.gather(*(gate.fetch(page) for page in pages))
    assert 2 <= web.peak() <= 3
    # After robots.txt and after each of the first four pages; when they arrive is up to the machine.
    assert time.monotonic() - began_at >= 5 * 0.05 + 0.12


# ── redirects


async def test_redirects_are_followed_hop_by_hop(web: Web, gate: RobotGate) -> None:
    """Each hop's host is asked for its own rules before it is asked for the page."""
    web.redirect(PAGE, "/moved", status=301)
    web.redirect(f"{SITE}/moved", f"{OTHER}/here", status=307)
    web.serve(f"{OTHER}/here", "here")
    response = await gate.fetch(PAGE)
    assert (response.status, response.url, response.text) == (200, f"{OTHER}/here", "here")
    assert response.history == (Hop(PAGE, 301), Hop(f"{SITE}/moved", 307))
    assert response.verdict.url == f"{OTHER}/here"
    assert web.urls == [ROBOTS, PAGE, f"{SITE}/moved", f"{OTHER}/robots.txt", f"{OTHER}/here"]


async def test_redirects_keep_the_pace(web: Web, open_gate: OpenGate) -> None:
    """A hop is a request like any other; `waited` is the sum over all."""
    gate = await open_gate(delay=DELAY)
    for number in range(3):
        web.redirect(f"{PAGE}/{number}", f"/page/{number + 1}", body=b"moved")
    response = await gate.fetch(f"{PAGE}/0")
    gaps = web.gaps("site.example")
    assert len(gaps) == 4
    assert min(gaps) >= DELAY
    assert response.waited >= 4 * DELAY - 0.01
    assert len(response.history) == 3


@pytest.mark.parametrize("door", ["read", "stream"])
@pytest.mark.parametrize("length", [10, 100_000])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_whose_body_breaks_off_is_followed(
    web: Web, gate: RobotGate, status: int, length: int, door: str
) -> None:
    """What it says stands in its headers; its turn ends."""
    web.handle(PAGE, cut_off(b"moved", length=length, status=status, headers={"Location": "/there"}))
    async with asyncio.timeout(60):
        if door == "read":
            response = await gate.fetch(PAGE)
            assert (response.text, response.url) == ("a page", f"{SITE}/there")
        else:
            async with gate.fetch(PAGE) as streamed:
                assert await streamed.text() == "a page"
    assert gate.host(PAGE).open_turns == 0
    assert web.urls == [ROBOTS, PAGE, f"{SITE}/there"]


@pytest.mark.parametrize("door", ["read", "stream"])
@pytest.mark.parametrize(
    "handler",
    [
        endless(b"x" * 65_536, status=302, headers={"Location": "/there"}),
        dripping(status=302, headers={"Location": "/there"}),
    ],
    ids=["endless", "dripping"],
)
async def test_redirect_whose_body_never_ends_is_followed(
    web: Web, gate: RobotGate, handler: Handler, door: str
) -> None:
    """On the same host, whose only turn it had."""
    web.handle(PAGE, handler)
    async with asyncio.timeout(60):
        if door == "read":
            assert (await gate.fetch(PAGE)).text == "a page"
        else:
            async with gate.fetch(PAGE) as streamed:
                assert await streamed.text() == "a page"
    assert gate.host(PAGE).open_turns == 0
    assert web.urls == [ROBOTS, PAGE, f"{SITE}/there"]


async def test_hop_that_is_refused_names_the_chain(web: Web, gate: RobotGate) -> None:
    """How the crawler came there, without having been there."""
    web.redirect(PAGE, f"{OTHER}/one")
    web.redirect(f"{OTHER}/one", "/private/two")
    web.serve(f"{OTHER}/robots.txt", RULES)
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.chain == (PAGE, f"{OTHER}/one")
    assert caught.value.verdict.url == f"{OTHER}/private/two"
    assert f"redirected from {PAGE} -> {OTHER}/one" in str(caught.value)
    assert web.count(f"{OTHER}/private/two") == 0


async def test_hop_to_an_unreachable_host_is_refused(web: Web, gate: RobotGate) -> None:
    """Its robots.txt cannot be read, so its page is not."""
    web.redirect(PAGE, f"{OTHER}/page")
    web.serve(f"{OTHER}/robots.txt", status=500)
    with pytest.raises(HostUnavailableError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.host == "other.example"
    assert served_pages(web) == [f"GET {PAGE}"]


async def test_circle_ends(web: Web, gate: RobotGate) -> None:
    """After the redirects that the option allows."""
    web.redirect(PAGE, PAGE)
    with pytest.raises(aiohttp.TooManyRedirects) as caught:
        await gate.fetch(PAGE)
    assert web.count(PAGE) == 11
    assert len(caught.value.history) == 11
    assert gate.host(PAGE).open_turns == 0


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_max_redirects(web: Web, gate: RobotGate, most: int) -> None:
    """So many are followed, and no more."""
    for number in range(most):
        web.redirect(f"{PAGE}/{number}", f"/page/{number + 1}")
    assert (await gate.fetch(f"{PAGE}/0", max_redirects=most)).text == "a page"
    web.redirect(f"{PAGE}/{most}", "/page")
    with pytest.raises(aiohttp.TooManyRedirects):
        await gate.fetch(f"{PAGE}/0", max_redirects=most)


async def test_redirects_are_left_alone_if_asked(web: Web, gate: RobotGate) -> None:
    """`allow_redirects=False` gives the redirect itself."""
    web.redirect(PAGE, f"{OTHER}/page", body=b"moved")
    response = await gate.fetch(PAGE, allow_redirects=False)
    assert (response.status, response.headers["Location"]) == (302, f"{OTHER}/page")
    assert (response.body, response.history) == (b"moved", ())
    assert web.urls == [ROBOTS, PAGE]


@pytest.mark.parametrize("status", [300, 304, 305, 302])
async def test_redirect_without_a_place_is_the_answer(web: Web, gate: RobotGate, status: int) -> None:
    """As aiohttp has it."""
    web.serve(PAGE, status=status)
    response = await gate.fetch(PAGE)
    assert response.status == status


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("ftp://other.example/", aiohttp.ClientError),
        ("mailto:bot@example.org", aiohttp.ClientError),
        ("javascript:alert(1)", aiohttp.ClientError),
        ("http://[::1", aiohttp.ClientError),
        ("http://other.example:99999/", aiohttp.ClientError),
        (f"http://{'a' * 300}.example/", InvalidURLError),
        ("http://a b.example/", InvalidURLError),
        ("http://127.0.0.1/", NonPublicAddressError),
        ("http://localhost:8080/", NonPublicAddressError),
        ("http://169.254.169.254/latest/meta-data/", NonPublicAddressError),
        ("http://[::ffff:10.0.0.1]/", NonPublicAddressError),
    ],
)
async def test_redirect_to_nowhere_is_an_error(
    web: Web, gate: RobotGate, location: str, error: type[Exception]
) -> None:
    """One that says so, and nothing is sent there."""
    web.redirect(PAGE, location)
    with pytest.raises(error):
        await gate.fetch(PAGE)
    assert web.urls == [ROBOTS, PAGE]
    assert gate.host(PAGE).open_turns == 0


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("next", f"{SITE}/dir/next"),
        ("?q=1", f"{SITE}/dir/page?q=1"),
        ("../up", f"{SITE}/up"),
        ("//other.example/x", f"{OTHER}/x"),
        ("/caf%C3%A9?a=%26", f"{SITE}/caf%C3%A9?a=%26"),
        ("/café", f"{SITE}/caf%C3%A9"),
        ("http://OTHER.example:80/x#part", f"{OTHER}/x"),
        (" /spaced", f"{SITE}/spaced"),
    ],
)
async def test_location_is_resolved(web: Web, gate: RobotGate, location: str, target: str) -> None:
    """As clients do, so that what is judged is what is sent."""
    web.redirect(f"{SITE}/dir/page", location)
    if location.startswith("?"):
        # The same handler answers the page with a query: it must not redirect again.
        web.handle(f"{SITE}/dir/page", redirect_once("?q=1"))
    await gate.fetch(f"{SITE}/dir/page")
    assert served_pages(web)[-1] == f"GET {target}"


def redirect_once(location: str) -> Handler:
    """Redirects what has no query."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        if request.query_string:
            return aioweb.Response(text="here")
        return aioweb.Response(status=302, headers={"Location": location})

    return answer


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 301, "PUT"),
        ("PUT", 303, "GET"),
        ("PUT", 307, "PUT"),
        ("HEAD", 302, "HEAD"),
        ("HEAD", 303, "HEAD"),
        ("GET", 303, "GET"),
        ("DELETE", 308, "DELETE"),
    ],
)
async def test_method_after_a_redirect(
    web: Web, gate: RobotGate, method: str, status: int, then: str
) -> None:
    """RFC 9110 §15.4, as aiohttp does it; the body goes where the method does."""
    web.redirect(PAGE, "/there", status=status)
    body = b"" if method in ("HEAD", "GET", "DELETE") else b"body"
    await gate.fetch(PAGE, method=method, data=body or None, headers={"Content-Type": "text/x-test"})
    there = web.visit(f"{SITE}/there")
    assert there.method == then
    assert there.body == (body if then == method else b"")
    if then != method:
        assert there.headers.get("Content-Length", "0") == "0"


@pytest.mark.parametrize("status", [307, 308])
async def test_json_survives_a_redirect_that_keeps_it(web: Web, gate: RobotGate, status: int) -> None:
    """The same body, the same type."""
    web.redirect(PAGE, "/there", status=status)
    await gate.fetch(PAGE, "POST", json={"a": 1})
    there = web.visit(f"{SITE}/there")
    assert (there.body, there.headers["Content-Type"]) == (b'{"a": 1}', "application/json")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda file: file,
        lambda file: {"f": file},
        lambda file: [("f", file)],
        lambda file: (("a", "1"), ("f", file)),
    ],
    ids=["bare", "dict", "list", "tuple"],
)
async def test_file_survives_a_redirect_that_keeps_it(
    web: Web, gate: RobotGate, wrap: Callable[[io.BytesIO], object]
) -> None:
    """A file that was read to its end is sent again from where it began, or not at all; never empty."""
    web.redirect(PAGE, "/there", status=307)
    try:
        await gate.fetch(PAGE, "POST", data=wrap(io.BytesIO(b"the file")))
    except aiohttp.ClientPayloadError:
        assert web.count(f"{SITE}/there") == 0
    else:
        assert b"the file" in web.visit(f"{SITE}/there").body


async def test_form_of_values_survives_a_redirect_that_keeps_it(web: Web, gate: RobotGate) -> None:
    """Nothing of it was spent."""
    web.redirect(PAGE, "/there", status=307)
    await gate.fetch(PAGE, "POST", data={"a": "1", "b": "two"})
    assert web.visit(f"{SITE}/there").body == b"a=1&b=two"


async def test_stream_that_is_spent_is_not_sent_empty(web: Web, gate: RobotGate) -> None:
    """A generator cannot be read twice: the redirect fails, as aiohttp has it."""

    async def octets() -> AsyncIterator[bytes]:
        yield b"the "
        yield b"stream"

    web.redirect(PAGE, "/there", status=307)
    with pytest.raises(aiohttp.ClientPayloadError):
        await gate.fetch(PAGE, "POST", data=octets())
    assert web.count(f"{SITE}/there") == 0


# ── credentials


@pytest.mark.parametrize("target", [f"{OTHER}/there", "https://site.example/there", f"{SITE}:8080/there"])
async def test_credentials_do_not_cross_origins(web: Web, gate: RobotGate, target: str) -> None:
    """Neither headers nor cookies given with the request; another port and another scheme are other origins."""
    web.redirect(PAGE, target)
    await gate.fetch(
        PAGE,
        headers={
            "Authorization": "Bearer secret",
            "Cookie": "a=b",
            "Proxy-Authorization": "x",
            "X-Mine": "1",
        },
    )
    assert web.visit(PAGE).headers["Authorization"] == "Bearer secret"
    there = web.visit(target)
    assert there.headers["X-Mine"] == "1"
    assert not {"Authorization", "Cookie", "Proxy-Authorization"} & set(there.headers)


@pytest.mark.parametrize("target", [f"{OTHER}/there", "https://site.example/there", f"{SITE}:8080/there"])
async def test_auth_and_cookies_do_not_cross_origins(web: Web, gate: RobotGate, target: str) -> None:
    """Nor as aiohttp's options."""
    web.redirect(PAGE, target)
    await gate.fetch(PAGE, auth=aiohttp.BasicAuth("user", "secret"), cookies={"a": "b"})
    assert web.visit(PAGE).headers["Authorization"] == BASIC
    assert web.visit(PAGE).headers["Cookie"] == "a=b"
    assert not {"Authorization", "Cookie"} & set(web.visit(target).headers)


async def test_credentials_of_the_url_do_not_cross_origins(web: Web, gate: RobotGate) -> None:
    """`user:password@` is for the host it stands before."""
    web.redirect(PAGE, f"{OTHER}/there")
    await gate.fetch("http://user:secret@site.example/page")
    assert web.visit(PAGE).headers["Authorization"] == BASIC
    assert "Authorization" not in web.visit(f"{OTHER}/there").headers
    assert "Authorization" not in web.visit(ROBOTS).headers


async def test_credentials_do_not_come_back_with_a_later_hop(web: Web, gate: RobotGate) -> None:
    """Once left behind they stay behind, though the last hop is the first origin again."""
    web.redirect(PAGE, f"{OTHER}/there")
    web.redirect(f"{OTHER}/there", f"{SITE}/back")
    await gate.fetch(PAGE, auth=aiohttp.BasicAuth("user", "secret"))
    assert "Authorization" not in web.visit(f"{SITE}/back").headers


@pytest.mark.parametrize("given", ["headers", "auth", "cookies", "url"])
async def test_credentials_stay_within_an_origin(web: Web, gate: RobotGate, given: str) -> None:
    """A redirect within the origin takes along what the first request carried, as with aiohttp."""
    web.redirect(PAGE, "/there")
    if given == "headers":
        await gate.fetch(PAGE, headers={"Authorization": "Bearer secret"})
    elif given == "auth":
        await gate.fetch(PAGE, auth=aiohttp.BasicAuth("user", "secret"))
    elif given == "cookies":
        await gate.fetch(PAGE, cookies={"a": "b"})
    else:
        await gate.fetch("http://user:secret@site.example/page")
    name = "Cookie" if given == "cookies" else "Authorization"
    assert web.visit(f"{SITE}/there").headers.get(name) == web.visit(PAGE).headers[name]


async def test_password_of_the_url_is_not_told(web: Web, gate: RobotGate) -> None:
    """Neither the error of a refused hop nor the history of a response gives a secret away."""
    web.redirect(PAGE, f"{OTHER}/private")
    web.redirect(f"{SITE}/fine", f"{OTHER}/fine")
    web.serve(f"{OTHER}/robots.txt", RULES)
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch("http://user:secret@site.example/page")
    assert "secret" not in f"{caught.value} {caught.value.chain}"
    response = await gate.fetch("http://user:secret@site.example/fine")
    assert "secret" not in f"{response.url} {response.history} {response.verdict}"


# ── limits and errors


@pytest.mark.parametrize("size", [999, 1000])
async def test_body_up_to_max_bytes_is_read(web: Web, gate: RobotGate, size: int) -> None:
    """The limit is part of what is allowed."""
    web.serve(PAGE, b"x" * size)
    assert len((await gate.fetch(PAGE, max_bytes=1000)).body) == size


async def test_longer_body_is_refused(web: Web, open_gate: OpenGate) -> None:
    """By the gate's limit, or by that of the request."""
    gate = await open_gate(max_bytes=10)
    web.serve(PAGE, b"x" * 1001)
    with pytest.raises(ResponseTooLargeError, match="max_bytes=1000"):
        await gate.fetch(PAGE, max_bytes=1000)
    with pytest.raises(ResponseTooLargeError, match="max_bytes=10"):
        await gate.fetch(PAGE)
    assert (await gate.fetch(PAGE, max_bytes=2000)).status == 200
    assert gate.host(PAGE).open_turns == 0


async def test_endless_body_is_refused(web: Web, gate: RobotGate) -> None:
    """Sooner than it ends."""
    web.handle(PAGE, endless(b"x" * 65_536))
    with pytest.raises(ResponseTooLargeError):
        await gate.fetch(PAGE, max_bytes=1_000_000)
    assert gate.host(PAGE).open_turns == 0


@pytest.mark.parametrize("max_bytes", [-1, 0, 1.5, "10", True])
async def test_max_bytes_that_makes_no_sense_is_refused(web: Web, gate: RobotGate, max_bytes: object) -> None:
    """By name, before anything is sent, as it is at construction."""
    with pytest.raises(OptionError, match="max_bytes"):
        await gate.fetch(PAGE, max_bytes=max_bytes)  # type: ignore[arg-type]
    assert web.visits == []


@pytest.mark.parametrize("max_wait", [-1, float("nan"), float("inf"), "1", True])
async def test_max_wait_that_makes_no_sense_is_refused(web: Web, gate: RobotGate, max_wait: object) -> None:
    """By name, before anything is sent."""
    with pytest.raises(OptionError, match="max_wait"):
        await gate.fetch(PAGE, max_wait=max_wait)  # type: ignore[arg-type]
    assert web.visits == []


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_error_status_is_a_response(web: Web, gate: RobotGate, status: int) -> None:
    """As with aiohttp, it is raised only if that is asked for."""
    web.serve(PAGE, "sorry", status=status)
    response = await gate.fetch(PAGE)
    assert (response.status, response.text) == (status, "sorry")


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_raise_for_status_of_the_request(web: Web, gate: RobotGate, status: int) -> None:
    """The error is aiohttp's own, and the turn is over."""
    web.serve(PAGE, "sorry", status=status)
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        await gate.fetch(PAGE, raise_for_status=True)
    assert caught.value.status == status
    assert gate.host(PAGE).open_turns == 0


async def test_raise_for_status_of_the_session(web: Web, open_gate: OpenGate) -> None:
    """The pages' errors are raised, those of robots.txt are answers; a request may ask otherwise."""
    async with aiohttp.ClientSession(connector=web.connector(), raise_for_status=True) as session:
        gate = await open_gate(session=session)
        web.redirect(f"{SITE}/moved", "/page")
        web.serve(PAGE, "sorry", status=500)
        for url in (PAGE, f"{SITE}/moved"):
            with pytest.raises(aiohttp.ClientResponseError):
                await gate.fetch(url)
        assert (await gate.fetch(PAGE, raise_for_status=False)).status == 500
        assert gate.host(PAGE).open_turns == 0


async def test_raise_for_status_that_is_a_function(web: Web, gate: RobotGate) -> None:
    """As aiohttp takes one, so do we."""
    web.serve(PAGE, status=418)

    async def rule(response: aiohttp.ClientResponse) -> None:
        if response.status == 418:
            raise LookupError("no coffee")

    with pytest.raises(LookupError, match="no coffee"):
        await gate.fetch(PAGE, raise_for_status=rule)
    assert gate.host(PAGE).open_turns == 0


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (hang_up, aiohttp.ServerDisconnectedError),
        (lambda: cut_off(b"half", length=8), aiohttp.ClientPayloadError),
        (silent, TimeoutError),
        (dripping, TimeoutError),
    ],
)
async def test_failures_are_aiohttps_own(
    web: Web, gate: RobotGate, broken: Callable[[], Handler], error: type[Exception]
) -> None:
    """And they end the turn: the next page of the host can be read."""
    web.handle(PAGE, broken())
    with pytest.raises(error):
        await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=0.2))
    view = gate.host(PAGE)
    assert (view.open_turns, view.waiting) == (0, 0)
    with suppress(HostUnavailableError):
        # After a time-out nobody tries again so soon.
        assert (await gate.fetch(f"{SITE}/next")).status == 200


async def test_request_that_aiohttp_sends_again_is_paced(web: Web) -> None:
    """A kept connection that turns out to be closed makes aiohttp send once more: no visit without its gap.

    On a session that was passed in, that takes the gate's middleware in it: aiohttp offers no other way.
    """
    gates: list[RobotGate] = []

    async def gated(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        return await gates[0].middleware(request, handler)

    web.handle(PAGE, hang_up())
    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gated]) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=DELAY) as gate,
    ):
        gates.append(gate)
        await fetch_in_vain(web, gate)


async def fetch_in_vain(web: Web, gate: RobotGate) -> None:
    """The page is asked for twice, in two turns."""
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await gate.fetch(PAGE)
    assert min(web.gaps("site.example")) >= DELAY
    assert gate.host(PAGE).visits == len(web.visits)


async def test_time_out_counts_the_request_alone(open_gate: OpenGate) -> None:
    """Waiting for the turn may take longer than the whole request is given."""
    gate = await open_gate(delay=1)
    assert await gate.allowed(PAGE)
    response = await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=0.8))
    assert response.waited > 0.8
    assert response.status == 200


async def test_time_out_of_the_session_counts_each_hop(web: Web, open_gate: OpenGate) -> None:
    """The session's, not one of ours."""
    async with aiohttp.ClientSession(
        connector=web.connector(), timeout=aiohttp.ClientTimeout(total=0.15)
    ) as session:
        gate = await open_gate(session=session)
        web.handle(PAGE, silent())
        with pytest.raises(TimeoutError):
            await gate.fetch(PAGE)
        assert gate.host(PAGE).open_turns == 0


async def test_time_out_may_be_a_number(web: Web, gate: RobotGate) -> None:
    """Of seconds in all, as aiohttp takes it; 0 is no limit."""
    web.handle(PAGE, silent())
    with pytest.raises(TimeoutError):
        await gate.fetch(PAGE, timeout=0.2)  # type: ignore[arg-type]
    assert (await gate.fetch(f"{OTHER}/page", timeout=0)).status == 200  # type: ignore[arg-type]


async def test_body_that_comes_too_slowly_is_broken_off(web: Web, gate: RobotGate) -> None:
    """The total timeout is one for headers and body, and the task is not cancelled for good."""
    web.handle(PAGE, dripping())
    with pytest.raises(TimeoutError):
        await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=0.3))
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert gate.host(PAGE).open_turns == 0
    assert (await gate.fetch(f"{SITE}/next")).status == 200


async def test_time_outs_of_requests_under_way_together(web: Web, open_gate: OpenGate) -> None:
    """Each ends when its own is over: the order in which they were sent does not matter."""
    gate = await open_gate(delay=0, concurrency_per_host=4)
    assert await gate.allowed(PAGE)
    ended: list[float] = []

    async def fetch(total: float) -> None:
        url = f"{SITE}/{total}"
        web.handle(url, silent())
        with pytest.raises(TimeoutError):
            await gate.fetch(url, timeout=aiohttp.ClientTimeout(total=total))
        ended.append(total)

    web.serve(PAGE, b"in time")
    pages = [fetch(total) for total in (0.45, 0.15, 0.3)]
    await asyncio.gather(*pages, gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=5)))
    assert ended == [0.15, 0.3, 0.45]
    assert gate.host(PAGE).open_turns == 0


# ── blocks


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_waited_out(web: Web, gate: RobotGate, status: int) -> None:
    """The answer is handed over as it is; the host's next request waits."""
    web.serve(PAGE, status=status, headers={"Retry-After": "1"})
    assert (await gate.fetch(PAGE)).status == status
    assert gate.host(PAGE).failures == 1
    await gate.fetch(f"{SITE}/next")
    assert web.gaps("site.example")[-1] >= 1
    assert gate.host(PAGE).failures == 1, "a good answer alone forgives nothing"


@pytest.mark.parametrize("status", [429, 503])
async def test_longer_block_is_an_error(web: Web, open_gate: OpenGate, status: int) -> None:
    """Longer than `max_block`: come back later."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=status, headers={"Retry-After": "10000"})
    assert (await gate.fetch(PAGE)).status == status
    with pytest.raises(HostUnavailableError) as caught:
        await gate.fetch(f"{SITE}/next")
    assert caught.value.status == 503
    assert 9_000 < caught.value.retry_after <= 10_000
    assert caught.value.verdict is None
    assert served_pages(web) == [f"GET {PAGE}"]


async def test_block_reaches_who_waits_already(web: Web, open_gate: OpenGate) -> None:
    """No task goes on waiting for a turn that will not come."""
    gate = await open_gate(max_block=10)
    pages = [f"{PAGE}/{number}" for number in range(4)]
    web.serve(pages[0], status=429, headers={"Retry-After": "1000"}, takes=0.05)
    first, *others = await asyncio.gather(*(gate.fetch(page) for page in pages), return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert first.status == 429
    assert {type(other) for other in others} == {HostUnavailableError}
    assert served_pages(web) == [f"GET {pages[0]}"]


async def test_block_is_the_hosts_alone(web: Web, open_gate: OpenGate) -> None:
    """Other hosts go on."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "1000"})
    await gate.fetch(PAGE)
    assert (await gate.fetch(f"{OTHER}/page")).status == 200


async def test_block_of_a_redirect_is_heard(web: Web, open_gate: OpenGate) -> None:
    """A hop that answers 503 blocks its own host."""
    gate = await open_gate(max_block=10)
    web.redirect(PAGE, f"{OTHER}/page")
    web.serve(f"{OTHER}/page", status=503, headers={"Retry-After": "500"})
    assert (await gate.fetch(PAGE)).status == 503
    assert gate.host(f"{OTHER}/").blocked_until_at is not None
    assert gate.host(PAGE).blocked_until_at is None


# ── patience


async def test_max_wait_zero_does_not_wait(web: Web, open_gate: OpenGate) -> None:
    """LWP's `use_sleep=0`: the turn is due, or there is an error that tells when."""
    gate = await open_gate(delay=3600, max_delay=3600)
    gate.learn(PAGE, b"")
    await gate.fetch(PAGE, max_wait=0)
    with pytest.raises(TooSoonError) as caught:
        await gate.fetch(PAGE, max_wait=0)
    assert caught.value.status == 503
    assert 3_000 < caught.value.retry_after <= 3600
    assert web.counts() == {PAGE: 1}


async def test_max_wait_of_the_gate(web: Web, open_gate: OpenGate) -> None:
    """The gate's holds where the request says nothing; None waits."""
    gate = await open_gate(delay=0.1, max_wait=0)
    assert await gate.allowed(PAGE)
    with pytest.raises(TooSoonError):
        await gate.fetch(PAGE)
    assert (await gate.fetch(PAGE, max_wait=None)).status == 200
    assert web.count(PAGE) == 1


async def test_max_wait_counts_behind_others(web: Web, gate: RobotGate) -> None:
    """Whose turn does not come in time leaves, and is not sent."""
    web.handle(PAGE, silent())
    holder = asyncio.create_task(gate.fetch(PAGE))
    await web.arrivals(2)
    began_at = time.monotonic()
    with pytest.raises(TooSoonError):
        await gate.fetch(f"{SITE}/next", max_wait=0.1)
    assert time.monotonic() - began_at >= 0.1
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    assert gate.host(PAGE).waiting == 0
    assert web.count(f"{SITE}/next") == 0


async def test_max_wait_counts_behind_a_robots_txt_too(open_gate: OpenGate) -> None:
    """Rules that cannot be asked for in time are no reason to wait longer than was said."""
    gate = await open_gate(delay=3600, max_delay=3600)
    gate.learn(PAGE, b"")
    await gate.fetch(PAGE)
    with pytest.raises(TooSoonError):
        await gate.fetch(f"{SITE}:8080/page", max_wait=0)


async def test_priority_orders_those_who_wait(web: Web, gate: RobotGate) -> None:
    """The higher priority first; among equals, in order of arrival."""
    web.serve(f"{PAGE}/first", takes=0.05)
    assert await gate.allowed(PAGE)
    tasks = [asyncio.create_task(gate.fetch(f"{PAGE}/first"))]
    await web.arrivals(2)
    for name, priority in (("low", -1), ("one", 0), ("two", 0), ("high", 5)):
        tasks.append(asyncio.create_task(gate.fetch(f"{PAGE}/{name}", priority=priority)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert [url.rpartition("/")[2] for url in web.urls[2:]] == ["high", "one", "two", "low"]


# ── what is judged is what is sent


@pytest.mark.parametrize(
    "params",
    [{"secret": "1"}, [("secret", "1")], "secret=1", {"a": "b", "secret": "1"}],
)
async def test_params_are_judged_as_sent(web: Web, gate: RobotGate, params: dict[str, str]) -> None:
    """A rule about the query holds, however the query was given."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /*secret=")
    with pytest.raises(DisallowedError):
        await gate.fetch(PAGE, params=params)
    assert web.urls == [ROBOTS]


async def test_params_are_sent_once(web: Web, gate: RobotGate) -> None:
    """To the first hop, beside the query that the URL has already."""
    web.redirect(PAGE, "/there?z=1")
    await gate.fetch(f"{PAGE}?a=1", params={"b": "x y"})
    assert served_pages(web) == [f"GET {PAGE}?a=1&b=x+y", f"GET {SITE}/there?z=1"]


@pytest.mark.parametrize(
    "url",
    [
        f"{SITE}/private",
        f"{SITE}/./private",
        f"{SITE}/x/../private",
        f"{SITE}/%70rivate",
        f"{SITE}:80/private",
        "HTTP://SITE.example/private#top",
        "http://user@site.example/private?x",
        f"{SITE}./private",
        f"{SITE}/x/%2e%2e/private",
    ],
)
@pytest.mark.parametrize("kind", [str, URL])
async def test_spellings_of_a_refused_url_are_refused(
    web: Web, gate: RobotGate, url: str, kind: type[str | URL]
) -> None:
    """Dot segments, escapes, cases and default ports make no other page."""
    web.serve(ROBOTS, RULES)
    web.serve(f"{SITE}./robots.txt", RULES)
    with pytest.raises(DisallowedError):
        await gate.fetch(kind(url))
    assert {visit.url.rpartition("/")[2] for visit in web.visits} == {"robots.txt"}


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (SITE, f"{SITE}/"),
        (f"{SITE}?q=1", f"{SITE}/?q=1"),
        (f"{SITE}/a b", f"{SITE}/a%20b"),
        (f"{SITE}/ü", f"{SITE}/%C3%BC"),
        (f"{SITE}/%2Fa%20b?c=%26", f"{SITE}/%2Fa%20b?c=%26"),
        (f"{SITE}/a#b", f"{SITE}/a"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("https://site.example:443/x", "https://site.example/x"),
    ],
)
async def test_url_that_is_judged_is_sent(web: Web, gate: RobotGate, url: str, sent: str) -> None:
    """The verdict's URL is the one the server sees."""
    response = await gate.fetch(url)
    assert response.verdict.url == sent
    assert served_pages(web) == [f"GET {sent}"]


async def test_robots_txt_itself_may_be_fetched(web: Web, gate: RobotGate) -> None:
    """As a page, in its turn, though everything is disallowed (RFC 9309 §2.2.2)."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /")
    response = await gate.fetch(ROBOTS)
    assert response.verdict.reason is Reason.ROBOTS_TXT
    assert web.counts() == {ROBOTS: 2}


# ── as a coroutine


async def test_fetch_makes_a_task(web: Web, gate: RobotGate) -> None:
    """As aiohttp's own requests do."""
    fetching = gate.fetch(PAGE)
    assert isinstance(fetching, Coroutine)
    assert inspect.isawaitable(fetching)
    task = asyncio.create_task(fetching)
    assert "pending" in repr(task)
    assert (await task).status == 200
    assert web.count(PAGE) == 1


async def test_fetch_fits_where_coroutines_do(gate: RobotGate) -> None:
    """gather, wait_for, timeout, TaskGroup."""
    assert [page.status for page in await asyncio.gather(gate.fetch(PAGE), gate.fetch(PAGE))] == [200, 200]
    assert (await asyncio.wait_for(gate.fetch(PAGE), 60)).status == 200
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(gate.fetch(PAGE)) for _ in range(3)]
    assert [task.result().status for task in tasks] == [200, 200, 200]


async def test_never_awaited_warns(web: Web, gate: RobotGate) -> None:
    """As any coroutine does; and nothing was sent."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate.fetch(PAGE)
        gc.collect()
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "never awaited" in str(caught[0].message)
    assert web.visits == []


async def test_closed_unawaited_does_not_warn(web: Web, gate: RobotGate) -> None:
    """Who closes it has thought of it."""
    gate.fetch(PAGE).close()
    gc.collect()
    assert web.visits == []


async def test_awaited_twice_is_refused(gate: RobotGate) -> None:
    """As any coroutine."""
    fetching = gate.fetch(PAGE)
    await fetching
    with pytest.raises(RuntimeError, match="reuse"):
        await fetching


@pytest.mark.parametrize(
    "url", ["nonsense", "http://[::1", "http://x:99999/", "", "ftp://site.example/", "\x00"]
)
async def test_one_bad_url_among_many_spoils_nothing(web: Web, gate: RobotGate, url: str) -> None:
    """It is told when awaited: `gather` keeps the answers of the others."""
    results = await asyncio.gather(
        *(gate.fetch(one) for one in (PAGE, url, f"{OTHER}/page")), return_exceptions=True
    )
    assert [type(result).__name__ for result in results] == ["Response", "InvalidURLError", "Response"]
    assert len(served_pages(web)) == 2


@pytest.mark.parametrize("arrived", [1, 2])
async def test_cancellation_ends_the_turn(web: Web, gate: RobotGate, arrived: int) -> None:
    """While robots.txt is read, and while the page is."""
    web.handle(ROBOTS if arrived == 1 else PAGE, silent())
    task = asyncio.create_task(gate.fetch(PAGE))
    await web.arrivals(arrived)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    view = gate.host(PAGE)
    assert view.waiting == 0
    # The request for robots.txt goes on without its caller: others may want the answer.
    assert view.open_turns == (1 if arrived == 1 else 0)


async def test_cancelled_waiters_just_leave(web: Web, open_gate: OpenGate) -> None:
    """Those behind them move up, and the delay holds."""
    gate = await open_gate(delay=DELAY)
    assert await gate.allowed(PAGE)
    tasks = [asyncio.create_task(gate.fetch(f"{PAGE}/{number}")) for number in range(8)]
    await web.arrivals(2)
    for task in tasks[1:7]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [False, *[True] * 6, False]
    assert web.urls == [ROBOTS, f"{PAGE}/0", f"{PAGE}/7"]
    assert min(web.gaps("site.example")) >= DELAY
    view = gate.host(PAGE)
    assert (view.waiting, view.open_turns) == (0, 0)


async def test_task_cancelled_before_it_began_sends_nothing(web: Web, gate: RobotGate) -> None:
    """And leaves no warning."""
    task = asyncio.create_task(gate.fetch(PAGE))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    assert web.visits == []


async def test_visits_and_octets_are_counted(web: Web, gate: RobotGate) -> None:
    """Robots.txt and pages alike, each octet once."""
    web.serve(ROBOTS, RULES)
    web.serve(PAGE, b"x" * 1000)
    await gate.fetch(PAGE)
    await gate.fetch(PAGE)
    view = gate.host(PAGE)
    assert view.visits == 3
    assert view.bytes_read == 2000 + len(RULES)


async def test_bytes_that_are_no_utf_8_are_sent_as_escapes(web: Web, gate: RobotGate) -> None:
    """A URL that was decoded with "surrogateescape" is judged and sent as those bytes, by every call."""
    web.serve(ROBOTS, b"User-agent: *\nDisallow: /private/\xf0")
    private, page = (f"{SITE}/{name}/\udcf0" for name in ("private", "page"))
    assert not await gate.allowed(private)
    with pytest.raises(DisallowedError):
        await gate.fetch(private)
    assert (await gate.fetch(page)).url == f"{SITE}/page/%F0"
    assert (await gate.fetch(page, params={"q": "1"})).status == 200
    async with gate.turn(page) as turn:
        assert turn.url == f"{SITE}/page/%F0"
    for url in (f"{SITE}/\ud800", "http://site\udcf0.example/", "http://\udcf0/"):
        with pytest.raises(InvalidURLError):
            await gate.fetch(url)
    assert web.urls == [ROBOTS, f"{SITE}/page/%F0", f"{SITE}/page/%F0?q=1"]
