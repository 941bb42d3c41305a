"""A user's program as type checkers see it. `test_user.py` holds both checkers to the marks: a line that is marked
"wrong" is reported, and no other is. What is wrong for one of them only names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import aiohttp

from robotgate import HostOverride, Rate, Response, RobotGate, Verdict
from robotgate.events import Event, HostBlocked, TurnBegan, TurnEnded, VerdictRefused

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "https://example.org/"


async def answers(gate: RobotGate) -> None:
    """What is awaited."""
    assert_type(await gate.allowed(URL), bool)
    assert_type(gate.allowed_nowait(URL), bool | None)
    assert_type(await gate.check(URL), Verdict)
    assert_type(await gate.fetch(URL, headers={"Accept": "text/html"}, max_wait=None), Response)
    page = await gate.fetch(URL)
    assert_type(page.status, int)
    assert_type(page.text.strip(), str)
    assert_type(await page.text(), str)
    assert_type(await page.json(), object)
    assert page.json() == {"id": 1}
    async with gate.fetch(URL) as response:
        assert_type(response, aiohttp.ClientResponse)
    async with gate.turn(URL) as turn:
        turn.report(200, {"Retry-After": "1"}, 20)
        assert_type(turn.url, str)
    async for ready in gate.ready([URL]):
        assert_type(await ready.fetch(), Response)


async def forgotten(gate: RobotGate) -> None:
    """A forgotten await is reported in a condition, and does not hide what follows."""
    if gate.allowed(URL):  # wrong for mypy
        print("allowed")
    first: int = "no number"  # wrong
    if gate.fetch(URL):  # wrong for mypy
        print("there")
    second: int = "no number"  # wrong
    if await gate.check(URL):  # wrong for mypy
        print("allowed")
    third: int = "no number"  # wrong
    print(first, second, third)


async def misspelt(gate: RobotGate) -> None:
    """Names that do not exist."""
    await gate.fetch(URL, allow_redirect=False)  # wrong
    gate.turn(URL, max_waits=3)  # wrong
    RobotGate("ExampleBot/1.0", contact="bot@example.org", dleay=1)  # wrong
    HostOverride(delay="1")  # wrong
    HostOverride(dealy=1)  # wrong
    HostOverride(delay=2, rate=Rate(600, 3600), ignore_robots=True)
    RobotGate("ExampleBot/1.0", contact="bot@example.org", delay="1")  # wrong


def on_event(event: Event) -> None:
    """Any."""
    print(event)


def on_end(event: TurnEnded) -> None:
    """One kind."""
    print(event.status)


def on_end_or_block(event: TurnEnded | HostBlocked) -> None:
    """Two kinds."""
    print(event)


def on_three(event: TurnEnded | HostBlocked | VerdictRefused) -> None:
    """Three kinds."""
    print(event)


def subscribers(gate: RobotGate, kinds: list[type[Event]]) -> None:
    """A callback takes the kinds that it is subscribed to."""
    end: Callable[[], None] = gate.subscribe(on_event)
    end()
    gate.subscribe(on_event, TurnEnded, HostBlocked)
    gate.subscribe(on_event, *kinds, at_once=True)
    gate.subscribe(on_event, TurnEnded, HostBlocked, VerdictRefused, TurnBegan)
    gate.subscribe(on_end, TurnEnded)
    gate.subscribe(on_end_or_block, HostBlocked)
    gate.subscribe(on_end_or_block, TurnEnded, HostBlocked)
    gate.subscribe(on_three, TurnEnded, HostBlocked, VerdictRefused)
    gate.subscribe(lambda event: print(event.at))
    gate.subscribe(lambda event: print(event.until_at), HostBlocked)
    gate.subscribe(on_end)  # wrong
    gate.subscribe(on_end, HostBlocked)  # wrong
    gate.subscribe(on_end, TurnEnded, HostBlocked)  # wrong
    gate.subscribe(on_end_or_block, TurnEnded, TurnBegan)  # wrong
    gate.subscribe(on_end, *kinds)  # wrong
    gate.subscribe(lambda event: print(event.until_at), TurnEnded)  # wrong
