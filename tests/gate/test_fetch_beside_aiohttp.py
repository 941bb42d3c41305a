"""`gate.fetch` beside aiohttp's own session, at the same server: what it sees of both is the same, hop by hop.

Where the two differ, a test here says so.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import OTHER, PAGE, SITE
from yarl import URL

from robotgate import HostUnavailableError, RobotGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import SimpleNamespace

    from tests.conftest import OpenGate
    from tests.gate.servers import Visit, Web

    from robotgate.client.attempt import RequestOptions

THERE: Final = f"{SITE}/there"
OURS: Final = ("User-Agent", "From")
"""What the gate adds."""

pytestmark = [
    # aiohttp 3.14 deprecates what crawlers still use, and what works until aiohttp 4.
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'auth' parameter is deprecated:DeprecationWarning"),
]

Seen = list[tuple[str, str, bytes, dict[str, str]]]


def seen(visits: list[Visit], *, without: tuple[str, ...] = ()) -> Seen:
    """What pages were asked for, and how, but for some headers."""
    return [
        (
            visit.method,
            visit.url,
            visit.body,
            {name: value for name, value in sorted(visit.headers.items()) if name not in (*OURS, *without)},
        )
        for visit in visits
        if not visit.url.endswith("/robots.txt")
    ]


async def both(
    web: Web,
    gate: RobotGate,
    session: aiohttp.ClientSession,
    method: str,
    url: str = PAGE,
    *,
    options: RequestOptions | None = None,
    without: tuple[str, ...] = (),
) -> tuple[Seen, Seen]:
    """What the servers see of aiohttp, and of `gate.fetch`; and both come to the same end."""
    options = options or {}
    async with session.request(method, url, **options) as response:
        theirs = response.status, str(response.url), await response.read(), len(response.history)
    of_aiohttp = seen(web.visits, without=without)
    web.visits.clear()
    session.cookie_jar.clear()
    fetched = await gate.fetch(url, method, **options)
    assert (fetched.status, fetched.url, fetched.body, len(fetched.history)) == theirs
    return of_aiohttp, seen(web.visits, without=without)


async def test_redirects_as_aiohttp_follows_them(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, subtests: pytest.Subtests
) -> None:
    """Method, body and headers of each hop, for every status."""
    others = cycle([f"{OTHER}/there", f"{SITE}:8080/there", "https://site.example/there"])
    for status in [300, 301, 302, 303, 304, 307, 308]:
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]:
            for target in ["/there", next(others)]:
                with subtests.test(status=status, method=method, target=target):
                    web.visits.clear()
                    web.redirect(PAGE, target, status=status)
                    of_aiohttp, of_fetch = await both(
                        web, gate, session, method, options={"headers": {"X-Mine": "1"}}
                    )
                    assert of_fetch == of_aiohttp


async def test_bodies_as_aiohttp_sends_them(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, subtests: pytest.Subtests
) -> None:
    """To the next hop, or not."""
    bodies: list[RequestOptions] = [
        {"data": b"octets", "headers": {"Content-Type": "text/x-test"}},
        {"json": {"a": 1}},
        {"data": {"field": "value"}},
    ]
    for status in [301, 302, 303, 307, 308]:
        for method in ["POST", "PUT", "PATCH"]:
            for body in bodies:
                with subtests.test(status=status, method=method, body=body):
                    web.visits.clear()
                    web.redirect(PAGE, "/there", status=status)
                    of_aiohttp, of_fetch = await both(web, gate, session, method, options=body)
                    assert of_fetch == of_aiohttp
                    assert of_fetch[0][2] != b""


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (PAGE, {"headers": {"Authorization": "Bearer x", "Proxy-Authorization": "x"}}),
        (PAGE, {"headers": {"Cookie": "a=1", "X-Mine": "1"}}),
        (PAGE, {"cookies": {"a": "1"}}),
        ("http://user:secret@site.example/page", {}),
        (PAGE, {"auth": None}),
        (f"{PAGE}?a=1", {"params": {"q": "x y"}}),
        (PAGE, {"skip_auto_headers": ["Accept"]}),
        (PAGE, {"compress": "deflate", "data": b"octets"}),
        (PAGE, {"chunked": True, "data": b"octets"}),
        (PAGE, {"expect100": True}),
    ],
    ids=str,
)
async def test_options_as_aiohttp_takes_them(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, url: str, options: RequestOptions
) -> None:
    """Credentials stay with their origin, and the rest goes on, as aiohttp has it."""
    if "auth" in options:
        # To make one warns, which pytest lets pass within tests alone.
        options["auth"] = aiohttp.BasicAuth("user", "secret")
    for target in ("/there", f"{OTHER}/there", f"{SITE}:8080/there", "https://site.example/there"):
        web.visits.clear()
        session.cookie_jar.clear()
        web.redirect(PAGE, target, status=307)
        # Older versions of aiohttp take the cookies of a request along to other origins.
        without = () if target == "/there" else ("Cookie",)
        of_aiohttp, of_fetch = await both(web, gate, session, "GET", url, options=options, without=without)
        assert of_fetch == of_aiohttp
        if target != "/there":
            there = web.visits[-1].headers
            assert not {"Cookie", "Authorization", "Proxy-Authorization"} & set(there)
            assert there.get("X-Mine") == dict(options.get("headers") or {}).get("X-Mine")
        for visit in web.visits:
            assert not (visit.url.endswith("/robots.txt") and "Authorization" in visit.headers)


@pytest.mark.parametrize("jar", ["set by the page", "had before"])
async def test_cookie_jar_as_aiohttp_keeps_it(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, jar: str
) -> None:
    """By the rules of the jar: what a site set goes back to that site, over other sites' hops, and to no other."""
    web.serve(PAGE, status=302, headers={"Location": f"{OTHER}/there", "Set-Cookie": "a=1; Path=/"})
    web.redirect(f"{OTHER}/there", f"{SITE}/back")
    if jar == "had before":
        web.redirect(PAGE, f"{OTHER}/there")
    cookies: list[list[str | None]] = []
    for way in ("aiohttp", "fetch"):
        session.cookie_jar.clear()
        web.visits.clear()
        if jar == "had before":
            session.cookie_jar.update_cookies({"a": "1"}, URL(SITE))
        if way == "aiohttp":
            async with session.get(PAGE):
                pass
        else:
            await gate.fetch(PAGE)
        cookies.append([visit.headers.get("Cookie") for visit in web.visits if "robots" not in visit.url])
    assert cookies[0] == cookies[1]
    assert cookies[1] == [None if jar == "set by the page" else "a=1", None, "a=1"]


