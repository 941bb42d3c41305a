"""A plain gate loads no extra; where one is missing, its errors say what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

LIBRARIES: Final = ("crawlee", "httpx", "playwright", "scrapy")
MISSING: Final = [
    *((f"robotgate.integrations.{library}", library, library) for library in LIBRARIES),
    ("robotgate.integrations.urlfrontier", "grpc", "urlfrontier"),
    ("robotgate.observe", "prometheus_client", "prometheus"),
    ("robotgate.observe", "opentelemetry", "otel"),
    *[("robotgate.preferences", "http_sf", "preferences")] * 5,
]
"""What needs which library, and the extra that installs it; as often as it is asked for."""
WITHOUT: Final = """\
import sys
import robotgate, robotgate.testing
from robotgate import observe

gate = robotgate.RobotGate("ExampleBot/1.0", contact="bot@example.org")
print(*sys.modules)

def missing(library, use):
    sys.modules[library] = None
    try:
        use()
    except ImportError as error:
        print(type(error).__name__, error.name, error, sep="; ")

for library in sys.argv[1:]:
    missing(library, lambda: __import__("robotgate.integrations." + library))
missing("grpc", lambda: __import__("robotgate.integrations.urlfrontier"))
missing("prometheus_client", lambda: observe.prometheus(gate))
missing("opentelemetry", lambda: observe.opentelemetry(gate))

body = b"User-agent: *\\nAllow: /\\nContent-Usage: train-ai=n\\nContent-Signal: a=b"
robots = robotgate.RobotsTxt.parse(body, "https://a.example")
verdict = robots.verdict("/", "MyBot")
for use in (
    lambda: verdict.preferences,
    lambda: robots.preferences("/", "MyBot"),
    lambda: __import__("robotgate.preferences").preferences.parse_preferences({}),
    lambda: robotgate.RobotGate("MyBot/1", contact="a@b.example", purposes={"tdm"}),
    lambda: robotgate.RobotGate("MyBot/1", contact="a@b.example", tdmrep=True),
):
    missing("http_sf", use)
missing("aioresponses", lambda: __import__("robotgate.testing.aioresponses"))

from robotgate.lint import lint
print(verdict.allowed, len(lint(body)) > 0)
"""
"""A module that is None in `sys.modules` cannot be imported."""


def test_extras_are_loaded_by_nobody_else_and_told_of_where_they_are_missing() -> None:
    """Though they are installed, a gate and `robotgate.testing` import none; an error has the command to type.

    It comes at once and always, not only where a site states a preference; verdicts and lint go on.
    """
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, *LIBRARIES], capture_output=True, text=True, check=True
    )
    loaded, *errors, mocked, works = ran.stdout.splitlines()
    extras = "click cryptography http_sf opentelemetry platformdirs redis rich prometheus_client aioresponses pytest"
    none_of = {*extras.split(), *LIBRARIES, "grpc", "robotgate.preferences"}
    assert none_of & set(loaded.split()) == set()
    for error, (user, library, extra) in zip(errors, MISSING, strict=True):
        kind, name, message = error.split("; ")
        assert (kind, name.partition(".")[0]) == ("ModuleNotFoundError", library)
        assert message == f'{user} needs {library}: pip install "robotgate[{extra}]"'
    assert mocked.startswith("ModuleNotFoundError; aioresponses; ")
    assert works == "True True"
