"""What is paced together: hosts, origins, registrable domains, or whatever a function says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.gate.doors import DOORS, outcome
from tests.paced import (
    PAGE,
    REFUSED,
    SECURE,
    SECURE_SITE,
    SITE,
    asks,
    gate_that_knows,
    make_gate,
    now,
    refusal,
    scripted,
    sleep_until,
    together,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import HostOverride, HostUnavailableError, OptionError, PaceKey

if TYPE_CHECKING:
    from robotgate import PaceKeyPolicy, RobotGate


async def starts_of(gate: RobotGate, *urls: str) -> list[float]:
    """A visit to each, all asked for at once, rules known; their starts."""
    for url in urls:
        gate.learn(url, b"")
    return await asyncio.gather(*(visit(gate, url) for url in urls))


@pytest.mark.parametrize(
    ("policy", "urls", "starts"),
    [
        (PaceKey.HOST, [PAGE, SECURE, "http://a.example:8080/", "http://b.example/"], [0.0, 1.0, 2.0, 0.0]),
        (PaceKey.ORIGIN, [PAGE, SECURE, "http://a.example:8080/", PAGE], [0.0, 0.0, 0.0, 1.0]),
        (
            PaceKey.REGISTRABLE_DOMAIN,
            [
                "http://a.co.uk/",
                "http://b.co.uk/",
                "https://www.b.co.uk/",
                "http://8.8.8.8/",
                "http://1.8.8.8/",
            ],
            [0.0, 0.0, 1.0, 0.0, 0.0],
        ),
    ],
)
async def test_who_waits_for_whom(policy: PaceKey, urls: list[str], starts: list[float]) -> None:
    """A second apart where they are paced together, at once where they are not."""
    async with make_gate(pace_key=policy) as gate:
        assert await starts_of(gate, *urls) == starts


async def test_strictest_binds_all_who_are_paced_together() -> None:
    """One asks for five seconds, the other for nothing; one may have three at once, the other one."""
    fetcher = scripted({SITE: asks("Crawl-delay: 5")})
    overrides = {"b.example": HostOverride(concurrency_per_host=1)}
    gate = make_gate(fetcher, pace_key=lambda _url: "all", concurrency_per_host=3, overrides=overrides)
    async with gate:
        await gate.allowed(PAGE)
        assert await visits(gate, 2, takes=7.0) == [5.0, 10.0]
        assert now() == 17.0
        gate.learn("http://b.example/", b"")
        # One at a time from here on: the five seconds count from the end.
        assert await together(visit(gate, "http://b.example/", takes=2.0), visit(gate)) == [17.0, 24.0]


async def test_longest_delay_of_the_members_is_lifted_with_it() -> None:
    """An override that is taken away frees those who were bound by it."""
    async with make_gate(pace_key=PaceKey.REGISTRABLE_DOMAIN) as gate:
        one, two = "http://one.example.com/", "http://two.example.com/"
        gate.override("one.example.com", HostOverride(delay=20.0))
        assert await starts_of(gate, one, two) == [0.0, 20.0]
        gate.override("one.example.com", None)
        assert await together(visit(gate, one), visit(gate, two)) == [40.0, 41.0]


@pytest.mark.parametrize("policy", [PaceKey.HOST, lambda _url: "all"])
async def test_circuits_are_per_origin(policy: PaceKeyPolicy) -> None:
    """An unreachable origin does not hold up the others of its pace key, and is tried in its turn."""
    async with gate_that_knows(SITE, SECURE_SITE, pace_key=policy, give_up_after=0.0) as gate:
        assert await visit(gate, takes=1.0, error=REFUSED) == 0.0
        error, at = await refusal(visit(gate), HostUnavailableError)
        assert (at, error.host) == (1.0, "a.example")
        assert await visit(gate, SECURE) == 2.0
        await sleep_until(20.0)
        probe = asyncio.create_task(visit(gate, takes=0.5, status=200))
        await settle()
        assert await visits(gate, 2, SECURE) == [21.5, 22.5]
        assert await probe == 20.0
        assert gate.host(PAGE).unreachable_until_at is None


async def test_blocks_are_of_all_who_are_paced_together() -> None:
    """A 429 is the server's word, whichever of its names was asked."""
    async with make_gate(pace_key=PaceKey.REGISTRABLE_DOMAIN) as gate:
        one, two = "http://one.example.com/", "http://two.example.com/"
        gate.learn(one, b"")
        gate.learn(two, b"")
        await visit(gate, one, status=429, headers={"Retry-After": "100"})
        assert await visit(gate, two) == 100.0


@pytest.mark.parametrize("named", [None, ""])
async def test_function_that_names_nothing(named: object) -> None:
    """The caller gets the error; nothing is sent, nothing waits, nothing is left open."""

    def nonsense(_url: str) -> str:
        return named  # type: ignore[return-value]

    fetcher = scripted()
    async with make_gate(fetcher, pace_key=nonsense) as gate:
        for name in DOORS.keys() - {"allowed_nowait"}:
            with pytest.raises(OptionError, match=r"pace_key=.* returned"):
                await outcome(DOORS[name], gate, PAGE)
        refused: list[str] = []
        turns = gate.ready([PAGE], on_refusal=lambda url, error: refused.append(f"{url}: {error}"))
        assert [turn async for turn in turns] == []
        assert len(refused) == 1
        assert now() == 0.0
    assert fetcher.requests == []
