"""What the docs say of tables is what the tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"


def test_page_is_what_the_table_prints() -> None:
    """docs/status-table.md is as docs/_status_table.py writes it."""
    command = [sys.executable, "-X", "utf8", str(DOCS / "_status_table.py")]
    printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    page = (DOCS / "status-table.md").read_text(encoding="utf-8")
    assert page == printed, "run: python docs/_status_table.py > docs/status-table.md"


def test_picture_of_a_turns_life_is_that_of_the_moves() -> None:
    """docs/design.md has it as docs/_turn_moves.py prints it."""
    command = [sys.executable, "-X", "utf8", str(DOCS / "_turn_moves.py")]
    printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    assert printed in (DOCS / "design.md").read_text(encoding="utf-8")
