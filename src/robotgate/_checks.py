"""Refuses arguments that make no sense, by name."""

from __future__ import annotations

import inspect
import math
import sys
from typing import TYPE_CHECKING

from robotgate._errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from enum import Enum


def check_number(name: str, value: object) -> None:
    """Refuse what is no number to multiply by.

    Raises:
        OptionError: `value` is not a finite number from 0 on.
    """
    if not _is_amount(value, most=sys.float_info.max):
        raise OptionError(f"{name}={value!r}: give a finite number, 0 or more")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no duration.

    Raises:
        OptionError: `value` is not a finite number of seconds from 0 on.
    """
    if not _is_amount(value, most=sys.float_info.max):
        raise OptionError(f"{name}={value!r}: give a finite number of seconds, 0 or more")


def check_patience(name: str, value: object) -> None:
    """Refuse what is no bound of a wait.

    Raises:
        OptionError: `value` is neither a number of seconds from 0 on nor infinity.
    """
    if not _is_amount(value, most=math.inf):
        raise OptionError(
            f"{name}={value!r}: give a number of seconds, 0 or more; math.inf waits however long"
        )


def check_instant(name: str, value: object) -> None:
    """Refuse what is no instant.

    Raises:
        OptionError: `value` is neither a number of seconds since the epoch nor infinity.
    """
    if not _is_amount(value, most=math.inf):
        raise OptionError(f"{name}={value!r}: give seconds since the epoch; math.inf for no end, 0 for now")


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Refuse what is no whole number.

    Raises:
        OptionError: `value` is not a whole number, or under `least`.
    """
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return
    bound = "" if least is None else f", {least} or more"
    raise OptionError(f"{name}={value!r}: give a whole number{bound}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither yes nor no.

    Raises:
        OptionError: `value` is no bool.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name}={value!r}: give True or False")


def check_choice(name: str, value: object, choices: type[Enum]) -> None:
    """Refuse what is none of the choices.

    Raises:
        OptionError: `value` is no member of this enumeration.
    """
    if not isinstance(value, choices):
        raise OptionError(f"{name}={value!r}: give one of {', '.join(map(str, choices))}")


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


def check_callback(name: str, value: object) -> None:
    """Refuse what cannot be called back.

    Raises:
        OptionError: `value` cannot be called, or is a coroutine function, which nobody would wait for.
    """
    if not callable(value):
        raise OptionError(f"{name}={value!r}: give a function")
    if inspect.iscoroutinefunction(value):
        raise OptionError(f"{name}={value!r}: give a plain function; it may start a task")


def unless_none(check: Callable[[str, object], object], name: str, value: object) -> None:
    """Check what was given; None leaves it open.

    Raises:
        OptionError: as the check does.
    """
    if value is not None:
        check(name, value)


def _is_amount(value: object, *, most: float) -> bool:
    # Compared, not converted: an int may be beyond every float, and NaN is under and over nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