@pytest.mark.parametrize("most", [1, 2, 10])
async def test_redirects_that_are_allowed_are_one_more_than_aiohttps(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, most: int
) -> None:
    """A difference: aiohttp gives up at the redirect of that number, and `gate.fetch` behind it."""
    web.redirect(PAGE, PAGE)
    with pytest.raises(aiohttp.TooManyRedirects):
        await session.get(PAGE, max_redirects=most)
    of_aiohttp = web.count(PAGE)
    web.visits.clear()
    with pytest.raises(aiohttp.TooManyRedirects):
        await gate.fetch(PAGE, max_redirects=most)
    assert (of_aiohttp, web.count(PAGE)) == (most, most + 1)


async def test_traces_see_what_they_see_of_aiohttp(web: Web, open_gate: OpenGate) -> None:
    """A redirect is one of a single request, as ever."""
    heard: list[tuple[str, str]] = []

    def hear(signal: str) -> Callable[[aiohttp.ClientSession, SimpleNamespace, object], Awaitable[None]]:
        async def note(_: aiohttp.ClientSession, __: SimpleNamespace, given: object) -> None:
            heard.append((signal, str(getattr(given, "url", ""))))

        return note

    tracing = aiohttp.TraceConfig()
    for signal in ("start", "redirect", "end", "exception"):
        getattr(tracing, f"on_request_{signal}").append(hear(signal))
    web.redirect(PAGE, "/there")
    async with aiohttp.ClientSession(connector=web.connector(), trace_configs=[tracing]) as session:
        gate = await open_gate(session=session)
        gate.learn(PAGE, b"")
        await gate.fetch(PAGE)
        by_fetch, heard[:] = heard[:], []
        async with session.get(PAGE):
            pass
    assert by_fetch == heard
    assert [signal for signal, _ in heard] == ["start", "redirect", "end"]


