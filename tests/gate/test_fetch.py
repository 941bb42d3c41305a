"""`await gate.fetch(url)`: judged and paced hop by hop, and otherwise as aiohttp does it. Measured at real servers."""

from __future__ import annotations

import asyncio
import io
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.gate.crawlers import crawler
from tests.gate.servers import (
    DELAY,
    OTHER,
    PAGE,
    ROBOTS,
    RULES,
    SITE,
    cut_off,
    dripping,
    endless,
    hang_up,
    silent,
)

from robotgate import (
    DisallowedError,
    Hop,
    HostUnavailableError,
    InvalidURLError,
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


THERE = {"Location": "/there"}

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


@pytest.mark.parametrize(
    "handler",
    [
        cut_off(b"moved", length=10, status=301, headers=THERE),
        cut_off(b"moved", length=100_000, status=303, headers=THERE),
        endless(b"x" * 65_536, status=302, headers=THERE),
        dripping(status=308, headers=THERE),
    ],
    ids=["breaks off", "breaks off early", "endless", "dripping"],
)
async def test_body_of_a_redirect_is_not_waited_for(web: Web, gate: RobotGate, handler: Handler) -> None:
    """What it says stands in its headers; its turn ends, on the same host, whose only turn it had."""
    web.handle(PAGE, handler)
    async with asyncio.timeout(60):
        response = await gate.fetch(PAGE)
        assert (response.text, response.url) == ("a page", f"{SITE}/there")
        async with gate.fetch(PAGE) as streamed:
            assert await streamed.text() == "a page"
    assert gate.host(PAGE).open_turns == 0
    assert web.urls == [ROBOTS, *[PAGE, f"{SITE}/there"] * 2]


async def test_hop_that_is_refused_names_the_chain(web: Web, gate: RobotGate) -> None:
    """How the crawler came there, without having been there; a page that is streamed as well."""
    web.redirect(PAGE, f"{OTHER}/one")
    web.redirect(f"{OTHER}/one", "/private/two")
    web.serve(f"{OTHER}/robots.txt", RULES)
    for asked in (gate.fetch(PAGE), gate.fetch(PAGE).__aenter__()):
        with pytest.raises(DisallowedError) as caught:
            await asked
        assert caught.value.chain == (PAGE, f"{OTHER}/one")
        assert caught.value.verdict.url == f"{OTHER}/private/two"
        assert f"redirected from {PAGE} -> {OTHER}/one" in str(caught.value)
    assert web.count(f"{OTHER}/private/two") == 0
    assert gate.host(PAGE).open_turns == gate.host(OTHER).open_turns == 0


async def test_hop_to_an_unreachable_host_is_refused(web: Web, gate: RobotGate) -> None:
    """Its robots.txt cannot be read, so its page is not."""
    web.redirect(PAGE, f"{OTHER}/page")
    web.serve(f"{OTHER}/robots.txt", status=500)
    with pytest.raises(HostUnavailableError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.host == "other.example"
    assert served_pages(web) == [f"GET {PAGE}"]


async def test_redirects_are_left_alone_if_asked(web: Web, gate: RobotGate) -> None:
    """`allow_redirects=False` gives the redirect itself."""
    web.redirect(PAGE, f"{OTHER}/page", body=b"moved")
    response = await gate.fetch(PAGE, allow_redirects=False)
    assert (response.status, response.headers["Location"]) == (302, f"{OTHER}/page")
    assert (response.body, response.history) == (b"moved", ())
    assert web.urls == [ROBOTS, PAGE]


async def test_redirect_without_a_place_is_the_answer(web: Web, gate: RobotGate) -> None:
    """As aiohttp has it."""
    for status in (300, 304, 305, 302):
        web.serve(PAGE, status=status)
        assert (await gate.fetch(PAGE)).status == status


async def test_redirect_to_nowhere_is_an_error(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """One that says so, and nothing is sent there."""
    nowhere: dict[type[Exception], list[str]] = {
        aiohttp.ClientError: [
            *("ftp://other.example/", "mailto:bot@example.org", "javascript:alert(1)"),
            *("http://[::1", "http://other.example:99999/"),
        ],
        InvalidURLError: [f"http://{'a' * 300}.example/", "http://a b.example/"],
    }
    for error, locations in nowhere.items():
        for location in locations:
            web.redirect(PAGE, location)
            with subtests.test(location), pytest.raises(error):
                await gate.fetch(PAGE)
    assert web.counts() == {ROBOTS: 1, PAGE: 7}
    assert gate.host(PAGE).open_turns == 0


async def octets() -> AsyncIterator[bytes]:
    """A stream, which cannot be read twice."""
    yield b"the "
    yield b"file"


@pytest.mark.parametrize(
    "make",
    [
        lambda: io.BytesIO(b"the file"),
        lambda: {"f": io.BytesIO(b"the file")},
        lambda: (("a", "1"), ("f", io.BytesIO(b"the file"))),
        octets,
    ],
    ids=["file", "in a dict", "in a tuple", "stream"],
)
async def test_body_that_was_read_is_sent_again_or_not_at_all(
    web: Web, gate: RobotGate, make: Callable[[], object]
) -> None:
    """By a redirect that keeps it, from where it began; never empty."""
    web.redirect(PAGE, "/there", status=307)
    try:
        await gate.fetch(PAGE, "POST", data=make())
    except aiohttp.ClientPayloadError:
        assert web.count(f"{SITE}/there") == 0
    else:
        assert make is not octets
        assert b"the file" in web.visit(f"{SITE}/there").body


async def test_credentials_do_not_come_back_with_a_later_hop(web: Web, gate: RobotGate) -> None:
    """Once left behind they stay behind, though the last hop is the first origin again."""
    web.redirect(PAGE, f"{OTHER}/there")
    web.redirect(f"{OTHER}/there", f"{SITE}/back")
    await gate.fetch(PAGE, auth=aiohttp.BasicAuth("user", "secret"))
    assert "Authorization" not in web.visit(f"{SITE}/back").headers


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


async def test_longer_body_is_refused(web: Web, open_gate: OpenGate) -> None:
    """By the gate's limit, or by the request's, which is part of what is allowed; an endless one before its end."""
    gate = await open_gate(max_bytes=10)
    web.serve(PAGE, b"x" * 1000)
    with pytest.raises(ResponseTooLargeError, match="max_bytes=10"):
        await gate.fetch(PAGE)
    with pytest.raises(ResponseTooLargeError, match="max_bytes=999"):
        await gate.fetch(PAGE, max_bytes=999)
    assert len((await gate.fetch(PAGE, max_bytes=1000)).body) == 1000
    web.handle(PAGE, endless(b"x" * 65_536))
    with pytest.raises(ResponseTooLargeError):
        await gate.fetch(PAGE, max_bytes=1_000_000)
    assert gate.host(PAGE).open_turns == 0


async def test_raise_for_status(web: Web, open_gate: OpenGate) -> None:
    """Of the request, or of the session; aiohttp's own error, or that of a function. The turn is over with it."""

    async def rule(response: aiohttp.ClientResponse) -> None:
        raise LookupError(response.status)

    web.serve(PAGE, "sorry", status=500)
    web.redirect(f"{SITE}/moved", "/page")
    gate = await open_gate()
    assert (await gate.fetch(PAGE)).status == 500
    with pytest.raises(aiohttp.ClientResponseError, match="500"):
        await gate.fetch(PAGE, raise_for_status=True)
    for asked in (
        gate.fetch(PAGE, raise_for_status=rule),
        gate.fetch(PAGE, raise_for_status=rule).__aenter__(),
    ):
        with pytest.raises(LookupError, match="500"):
            await asked
    assert gate.host(PAGE).open_turns == 0
    async with crawler(web, raise_for_status=True) as session:
        # That of robots.txt, 404, is an answer.
        gate = await open_gate(session=session)
        for url in (PAGE, f"{SITE}/moved"):
            with pytest.raises(aiohttp.ClientResponseError):
                await gate.fetch(url)
        assert (await gate.fetch(PAGE, raise_for_status=False)).status == 500
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
        await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=0.2 if error is TimeoutError else 60))
    task, view = asyncio.current_task(), gate.host(PAGE)
    assert task is not None
    assert (task.cancelling(), view.open_turns, view.waiting) == (0, 0, 0)
    with suppress(HostUnavailableError):
        # After a time-out nobody tries again so soon.
        assert (await gate.fetch(f"{SITE}/next")).status == 200


async def test_mistakes_of_the_caller_are_told_as_aiohttp_tells_them(web: Web, gate: RobotGate) -> None:
    """They are no wrong URLs; and the host goes on."""
    with pytest.raises(ValueError, match="header") as caught:
        await gate.fetch(PAGE, headers={"X-Broken": "a\r\nb"})
    assert not isinstance(caught.value, InvalidURLError)
    with pytest.raises(TypeError):
        await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total="1"))  # type: ignore[arg-type]
    # Else it would be none.
    with pytest.raises(OptionError, match="timeout='1'"):
        await gate.fetch(PAGE, timeout="1")  # type: ignore[arg-type]
    assert web.count(PAGE) == 0
    assert (await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=-1))).status == 200


