"""Tables of rules, three times as large as their file, are dropped again and again when no question needs them."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tests.paced import PAGE, SITE, asks, make_gate, scripted, visit

from robotgate.rules.match import Patterns
from robotgate.web.cache import COOL_DOWN_DELAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate import RobotGate

RULES = asks("Disallow: /private/*/a\nAllow: /private/b")
IDLE = 3 * COOL_DOWN_DELAY


def tables() -> int:
    """How many tables are in memory."""
    gc.collect()
    return sum(isinstance(thing, Patterns) for thing in gc.get_objects())


async def ask(gate: RobotGate) -> None:
    """Ask whether a page may be fetched."""
    await gate.allowed(PAGE)


async def look(gate: RobotGate) -> None:
    """Ask why."""
    await gate.check(PAGE)


async def turn(gate: RobotGate) -> None:
    """Visit a page."""
    await visit(gate)


@pytest.mark.parametrize("use", [ask, look, turn])
async def test_tables_that_a_later_question_built_are_dropped_too(
    use: Callable[[RobotGate], Awaitable[None]],
) -> None:
    """The first look finds nothing to keep, and a question comes after it."""
    before = tables()
    async with make_gate(scripted({SITE: RULES})) as gate:
        for _ in range(3):
            await use(gate)
            assert tables() > before
            await asyncio.sleep(IDLE)
            assert tables() == before


async def test_view_of_a_host_keeps_no_tables() -> None:
    """A page that shows all hosts would else build the tables of all."""
    before = tables()
    async with make_gate(scripted({SITE: RULES})) as gate:
        await ask(gate)
        await asyncio.sleep(IDLE)
        assert gate.host(PAGE).access is not None
        assert tables() == before
