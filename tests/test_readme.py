"""The README and other pages: links lead somewhere, and continuous integration runs the commands for a stranger."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK: Final = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
ANCHOR: Final = re.compile(r"(?:\]\(|\]: )(?!https?://)(?P<target>[^\s)#]*)#(?P<anchor>[^\s)]+)")
LINK: Final = re.compile(r"(?:\]\(|\]: |(?:src|srcset)=\")(?!https?://|#)(?P<target>[^\s)#\"]+)")
OURS: Final = re.compile(
    r"https://(?:github\.com/robotgate/robotgate/blob|raw\.githubusercontent\.com/robotgate/robotgate)/main/"
)


def blocks(document: str, language: str) -> list[str]:
    """The code blocks of one language, in order."""
    return [found["text"] for found in BLOCK.finditer(document) if found["language"] == language]


def commands() -> list[str]:
    """The lines of the section "From a clone" that are to be typed."""
    section = README.partition("## From a clone")[2].partition("\n## ")[0]
    return [line for text in blocks(section, "console") for line in text.splitlines()]


def test_spider_tests_of_the_documents_pass(tmp_path: Path) -> None:
    """The tests that docs/testing-your-spider.md shows pass as they stand, with warnings as errors."""
    guide = ROOT / "docs" / "testing-your-spider.md"
    fixtures, *tests = blocks(guide.read_text(encoding="utf-8"), "python")
    (tmp_path / "conftest.py").write_text(fixtures, encoding="utf-8")
    for number, code in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr


def test_continuous_integration_runs_the_commands() -> None:
    """What the README tells a stranger to type is what .ci/run does, to the letter."""
    assert set(commands()) <= set((ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """To a file or folder that is there, and to a heading of that page, as hosting sites make anchors of them."""
    document = OURS.sub("", path.read_text(encoding="utf-8"))
    targets = [found["target"] for found in LINK.finditer(document)]
    assert [target for target in targets if not (path.parent / target).exists()] == []
    anchors = [(found["target"], found["anchor"]) for found in ANCHOR.finditer(document)]
    assert [
        (target, anchor)
        for target, anchor in anchors
        if anchor not in headings_of(path.parent / target if target else path)
    ] == []


def test_readme_can_be_read_in_a_package_index() -> None:
    """Relative links and pictures would lead nowhere there. Each link that is only named has its place at the end."""
    assert LINK.findall(README) == []
    prose = re.sub("`[^`]*`", "", BLOCK.sub("", README)).lower()
    named = re.findall(r"\[([\w -]+)\](?![(\[:])", prose)
    assert set(named) == set(re.findall(r"^\[(.+)\]: ", prose, re.MULTILINE))


@cache
def headings_of(page: Path) -> set[str]:
    """The anchors of a page."""
    document = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = (heading["text"].lower() for heading in HEADING.finditer(document))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in found}
