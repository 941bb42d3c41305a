"""What an operator may set of a store: what it means, and within which bounds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from robotgate._checks import check_patience, check_seconds, check_text, check_whole
from robotgate._errors import OptionError

LEASE: Final = 60.0
LEAST_LEASE: Final = 1.0
ROBOTS_LEASE: Final = 30.0
"""Seconds that a worker which dies while it asks for a robots.txt keeps the others from asking, at most."""
PATIENCE: Final = 30.0
MAX_AGE: Final = 31 * 24 * 3600.0
LEAST_MAX_AGE: Final = 3600.0
MAX_HOSTS: Final = 100_000


class Degraded(StrEnum):
    """What a store does while its server cannot be reached."""

    WAIT = "wait"
    """Turns wait, for as long as `patience`, and then fail with `StoreError`."""
    LOCAL = "local"
    """Each process goes on by itself, at the delay times the number of workers there were: together they keep the mean
    rate, but not every gap."""


def check_settings(*, prefix: str, lease: float, patience: float, max_age: float, max_hosts: int) -> None:
    """Refuse what makes no sense, by the names that `RedisStore` gives its options.

    Raises:
        OptionError: one of them makes no sense.
    """
    check_text("prefix", prefix)
    _check_at_least("lease", lease, LEAST_LEASE)
    check_patience("patience", patience)
    _check_at_least("max_age", max_age, LEAST_MAX_AGE)
    check_whole("max_hosts", max_hosts, least=1)


def degraded_of(value: Degraded | str) -> Degraded:
    """The choice that a value names.

    Raises:
        OptionError: it names none.
    """
    try:
        return Degraded(value)
    except ValueError:
        choices = ", ".join(repr(choice.value) for choice in Degraded)
        raise OptionError(f"degraded={value!r}: give one of {choices}") from None


def _check_at_least(name: str, value: float, least: float) -> None:
    check_seconds(name, value)
    if value < least:
        raise OptionError(f"{name}={value!r}: give {least:g} seconds or more")
