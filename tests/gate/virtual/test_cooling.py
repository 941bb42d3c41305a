"""What rules are matched with takes memory for as long as somebody asks, and no answer ever tells."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from tests.paced import make_gate

from robotgate._compile import compile_rules
from robotgate._cooling import Cooling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate import RobotGate, Rules

HOSTS = 1_200
"""More than are looked at in one go."""
RULES = 12
BODY = "\n".join(
    ["User-agent: *", "Allow: /section-1/open", *(f"Disallow: /section-{n}/" for n in range(RULES))]
).encode()
WARM = HOSTS * RULES * 60
"""Octets that the texts of the rules alone take while they are matched with."""


@pytest.fixture
def traced() -> Iterator[None]:
    """Allocations are counted while the test runs."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def page(number: int, path: str = "/page") -> str:
    """A page of one of the hosts."""
    return f"https://{number}.site.example{path}"


async def learn_all(gate: RobotGate) -> None:
    """Teach a gate all hosts, and let it write down what it has learnt."""
    for number in range(HOSTS):
        gate.learn(page(number), BODY)
    await asyncio.sleep(1.0)


def octets() -> int:
    """What is allocated."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("traced")
async def test_idle_rules_are_let_go_of() -> None:
    """A minute after the last question the tables of all hosts are gone; answers and verdicts are as they were."""
    async with make_gate() as gate:
        await learn_all(gate)
        at_rest = octets()
        before = [gate.allowed_nowait(page(number, "/section-1/x")) for number in range(HOSTS)]
        explained = await gate.check(page(7, "/section-1/open"))
        assert octets() - at_rest > WARM
        await asyncio.sleep(60.0)
        assert octets() - at_rest < WARM / 10
        assert [gate.allowed_nowait(page(number, "/section-1/x")) for number in range(HOSTS)] == before
        assert not any(before)
        assert await gate.check(page(7, "/section-1/open")) == explained
        assert explained.allowed
        assert explained.opposing is not None


@pytest.mark.usefixtures("traced")
async def test_rules_that_are_asked_stay_ready() -> None:
    """Who is asked every ten seconds is never built anew: nothing is allocated for him meanwhile, and nothing freed."""
    async with make_gate() as gate:
        await learn_all(gate)
        at_rest = octets()
        for _ in range(7):
            for number in range(HOSTS):
                assert gate.allowed_nowait(page(number))
            assert octets() - at_rest > WARM
            await asyncio.sleep(10.0)
            assert octets() - at_rest > WARM


async def test_nothing_rings_for_ever() -> None:
    """Once all is let go of no timer is left: virtual time stands still when nothing else is waited for."""
    async with make_gate() as gate:
        gate.learn(page(1), BODY)
        assert gate.allowed_nowait(page(1))
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100.0)
        assert not loop.__dict__["_scheduled"]


@pytest.mark.parametrize("has_loop", [False, True])
async def test_a_question_from_another_thread_is_watched_by_the_next(*, has_loop: bool) -> None:
    """Who asks from outside of the loop is answered, though no timer can be set there, or none that rings when that
    thread's own loop has ended; the next question sets it.
    """

    async def ask() -> None:
        rules[0].allows("/section-2/")

    def ask_outside() -> None:
        if has_loop:
            asyncio.run(ask())
        else:
            rules[0].allows("/section-2/")

    cooling = Cooling()
    rules = [compile_rules(BODY, "bot") for _ in range(2)]
    built: list[Rules] = []
    for one in rules:
        one.tell_when_built(cooling.watch)
    asker = threading.Thread(target=ask_outside)
    asker.start()
    asker.join()
    assert rules[1].allows("/page")
    await asyncio.sleep(60.0)
    for one in rules:
        one.tell_when_built(built.append)
        assert not one.allows("/section-2/")
    assert built == rules
    cooling.close()


async def test_verdict_after_the_end_keeps_no_other_sites_rules() -> None:
    """A page outlives its gate, and with it the rules that it was judged by, but not those of all the others."""
    cooling = Cooling()
    kept, dropped = (compile_rules(BODY, "bot") for _ in range(2))
    for rules in (kept, dropped):
        rules.tell_when_built(cooling.watch)
    cooling.close()
    for rules in (kept, dropped):
        rules.decide("/page")
    assert not cooling._warm
