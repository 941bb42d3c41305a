"""The README and other pages: links lead somewhere, and continuous integration runs the commands for a stranger."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK: Final = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
ANCHOR: Final = re.compile(r"\]\((?!https?://)(?P<target>[^)#]*)#(?P<anchor>[^)]+)\)")
LINK: Final = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#]+)")


def blocks(document: str, language: str) -> list[str]:
    """The code blocks of one language, in order."""
    return [found["text"] for found in BLOCK.finditer(document) if found["language"] == language]


def commands() -> list[str]:
    """The lines of the section "From a clone" that are to be typed."""
    section = README.partition("## From a clone")[2].partition("\n## ")[0]
    return [line for text in blocks(section, "console") for line in text.splitlines()]


@pytest.mark.slow
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


@pytest.mark.parametrize("command", commands())
def test_continuous_integration_runs_the_command(command: str) -> None:
    """What the README tells a stranger to type is what .ci/run does, to the letter."""
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link names a file or folder that is there."""
    targets = [found["target"] for found in LINK.finditer(path.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_headings(path: Path) -> None:
    """What stands behind the # of a link is a heading of that page, as hosting sites make anchors of them."""
    document = path.read_text(encoding="utf-8")
    anchors = [(found["target"], found["anchor"]) for found in ANCHOR.finditer(document)]
    pages = {target: (path.parent / target if target else path) for target, _ in anchors}
    headings = {target: headings_of(page.read_text(encoding="utf-8")) for target, page in pages.items()}
    assert [(target, anchor) for target, anchor in anchors if anchor not in headings[target]] == []


def headings_of(document: str) -> set[str]:
    """The anchors of a page."""
    found = (heading["text"].lower() for heading in HEADING.finditer(BLOCK.sub("", document)))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in found}
