"""docs/scaling.md: its table is what its program prints."""

from __future__ import annotations

import contextlib
import io
from typing import Final

from tests.test_readme import ROOT, blocks

PAGE: Final = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
(PROGRAM,) = blocks(PAGE, "python")


def test_table_is_what_the_program_prints() -> None:
    """Line by line, in order."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(PROGRAM, "<docs/scaling.md>", "exec"), {"__name__": "__main__"})
    assert printed.getvalue()
    assert f"\n{printed.getvalue()}\n" in PAGE
