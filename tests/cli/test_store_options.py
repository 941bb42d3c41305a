"""Where ``fetch``, ``check`` and ``lint`` store what they learn, and that the next run knows it."""

from __future__ import annotations

import os
import re
import stat
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite

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
    if sys.platform != "win32":
        assert stat.S_IMODE((cache_directory / "cache.db").stat().st_mode) == 0o600
        assert stat.S_IMODE(cache_directory.stat().st_mode) == 0o700


def test_the_commands_share_what_they_learn(site: LocalSite, tmp_path: Path) -> None:
    """One robots.txt, or that there is none, serves all of them, and the pace goes on from the last run."""
    site.robots_status = 404
    store = (*POLITE, "--store", str(tmp_path / "mine.db"))
    run("lint", *store, f"{site.base}/")
    assert "/robots.txt, status 404, kept since " in run("check", *store, f"{site.base}/").out
    run("fetch", "-q", *store, f"{site.base}/1")

    assert site.asked == {"/robots.txt": 1, "/1": 1}
    robots, one = site.asked_at
    assert one - robots >= 1.0


def test_without_a_store_nothing_is_left(site: LocalSite, cache_directory: Path) -> None:
    """Each run asks again, and no file is created; nor by a command that visits no site."""
    assert run("lint", os.devnull).status == 0
    for _ in range(2):
        assert run("check", *POLITE, "--no-store", f"{site.base}/").status == 0

    assert site.asked == {"/robots.txt": 2}
    assert not cache_directory.parent.exists()


@pytest.mark.parametrize(
    "command", [*COMMANDS, *(("cache", name) for name in ("ls", "prune", "export", "import"))]
)
def test_a_store_that_was_asked_for_has_to_work(
    site: LocalSite, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Status 2, one line with the file's name, and no request; the file is unchanged."""
    notes = tmp_path / "notes.txt"
    notes.write_bytes(b"my notes" * 500)

    visited = (*POLITE, f"{site.base}/") if command in COMMANDS else ()
    ended = run(*command, *visited, "--store", str(notes))

    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"Error: {notes}: ")
    assert site.asked == {}
    assert notes.read_bytes() == b"my notes" * 500


@pytest.mark.parametrize("command", COMMANDS)
def test_the_default_store_may_fail(site: LocalSite, cache_directory: Path, command: tuple[str, ...]) -> None:
    """It was not asked for: lines with its name tell of it, and the command goes on with memory."""
    cache_directory.parent.mkdir(parents=True)
    cache_directory.write_bytes(b"")

    ended = run(*command, *POLITE, f"{site.base}/")

    lines = ended.err.splitlines()
    assert (ended.status, site.asked["/robots.txt"]) == (0, 1)
    assert 1 <= len(lines) <= 2
    assert all(str(cache_directory / "cache.db") in line for line in lines)
