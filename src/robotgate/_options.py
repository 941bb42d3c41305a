"""The operator's options, refused by name when they make no sense."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._errors import OptionError
from robotgate._status import StatusPolicy

if TYPE_CHECKING:
    from enum import Enum

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MAX_FETCH_BYTES: Final = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator can set; `RobotGate` documents each."""

    delay: float
    concurrency_per_host: int
    concurrency: int
    max_delay: float
    max_wait: float | None
    max_block: float
    robots_concurrency: int
    allow_private_addresses: bool
    status_policy: StatusPolicy
    max_bytes: int

    def __post_init__(self) -> None:
        for name in ("delay", "max_delay", "max_block"):
            check_seconds(name, getattr(self, name))
        if self.max_wait is not None:
            check_seconds("max_wait", self.max_wait)
        for name in ("concurrency_per_host", "concurrency", "robots_concurrency", "max_bytes"):
            check_whole(name, getattr(self, name), least=1)
        if not isinstance(self.allow_private_addresses, bool):
            raise OptionError(f"allow_private_addresses={self.allow_private_addresses!r}: give True or False")
        if not isinstance(self.status_policy, StatusPolicy):
            raise OptionError(f"status_policy={self.status_policy!r}: give one of {_choices(StatusPolicy)}")
        if self.delay > self.max_delay:
            raise OptionError(
                f"delay={self.delay!r} is over max_delay={self.max_delay!r}: every site would be refused"
            )


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no duration.

    Raises:
        OptionError: `value` is not a finite number of seconds from 0 on.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise OptionError(f"{name}={value!r}: give a finite number of seconds, 0 or more")


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Refuse what is no whole number.

    Raises:
        OptionError: `value` is not a whole number, or under `least`.
    """
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return
    bound = "" if least is None else f", {least} or more"
    raise OptionError(f"{name}={value!r}: give a whole number{bound}")


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse options that nobody would heed.

    Raises:
        TypeError: a name that is not known, as Python has it for keyword arguments.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; known are {', '.join(sorted(known))}")


def check_part(name: str, value: object, kind: type) -> None:
    """Refuse what cannot do a part's work; None leaves it to the gate.

    Raises:
        OptionError: `value` is not of this class, or lacks a method of this protocol.
    """
    if value is None or (isinstance(value, kind) and not isinstance(value, type)):
        return
    raise OptionError(
        f"{name}={value!r}: give {'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    )


def check_text(name: str, value: object) -> None:
    """Refuse what is no text.

    Raises:
        OptionError: `value` is no str.
    """
    if not isinstance(value, str):
        raise OptionError(f"{name}={value!r}: give a str")


def _choices(options: type[Enum]) -> str:
    return ", ".join(str(option) for option in options)
