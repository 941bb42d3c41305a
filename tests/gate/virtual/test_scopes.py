"""Groups of hosts: what one of them does, the others wait for."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import gate_that_knows, make_gate, now, refusal, scripted, sleep_until, visit

from robotgate import Group, HostOverride, MemoryStore, NestedTurnError, OptionError, TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable

SHOPS: Final = tuple(f"http://{name}.shops.example" for name in "abcd")
PAGES: Final = tuple(f"{shop}/page" for shop in SHOPS)
OTHER: Final = "http://b.example/page"
OPEN: Final = {"*.example": HostOverride(ignore_robots=True)}
"""Nothing is requested but pages."""
GROUPS: Final = {"*.shops.example": Group("shops", delay=10.0)}


def shops(origin: str) -> Group | None:
    """The same as a function."""
    return GROUPS["*.shops.example"] if origin.endswith(".shops.example") else None


@pytest.mark.parametrize("groups", [GROUPS, shops])
async def test_hosts_of_a_group_share_its_pace(
    groups: dict[str, Group] | Callable[[str], Group | None],
) -> None:
    """Their robots.txt files count, and go first; another host does not wait for them."""
    fetcher = scripted(latency=1.0)
    async with make_gate(fetcher, groups=groups) as gate:
        starts = await asyncio.gather(*(visit(gate, page, takes=2.0) for page in (*PAGES, OTHER)))
    assert [at for at, _ in fetcher.requests] == [0.0, 0.0, 11.0, 22.0, 33.0]
    assert starts == [44.0, 56.0, 68.0, 80.0, 2.0]


async def test_group_tells_when() -> None:
    """In `wait_time`, in the view of each of its hosts, and to whom it would be too late."""
    async with gate_that_knows(*SHOPS, groups=GROUPS) as gate:
        await visit(gate, PAGES[0])
        await sleep_until(2.0)
        assert gate.wait_time(PAGES[1]) == 8.0
        assert gate.host(PAGES[1]).next_allowed_at == 10.0
        waiting = [asyncio.create_task(visit(gate, page)) for page in PAGES[1:3]]
        await asyncio.sleep(1.0)
        error, at = await refusal(visit(gate, PAGES[3], max_wait=20.0), TooSoonError)
        assert (at, error.retry_after) == (3.0, 27.0)
        assert await asyncio.gather(*waiting, visit(gate, PAGES[3], max_wait=27.0)) == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("knows", [True, False])
async def test_task_that_waits_for_its_own_group_is_told(*, knows: bool) -> None:
    """Whether the other host's robots.txt is known, or would have to be requested in the group's turn."""
    async with gate_that_knows(*SHOPS[: 1 + knows], groups=GROUPS) as gate, gate.turn(PAGES[0]):
        error, at = await refusal(visit(gate, PAGES[1]), NestedTurnError)
        assert "the group shops" in str(error)
        assert at == 0.0


async def test_evicted_hosts_do_not_forget_their_group() -> None:
    """Neither its delay nor its quota."""
    groups = {"*.shops.example": Group("shops", delay=10.0, rate=(3, 100.0))}
    async with make_gate(groups=groups, max_hosts=1, overrides=OPEN) as gate:
        assert [await visit(gate, page) for page in PAGES] == [0.0, 10.0, 20.0, 100.0]
        assert gate.stats().hosts == 1


async def test_concurrency_of_a_group() -> None:
    """Without a delay any number of its hosts may be visited at once, up to that."""
    groups = {"*.shops.example": Group("shops", concurrency=3)}
    async with gate_that_knows(*SHOPS, groups=groups, delay=0.0) as gate:
        assert await asyncio.gather(*(visit(gate, page, takes=5.0) for page in PAGES)) == [0.0, 0.0, 0.0, 5.0]


@pytest.mark.parametrize(
    ("name", "limit"),
    [("", {}), *(("g", {"delay": delay}) for delay in (-1.0, math.nan)), ("g", {"rate": (0, 1.0)})],
)
def test_group_that_makes_no_sense(name: str, limit: dict[str, float]) -> None:
    """The error names it."""
    with pytest.raises(OptionError, match=rf"^Group\('{name}'\)"):
        Group(name, **limit)  # type: ignore[arg-type]


async def test_function_that_returns_no_group() -> None:
    """It is named to whoever asks for the page, and other pages are to be had."""
    async with make_gate(groups=lambda origin: origin if "shops" in origin else None) as gate:  # type: ignore[arg-type, return-value]
        with pytest.raises(OptionError, match=r"^groups=.*returned 'http://a\.shops\.example'"):
            await visit(gate, PAGES[0])
        await visit(gate, OTHER)
    with pytest.raises(OptionError, match=r"^groups=5: give a mapping of patterns to Group, or "):
        make_gate(groups=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("gates", [2, 8])
async def test_gates_take_turns_at_a_group(gates: int) -> None:
    """It is granted to one at a time, whichever of its hosts each visits."""
    store, starts = MemoryStore(), list[float]()

    async def crawl(shop: str) -> None:
        async with make_gate(store=store, groups=GROUPS, overrides=OPEN) as gate:
            starts.extend([await visit(gate, f"{shop}/{number}", takes=1.0) for number in range(4)])

    await asyncio.gather(*(crawl(f"http://{number}.shops.example") for number in range(gates)))
    assert sorted(starts) == [11.0 * number for number in range(4 * gates)]


async def test_groups_that_are_not_used_any_more_are_handed_on() -> None:
    """A gate that has forgotten a thousand of them keeps none from others."""
    store = MemoryStore()

    def own(origin: str) -> Group:
        return Group(origin, delay=1.0)

    async with (
        make_gate(store=store, groups=own, overrides=OPEN, max_hosts=10) as one,
        make_gate(store=store, groups=lambda _: own("http://0.example"), overrides=OPEN) as two,
    ):
        for number in range(1100):
            await visit(one, f"http://{number}.example/")
            await asyncio.sleep(1.0)
        began_at = now()
        assert await visit(two, OTHER, max_wait=5.0) <= began_at + 5.0
