"""Unit tests of spiders with aioresponses: robots.txt and pages are mocked, and no network is used.

They pass with every aiohttp that robotgate supports. `docs/testing-your-spider.md` tells how to write them; its own
tests, with `mocked_web` named in their conftest.py, are run by tests/test_readme.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ClientSession
from yarl import URL

from robotgate import DisallowedError, HostUnavailableError, Reason, RobotGate
from robotgate.testing.aioresponses import MockedWeb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SITE: Final = "https://example.com"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"


@pytest.fixture
def web() -> Iterator[MockedWeb]:
    """As `mocked_web`."""
    mocked = MockedWeb()
    with mocked:
        yield mocked


@pytest.fixture
async def gate() -> AsyncIterator[RobotGate]:
    """A gate without delay."""
    async with RobotGate("ExampleBot/1.0", contact="bot@example.org", delay=0) as gate:
        yield gate


def asked(web: MockedWeb) -> dict[str, int]:
    """How often each URL was requested."""
    return {str(url): len(calls) for (_, url), calls in web.requests.items()}


async def test_allowed_page_is_read(web: MockedWeb, gate: RobotGate) -> None:
    """A mocked page that no rule forbids is a robotgate response, or is streamed."""
    web.get(ROBOTS, body="User-agent: *\nDisallow: /private")
    web.get(PAGE, body="hello", headers={"X-Kind": "page"}, repeat=True)
    response = await gate.fetch(PAGE)
    assert (response.status, response.url, response.text) == (200, PAGE, "hello")
    assert response.headers["x-kind"] == "page"
    assert response.verdict.reason is Reason.NO_RULE_MATCHES
    async with gate.fetch(PAGE) as stream:
        assert await stream.text() == "hello"


async def test_disallowed_page_is_never_asked_for(web: MockedWeb, gate: RobotGate) -> None:
    """A disallowed page is refused before its request, even if it is mocked."""
    web.get(ROBOTS, body="User-agent: ExampleBot\nDisallow: /private")
    web.get(f"{SITE}/private/1", body="secret")
    with pytest.raises(DisallowedError):
        await gate.fetch(f"{SITE}/private/1")
    assert asked(web) == {ROBOTS: 1}


@pytest.mark.parametrize(
    "error", [ClientConnectionError("reset"), ClientPayloadError("cut off"), TimeoutError()]
)
async def test_failure_of_the_page_is_aiohttps_own(web: MockedWeb, gate: RobotGate, error: Exception) -> None:
    """An error of aiohttp leaves `fetch` unchanged."""
    web.get(ROBOTS, status=404)
    web.get(PAGE, exception=error)
    with pytest.raises(type(error)) as caught:
        await gate.fetch(PAGE)
    assert caught.value is error


async def test_robots_txt_that_nobody_mocked_closes_the_site(web: MockedWeb, gate: RobotGate) -> None:
    """A robots.txt that is not mocked closes its site, because aioresponses refuses the connection."""
    web.get(PAGE, body="hello")
    with pytest.raises(HostUnavailableError, match=r"^example\.com is"):
        await gate.fetch(PAGE)


async def test_form_is_posted(web: MockedWeb, gate: RobotGate) -> None:
    """A test sees the options for aiohttp that `fetch` was given, and our headers."""
    web.get(ROBOTS, status=404)
    web.post(PAGE, status=201, payload={"id": 1})
    response = await gate.fetch(PAGE, "POST", data={"q": "robots"})
    assert (response.status, response.json()) == (201, {"id": 1})
    (call,) = web.requests["POST", URL(PAGE)]
    assert call.kwargs["data"] == {"q": "robots"}
    assert call.kwargs["headers"]["User-Agent"] == "ExampleBot/1.0"


async def test_sitemap_is_walked(web: MockedWeb, gate: RobotGate) -> None:
    """As pages are fetched."""
    web.get(ROBOTS, body=f"Sitemap: {SITE}/map.txt")
    web.get(f"{SITE}/map.txt", body=PAGE)
    assert [entry.loc async for entry in gate.sitemap_urls(SITE)] == [PAGE]


async def test_middleware_is_bypassed(web: MockedWeb) -> None:
    """Under aioresponses, no middleware of a session runs, as the documents warn."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    web.get(PAGE, body="unasked")
    async with ClientSession(middlewares=[gate.middleware]) as session, session.get(PAGE) as response:
        assert await response.text() == "unasked"
    assert asked(web) == {PAGE: 1}
