"""Pages without programs: the names in them exist."""

from __future__ import annotations

import builtins
import inspect
import re
from pathlib import Path
from typing import Final

import pytest
from tests.test_readme import ROOT

import robotgate
from robotgate import HostOverride, RobotGate

DOCS: Final = ROOT / "docs"
PACKAGE: Final = Path(robotgate.__file__).parent
CODE: Final = re.compile(r"`([^`\n]+)`")
OF_GATE: Final = re.compile(r"\bgate\.(\w+)")
OPTION: Final = re.compile(r"^(\w+)=")
PLACE: Final = re.compile(r"\b(?:pace|rules|sites|stores|web)/\w*")
PROSE: Final = (
    "aiohttp", "blocks", "design", "faq", "fetch", "good-citizen", "pace", "sending", "spider", "threads",
    "turn", "tutorial",
)  # fmt: skip


def code_of(name: str) -> list[str]:
    """What stands in backticks on a page."""
    return CODE.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROSE)
def test_names_are_those_of_the_code(name: str) -> None:
    """Methods of a gate, options and errors that a page names exist."""
    options = {*inspect.signature(RobotGate).parameters, *inspect.signature(HostOverride).parameters}
    for code in code_of(name):
        assert [word for word in OF_GATE.findall(code) if not hasattr(RobotGate, word)] == [], code
        given = OPTION.match(code)
        assert given is None or given[1] in options | {"ahead", "middlewares", "priority"}, code
        if re.fullmatch(r"[A-Z]\w+Error", code):
            assert hasattr(robotgate, code) or hasattr(builtins, code), code


def test_picture_of_what_a_request_waits_for_names_options_and_errors() -> None:
    """docs/pace.md has it, for light pages and for dark ones: its colours differ, and nothing else."""
    light, dark = (
        (DOCS / f"plots/waits-{theme}.svg").read_text(encoding="utf-8") for theme in ("light", "dark")
    )
    assert re.sub("#[0-9a-f]{6}", "", light) == re.sub("#[0-9a-f]{6}", "", dark)
    names = re.findall(r"[a-z]+_[a-z_]+|[A-Z]\w+Error", light)
    options = {*inspect.signature(RobotGate).parameters, *inspect.signature(HostOverride).parameters}
    assert len(names) > 10
    assert [name for name in names if name not in options and not hasattr(robotgate, name)] == []


def test_modules_on_the_page_about_the_design_exist() -> None:
    """docs/design.md names packages and modules of the code, in its pictures too."""
    places = set(PLACE.findall((DOCS / "design.md").read_text(encoding="utf-8")))
    assert len(places) > 10
    assert [
        place for place in places if not ((PACKAGE / place).is_dir() or (PACKAGE / f"{place}.py").is_file())
    ] == []
