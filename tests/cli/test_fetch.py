"""``robotgate fetch``, against a site of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

POLITE: Final = ("fetch", "--contact", CONTACT, "--allow-private-addresses", "--delay", "0")
COLUMNS: Final = ("url", "outcome", "status", "final_url", "bytes", "waited", "elapsed")


async def test_each_url_gets_one_row(program: Program, site: LocalSite) -> None:
    """Fetched with a status, blocked with the line that says so, and what cannot be fetched with a reason."""
    paths = ("/a", "/gone", "/private/b", "/trap")
    ended = await program(*POLITE, *(site.base + path for path in paths), "nonsense", "http://127.0.0.1:1/")

    rows = {str(row["url"]).removeprefix(site.base): row for row in ended.rows}
    assert {url: row["outcome"] for url, row in rows.items()} == {
        "/a": "fetched",
        "/gone": "fetched",
        "/private/b": "blocked",
        "/trap": "blocked",
        "nonsense": "invalid",
        "http://127.0.0.1:1/": "unavailable",
    }
    assert all(tuple(row)[: len(COLUMNS)] == COLUMNS for row in rows.values())
    assert (rows["/a"]["status"], rows["/a"]["bytes"], rows["/gone"]["status"]) == (200, 5, 410)
    assert rows["/trap"]["final_url"] == f"{site.base}/private/trap"
    assert (rows["/private/b"]["rule"], rows["/private/b"]["line"]) == ("Disallow: /private/", 2)
    assert rows["/private/b"]["robots_url"] == f"{site.base}/robots.txt"
    assert ended.status == 1
    assert site.asked == {"/robots.txt": 1, "/a": 1, "/gone": 1, "/trap": 1}


async def test_a_list_comes_from_a_file(program: Program, site: LocalSite, tmp_path: Path) -> None:
    """Blank lines and comments are passed over; rows go to a file; blocked pages are no failure."""
    urls, rows = tmp_path / "urls.txt", tmp_path / "rows.jsonl"
    urls.write_text(f"# pages\n\n{site.base}/1\r\n  {site.base}/2\n{site.base}/private/3", encoding="utf-8")

    ended = await program(*POLITE, "-i", str(urls), "-o", str(rows))

    done = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert sorted(row["url"] for row in done) == [
        f"{site.base}/1",
        f"{site.base}/2",
        f"{site.base}/private/3",
    ]
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.startswith("2 fetched, 1 blocked, 0 failed in ")


async def test_a_list_comes_from_standard_input(program: Program, site: LocalSite) -> None:
    """``-i -`` reads a pipe; ``-q`` keeps standard error empty."""
    stdin = "".join(f"{site.base}/{number}\n" for number in range(300)).encode()

    ended = await program(*POLITE, "-q", "-i", "-", stdin=stdin)

    assert (ended.status, len(ended.rows), ended.err) == (0, 300, "")


async def test_urls_are_fetched_while_standard_input_is_open(program: Program, site: LocalSite) -> None:
    """A row comes as soon as its page is there, not when the list ends."""
    process = await program.start(*POLITE, "-i", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{site.base}/first\n".encode())

    row = json.loads(await process.stdout.readline())

    assert row["outcome"] == "fetched"
    _, err = await process.communicate(f"{site.base}/second".encode())
    assert process.returncode == 0
    assert b"2 fetched" in err


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_ctrl_c_ends_it_cleanly(program: Program, site: LocalSite, tmp_path: Path) -> None:
    """What is done is written, what is not is counted, and the exit status is a shell's 130."""
    urls = tmp_path / "urls.txt"
    urls.write_text(
        "\n".join(f"{site.base}{path}" for path in ("/1", "/2", "/hang", "/4", "/5")), encoding="utf-8"
    )
    process = await program.start(*POLITE, "-i", str(urls))
    assert process.stdout is not None
    rows = [await process.stdout.readline() for _ in range(2)]

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate(b"")

    assert process.returncode == 130
    assert [json.loads(row)["outcome"] for row in rows] == ["fetched", "fetched"]
    assert out == b""
    assert err.decode().startswith("interrupted: 2 fetched, 0 blocked, 0 failed in ")
    assert err.decode().endswith("; 3 URLs not done\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
async def test_a_closed_pipe_ends_it_quietly(program: Program, site: LocalSite) -> None:
    """As ``| head -1`` does: no traceback."""
    reader, writer = os.pipe()
    process = await program.start(*POLITE, "-i", "-", stdout=writer)
    os.close(writer)
    assert process.stdin is not None
    process.stdin.write(f"{site.base}/first\n".encode())
    await asyncio.to_thread(os.read, reader, 4096)
    os.close(reader)

    _, err = await process.communicate(f"{site.base}/second\n".encode())

    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
async def test_the_list_of_urls_is_not_overwritten(program: Program, tmp_path: Path) -> None:
    """Rows over the URLs they are about would lose them."""
    urls = tmp_path / "urls.txt"
    urls.write_text("https://a.example/\n")

    ended = await program(*POLITE, "-i", str(urls), "-o", str(urls))

    assert ended.status == 2
    assert "overwrite" in ended.err
    assert urls.read_text() == "https://a.example/\n"


async def test_a_full_disk_is_told_in_words(program: Program, site: LocalSite) -> None:
    """A row that cannot be written ends the run."""
    ended = await program(*POLITE, "-o", "/dev/full", f"{site.base}/")

    assert ended.status == 1
    assert "cannot write: No space left on device" in ended.err
    assert "Traceback" not in ended.err


async def test_a_wait_that_is_too_long_is_a_row_of_its_own(program: Program, site: LocalSite) -> None:
    """``--max-wait`` gives up on a URL instead of waiting for its host."""
    options = (*POLITE[:-1], "30", "--max-wait", "0.2")

    ended = await program(*options, f"{site.base}/1")

    assert [row["outcome"] for row in ended.rows] == ["too_soon"]
    assert ended.status == 1
