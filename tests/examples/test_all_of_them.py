"""Examples are read before they are run: they stay short, and the page that tells of them leaves none out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.examples.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES: Final = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_short_and_told_of(path: Path) -> None:
    """At most eighty lines, and a paragraph in docs/examples.md."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 80
    assert f"(../examples/{path.name})" in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
