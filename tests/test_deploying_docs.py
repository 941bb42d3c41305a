"""The service of docs/deploying.md stops on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.test_readme import ROOT, blocks

from robotgate import RobotGate, SQLiteStore
from robotgate.sites import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM: Final = blocks((ROOT / "docs" / "deploying.md").read_text(encoding="utf-8"), "python")[0]

Run: TypeAlias = Callable[[list[str]], Coroutine[object, object, None]]


async def test_sigterm_ends_the_crawl_and_saves_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a page never ends: the program returns, and the file knows what was learnt."""
    path = tmp_path / "cache.db"
    monkeypatch.setenv("CRAWL_STORE", str(path))
    names: dict[str, object] = {"__name__": "deploying"}
    exec(compile(PROGRAM, "<docs/deploying.md>", "exec"), names)
    names["RobotGate"] = partial(RobotGate, allow_private_addresses=True, delay=0)
    is_asked = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path != "/robots.txt":
            is_asked.set()
            await asyncio.Event().wait()
        return web.Response(text="")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    loop = asyncio.get_running_loop()
    try:
        async with TestServer(app) as site, asyncio.timeout(30):
            service = asyncio.create_task(cast("Run", names["run"])([str(site.make_url("/1"))]))
            await is_asked.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await service
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    async with SQLiteStore(path) as store:
        assert [record.outcome async for record in store.records()] == [Outcome.SUCCESS]
        assert [state.visits async for _, state in store.hosts()] == [2]
