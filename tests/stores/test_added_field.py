"""Fields of a host's state are declared in one place: one that is added there is kept by every store."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import robotgate
from robotgate import SQLiteStore
from robotgate.stores import HostState
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

AT: Final = 1_795_233_600.0
OLD: Final = HostState(last_visit_at=AT, blocked_until_at=AT + 60, failures=2, visits=41)
ADDED: Final = {
    "pace/state.py": """
    learned_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    lessons: int = field(default=0, metadata={"kind": Kind.COUNT, "is_added": True})
    gap: float | None = field(default=None, metadata={"kind": Kind.DURATION, "is_added": True})
""",
    "pace/host.py": """
    learned_at: float = 0.0
    lessons: int = 0
    gap: float | None = None
""",
}
"""What a newer version has before the field `latency`."""
NEWER: Final = f"""
    import asyncio, sys
    from dataclasses import replace
    from robotgate import SQLiteStore
    from robotgate.stores import HostState
    from robotgate.pace.host import Host
    from robotgate.pace.state import merged, moved
    from robotgate.stores.redis import RedisStore
    from robotgate.testing.store_checks import same

    OLD, AT = {OLD!r}, {AT!r}
    NEW = replace(OLD, learned_at=AT + 1, lessons=3, gap=0.5)

    async def try_store(store):
        async with store:
            same(await store.load_host("old.example"), OLD, "an older version wrote another")
            await store.save_hosts({{"new.example": NEW}})
            same(await store.load_host("new.example"), NEW, "not what was saved")
            one, two = await store.session(), await store.session()
            await one.obtain("left.example")
            waiter = asyncio.create_task(two.obtain("left.example"))
            one.leave("left.example", NEW)
            # A server that was just started assumes a visit.
            same(replace((await waiter).state, last_visit_at=AT), NEW, "not what was left")
            await one.aclose()
            await two.aclose()

    assert merged(NEW, OLD) == merged(OLD, NEW) == NEW
    assert merged(NEW, replace(NEW, lessons=4, gap=0.1)) == replace(NEW, lessons=4)
    assert moved(NEW, 5.0) == replace(moved(OLD, 5.0), learned_at=AT + 6, lessons=3, gap=0.5)
    assert moved(OLD, 5.0).learned_at == 0.0
    host = Host("new.example")
    host.restore(NEW)
    assert host.snapshot() == NEW
    asyncio.run(try_store(SQLiteStore(sys.argv[1])))
    asyncio.run(try_store(RedisStore(sys.argv[2], lease=1.0)))
"""


@pytest.mark.slow
def test_added_field_is_kept_everywhere(tmp_path: Path, server: RedisServer) -> None:
    """It is merged, moved, and comes back from a file and a server, where older states have its default.

    An older version still reads the file, and writes to it.
    """
    newer = tmp_path / "robotgate"
    shutil.copytree(Path(robotgate.__file__).parent, newer, ignore=shutil.ignore_patterns("__pycache__"))
    for name, lines in ADDED.items():
        before, latency, after = (newer / name).read_text().partition("    latency: float | None = ")
        (newer / name).write_text(before + lines + latency + after)
    path = tmp_path / "cache.db"

    async def save(store: SQLiteStore | RedisStore) -> None:
        async with store:
            await store.save_hosts({"old.example": OLD})

    async def read_newer() -> None:
        async with SQLiteStore(path) as store:
            assert await store.load_host("new.example") == OLD
            await store.save_hosts({"new.example": HostState(visits=42)})
            assert await store.load_host("new.example") == HostState(visits=42)

    asyncio.run(save(SQLiteStore(path)))
    asyncio.run(save(RedisStore(server.url, lease=1.0)))
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NEWER), str(path), server.url],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        timeout=120,
    )
    asyncio.run(read_newer())
