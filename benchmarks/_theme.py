"""Colours of plots, on white and on the dark page of a code host.

There are two files of each plot, and each has a background of its own. One transparent file for both would have to be
of a grey that stands out from white and from `DARK.page` alike, and none does by more than 4.35 to 1, where text wants
4.5. With a background, whoever is shown the wrong one of the two, as by a site that has a switch for its dark pages,
reads it all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What is drawn in which colour; all as ``#rrggbb``."""

    name: str
    """Ends the files' names."""
    page: str
    text: str
    quiet: str
    """Text that says how to read the rest."""
    ours: str
    peer: str
    """Bars and whiskers of all others."""
    lines: tuple[str, ...]
    """For curves, which lie apart for every kind of colour-blindness (after Okabe and Ito)."""


LIGHT: Final = Theme(
    name="light",
    page="#ffffff",
    text="#1f2328",
    quiet="#59636e",
    ours="#0072b2",
    peer="#8c959f",
    lines=("#0072b2", "#b85000", "#008060", "#a0508a", "#59636e"),
)
DARK: Final = Theme(
    name="dark",
    page="#0d1117",
    text="#e6edf3",
    quiet="#9198a1",
    ours="#56b4e9",
    peer="#6e7681",
    lines=("#56b4e9", "#e69f00", "#2fc79a", "#d98cbd", "#9198a1"),
)
THEMES: Final = (LIGHT, DARK)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2.2 defines it: 1 to 21."""
    darker, brighter = sorted((_luminance(one), _luminance(other)))
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
