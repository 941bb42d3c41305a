"""What is said of operator blocks, as it travels: ``blocks.lua`` has the same layouts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from robotgate._errors import OptionError
from robotgate._host_pattern import HostPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

LIFTED_FOR: Final = 86_400.0
"""Seconds for which a word is kept that has no effect any more: an older one may still come. The script has it, too."""

CHANGES: Final = Struct("<dddB")
"""The server's time, generation, cursor, whether there is more; words follow."""
_WORD: Final = Struct("<ddH")
"""Until, said, and how long the pattern is that follows."""

_logger: Final = logging.getLogger("robotgate.stores")


@dataclass(frozen=True, slots=True)
class Word:
    """What was said of a pattern."""

    until_at: float
    """By the server's clock, as what follows; 0 lifts."""
    said_at: float
    until_here: float
    """By ours, as it was given, or heard."""

    def is_over(self, now: float) -> bool:
        """Whether not even an older word has to be kept from coming back."""
        return max(self.until_at, self.said_at) + LIFTED_FOR < now


def pack_word(pattern: str, word: Word) -> bytes:
    """As the server is told it."""
    name = pattern.encode()
    return _WORD.pack(word.until_at, word.said_at, len(name)) + name


def words_in(changes: bytes) -> Iterator[tuple[str, float, float]]:
    """Pattern, until and said. What no process of ours has written, or only a later one, is passed over."""
    place = CHANGES.size
    while place < len(changes):
        until_at, said_at, size = _WORD.unpack_from(changes, place)
        place += _WORD.size
        name = changes[place : place + size]
        place += size
        try:
            yield _pattern(name), _instant(until_at), _instant(said_at)
        except ValueError as error:
            _logger.warning("what the store says of blocks is passed over: %s", error)


def _pattern(name: bytes) -> str:
    try:
        return str(HostPattern.parse(name.decode()))
    except OptionError as error:
        raise ValueError(error) from error


def _instant(at: float) -> float:
    # NaN is not over anything either.
    if not at >= 0:
        raise ValueError(f"{at} is no instant")
    return at
