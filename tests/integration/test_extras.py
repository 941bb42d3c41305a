"""The public names of the integrations, and their errors where an extra is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from robotgate.integrations import crawlee, httpx, scrapy

WITHOUT: Final = """\
import sys
sys.modules[sys.argv[1]] = None
try:
    __import__("robotgate.integrations." + sys.argv[1])
except ImportError as error:
    print(type(error).__name__, error.name, error, sep="; ")
"""
"""A module that is None in `sys.modules` cannot be imported."""


def test_exports_are_these() -> None:
    """The public names are these."""
    assert crawlee.__all__ == ["GateHttpClient"]
    assert httpx.__all__ == [
        "GateTransport",
        "HttpxFetcher",
        "TurnOptions",
        "gated_client",
    ]
    assert scrapy.__all__ == ["Addon", "RefusedRequest", "RobotParser"]


@pytest.mark.parametrize("extra", ["crawlee", "httpx", "scrapy"])
def test_missing_library_is_told_of(extra: str) -> None:
    """Without its library, an integration raises `ModuleNotFoundError` with what to install."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, extra], capture_output=True, text=True, check=True, timeout=60
    )
    told = f"robotgate.integrations.{extra} needs {extra}: pip install 'robotgate[{extra}]'"
    kind, name, message = ran.stdout.strip().split("; ")
    assert (kind, message) == ("ModuleNotFoundError", told)
    assert name.partition(".")[0] == extra
