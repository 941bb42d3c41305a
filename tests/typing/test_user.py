"""What mypy and pyright say of a program that uses a gate: they find its errors, and no others."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import robotgate

PROGRAM: Final = Path(__file__).with_name("user.py")
MYPY: Final = [
    "--strict",
    "--enable-error-code=truthy-bool",
    "--follow-imports=silent",
    "--config-file=",
    "-O",
    "json",
]

pytestmark = pytest.mark.slow


def marked(*marks: str) -> set[int]:
    """The lines of the program that end in one of these marks."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(marks)}


def run(tool: str, *arguments: str, cwd: Path) -> str:
    """What a type checker prints."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: it is part of the group `dev`")
    command = [sys.executable, "-m", tool, *arguments, str(PROGRAM)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd).stdout


def test_mypy_finds_the_errors(tmp_path: Path) -> None:
    """In strict mode, with `truthy-bool`."""
    reports = map(json.loads, run("mypy", *MYPY, f"--cache-dir={tmp_path}", cwd=tmp_path).splitlines())
    found = {report["line"] for report in reports if report["severity"] == "error"}
    assert found == marked("# wrong", "# wrong for mypy")


def test_pyright_finds_the_errors(tmp_path: Path) -> None:
    """In its standard mode."""
    source = Path(robotgate.__file__).parents[1]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(source)]}))
    report = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", cwd=tmp_path))
    found = {each["range"]["start"]["line"] + 1 for each in report["generalDiagnostics"]}
    assert found == marked("# wrong")
