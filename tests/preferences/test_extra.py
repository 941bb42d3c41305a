"""Without the extra ``preferences``: what is missing is told, and everything else works."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

WITHOUT: Final = """\
import sys
sys.modules["http_sf"] = None
from robotgate import RobotGate, RobotsTxt
from robotgate.lint import lint
body = b"User-agent: *\\nAllow: /\\nContent-Usage: train-ai=n\\nContent-Signal: a=b"
robots = RobotsTxt.parse(body, "https://a.example")
verdict = robots.verdict("/", "MyBot")
print(verdict.allowed, len(lint(body)) > 0)
def imports():
    from robotgate.preferences import parse_preferences
    parse_preferences({})
for call in (
    lambda: verdict.preferences,
    lambda: robots.preferences("/", "MyBot"),
    imports,
    lambda: RobotGate("MyBot/1", contact="a@b.example", purposes={"tdm"}),
    lambda: RobotGate("MyBot/1", contact="a@b.example", tdmrep=True),
):
    try:
        call()
    except ImportError as error:
        print(type(error).__name__, error.name, error, sep="; ")
"""


def test_a_missing_library_is_told_of() -> None:
    """At once and always, not only where a site has such a statement; verdicts and lint go on."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    told = "ModuleNotFoundError; http_sf; robotgate.preferences needs http_sf: pip install 'robotgate[preferences]'"
    assert ran.stdout.splitlines() == ["True True", *5 * [told]]
