"""How the commands write text, instants and durations: nothing that they show can steer the terminal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from robotgate._jsonl_fields import MAX_AMOUNT

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"))


def printable(text: str) -> str:
    """The text on one line, with what does not print spelt out."""
    return "".join(letter if letter.isprintable() else _spelt_out(letter) for letter in text)


def _spelt_out(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) <= 0xFFFF else f"\\U{ord(letter):08x}"


def moment(instant: float) -> str:
    """An instant, to the second."""
    if instant >= MAX_AMOUNT:
        return "the end of time"
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """A duration in its largest unit, as ``12s``, ``4m``, ``23h`` or ``30d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}" if seconds < MAX_AMOUNT - 1e10 else "ever"
    return f"{max(math.ceil(seconds), 0)}s"
