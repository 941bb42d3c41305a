"""The errors of the integrations where an extra is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

WITHOUT: Final = """\
import sys
for extra in sys.argv[1:]:
    sys.modules[extra] = None
    try:
        __import__("robotgate.integrations." + extra)
    except ImportError as error:
        print(type(error).__name__, error.name, error, sep="; ")
"""
"""A module that is None in `sys.modules` cannot be imported."""


def test_missing_library_is_told_of() -> None:
    """Without its library, an integration raises `ModuleNotFoundError` with what to install."""
    extras = ["crawlee", "httpx", "scrapy"]
    ran = subprocess.run([sys.executable, "-c", WITHOUT, *extras], capture_output=True, text=True, check=True)
    for extra, line in zip(extras, ran.stdout.splitlines(), strict=True):
        told = f"robotgate.integrations.{extra} needs {extra}: pip install 'robotgate[{extra}]'"
        kind, name, message = line.split("; ")
        assert (kind, name.partition(".")[0], message) == ("ModuleNotFoundError", extra, told)
