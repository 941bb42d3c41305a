"""What a pattern matches, for tables of the tests of the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from robotgate import RobotsTxt

if TYPE_CHECKING:
    import pytest

Cases: TypeAlias = list[tuple[str, list[str], list[str]]]
"""Patterns, each with URLs that it matches, and with others."""


def disallows(pattern: str, url: str, file_url: str | None = None) -> bool:
    """Whether one Disallow line matches."""
    robots = RobotsTxt.parse(f"User-agent: *\nDisallow: {pattern}\n".encode(), file_url)
    return not robots.allowed(url, "foobot")


def check(cases: Cases, subtests: pytest.Subtests) -> None:
    """Ask about each URL."""
    for pattern, matched, others in cases:
        for url in [*matched, *others]:
            with subtests.test(pattern=pattern, url=url):
                assert disallows(pattern, url) is (url in matched)
