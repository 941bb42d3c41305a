"""What the docs say of tables is what the tables say."""

from __future__ import annotations

from tests.documents import DOCS, printed_by


def test_page_is_what_the_table_prints() -> None:
    """docs/status-table.md is as docs/_status_table.py writes it."""
    page = (DOCS / "status-table.md").read_text(encoding="utf-8")
    assert page == printed_by("_status_table.py"), "run: python docs/_status_table.py > docs/status-table.md"


def test_picture_of_a_turns_life_is_that_of_the_moves() -> None:
    """docs/design.md has it as docs/_turn_moves.py prints it."""
    assert printed_by("_turn_moves.py") in (DOCS / "design.md").read_text(encoding="utf-8")
