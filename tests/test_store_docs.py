"""docs/store.md: its program runs, and its figures are the code's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from tests.test_readme import ROOT, blocks

from robotgate import MemoryStore, RobotGate, SQLiteStore
from robotgate.sites import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.gate.servers import Web

PAGE: Final = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
(PROGRAM,) = blocks(PAGE, "python")

Main: TypeAlias = Callable[..., Coroutine[object, object, None]]


async def test_program_remembers(web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Started again on its file, it knows the rules and counts on; a file that cannot be opened would know neither."""
    names: dict[str, object] = {"__name__": "store"}
    exec(compile(PROGRAM, "<docs/store.md>", "exec"), names)
    main = cast("Main", names["main"])
    path, site = tmp_path / "cache.db", f"http://127.0.0.1:{web.port}"
    for page in ("1", "2"):
        await main(f"{site}/{page}", str(path), allow_private_addresses=True, delay=0.1)
    assert web.urls == [f"{site}/robots.txt", f"{site}/1", f"{site}/2"]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("200, 2 visits, rules of ")
    assert second == first.replace("2 visits", "3 visits")
    store = SQLiteStore(path)
    assert [(key, state.visits) async for key, state in store.hosts()] == [("127.0.0.1", 3)]
    assert [record.outcome async for record in store.records()] == [Outcome.MISSING]
    await store.aclose()


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
