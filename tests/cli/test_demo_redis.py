"""``robotgate demo --store redis://…``: somebody's server is left as it was."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cli.conftest import Program
    from tests.redis_server import RedisServer

OPERATORS_OWN = {b"robotgate:{0}:epoch:": b"another fleet's", b"robotgate-demo": b"whose?"}


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    """Somebody else who uses it."""
    async with Redis.from_url(server.url) as client:
        await client.mset(OPERATORS_OWN)
        yield client


async def test_workers_share_a_server(
    program: Program, server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    """The sites see one crawler, and no key is left but those that were there."""
    file = tmp_path / "report.json"

    run = await program("demo", "--pages", "40", "--workers", "2", "--store", server.url, "--json", str(file))

    assert run.status == 0, run.out + run.err
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["clean"]
    assert min(share["pages"] for share in report["workers"]) > 5
    assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] > 35
    assert await _contents(client) == OPERATORS_OWN


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_ctrl_c_leaves_no_key(program: Program, server: RedisServer, client: Redis) -> None:
    """Of any worker, though these are ended at once."""
    process = await program.start("demo", "--pages", "2000", "--workers", "2", "--store", server.url)
    assert process.stderr is not None
    await process.stderr.readline()
    assert len(await client.keys()) > len(OPERATORS_OWN)

    process.send_signal(signal.SIGINT)
    _, err = await process.communicate(b"")

    assert process.returncode == 130
    assert b"Traceback" not in err
    assert await _contents(client) == OPERATORS_OWN


async def test_a_server_that_is_not_there(program: Program, server: RedisServer) -> None:
    """Is told of before anything begins, in a few lines, as wrong usage is."""
    server.kill()

    run = await program("demo", "--workers", "2", "--store", server.url)

    assert (run.status, run.out) == (2, "")
    assert "cannot be reached" in run.err
    assert "Traceback" not in run.err


async def test_a_url_that_is_none(program: Program) -> None:
    """The scheme is another database's."""
    run = await program("demo", "--store", "postgres://localhost/demo")

    assert (run.status, run.out) == (2, "")
    assert "give a URL such as redis://" in run.err


async def _contents(client: Redis) -> dict[bytes | str, bytes | str | None]:
    keys = await client.keys()
    return dict(zip(keys, await client.mget(keys), strict=True))
