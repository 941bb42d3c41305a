"""Rules, which take three times the memory of their file, are dropped again and again when no question needs them."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import PAGE, SITE, asks, make_gate, scripted, visit

from robotgate import AccessResult
from robotgate.client.cache import COOL_DOWN_DELAY
from robotgate.rules.match import Patterns
from robotgate.rules.rules import Rules
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate import RobotGate

RULES = asks("Disallow: /private/*/a\nAllow: /private/b")
IDLE = 3 * COOL_DOWN_DELAY


def tables() -> int:
    """How many rules and tables of rules the test has made that are in memory."""
    gc.collect()
    return sum(isinstance(thing, (Patterns, Rules)) for thing in gc.get_objects())


USES: Final[dict[str, Callable[[RobotGate], Awaitable[object]]]] = {
    "allowed": lambda gate: gate.allowed(PAGE),
    "check": lambda gate: gate.check(PAGE),
    "turn": visit,
}


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_tables_that_a_later_question_built_are_dropped_too(
    use: Callable[[RobotGate], Awaitable[object]],
) -> None:
    """The first look finds nothing to keep, and a question comes after it."""
    async with make_gate() as other:
        await use(other)  # What all gates share is there from now on.
    before = tables()
    async with make_gate(scripted({SITE: RULES})) as gate:
        for _ in range(3):
            await use(gate)
            assert tables() > before
            await asyncio.sleep(IDLE)
            assert tables() == before


@pytest.mark.usefixtures("few_objects")
async def test_view_of_a_host_keeps_no_tables() -> None:
    """A page that shows all hosts would else build the tables of all."""
    before = tables()
    async with make_gate(scripted({SITE: RULES})) as gate:
        await gate.allowed(PAGE)
        await asyncio.sleep(IDLE)
        assert gate.host(PAGE).access is not None
        assert tables() == before


async def test_answers_are_the_same_after_a_while() -> None:
    """The file is read again from memory: nothing is requested, and no answer changes."""
    fetcher = scripted({SITE: RULES})
    async with make_gate(fetcher) as gate:
        private = f"{SITE}/private/1/a"
        for _ in range(3):
            assert not await gate.allowed(private)
            assert await gate.allowed(PAGE)
            await asyncio.sleep(IDLE)
            assert gate.allowed_nowait(private) is False
            await asyncio.sleep(IDLE)
            assert (await gate.check(private)).access is AccessResult.SUCCESSFUL
            assert [view.origin for view in gate.origins()] == [SITE]
        assert len(fetcher.requests) == 1


async def test_stale_rules_hold_although_they_were_dropped() -> None:
    """The copy expired while the site was not used, and cannot be requested now."""
    answers: dict[str, Answer | Failure] = {f"{SITE}/robots.txt": Answer(status=200, body=RULES.encode())}
    async with make_gate(ScriptedFetcher(answers, otherwise=Answer(status=404))) as gate:
        assert not await gate.allowed(f"{SITE}/private/1/a")
        answers[f"{SITE}/robots.txt"] = Answer(status=503)
        await asyncio.sleep(2 * 24 * 3600.0)
        assert gate.allowed_nowait(f"{SITE}/private/1/a") is None
        assert not await gate.allowed(f"{SITE}/private/1/a")
        assert (await gate.check(f"{SITE}/private/1/a")).stale
