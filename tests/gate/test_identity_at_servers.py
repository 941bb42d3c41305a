"""What servers see: User-Agent and From on every request, no credentials on those for robots.txt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT
from tests.gate.crawlers import crawler
from tests.gate.servers import PAGE, ROBOTS, SITE
from tests.waiting import until

from robotgate import OptionError, RobotGate

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web


@pytest.mark.parametrize(
    ("agent", "contact", "token", "sent"),
    [
        ("ExampleBot/1.0", "bot@example.org", None, ("ExampleBot/1.0", "bot@example.org")),
        (
            "ExampleBot/1.0",
            "https://example.org/bot",
            None,
            ("ExampleBot/1.0 (+https://example.org/bot)", None),
        ),
        (
            "Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.org/bot)",
            "https://example.org/bot",
            "ExampleBot",
            ("Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.org/bot)", None),
        ),
        (" ExampleBot ", "bot@example.org", None, ("ExampleBot", "bot@example.org")),
    ],
)
async def test_every_request_says_who_we_are(
    web: Web, agent: str, contact: str, token: str | None, sent: tuple[str, str | None]
) -> None:
    """robots.txt, pages and redirected pages: an address is sent as From, a URL within the User-Agent."""
    web.redirect(PAGE, "http://other.example/there")
    web.redirect(ROBOTS, "http://third.example/robots.txt")
    async with (
        crawler(web) as session,
        RobotGate(agent, contact=contact, token=token, session=session, delay=0) as gate,
    ):
        await gate.fetch(PAGE)
    assert len(web.visits) == 5
    for visit in web.visits:
        assert (visit.headers["User-Agent"], visit.headers.get("From")) == sent
        assert len(visit.headers.getall("User-Agent")) == 1


OURS = {"User-Agent": AGENT, "From": CONTACT}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(OURS, id="ours"),
        pytest.param({name.lower(): value for name, value in OURS.items()}, id="ours in lower case"),
        pytest.param([*OURS.items(), ("User-Agent", "ExampleBot/1.0")], id="ours twice"),
        pytest.param([*OURS.items(), ("user-agent", "Other/1.0")], id="ours and another"),
        pytest.param(OURS | {"Accept-Language": "de"}, id="ours and more"),
        pytest.param(OURS | {"From": "else@example.org"}, id="another From"),
    ],
)
async def test_headers_that_the_session_has_already(
    web: Web, open_gate: OpenGate, headers: dict[str, str] | list[tuple[str, str]]
) -> None:
    """Ours are sent, each once."""
    web.redirect(PAGE, f"{SITE}/there")
    async with crawler(web, headers=headers) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE)
    assert len(web.visits) == 3
    for visit in web.visits:
        assert visit.headers.getall("User-Agent") == ["ExampleBot/1.0"]
        assert visit.headers.getall("From") == ["bot@example.org"]
    assert web.visit(PAGE).headers.get("Accept-Language") == dict(headers).get("Accept-Language")


async def test_bad_status_is_heard_before_the_session_raises_for_it(web: Web, open_gate: OpenGate) -> None:
    """With `raise_for_status`, the session would raise before the gate sees a 503."""
    web.serve(PAGE, status=503, headers={"Retry-After": "100"})
    async with crawler(web, headers=OURS, raise_for_status=True) as session:
        gate = await open_gate(session=session)
        with pytest.raises(aiohttp.ClientResponseError, match="503"):
            await gate.fetch(PAGE)
    assert gate.host(PAGE).blocked_until_at is not None


async def test_headers_that_the_session_loses_while_a_page_waits(web: Web, open_gate: OpenGate) -> None:
    """Who we are is said all the same: what counts is what the session has when the page is sent."""
    async with crawler(web, headers=OURS) as session:
        gate = await open_gate(session=session)
        async with gate.turn(PAGE):
            waiting = asyncio.create_task(gate.fetch(PAGE))
            await until(lambda: gate.host(PAGE).waiting == 1)
            session.headers.clear()
        await waiting
    assert web.visit(PAGE).headers["User-Agent"] == "ExampleBot/1.0"
    assert web.visit(PAGE).headers["From"] == "bot@example.org"


async def test_other_user_agent_of_a_request_is_refused(web: Web, gate: RobotGate) -> None:
    """The error names the token, and comes before the host is bothered or its turn spent."""
    gate.learn(PAGE, b"")
    for headers in ({"user-agent": ""}, [("User-Agent", "Mozilla/5.0")]):
        with pytest.raises(OptionError, match="ExampleBot"):
            await gate.fetch(PAGE, headers=headers)
    assert (gate.host(PAGE).open_turns, gate.host(PAGE).visits, web.visits) == (0, 0, [])


async def test_user_agent_that_names_us_may_say_more(web: Web, gate: RobotGate) -> None:
    """As long as site owners find the token in it."""
    for agent in ("ExampleBot/2.0 (beta)", "Mozilla/5.0 (compatible; examplebot)"):
        await gate.fetch(PAGE, headers={"User-Agent": agent, "From": "else@example.org"})
        assert web.visits[-1].headers["User-Agent"] == agent
        assert web.visits[-1].headers["From"] == "else@example.org"
    assert web.visit(ROBOTS).headers["User-Agent"] == "ExampleBot/1.0"
