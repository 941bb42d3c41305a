"""The service of docs/deploying.md stops on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from tests.gate.servers import silent
from tests.test_readme import ROOT, blocks

from robotgate import RobotGate, SQLiteStore
from robotgate.sites import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.gate.servers import Web

PROGRAM: Final = blocks((ROOT / "docs" / "deploying.md").read_text(encoding="utf-8"), "python")[0]

Run: TypeAlias = Callable[[list[str]], Coroutine[object, object, None]]


async def test_sigterm_ends_the_crawl_and_saves_the_store(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a page never ends: the program returns, and the file knows what was learnt."""
    path, page = tmp_path / "cache.db", f"http://127.0.0.1:{web.port}/1"
    monkeypatch.setenv("CRAWL_STORE", str(path))
    names: dict[str, object] = {"__name__": "deploying"}
    exec(compile(PROGRAM, "<docs/deploying.md>", "exec"), names)
    names["RobotGate"] = partial(RobotGate, allow_private_addresses=True, delay=0)
    web.handle(page, silent())
    try:
        service = asyncio.create_task(cast("Run", names["run"])([page]))
        await web.arrivals(2)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(30):
            await service
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    async with SQLiteStore(path) as store:
        assert [record.outcome async for record in store.records()] == [Outcome.MISSING]
        assert [state.visits async for _, state in store.hosts()] == [2]