PLACES: Final = {
    "next": f"{SITE}/dir/next",
    "?q=1": f"{SITE}/dir/page?q=1",
    "../up": f"{SITE}/up",
    "//other.example/x": f"{OTHER}/x",
    "/caf%C3%A9?a=%26": f"{SITE}/caf%C3%A9?a=%26",
    "/café": f"{SITE}/caf%C3%A9",
    "http://OTHER.example:80/x#part": f"{OTHER}/x",
    " /spaced": f"{SITE}/spaced",
}
ODD: Final = ("//", "http://", "http:///path", "http:path", "http:/path", "?", "#x", "\\\\x")


@pytest.mark.parametrize("location", [*PLACES, *ODD])
async def test_locations_lead_to_the_same_place(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, location: str
) -> None:
    """Or nowhere; `gate.fetch` never goes where aiohttp does not."""
    page = f"{SITE}/dir/page"
    web.redirect(page, location)
    with suppress(aiohttp.ClientError):
        async with session.get(page, max_redirects=2):
            pass
    of_aiohttp = set(web.urls)
    web.visits.clear()
    with suppress(aiohttp.ClientError, HostUnavailableError):
        await gate.fetch(page, max_redirects=2)
    assert PLACES.get(location, page) in web.urls
    if location in {"http:path", "http:/path"}:
        # Older versions of aiohttp stop here; browsers do not.
        of_aiohttp.add(f"{SITE}/{'dir/' if location == 'http:path' else ''}path")
    assert {url for url in web.urls if not url.endswith("/robots.txt")} <= of_aiohttp


@pytest.mark.parametrize(
    ("status", "content_type", "link"),
    [
        (200, "text/html; charset=utf-8", '</2>; rel="next"; title="x, y", <a b>; rel=up'),
        (203, 'TEXT/Plain;Charset="ISO-8859-1"', "<http://other.example/>; rel=canonical"),
        (404, "application/json", "</alone>"),
        (503, "nonsense", ""),
    ],
)
async def test_names_of_aiohttps_responses_mean_the_same(  # noqa: PLR0917  # As above.
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, status: int, content_type: str, link: str
) -> None:
    """A page that was awaited answers as the same page does as a stream, and as aiohttp's own."""
    web.serve(PAGE, "body", status=status, headers={"Content-Type": content_type, "Link": link})
    page = await gate.fetch(PAGE)
    async with session.get(PAGE) as theirs:
        for name in ("ok", "status", "reason", "method", "content_type", "charset", "links"):
            assert getattr(page, name) == getattr(theirs, name)
        assert await page.read() == await theirs.read()
        assert await page.text() == page.text == await theirs.text()
        told = []
        for response in (page, theirs):
            try:
                response.raise_for_status()
            except aiohttp.ClientResponseError as error:
                told.append((str(error), error.status, error.message, error.request_info.url))
        assert len(set(told)) == (1 if status >= 400 else 0)


@pytest.mark.parametrize("body", ['{"a": [1]}', "[[], null]", '"grüße"', "4", "null"])
async def test_json_and_text_may_be_awaited_as_aiohttps(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession, body: str
) -> None:
    """Or not: both give equal values, which are pickled as plain ones."""
    web.serve(PAGE, body, headers={"Content-Type": "application/json"})
    page = await gate.fetch(PAGE)
    value = page.json()
    async with session.get(PAGE) as theirs:
        assert value == await theirs.json()
        assert await page.text("latin-1") == await theirs.text("latin-1")
        assert await page.text("ascii", errors="ignore") == await theirs.text("ascii", errors="ignore")
    if body[0] in "[{":
        assert await page.json() == value
    for given in (page.text, value):
        copied = pickle.loads(pickle.dumps(given))
        assert (copied, type(copied).__module__) == (given, "builtins")