async def test_time_out_of_the_session_or_a_number(web: Web, open_gate: OpenGate) -> None:
    """That of the session, or of the request as aiohttp takes it: a number is of seconds in all, and 0 is no limit."""
    web.handle(PAGE, silent())
    web.serve(f"{OTHER}/page", takes=0.3)
    async with crawler(web, timeout=aiohttp.ClientTimeout(total=0.15)) as session:
        gate = await open_gate(session=session)
        with pytest.raises(TimeoutError):
            await gate.fetch(PAGE)
        with pytest.raises(TimeoutError):
            await gate.fetch(PAGE, timeout=0.1)  # type: ignore[arg-type]
        assert (await gate.fetch(f"{OTHER}/page", timeout=0)).status == 200  # type: ignore[arg-type]
        assert gate.host(PAGE).open_turns == 0


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


async def test_block_of_a_redirect_is_heard(web: Web, open_gate: OpenGate) -> None:
    """A hop that answers 503 blocks its own host."""
    gate = await open_gate(max_block=10)
    web.redirect(PAGE, f"{OTHER}/page")
    web.serve(f"{OTHER}/page", status=503, headers={"Retry-After": "500"})
    assert (await gate.fetch(PAGE)).status == 503
    assert gate.host(f"{OTHER}/").blocked_until_at is not None
    assert gate.host(PAGE).blocked_until_at is None


