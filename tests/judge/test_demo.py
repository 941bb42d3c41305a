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
from tests.cli.conftest import Program
from tests.terminal import shown_on_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.redis_server import RedisServer

DEMO: Final = Program()
PATIENCE: Final = 60.0
SMALL: Final = ("--pages", "40")
ENDLESS: Final = ("--pages", "3000")
FLEET: Final = """
for worker in 0 1; do
    awk "NR % 2 == $worker" {urls} | python -W error -m robotgate fetch -q -i - -o /dev/null --proxy {proxy} \\
        --delay 0.1 --agent FleetBot/1.$worker --contact bot@example.org --store $STORE &
done
wait
"""
"""Two processes, each with half of the URLs."""

posix_only: Final = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to other processes")


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
    """One robots.txt request for each origin, no gap too short, and every page; each worker has some of them."""
    file = tmp_path / "report.json"

    ended = await DEMO("demo", *SMALL, "--workers", "2", "--json", str(file))

    assert ended.status == 0, ended.out + ended.err
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["whole"]
    _assert_shared(report)
    (_, one), (_, other) = sorted(Counter(visit["agent"] for visit in report["visits"]).items())
    assert f": requests {one} of RobotgateDemo/1.1, {other} of RobotgateDemo/1.2" in ended.out


@pytest.mark.slow
@posix_only
async def test_workers_share_a_server(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sites see one crawler: one robots.txt request for each origin, and no pace is broken."""
    file = tmp_path / "report.json"
    monkeypatch.setenv("STORE", server.url)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)  # noqa: PTH120
    only = ("--only", "Disallow", "--only", "Crawl-delay", "--only", "429")

    ended = await DEMO("judge", *SMALL, *only, "--json", str(file), "--", "sh", "-c", FLEET)

    assert ended.status == 0, ended.out + ended.err
    report = json.loads(file.read_text(encoding="utf-8"))
    _assert_shared(report)
    assert {claim["result"] for claim in report["claims"]} == {"held", "counted"}
    robots = Counter(visit["site"] for visit in report["visits"] if visit["path"] == "/robots.txt")
    assert set(robots.values()) == {1}


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
async def test_ctrl_c_ends_everything() -> None:
    """With status 130 and without a report. No worker is left."""
    process = await DEMO.start("demo", *ENDLESS, "--workers", "2")
    await _worker_of(process.pid)

    process.send_signal(signal.SIGINT)
    # The pipe ends with the last process that holds it.
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


@pytest.mark.slow
@posix_only
async def test_workers_end_with_a_parent_that_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It could not tell them, but the sites are gone. They hold its standard error, which is read to its end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # A killed process removes no folder.
    process = await DEMO.start("demo", *ENDLESS, "--workers", "2")
    await _worker_of(process.pid)

    process.kill()
    async with asyncio.timeout(PATIENCE):
        await process.communicate()

    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@posix_only
async def test_a_worker_that_dies_is_told() -> None:
    """And its pages are missing."""
    process = await DEMO.start("demo", *SMALL, "--workers", "2")

    os.kill(await _worker_of(process.pid), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert process.returncode == 1
    assert b"with exit status -9" in out
    assert b"was not requested, but it is open" in out
    assert b"Traceback" not in err


def _assert_shared(report: dict[str, list[dict[str, int | str]]]) -> None:
    """Each worker has fetched pages."""
    pages = Counter(visit["agent"] for visit in report["visits"] if visit["path"] != "/robots.txt")
    assert len(pages) == 2
    assert min(pages.values()) > 5


async def _worker_of(parent: int) -> int:
    """The process id of one of a demonstration's workers, once there is one."""
    while True:
        listing = await asyncio.create_subprocess_exec(
            "ps", "-eo", "pid,ppid,args", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await listing.communicate()
        for line in out.decode().splitlines():
            pid, ppid, *arguments = line.split()
            if ppid == str(parent) and "robotgate" in arguments:
                return int(pid)
