"""Programs of docs/deploying.md, private-addresses.md and store.md run as their pages say."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from tests.documents import defined_by
from tests.gate.servers import silent
from tests.test_readme import ROOT, blocks

from robotgate import MemoryStore, RobotGate, SQLiteStore
from robotgate.sites import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.gate.servers import Web

    Main: TypeAlias = Callable[..., Coroutine[object, object, None]]

DEPLOYING, ADDRESSES, STORE = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("deploying", "private-addresses", "store")
)
BOUNDS: Final = (
    (MemoryStore, "max_hosts", "100_000"),
    (SQLiteStore, "max_bytes", "2**30"),
    (SQLiteStore, "max_age", "90 * 24 * 3600.0"),
)


async def test_sigterm_ends_the_crawl_and_saves_the_store(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a page never ends: the program returns, and the file knows what was learnt."""
    path, page = tmp_path / "cache.db", f"http://127.0.0.1:{web.port}/1"
    monkeypatch.setenv("CRAWL_STORE", str(path))
    names = defined_by(blocks(DEPLOYING, "python")[0], "docs/deploying.md")
    names["RobotGate"] = partial(RobotGate, allow_private_addresses=True, delay=0)
    web.handle(page, silent())
    try:
        service = asyncio.create_task(cast("Main", names["run"])([page]))
        await web.arrivals(2)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(30):
            await service
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    async with SQLiteStore(path) as store:
        assert [record.outcome async for record in store.records()] == [Outcome.MISSING]
        assert [state.visits async for _, state in store.hosts()] == [2]


@pytest.mark.skipif(importlib.util.find_spec("aiodns") is not None, reason="aiohttp would ask aiodns")
def test_name_of_the_inside_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a network with an intranet, word for word."""

    def look_up(host: str, port: int, *_: object, **__: object) -> object:
        assert host == "intranet.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("10.0.0.7", port))]

    (program,), (shown,) = blocks(ADDRESSES, "python"), blocks(ADDRESSES, "text")
    names = defined_by(program, "docs/private-addresses.md")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(cast("Main", names["crawl"])("http://intranet.example/"))
    assert capsys.readouterr().out == shown


async def test_store_remembers(web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Started again on its file, it knows the rules and counts on; a file that cannot be opened would know neither."""
    (program,) = blocks(STORE, "python")
    main = cast("Main", defined_by(program, "docs/store.md")["main"])
    path, site = tmp_path / "cache.db", f"http://127.0.0.1:{web.port}"
    for page in ("1", "2"):
        await main(f"{site}/{page}", str(path), allow_private_addresses=True, delay=0.1)
    assert web.urls == [f"{site}/robots.txt", f"{site}/1", f"{site}/2"]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("200, 2 visits, rules of ")
    assert second == first.replace("2 visits", "3 visits")


@pytest.mark.parametrize(("maker", "name", "written"), BOUNDS)
def test_bounds_of_stores_are_those_of_the_code(
    maker: Callable[..., object], name: str, written: str
) -> None:
    """The table tells defaults."""
    assert f"`{name}={written}`" in STORE
    assert inspect.signature(maker).parameters[name].default == eval(written)
