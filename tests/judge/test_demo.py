"""``robotgate demo``, whole: a real server, real crawlers, and the report."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from redis.asyncio import Redis
from tests.cli.conftest import Program
from tests.terminal import shown_on_terminal

from robotgate.cli.demo import demo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.redis_server import RedisServer

DEMO: Final = Program()
PATIENCE: Final = 60.0
SMALL: Final = ("--pages", "40")
ENDLESS: Final = ("--pages", "3000")
STRANGERS_KEYS: Final = {b"robotgate:{0}:epoch:": b"another fleet's", b"robotgate-demo": b"not ours"}

posix_only: Final = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to other processes")


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    """Another user of the Redis server."""
    async with Redis.from_url(server.url) as client:
        await client.mset(STRANGERS_KEYS)
        yield client


async def test_nothing_is_broken(tmp_path: Path) -> None:
    """Every claim holds, the exit status is 0, the table fits 80 columns, and the JSON has every request."""
    file = tmp_path / "report.json"

    ended = await DEMO("demo", "--seed", "11", "--pages", "150", "--json", str(file))

    assert ended.status == 0, ended.out + ended.err
    lines = ended.out.splitlines()
    assert "\x1b" not in ended.out + ended.err
    assert "…" not in ended.out
    assert max(map(len, lines[:-1])) <= 80
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["whole"]
    assert {claim["result"] for claim in report["claims"]} == {"held", "counted"}
    assert all(score["held"] == score["judged"] for score in report["score"].values())
    assert report["score"]["MUST"]["judged"] >= 60
    assert {visit["site"] for visit in report["visits"]} < {
        *(site for claim in report["claims"] for site in claim["sites"])
    }


@pytest.mark.slow
async def test_workers_are_one_crawler_to_the_sites(tmp_path: Path) -> None:
    """One robots.txt request for each origin, no gap too short, and every page; each worker has some of them.

    A store that was asked for is kept. It must be new: what it knows would not be requested again.
    """
    file, store = tmp_path / "report.json", tmp_path / "demo.db"

    ended = await DEMO("demo", *SMALL, "--workers", "2", "--store", str(store), "--json", str(file))
    again = await DEMO("demo", *SMALL, "--store", str(store))

    assert ended.status == 0, ended.out + ended.err
    report = json.loads(file.read_text(encoding="utf-8"))
    _assert_shared(report)
    one, other = sorted(Counter(visit["worker"] for visit in report["visits"]).items())
    assert f": requests {one[1]} of worker 1, {other[1]} of worker 2" in ended.out
    assert store.stat().st_size > 0
    assert (again.status, again.out) == (2, "")
    assert f"{store} exists already" in again.err


@pytest.mark.slow
async def test_workers_share_a_server(server: RedisServer, client: Redis, tmp_path: Path) -> None:
    """The sites see one crawler, and no key is left but those that were there."""
    file = tmp_path / "report.json"

    ended = await DEMO("demo", *SMALL, "--workers", "2", "--store", server.url, "--json", str(file))

    assert ended.status == 0, ended.out + ended.err
    _assert_shared(json.loads(file.read_text(encoding="utf-8")))
    assert await _contents(client) == STRANGERS_KEYS


@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        pytest.param("redis://127.0.0.1:1/0", "cannot be reached", marks=pytest.mark.slow),
        ("postgres://localhost/demo", "give the path of a file, not a URL"),
    ],
)
def test_a_server_that_cannot_be_used_is_reported_first(store: str, complaint: str) -> None:
    """Before anything starts, in a few lines, as wrong usage is."""
    ended = CliRunner().invoke(demo, ["--workers", "2", "--store", store])

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert complaint in ended.stderr


@pytest.mark.slow
@posix_only
async def test_no_line_is_wider_than_its_terminal() -> None:
    """A terminal would cut a word in two; the table has its last column."""
    shown = await shown_on_terminal("demo", "--pages", "1", columns=79, kind="dumb")

    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= 79
    assert sum(line.rstrip().endswith(" held") for line in lines) > 100


@pytest.mark.slow
@posix_only
async def test_ctrl_c_ends_everything(server: RedisServer, client: Redis) -> None:
    """With status 130 and without a report. No worker is left, and no key in the server."""
    process = await DEMO.start("demo", *ENDLESS, "--workers", "2", "--store", server.url)
    while len(await client.keys()) < 12:  # noqa: ASYNC110 - Redis has no event for it
        await asyncio.sleep(0.05)

    process.send_signal(signal.SIGINT)
    # The pipe ends with the last process that holds it.
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert await _contents(client) == STRANGERS_KEYS


@pytest.mark.slow
@posix_only
async def test_workers_end_with_a_parent_that_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It could not tell them. They hold its standard error, which is read to its end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # A killed process removes no folder.
    process = await DEMO.start("demo", *ENDLESS, "--workers", "2")
    await _worker_of(process.pid)

    process.kill()
    async with asyncio.timeout(PATIENCE):
        await process.communicate()

    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@posix_only
async def test_a_worker_that_dies_ends_the_demonstration() -> None:
    """In one line, without a report: its pages would be missing."""
    process = await DEMO.start("demo", *ENDLESS, "--workers", "2")

    os.kill(await _worker_of(process.pid), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert (process.returncode, out) == (1, b"")
    assert b"of the demonstration died" in err
    assert b"Traceback" not in err


def _assert_shared(report: dict[str, list[dict[str, int | str]]]) -> None:
    """Nothing is broken: each origin's robots.txt was requested once. And each worker has fetched pages."""
    assert report["whole"]
    pages = Counter(visit["worker"] for visit in report["visits"] if visit["path"] != "/robots.txt")
    assert sorted(pages) == [1, 2]
    assert min(pages.values()) > 5


async def _contents(client: Redis) -> dict[bytes | str, bytes | str | None]:
    keys = await client.keys()
    return dict(zip(keys, await client.mget(keys), strict=True))


async def _worker_of(parent: int) -> int:
    """The process id of one of a demonstration's workers, once there is one."""
    while True:
        listing = await asyncio.create_subprocess_exec(
            "ps", "-eo", "pid,ppid,args", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await listing.communicate()
        for line in out.decode().splitlines():
            pid, ppid, *arguments = line.split()
            if ppid == str(parent) and "robotgate.judge.crawl" in arguments:
                return int(pid)
