"""docs/store.md keeps its word: its program runs, and its figures are the code's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from tests.test_readme import ROOT, blocks

from robotgate import MemoryStore, RobotGate, SQLiteStore

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE: Final = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
(PROGRAM,) = blocks(PAGE, "python")

Main: TypeAlias = Callable[[str], Coroutine[object, object, None]]


async def test_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It asks no site; it opens its file, and closes it."""
    names: dict[str, object] = {"__name__": "store"}
    exec(compile(PROGRAM, "<docs/store.md>", "exec"), names)
    await cast("Main", names["main"])(str(tmp_path / "cache.db"))
    assert capsys.readouterr().out == "<RobotGate 'ExampleBot' sites=0 lanes=0> 0\n"


def test_bounds_are_those_of_the_code() -> None:
    """The table tells defaults."""
    for maker, name, written in (
        (MemoryStore, "max_hosts", "100_000"),
        (SQLiteStore, "max_bytes", "2**30"),
        (SQLiteStore, "max_age", "90 * 24 * 3600.0"),
    ):
        assert f"`{name}={written}`" in PAGE
        default: object = inspect.signature(maker).parameters[name].default
        assert default == eval(written)
    assert inspect.signature(RobotGate).parameters["max_hosts"].default == 100_000