# ── patience


async def test_max_wait_of_the_gate(web: Web, open_gate: OpenGate) -> None:
    """The gate's holds where the request says nothing; None waits."""
    gate = await open_gate(delay=0.1, max_wait=0)
    assert await gate.allowed(PAGE)
    with pytest.raises(TooSoonError):
        await gate.fetch(PAGE)
    assert (await gate.fetch(PAGE, max_wait=None)).status == 200
    assert web.count(PAGE) == 1


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


async def test_params_are_judged_as_sent(web: Web, gate: RobotGate) -> None:
    """A rule about the query holds, however the query was given."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /*secret=")
    for params in ({"secret": "1"}, [("secret", "1")], "secret=1", {"a": "b", "secret": "1"}):
        with pytest.raises(DisallowedError):
            await gate.fetch(PAGE, params=params)
    assert web.urls == [ROBOTS]


async def test_url_that_is_judged_is_sent(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """The verdict's URL is the one the server sees."""
    for url, sent in {
        SITE: f"{SITE}/",
        f"{SITE}?q=1": f"{SITE}/?q=1",
        f"{SITE}/a b": f"{SITE}/a%20b",
        f"{SITE}/ü": f"{SITE}/%C3%BC",
        f"{SITE}/%2Fa%20b?c=%26": f"{SITE}/%2Fa%20b?c=%26",
        f"{SITE}/a#b": f"{SITE}/a",
        f"{SITE}#b": f"{SITE}/",
        f"{SITE}?q=2#b": f"{SITE}/?q=2",
        "http://user:secret@site.example": f"{SITE}/",
        "http://user@SITE.example.:80#b": f"{SITE}/",
        "http://BÜCHER.example/": "http://xn--bcher-kva.example/",
        "https://site.example:443/x": "https://site.example/x",
    }.items():
        with subtests.test(url):
            response = await gate.fetch(url)
            assert response.verdict.url == sent
            assert served_pages(web)[-1] == f"GET {sent}"


async def test_robots_txt_itself_may_be_fetched(web: Web, gate: RobotGate) -> None:
    """As a page, in its turn, though everything is disallowed (RFC 9309 §2.2.2)."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /")
    response = await gate.fetch(ROBOTS)
    assert response.verdict.reason is Reason.ROBOTS_TXT
    assert web.counts() == {ROBOTS: 2}


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
