"""docs/judge.md: its commands can be typed, and its table is what the logs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.field.__main__ import table
from tests.documents import DOCS, blocks_of

from robotgate.cli.judge import judge

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE: Final = DOCS / "judge.md"


def test_its_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With these options; their crawlers are no part of this repository."""
    monkeypatch.chdir(tmp_path)
    commands = [command for block in blocks_of(PAGE) for command, _ in block.commands]
    assert commands
    for name, subcommand, *arguments in commands:
        assert (name, subcommand) == ("robotgate", "judge")
        with judge.make_context(subcommand, arguments) as ctx:
            assert ctx.params["command"][0] in {"scrapy", "wget", "python"}


def test_its_table_is_what_the_logs_say() -> None:
    """Those that are kept of each crawler."""
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")
