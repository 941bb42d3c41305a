"""The commands of docs/store.md run, and are all that there are."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from tests.cli.conftest import run
from tests.cli.test_cache import keep, record
from tests.test_readme import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.cli.conftest import LocalSite

PAGE: Final = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
COMMANDS: Final = [line.removeprefix("$ ") for text in blocks(PAGE, "console") for line in text.splitlines()]


def test_commands_run(site: LocalSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as it stands there, one after the other; but that the one that asks a site is given one of ours."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "cache.db"
    keep(store, [record("https://example.org")])
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        arguments += ["--store", str(store)]
        if "refresh" in arguments:
            arguments[arguments.index("https://example.org")] = site.base
            arguments.append("--allow-private-addresses")
        ended = run(*arguments)
        assert (program, ended.status) == ("robotgate", 0), ended
    assert site.asked == {"/robots.txt": 1}
    assert (tmp_path / "sites.jsonl").exists()


def test_every_command_is_told_of() -> None:
    """Those that the program has, in the order in which one wants them."""
    help_text = run("cache", "--help").out.partition("Commands:")[2]
    listed = re.findall(r"^  (\w+)  ", help_text, re.MULTILINE)
    assert sorted(listed) == sorted(command.split()[2] for command in COMMANDS)
