"""Retry-After on a redirect holds before the redirected request, for the task that follows it alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.paced import OTHER, PAGE, make_gate, now, visit

from robotgate import GateClosedError, HostUnavailableError, TooSoonError
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from robotgate import RobotGate

ELSEWHERE: Final = "http://c.example/page"


async def redirected(gate: RobotGate, *, to: str = OTHER, by: str = "3", url: str = PAGE) -> None:
    """A page that redirects, and asks for a pause."""
    await visit(gate, url, status=302, headers={"location": to, "Retry-After": by})


async def test_task_that_is_redirected_waits() -> None:
    """Another host is visited after the pause; by other tasks, and at other URLs, at once."""
    async with make_gate(delay=0) as gate:
        await redirected(gate)
        assert await asyncio.create_task(visit(gate, "http://b.example/other")) == 0.0
        assert await visit(gate, ELSEWHERE) == 0.0
        assert await asyncio.create_task(visit(gate, OTHER)) == 0.0
        assert await visit(gate, OTHER) == pytest.approx(3.0, abs=0.01)


async def test_each_hop_of_a_chain_is_waited_for() -> None:
    """Three hosts, two pauses."""
    async with make_gate(delay=0) as gate:
        await redirected(gate, to="//b.example/page")
        await redirected(gate, url=OTHER, to=ELSEWHERE, by="4")
        assert await visit(gate, ELSEWHERE) == pytest.approx(7.0, abs=0.01)


async def test_wait_is_bounded_as_others_are() -> None:
    """By `max_wait` and by `max_block`, at once; an operator's `math.inf` waits."""
    async with make_gate(delay=0) as gate:
        await redirected(gate, by="200")
        with pytest.raises(TooSoonError) as late:
            await visit(gate, OTHER, max_wait=100.0)
        await redirected(gate, url=ELSEWHERE, by="3600")
        with pytest.raises(HostUnavailableError, match="redirect") as blocked:
            await visit(gate, OTHER)
        assert (now(), late.value.retry_after, blocked.value.retry_after) == (0.0, 200.0, 3600.0)
        assert gate.stats().turned_away == 2


async def test_closing_the_gate_ends_the_wait() -> None:
    """The task gets `GateClosedError` at once."""
    async with make_gate(delay=0) as gate:

        async def follow() -> None:
            await redirected(gate, by="200")
            await visit(gate, OTHER)

        following = asyncio.create_task(follow())
        await asyncio.sleep(5)
        await gate.aclose()
        with pytest.raises(GateClosedError):
            await following
        assert now() == 5.0


async def test_only_retry_after_holds_the_next_host() -> None:
    """A quota is that of the host which reports it. No pause and no Location ask for nothing."""
    async with make_gate(delay=0) as gate:
        asked: list[dict[str, str]] = [
            {"Location": OTHER, "RateLimit": '"default";r=0;t=30'},
            {"Location": OTHER, "Retry-After": "0"},
            {"Location": OTHER},
            {"Retry-After": "30"},
        ]
        for number, headers in enumerate(asked):
            await visit(gate, f"http://{number}.example/", status=302, headers=headers)
        assert await visit(gate, OTHER) == 0.0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    location=st.text() | st.sampled_from(["http://", "//", "http://[", "mailto:a@b.example", "http://10.1/"])
)
def test_any_location_is_taken(location: str) -> None:
    """Whatever a server writes there, nothing raises, and other visits are not held up."""

    async def check() -> None:
        async with make_gate(delay=0) as gate:
            await redirected(gate, to=location)
            async with gate.turn(ELSEWHERE) as turn:
                assert turn.waited < 1.0

    asyncio.run(check())


async def test_robots_txt_is_followed_after_the_pause() -> None:
    """To another host too. A pause that is longer than `max_block` leaves the site closed, as any failure does."""
    answers = {
        f"http://{name}.example/robots.txt": Answer(
            status=301, location="http://c.example/r", headers={"Retry-After": seconds}
        )
        for name, seconds in (("a", "5"), ("b", "400"))
    }
    fetcher = ScriptedFetcher(answers, otherwise=Answer(status=404))
    async with make_gate(fetcher, delay=0) as gate:
        with pytest.raises(HostUnavailableError, match="pause of 400 s"):
            await visit(gate, OTHER)
        assert now() == 0.0
        assert await visit(gate, PAGE) == 5.0
        assert [at for at, url in fetcher.requests if url == "http://c.example/r"] == [5.0]
