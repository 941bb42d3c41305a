"""The normal form of paths as text, as a person reads it, from the units that the matcher compares."""

from __future__ import annotations

from robotgate.rules.normal import pattern_units, target_units


def spelt(units: str) -> str:
    """Units as text, each escaped byte as its escape."""
    return "".join(unit if unit.isascii() else f"%{ord(unit) % 0x100:02X}" for unit in units)


def normalise_target(target: str) -> str:
    """The normal form of a path and query."""
    return spelt(target_units(target))


def normalise_pattern(pattern: str) -> str:
    """The normal form of one rule's pattern; its length is the rule's priority."""
    return spelt(pattern_units(pattern.replace("\n", "%0A")))
