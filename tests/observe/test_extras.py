"""Without their extras, the functions say what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

WITHOUT: Final = """\
import sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
from robotgate import RobotGate, observe
for function in (observe.prometheus, observe.opentelemetry):
    try:
        function(RobotGate("ExampleBot/1.0", contact="bot@example.org"))
    except ModuleNotFoundError as error:
        print(error)
"""


def test_missing_library_is_told_of() -> None:
    """With the command that installs it."""
    told = subprocess.check_output([sys.executable, "-c", WITHOUT], text=True, timeout=60)
    assert told.splitlines() == [
        f"robotgate.observe needs {library}: pip install 'robotgate[{extra}]'"
        for library, extra in (("prometheus_client", "prometheus"), ("opentelemetry", "otel"))
    ]
