"""Unit tests of spiders with aioresponses: robots.txt and pages are mocked, and no network is used.

They pass with every aiohttp that robotgate supports. `docs/testing-your-spider.md` tells how to write them.
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ClientSession
from aioresponses import aioresponses
from yarl import URL

from robotgate import DisallowedError, HostUnavailableError, Reason, RobotGate
from robotgate.testing import MockedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import ModuleType

ROBOTS: Final = "https://example.com/robots.txt"
PAGE: Final = "https://example.com/page"
EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "spider.py"


@pytest.fixture
def web() -> Iterator[aioresponses]:
    """Mocked answers. Every other connection is refused."""
    with aioresponses() as mocked:
        yield mocked


@pytest.fixture
async def gate() -> AsyncIterator[RobotGate]:
    """A gate without delay."""
    async with RobotGate("ExampleBot/1.0", contact="bot@example.org", delay=0) as gate:
        yield gate


def asked(web: aioresponses) -> dict[str, int]:
    """How often each URL was requested."""
    return {str(url): len(calls) for (_, url), calls in web.requests.items()}


async def test_allowed_page_is_read(web: aioresponses, gate: RobotGate) -> None:
    """A mocked page that no rule forbids is a robotgate response."""
    web.get(ROBOTS, body="User-agent: *\nDisallow: /private", response_class=MockedResponse)
    web.get(PAGE, body="hello", headers={"X-Kind": "page"}, response_class=MockedResponse)
    response = await gate.fetch(PAGE)
    assert (response.status, response.url, response.text) == (200, PAGE, "hello")
    assert response.headers["x-kind"] == "page"
    assert response.verdict.reason is Reason.NO_RULE_MATCHES


async def test_disallowed_page_is_never_asked_for(web: aioresponses, gate: RobotGate) -> None:
    """A disallowed page is refused before its request, even if it is mocked."""
    web.get(ROBOTS, body="User-agent: ExampleBot\nDisallow: /private", response_class=MockedResponse)
    web.get("https://example.com/private/1", body="secret", response_class=MockedResponse)
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch("https://example.com/private/1")
    assert caught.value.verdict.rule is not None
    assert caught.value.verdict.rule.line == 2
    assert asked(web) == {ROBOTS: 1}


async def test_site_without_robots_txt_is_open(web: aioresponses, gate: RobotGate) -> None:
    """A robots.txt that is mocked as 404 opens the site."""
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.get(PAGE, payload={"answer": 42}, response_class=MockedResponse)
    response = await gate.fetch(PAGE)
    assert response.json() == {"answer": 42}
    assert response.verdict.reason is Reason.ROBOTS_TXT_UNAVAILABLE


async def test_robots_txt_is_mocked_once_for_many_pages(web: aioresponses, gate: RobotGate) -> None:
    """robots.txt is requested once, however many tasks start at once."""
    pages = [f"{PAGE}/{number}" for number in range(20)]
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    for page in pages:
        web.get(page, body=page, response_class=MockedResponse)
    responses = await asyncio.gather(*(gate.fetch(page) for page in pages))
    assert [response.text for response in responses] == pages
    assert asked(web) == {ROBOTS: 1} | dict.fromkeys(pages, 1)


async def test_redirect_to_another_site_asks_that_sites_rules(web: aioresponses, gate: RobotGate) -> None:
    """Each hop is judged by the robots.txt of its own site."""
    moved = "https://www.example.net/moved"
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.get(PAGE, status=301, headers={"Location": moved}, response_class=MockedResponse)
    web.get("https://www.example.net/robots.txt", status=404, response_class=MockedResponse)
    web.get(moved, body="here", response_class=MockedResponse)
    response = await gate.fetch(PAGE)
    assert (response.text, response.url) == ("here", moved)
    assert [(hop.url, hop.status) for hop in response.history] == [(PAGE, 301)]


@pytest.mark.parametrize(
    "error", [ClientConnectionError("reset"), ClientPayloadError("cut off"), TimeoutError()]
)
async def test_failure_of_the_page_is_aiohttps_own(
    web: aioresponses, gate: RobotGate, error: Exception
) -> None:
    """An error of aiohttp leaves `fetch` unchanged."""
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.get(PAGE, exception=error)
    with pytest.raises(type(error)) as caught:
        await gate.fetch(PAGE)
    assert caught.value is error


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_robots_txt_that_fails_closes_the_site(web: aioresponses, gate: RobotGate, status: int) -> None:
    """A robots.txt that fails makes its host unavailable."""
    web.get(ROBOTS, status=status, response_class=MockedResponse)
    with pytest.raises(HostUnavailableError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.verdict is not None
    assert caught.value.verdict.status == status


async def test_robots_txt_that_nobody_mocked_closes_the_site(web: aioresponses, gate: RobotGate) -> None:
    """A robots.txt that is not mocked closes its site, because aioresponses refuses the connection."""
    web.get(PAGE, body="hello", response_class=MockedResponse)
    with pytest.raises(HostUnavailableError, match=r"^example\.com is"):
        await gate.fetch(PAGE)


async def test_page_can_be_streamed(web: aioresponses, gate: RobotGate) -> None:
    """`async with gate.fetch` gives the mocked response itself."""
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.get(PAGE, body="hello", response_class=MockedResponse)
    async with gate.fetch(PAGE) as response:
        assert await response.text() == "hello"


async def test_form_is_posted(web: aioresponses, gate: RobotGate) -> None:
    """A test sees the options for aiohttp that `fetch` was given, and our headers."""
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.post(PAGE, status=201, response_class=MockedResponse)
    response = await gate.fetch(PAGE, method="POST", data={"q": "robots"})
    assert response.status == 201
    (call,) = web.requests["POST", URL(PAGE)]
    assert call.kwargs["data"] == {"q": "robots"}
    assert call.kwargs["headers"]["User-Agent"] == "ExampleBot/1.0"


async def test_answers_need_no_page(web: aioresponses, gate: RobotGate) -> None:
    """`allowed` and `check` request robots.txt only."""
    web.get(ROBOTS, body="User-agent: *\nDisallow: /page", response_class=MockedResponse)
    assert not await gate.allowed(PAGE)
    assert (await gate.check("https://example.com/")).allowed
    assert asked(web) == {ROBOTS: 1}


async def test_session_of_the_caller_is_mocked_too(web: aioresponses) -> None:
    """A gate on a session of the caller is mocked too."""
    web.get(ROBOTS, status=404, response_class=MockedResponse)
    web.get(PAGE, body="hello", response_class=MockedResponse)
    async with (
        ClientSession() as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=0) as gate,
    ):
        assert (await gate.fetch(PAGE)).body == b"hello"


async def test_middleware_is_bypassed(web: aioresponses, gate: RobotGate) -> None:
    """Under aioresponses, no middleware of a session runs, as the documents warn."""
    web.get(PAGE, body="unasked", response_class=MockedResponse)
    async with ClientSession(middlewares=[gate.middleware]) as session, session.get(PAGE) as response:
        assert await response.text() == "unasked"
    assert asked(web) == {PAGE: 1}


def load_example() -> ModuleType:
    """The example program as a module."""
    spec = importlib.util.spec_from_file_location("spider", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_example_spider_follows_what_it_may(
    web: aioresponses, gate: RobotGate, capsys: pytest.CaptureFixture[str]
) -> None:
    """examples/spider.py reads each linked and allowed page of a site once."""
    home = "https://example.com/"
    links = ("/a#top", "/a", "/private", "//[", "https://www.example.net/")
    html = "".join(f'<a href="{link}">…</a>' for link in links)
    web.get(ROBOTS, body="User-agent: *\nDisallow: /private", response_class=MockedResponse)
    web.get(home, body=html, content_type="text/html", response_class=MockedResponse)
    web.get(f"{home}a", exception=ClientConnectionError("gone"))
    await load_example().Spider(gate, [home], limit=10).run()
    assert asked(web) == {ROBOTS: 1, home: 1, f"{home}a": 1}
    printed = capsys.readouterr().out
    assert "line 2 of its robots.txt: Disallow: /private" in printed
    assert "gone" in printed
