"""Prints the moves of a turn for docs/design.md, from the table that the scheduler runs by: `pace.turn.MOVES`."""

from __future__ import annotations

import sys

from robotgate.pace.turn import MOVES, TurnState


def picture() -> str:
    """The states from the top down, and below each the moves that leave it."""
    lines = ["```text"]
    for state in TurnState:
        lines.append(state.name)
        leaving = [move for move in MOVES if move.source is state]
        for move in leaving:
            corner = "└" if move is leaving[-1] else "├"
            held = " (takes a slot and a permit)" if move.takes_slot else ""
            freed = " (frees them)" if move.frees_slot else ""
            lines.append(
                f"{corner} {move.name:<9} → {move.target.name:<8} {move.why}{held}{freed}"
            )
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    sys.stdout.write(f"{picture()}\n")
