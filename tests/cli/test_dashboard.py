"""``robotgate fetch --dashboard``."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.cli.conftest import FETCH, run
from tests.dashboard.reader import TOKEN, reading

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

HANDLES_CTRL_C: Final = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for a child process")


@HANDLES_CTRL_C
async def test_a_run_shows_itself(site: LocalSite, program: Program) -> None:
    """The URL is told on standard error; the page has the hosts of the run, and buttons only where asked for."""
    process = await program.start(*FETCH, "--dashboard", "127.0.0.1:0", f"{site.base}/hang")
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    assert line.startswith("dashboard: http://127.0.0.1:")
    url = line.removeprefix("dashboard: ").strip()
    await site.hanging()
    async with reading(url) as reader:
        (row,) = await reader.rows()
        assert (row["origin"], row["open_turns"]) == (site.base, 1)
        assert (await reader.next())["controls"] is False
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        _, err = await process.communicate()
    assert "interrupted" in err.decode()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)


@pytest.mark.parametrize(
    "address", ["", "8099", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80"]
)
def test_an_address_has_a_port(address: str) -> None:
    """What is none is refused with an example."""
    ended = run(*FETCH, "--dashboard", address, "http://127.0.0.1:1/")
    assert (ended.status, "127.0.0.1:8099" in ended.err) == (2, True)


def test_other_machines_need_a_token(site: LocalSite, tmp_path: Path) -> None:
    """Without one the command refuses, with one it runs; a port that is taken ends it, with one line that names it.

    Rows of an earlier run stay.
    """
    rows = tmp_path / "rows.jsonl"
    rows.write_text("of an earlier run\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for where, told in (
            ("0.0.0.0:0", "token"),
            (address, f"cannot serve --dashboard at {address}: address already in use"),
        ):
            refused = run(*FETCH, "-o", str(rows), "--dashboard", where, f"{site.base}/a")
            assert (refused.status, told in refused.err) == (2, True)
            assert rows.read_text() == "of an earlier run\n"
    assert not site.asked
    assert run(*FETCH, "--dashboard", "0.0.0.0:0", "--dashboard-token", TOKEN, f"{site.base}/a").status == 0
