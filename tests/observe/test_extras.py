"""Without their extras, the functions say what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

WITHOUT: Final = """\
import sys
sys.modules[sys.argv[1]] = None
from robotgate import RobotGate, observe
try:
    getattr(observe, sys.argv[2])(RobotGate("ExampleBot/1.0", contact="bot@example.org"))
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("library", "function", "extra"),
    [("prometheus_client", "prometheus", "prometheus"), ("opentelemetry", "opentelemetry", "otel")],
)
def test_missing_library_is_told_of(library: str, function: str, extra: str) -> None:
    """With the command that installs it."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, library, function],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.strip() == f"robotgate.observe needs {library}: pip install 'robotgate[{extra}]'"
