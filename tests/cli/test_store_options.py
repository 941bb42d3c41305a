"""Where ``fetch``, ``check`` and ``lint`` remember, and that a second run knows what the first one learnt."""

from __future__ import annotations

import re
import stat
import sys
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.cli.conftest import CONTACT
from tests.redis_server import RedisServer

from robotgate.cli._commands import robotgate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

POLITE: Final = ("--contact", CONTACT, "--allow-private-addresses")
COMMANDS: Final = ("fetch", "check", "lint")
MOMENT: Final = re.compile(r"[0-9-]{10} [0-9:]{8} UTC")


async def test_a_second_check_asks_nobody(program: Program, site: LocalSite, cache_directory: Path) -> None:
    """It says since when its copy is kept, which is when the first one read it."""
    first = await program("check", *POLITE, f"{site.base}/private/1")
    second = await program("check", *POLITE, f"{site.base}/private/1")

    assert (first.status, second.status) == (1, 1)
    assert site.asked == {"/robots.txt": 1}
    (read,) = MOMENT.findall(first.out)
    assert f"/robots.txt, status 200, read {read}" in first.out
    assert f"/robots.txt, status 200, kept since {read}" in second.out
    assert _mode(cache_directory / "cache.db") in {0o600, None}
    assert _mode(cache_directory) in {0o700, None}


async def test_a_missing_robots_txt_is_kept_too(program: Program, site: LocalSite) -> None:
    """And its age told as well."""
    site.robots_status = 404
    await program("check", *POLITE, f"{site.base}/")
    second = await program("check", *POLITE, f"{site.base}/")

    assert second.status == 0
    assert "/robots.txt, status 404, kept since " in second.out
    assert site.asked == {"/robots.txt": 1}


async def test_the_commands_know_what_each_other_learnt(
    program: Program, site: LocalSite, tmp_path: Path
) -> None:
    """One robots.txt for all of them; and the pace goes on where the last run left it."""
    store = ("--store", str(tmp_path / "mine.db"))
    await program("lint", *POLITE, *store, f"{site.base}/")
    await program("check", *POLITE, *store, f"{site.base}/")
    await program("fetch", *POLITE, *store, "-q", f"{site.base}/1")
    await program("fetch", *POLITE, *store, "-q", f"{site.base}/2")

    assert site.asked == {"/robots.txt": 1, "/1": 1, "/2": 1}
    robots, one, two = site.asked_at
    assert one - robots >= 1.0
    assert two - one >= 1.0


async def test_a_server_is_a_store_too(program: Program, site: LocalSite, tmp_path: Path) -> None:
    """What one command has learnt, the others know; and one that is away is told of as a file is."""
    with RedisServer(tmp_path) as server:
        store = ("--store", server.url)
        await program("check", *POLITE, *store, f"{site.base}/")
        await program("fetch", *POLITE, *store, "-q", f"{site.base}/1")
        assert site.asked == {"/robots.txt": 1, "/1": 1}
        shown = await program("cache", "ls", *store)
        assert (shown.status, site.base in shown.out) == (0, True)
        wrong = await program("check", *POLITE, "--store", f"{server.url}99", f"{site.base}/")
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err.startswith(f"Error: redis 127.0.0.1:{server.port}/99: it has no database of that number")


async def test_without_a_store_nothing_is_left(
    program: Program, site: LocalSite, cache_directory: Path
) -> None:
    """Each run asks anew, and no file is made."""
    for _ in range(2):
        assert (await program("check", *POLITE, "--no-store", f"{site.base}/")).status == 0

    assert site.asked == {"/robots.txt": 2}
    assert not cache_directory.parent.exists()


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_store_that_was_asked_for_has_to_work(
    program: Program, site: LocalSite, tmp_path: Path, command: str
) -> None:
    """Status 2, one line with the file's name, and nobody is asked."""
    notes = tmp_path / "notes.txt"
    notes.write_bytes(b"my notes" * 500)

    ended = await program(command, *POLITE, "--store", str(notes), f"{site.base}/")

    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"Error: {notes}: ")
    assert site.asked == {}
    assert _read(notes) == b"my notes" * 500


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_users_own_store_may_fail(
    program: Program, site: LocalSite, cache_directory: Path, command: str
) -> None:
    """Nobody asked for it: one line says so, and memory has to do."""
    _put_a_file_in_place_of(cache_directory)

    ended = await program(command, *POLITE, f"{site.base}/", *(["-q"] if command == "fetch" else []))

    assert ended.status == 0
    assert site.asked["/robots.txt"] == 1
    (line,) = ended.err.splitlines()
    assert str(cache_directory / "cache.db") in line


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--store", "x.db", "--no-store"), "not both"),
        (("--store", ""), "store=''"),
        (("--store", "redis://localhost:port"), "port is no number"),
    ],
)
def test_wrong_usage(command: str, arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2, and what to give instead."""
    ended = CliRunner().invoke(robotgate, [command, "--contact", CONTACT, *arguments, "http://a.example/"])

    assert ended.exit_code == 2
    assert complaint in ended.output


async def test_a_file_is_checked_without_a_store(
    program: Program, tmp_path: Path, cache_directory: Path
) -> None:
    """What asks no site remembers nothing."""
    robots = tmp_path / "robots.txt"
    robots.write_bytes(b"User-agent: *\nDisallow: /x\n")

    assert (await program("check", "--robots", str(robots), "/x")).status == 1
    assert (await program("lint", str(robots))).status == 0

    assert not cache_directory.parent.exists()


async def test_what_is_kept_cannot_steer_the_terminal(program: Program, tmp_path: Path) -> None:
    """Not even where it was brought from elsewhere."""
    store = ("--store", str(tmp_path / "cache.db"))
    line = (
        '{"version": 1, "kind": "record", "origin": "http://a.example", "outcome": "failure", "status": null,'
        ' "cause": "\\u001b[2J", "checked_at": 1, "fresh_until_at": 253402300799, "failures": 1,'
        ' "failing_since_at": 1, "body": "", "fetched_at": null, "robots_url": "\\u001b[2J", "redirects":'
        ' ["\\u001b[2J"], "etag": null, "last_modified": null}'
    )
    assert (await program("cache", "import", *store, stdin=line.encode())).status == 0

    for command in COMMANDS:
        ended = await program(command, "--contact", CONTACT, *store, "http://a.example/", stdin=b"")
        assert "\x1b" not in ended.out + ended.err


def _mode(path: Path) -> int | None:
    return None if sys.platform == "win32" else stat.S_IMODE(path.stat().st_mode)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _put_a_file_in_place_of(directory: Path) -> None:
    directory.parent.mkdir(parents=True)
    directory.write_bytes(b"")
