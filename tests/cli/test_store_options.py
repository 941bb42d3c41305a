"""Where ``fetch``, ``check`` and ``lint`` store what they learn, and that the next run knows it."""

from __future__ import annotations

import asyncio
import re
import stat
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

POLITE: Final = ("--contact", CONTACT, "--allow-private-addresses")
COMMANDS: Final = (("fetch", "-q"), ("check",), ("lint",))
MOMENT: Final = re.compile(r"[0-9-]{10} [0-9:]{8} UTC")


def test_a_second_check_asks_nobody(site: LocalSite, cache_directory: Path) -> None:
    """It tells since when its copy is kept, which is when the first one read it."""
    first = run("check", *POLITE, f"{site.base}/private/1")
    second = run("check", *POLITE, f"{site.base}/private/1")

    assert (first.status, second.status) == (1, 1)
    assert site.asked == {"/robots.txt": 1}
    (read,) = MOMENT.findall(first.out)
    assert f"/robots.txt, status 200, read {read}" in first.out
    assert f"/robots.txt, status 200, kept since {read}" in second.out
    assert _mode(cache_directory / "cache.db") in {0o600, None}
    assert _mode(cache_directory) in {0o700, None}


def test_a_missing_robots_txt_is_stored_too(site: LocalSite) -> None:
    """And its age is told."""
    site.robots_status = 404
    run("check", *POLITE, f"{site.base}/")
    second = run("check", *POLITE, f"{site.base}/")

    assert second.status == 0
    assert "/robots.txt, status 404, kept since " in second.out
    assert site.asked == {"/robots.txt": 1}


def test_the_commands_share_what_they_learn(site: LocalSite, tmp_path: Path) -> None:
    """One robots.txt serves all of them, and the pace goes on from the last run."""
    store = ("--store", str(tmp_path / "mine.db"))
    run("lint", *POLITE, *store, f"{site.base}/")
    run("check", *POLITE, *store, f"{site.base}/")
    run("fetch", "-q", *POLITE, *store, f"{site.base}/1")
    run("fetch", "-q", *POLITE, *store, f"{site.base}/2")

    assert site.asked == {"/robots.txt": 1, "/1": 1, "/2": 1}
    robots, one, two = site.asked_at
    assert one - robots >= 1.0
    assert two - one >= 1.0


def test_a_server_is_a_store_too(site: LocalSite, tmp_path: Path) -> None:
    """What one command learns, the others know; a server that fails ends a command as a file does."""
    with RedisServer(tmp_path) as server:
        server.settle()
        store = ("--store", server.url)
        run("check", *POLITE, *store, f"{site.base}/")
        run("fetch", "-q", *POLITE, *store, f"{site.base}/1")
        assert site.asked == {"/robots.txt": 1, "/1": 1}
        shown = run("cache", "ls", *store)
        assert (shown.status, site.base in shown.out) == (0, True)
        wrong = run("check", *POLITE, "--store", f"{server.url}99", f"{site.base}/")
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err.startswith(f"Error: redis 127.0.0.1:{server.port}/99: it has no database of that number")


def test_without_a_store_nothing_is_left(site: LocalSite, cache_directory: Path) -> None:
    """Each run asks again, and no file is created."""
    for _ in range(2):
        assert run("check", *POLITE, "--no-store", f"{site.base}/").status == 0

    assert site.asked == {"/robots.txt": 2}
    assert not cache_directory.parent.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_was_asked_for_has_to_work(
    site: LocalSite, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Status 2, one line with the file's name, and no request."""
    notes = tmp_path / "notes.txt"
    notes.write_bytes(b"my notes" * 500)

    ended = run(*command, *POLITE, "--store", str(notes), f"{site.base}/")

    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"Error: {notes}: ")
    assert site.asked == {}
    assert _read(notes) == b"my notes" * 500


async def test_the_default_store_may_fail(program: Program, site: LocalSite, cache_directory: Path) -> None:
    """It was not asked for: lines with its name tell of it, and the command goes on with memory."""
    _put_a_file_in_place_of(cache_directory)

    ended = await asyncio.gather(*(program(*command, *POLITE, f"{site.base}/") for command in COMMANDS))

    for one in ended:
        assert one.status == 0
        lines = one.err.splitlines()
        assert 1 <= len(lines) <= 2
        assert all(str(cache_directory / "cache.db") in line for line in lines)
    assert site.asked["/robots.txt"] == len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--store", "x.db", "--no-store"), "not both"),
        (("--store", ""), "store=''"),
        (("--store", "redis://localhost:port"), "port is no number"),
    ],
)
def test_wrong_usage(command: tuple[str, ...], arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2, and what to give instead."""
    ended = run(*command, "--contact", CONTACT, *arguments, "http://a.example/")

    assert ended.status == 2
    assert complaint in ended.err


def test_a_file_is_checked_without_a_store(tmp_path: Path, cache_directory: Path) -> None:
    """A command that visits no site stores nothing."""
    robots = tmp_path / "robots.txt"
    robots.write_bytes(b"User-agent: *\nDisallow: /x\n")

    assert run("check", "--robots", str(robots), "/x").status == 1
    assert run("lint", str(robots)).status == 0

    assert not cache_directory.parent.exists()


def test_what_is_stored_cannot_control_the_terminal(tmp_path: Path) -> None:
    """Not even if it was imported."""
    store = ("--store", str(tmp_path / "cache.db"))
    line = (
        '{"version": 1, "kind": "record", "origin": "http://a.example", "outcome": "failure", "status": null,'
        ' "cause": "\\u001b[2J", "checked_at": 1, "fresh_until_at": 253402300799, "failures": 1,'
        ' "failing_since_at": 1, "body": "", "fetched_at": null, "robots_url": "\\u001b[2J", "redirects":'
        ' ["\\u001b[2J"], "etag": null, "last_modified": null}'
    )
    lines = tmp_path / "lines.jsonl"
    lines.write_text(line)
    assert run("cache", "import", str(lines), *store).status == 0

    for command in COMMANDS:
        ended = run(*command, "--contact", CONTACT, *store, "http://a.example/")
        assert "\x1b" not in ended.out + ended.err


def _mode(path: Path) -> int | None:
    return None if sys.platform == "win32" else stat.S_IMODE(path.stat().st_mode)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _put_a_file_in_place_of(directory: Path) -> None:
    directory.parent.mkdir(parents=True)
    directory.write_bytes(b"")
