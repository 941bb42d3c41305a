"""A store that fails, once: who was served by it hears of it, and the host's lane goes on."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.paced import OTHER, PAGE, ROBOTS, UnwritableStore, everywhere, make_gate, visit
from tests.waiting import settle

from robotgate import MemoryStore, StoreError

if TYPE_CHECKING:
    from robotgate._pacing import HostState

PRIVATE = b"User-agent: *\nDisallow: /private\n"


class FailsOnce(MemoryStore):
    """Fails when a host is remembered for the n-th time."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._left = nth

    @property
    def has_failed(self) -> bool:
        """Whether it came to that."""
        return self._left <= 0

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As memory, but for once."""
        self._left -= 1
        if not self._left:
            raise StoreError("the disk is full: make room")
        super().remember_host(pace_key, state)


@pytest.mark.parametrize("concurrency", [1, 256])
@pytest.mark.parametrize("nth", range(1, 11))
async def test_store_that_fails_once_does_not_wedge_the_lane(nth: int, concurrency: int) -> None:
    """Whatever was being remembered, those who come later get their turns, a delay apart."""
    store = FailsOnce(nth)
    async with (
        make_gate(everywhere(PRIVATE, latency=0.25), store=store, concurrency=concurrency) as gate,
        asyncio.timeout(600.0),
    ):
        outcomes = await asyncio.gather(*(visit(gate, takes=0.5) for _ in range(5)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {float, StoreError}
        assert store.has_failed
        starts = sorted(await asyncio.gather(*(visit(gate, takes=0.5) for _ in range(3))))
        assert all(later - sooner >= 1.0 for sooner, later in pairwise(starts))
        assert await visit(gate, OTHER) > 0.0
        view = gate.host(PAGE)
        assert (view.waiting, view.open_turns) == (0, 0)


async def test_block_that_cannot_be_remembered_is_told_and_ends_its_turn() -> None:
    """The report of a 503 raises what the store says; the turn ends with its block all the same."""
    store = FailsOnce(2)
    async with make_gate(everywhere(PRIVATE, latency=0.25), store=store) as gate, asyncio.timeout(600.0):
        gate.learn(PAGE, PRIVATE)
        with pytest.raises(StoreError, match="make room"):
            await visit(gate, takes=0.5, status=503)
        assert gate.host(PAGE).open_turns == 0
        assert await visit(gate, takes=0.5) >= 1.5


async def test_rules_that_cannot_be_saved_are_used_all_the_same() -> None:
    """Who asked hears of it once; the rules are known, and are not asked for again."""
    fetcher = everywhere(PRIVATE, latency=0.25)
    async with make_gate(fetcher, store=UnwritableStore()) as gate:
        with pytest.raises(StoreError, match="make room"):
            await gate.allowed(PAGE)
        assert gate.allowed_nowait(PAGE) is True
        assert await gate.allowed("http://a.example/private") is False
        assert await visit(gate, takes=0.5) == 1.25
    assert [url for _, url in fetcher.requests] == [ROBOTS]


async def test_learnt_rules_that_cannot_be_saved_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """`learn` waits for no store: what goes wrong is in the log, with the cause, and the rules hold."""
    async with make_gate(everywhere(PRIVATE, latency=0.25), store=UnwritableStore()) as gate:
        with caplog.at_level(logging.ERROR, logger="robotgate"):
            gate.learn(PAGE, PRIVATE)
            await settle()
        assert gate.allowed_nowait("http://a.example/private") is False
    (entry,) = (record for record in caplog.records if record.name == "robotgate")
    assert "make room" in entry.getMessage()
    assert entry.levelno == logging.ERROR


async def test_learnt_rules_that_cannot_be_saved_are_logged_on_closing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Closing at once loses nothing, and raises nothing."""
    gate = make_gate(everywhere(PRIVATE, latency=0.25), store=UnwritableStore())
    async with gate:
        gate.learn(PAGE, PRIVATE)
    assert [record.levelname for record in caplog.records if record.name == "robotgate"] == ["ERROR"]
