"""The page about the status table says what the table says."""

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
