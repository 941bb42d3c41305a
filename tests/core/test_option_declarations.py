"""An option is declared once: a new one is everywhere, and the page of options says what the declarations say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.documents import printed_by

import robotgate

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = Path(robotgate.__file__).parent
PAGE: Final = ROOT / "docs" / "_options_table.py"
ALREADY: Final = "    max_delay: Annotated["
MADE_UP: Final = '''\
    made_up: Annotated[int, Option(7, check_count)]
    """A number that nobody needs."""
'''
PROGRAM: Final = """
import inspect, json
from typing import get_type_hints
from robotgate import GateOptions, HostOverride, OptionError, RobotGate
from robotgate.gate_options import completed, host_options
from robotgate.options import Overrides

def refusals(make):
    for given in ({"made_up": 0}, {"made_op": 1}):
        try:
            make(**given)
        except (OptionError, TypeError) as error:
            yield str(error)

def make_gate(**options):
    return RobotGate("ExampleBot/1.0", contact="bot@example.org", **options)

make_gate(made_up=8, overrides={"a.example": HostOverride(made_up=9)})
hosts = Overrides(host_options(completed({"made_up": 8})), {"a.example": HostOverride(made_up=9)})
print(json.dumps({
    "type": get_type_hints(GateOptions)["made_up"].__name__,
    "default": inspect.signature(RobotGate).parameters["made_up"].default,
    "default of a host": host_options(completed({}))["made_up"],
    "of a host": [hosts.options(host)["made_up"] for host in ("a.example", "b.example")],
    "override": str(inspect.signature(HostOverride).parameters["made_up"]),
    "refused": [*refusals(make_gate), *refusals(HostOverride)],
}))
"""


def run(source: Path, *program: str) -> str:
    """What a program prints that imports robotgate from this folder."""
    return subprocess.run(
        [sys.executable, "-X", "utf8", *program],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    ).stdout


@pytest.mark.slow
def test_a_new_option_is_declared_once(tmp_path: Path) -> None:
    """The gate and the override take it, check it and show it, every host has it, and the page has its row."""
    shutil.copytree(SOURCE, tmp_path / "robotgate", ignore=shutil.ignore_patterns("__pycache__"))
    options = tmp_path / "robotgate" / "options.py"
    text = options.read_text(encoding="utf-8")
    assert text.count(ALREADY) == 1
    options.write_text(text.replace(ALREADY, MADE_UP + ALREADY), encoding="utf-8")
    found = json.loads(run(tmp_path, "-c", PROGRAM))
    refused = found.pop("refused")
    assert found == {
        "type": "int",
        "default": 7,
        "default of a host": 7,
        "of a host": [9, 8],
        "override": "made_up: int | None = None",
    }
    assert [text[:9] for text in refused] == ["made_up=0", "unexpecte"] * 2
    assert all("'made_op'" in text and "made_up" in text for text in refused[1::2])
    assert "| `made_up` | 7 | yes | A number that nobody needs. |\n" in run(tmp_path, str(PAGE))


def test_page_is_what_the_declarations_say() -> None:
    """docs/options.md is as docs/_options_table.py writes it."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == printed_by(PAGE.name), "run: python docs/_options_table.py > docs/options.md"
