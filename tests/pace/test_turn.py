"""A turn moves as the table of its moves says, and its place moves with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.pace.bench import Bench

from robotgate.pace.host import PacedTurn
from robotgate.pace.turn import (
    BEGIN,
    END,
    GIVE_BACK,
    GRANT,
    LEAVE,
    MOVES,
    NEW,
    RENEW,
    START,
    WAIT,
    Move,
    TurnState,
)

if TYPE_CHECKING:
    from robotgate.pace.turn import Places

WAYS: dict[TurnState, tuple[Move, ...]] = {
    NEW: (),
    TurnState.WAITING: (WAIT,),
    TurnState.GRANTED: (WAIT, GRANT),
    TurnState.OPEN: (BEGIN,),
    TurnState.ENDED: (BEGIN, END),
}
"""How a turn comes to each state."""


async def turn_in(state: TurnState) -> tuple[Places, PacedTurn]:
    """A turn that has come to a state."""
    bench = Bench()
    turn = PacedTurn(bench.origin(), granted=asyncio.get_running_loop().create_future())
    for move in WAYS[state]:
        bench.scheduler.places.move(turn, move)
    return bench.scheduler.places, turn


@pytest.mark.parametrize("state", TurnState)
async def test_moves_are_those_of_the_table(state: TurnState) -> None:
    """Every other one is refused, and changes nothing."""
    for move in MOVES:
        places, turn = await turn_in(state)
        if move.source is state:
            places.move(turn, move)
            assert turn.state is move.target
        else:
            with pytest.raises(RuntimeError, match=f"in state {state.name} cannot {move.name}"):
                places.move(turn, move)
            assert turn.state is state


@pytest.mark.parametrize(
    "moves",
    [(BEGIN, END), (WAIT, LEAVE), (WAIT, GRANT, GIVE_BACK), (WAIT, GRANT, START, END, RENEW, WAIT, LEAVE)],
    ids=lambda moves: ", ".join(move.name for move in moves),
)
async def test_a_place_is_given_back(moves: tuple[Move, ...]) -> None:
    """However a turn ends: the queue, the slot, the permit and all counts are as before."""
    places, turn = await turn_in(NEW)
    for move in moves:
        places.move(turn, move)
        is_held = turn in places.pages.held
        assert is_held is (turn in turn.paced.host.in_slots)
        assert is_held is (turn.state in {TurnState.GRANTED, TurnState.OPEN})
        assert (turn.paced.host.starting is turn) is (turn.state is TurnState.GRANTED)
        assert bool(turn.paced.host.waiters) is (places.waiting == 1) is (turn.state is TurnState.WAITING)
    assert (places.waiting, places.granted, turn.paced.waiting, turn.paced.queue) == (0, 0, 0, None)
