"""The suite for stores finds what is wrong with one that reports, or passes blocks on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.failing import FleetMemory, ReportingMemory

from robotgate import StoreError, _check_tools
from robotgate._check_fleet import check_shared_blocks
from robotgate.testing import check_store

if TYPE_CHECKING:
    from collections.abc import Callable


def joined(kind: type[FleetMemory]) -> tuple[FleetMemory, FleetMemory]:
    """Two that hear of each other."""
    one, other = kind(), kind()
    one.others, other.others = [other], [one]
    return one, other


async def test_those_of_the_tests_do_all_they_say() -> None:
    """Nothing is asked that cannot be done."""
    await check_store(ReportingMemory)
    await check_shared_blocks(*joined(FleetMemory))


class CriesWolf(ReportingMemory):
    """Takes a call for a loss."""

    def subscribe_losses(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """Call back at once."""
        callback(StoreError("the server is gone: start it"))
        return super().subscribe_losses(callback)


class TellsNobody(FleetMemory):
    """Keeps it to itself."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Here alone."""
        self.tell(pattern, until_at)


class TellsTheFirst(FleetMemory):
    """Is told one word, and no other."""

    def tell(self, pattern: str, until_at: float) -> None:
        """Unless something was told before."""
        if not self.standing:
            super().tell(pattern, until_at)


class TellsAnHourOff(FleetMemory):
    """Takes one clock for another."""

    def tell(self, pattern: str, until_at: float) -> None:
        """Later."""
        super().tell(pattern, until_at and until_at - 3600.0)


class TellsNothingThatStands(FleetMemory):
    """Has no memory."""

    def subscribe_blocks(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """From now on."""
        self.standing.clear()
        return super().subscribe_blocks(callback)


class TellsNoEnd(FleetMemory):
    """Does not pass on that a block is lifted."""

    def tell(self, pattern: str, until_at: float) -> None:
        """Blocks alone."""
        if until_at:
            super().tell(pattern, until_at)


class NeverEnds(FleetMemory):
    """Calls back for ever."""

    def subscribe_blocks(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """Nothing ends it."""
        super().subscribe_blocks(callback)
        return lambda: None


async def test_a_store_that_reports_what_is_not_is_found() -> None:
    """A gate would call its operator for nothing."""
    with pytest.raises(AssertionError, match="subscribe_losses"):
        await check_store(CriesWolf)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (TellsNobody, "publish_block: no other store hears of a block"),
        (TellsTheFirst, "of two words, another store hears but one"),
        (TellsAnHourOff, "publish_block: a block until"),
        (TellsNothingThatStands, "who comes later"),
        (TellsNoEnd, "lifted"),
        (NeverEnds, "it goes on after its end"),
    ],
)
async def test_a_store_that_keeps_a_word_back_is_found(
    kind: type[FleetMemory], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a gate would miss."""
    monkeypatch.setattr(_check_tools, "PATIENCE", 0.1)
    with pytest.raises(AssertionError, match=complaint):
        await check_shared_blocks(*joined(kind))
