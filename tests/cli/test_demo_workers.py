"""``robotgate demo --workers``: processes that share the sites, and the servers that see one crawler."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest

from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_store import Place
from robotgate.cli._demo_worker import Order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Program

PATIENCE: Final = 60.0
SMALL: Final = ("--pages", "40")

posix_only: Final = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to other processes")


def test_the_workers_have_all_pages_and_none_twice() -> None:
    """Each has pages of every host that has enough of them, so that hosts are contended for."""
    plan = draw_plan(1, 200)
    orders = [
        Order(seed=1, page_count=200, worker=number, workers=3, ports={}, store=Place("x"))
        for number in (1, 2, 3)
    ]

    shares = [Order.from_json(order.to_json().encode()).urls() for order in orders]

    assert sorted(url for share in shares for url in share) == sorted(plan.urls)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    hosts = [{url.split("/")[2] for url in share} for share in shares]
    assert len(set.intersection(*hosts)) > len(plan.sites) / 2


async def test_workers_are_one_crawler_to_the_sites(program: Program, tmp_path: Path) -> None:
    """One robots.txt request for each origin, no gap too short and every page, of which each worker has some.

    A file that was asked for stays, and can be looked into; and it is new, or what it knows would not be asked again.
    """
    file, store = tmp_path / "report.json", str(tmp_path / "demo.db")

    run, kept = await asyncio.gather(
        program("demo", *SMALL, "--workers", "3", "--json", str(file)),
        program("demo", *SMALL, "--workers", "2", "--store", store),
    )
    listed = await program("cache", "ls", "--store", store)
    again = await program("demo", *SMALL, "--store", store)

    assert (run.status, kept.status) == (0, 0), run.out + run.err + kept.out + kept.err
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["clean"]
    assert {site["robots_requests"] for site in report["sites"]} == {1}
    assert len(report["workers"]) == 3
    assert min(share["pages"] for share in report["workers"]) > 5
    assert sum(share["pages"] + share["robots"] for share in report["workers"]) == len(report["visits"])
    pages = ", ".join(str(share["pages"]) for share in report["workers"])
    assert f": {pages} pages, " in run.out
    assert all(site["site"].partition(":")[0] in listed.out for site in report["sites"])
    assert (again.status, again.out) == (2, "")
    assert f"{store} is there already" in again.err


@posix_only
async def test_ctrl_c_ends_the_workers_too(program: Program) -> None:
    """Nothing is left of them but the output's pipe, which ends with the last that holds it."""
    process = await program.start("demo", "--pages", "2000", "--workers", "2")
    assert process.stderr is not None
    await process.stderr.readline()

    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


@posix_only
async def test_workers_end_with_a_parent_that_was_killed(program: Program) -> None:
    """It could not tell them: their standard input ends. They hold its standard error, which is read to its end."""
    process = await program.start("demo", "--pages", "2000", "--workers", "2")
    assert process.stderr is not None
    await process.stderr.readline()

    process.kill()
    async with asyncio.timeout(PATIENCE):
        await process.communicate()

    assert process.returncode == -signal.SIGKILL


@posix_only
async def test_a_worker_that_dies_ends_the_demonstration(program: Program) -> None:
    """In one line, without a report: its pages would be missing."""
    process = await program.start("demo", "--pages", "2000", "--workers", "2")
    assert process.stderr is not None
    await process.stderr.readline()

    os.kill(await _worker_of(process.pid), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()

    assert (process.returncode, out) == (1, b"")
    # It may not even have begun.
    assert b"of the demonstration died" in err or b"did not start" in err
    assert b"Traceback" not in err


async def _worker_of(parent: int) -> int:
    listing = await asyncio.create_subprocess_exec(
        "ps", "-eo", "pid,ppid,args", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await listing.communicate()
    lines = [line.split() for line in out.decode().splitlines()]
    return next(
        int(line[0]) for line in lines if line[1] == str(parent) and "robotgate.cli._demo_worker" in line
    )
