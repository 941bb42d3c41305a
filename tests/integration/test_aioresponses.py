"""Unit tests of spiders with aioresponses: robots.txt and pages are mocked, and no network is used.

They pass with every aiohttp that robotgate supports. `docs/testing-your-spider.md` tells how to write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ClientSession
from aioresponses import aioresponses
from yarl import URL

from robotgate import DisallowedError, HostUnavailableError, Reason, RobotGate
from robotgate.testing import MockedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROBOTS: Final = "https://example.com/robots.txt"
PAGE: Final = "https://example.com/page"


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


async def test_middleware_is_bypassed(web: aioresponses, gate: RobotGate) -> None:
    """Under aioresponses, no middleware of a session runs, as the documents warn."""
    web.get(PAGE, body="unasked", response_class=MockedResponse)
    async with ClientSession(middlewares=[gate.middleware]) as session, session.get(PAGE) as response:
        assert await response.text() == "unasked"
    assert asked(web) == {PAGE: 1}
