"""What the docs say of tables is what the tables say."""

from __future__ import annotations

import pytest
from tests.documents import DOCS, printed_by


@pytest.mark.parametrize(
    ("page", "program"),
    [
        ("lint.md", "_lint_table.py"),
        ("options.md", "_options_table.py"),
        ("status-table.md", "_status_table.py"),
    ],
)
def test_page_is_what_its_program_prints(page: str, program: str) -> None:
    """After a change: python docs/PROGRAM > docs/PAGE."""
    assert (DOCS / page).read_text(encoding="utf-8") == printed_by(program)


def test_picture_of_a_turns_life_is_that_of_the_moves() -> None:
    """docs/design.md has it as docs/_turn_moves.py prints it."""
    assert printed_by("_turn_moves.py") in (DOCS / "design.md").read_text(encoding="utf-8")
