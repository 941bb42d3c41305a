"""``robotgate lint``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

CLEAN: Final = b"User-agent: *\nDisallow: /private/\n"
WARNED: Final = b"User-agent: ExampleBot/1.0\nDisallow: /\n"
WRONG: Final = "User-agent: *\nDisallow: /é b\nDisallow x\nDisallow y\n".encode()


def _lint(tmp_path: Path, body: bytes, *arguments: str) -> tuple[int, list[str]]:
    path = tmp_path / "robots.txt"
    path.write_bytes(body)
    ended = run("lint", str(path), *arguments)
    return ended.status, ended.out.splitlines()


@pytest.mark.parametrize(("body", "status"), [(CLEAN, 0), (WARNED, 0), (WRONG, 1)])
def test_errors_and_only_errors_make_it_fail(tmp_path: Path, body: bytes, status: int) -> None:
    """So that a deployment can depend on it; and no output could mean anything."""
    ended, lines = _lint(tmp_path, body)
    assert ended == status
    assert (lines[1:] == ["no findings"]) == (body == CLEAN)


def test_each_line_is_shown_with_what_to_write(tmp_path: Path) -> None:
    """And, the first time, with what the standard says."""
    _, lines = _lint(tmp_path, WRONG)

    shown = [line.split(maxsplit=1) for line in lines]
    for number, text in ((3, "Disallow x"), (4, "Disallow y")):
        at = shown.index([str(number), text])
        assert "[missing-colon]" in lines[at - 1] or number == 4
        assert shown[at + 2] == ["write", text.replace(" ", ": ")]
        assert ("RFC 9309" in lines[at + 4]) == (number == 3)


def test_json_has_a_row_for_each_finding(tmp_path: Path) -> None:
    """With the place, and everything that the table says."""
    status, lines = _lint(tmp_path, b"User-agent: *\nDisallow /a\n", "--json")

    (row,) = map(json.loads, lines)
    assert status == 1
    assert row.pop("source").endswith("robots.txt")
    assert row.pop("remedy") == "A colon after the field name."
    assert "§2.2" in row.pop("rfc9309")
    assert row == {
        "line": 2,
        "column": 1,
        "severity": "error",
        "code": "missing-colon",
        "message": "there is no colon after the field name",
        "text": "Disallow /a",
        "start": 0,
        "end": 8,
        "suggestion": "Disallow: /a",
        "related_line": None,
        "further_lines": 0,
    }


def test_a_file_that_cannot_be_read_is_worse_than_any_error(tmp_path: Path) -> None:
    """The others are linted all the same, in the order given; as JSON, it is a row too."""
    missing = str(tmp_path / "missing.txt")
    status, lines = _lint(tmp_path, WRONG, missing, str(tmp_path))

    assert status == 2
    assert lines[-6:-4] == ["", missing]
    assert [line.partition(": ")[0] for line in lines if line.startswith("not read")] == [
        "not read  cannot be read"
    ] * 2
    _, (row,) = _lint(tmp_path, CLEAN, "--json", missing)
    assert json.loads(row)["problem"] == "cannot be read: No such file or directory"


async def test_standard_input_is_a_file(program: Program) -> None:
    """As elsewhere, it is called ``-``."""
    ended = await program("lint", "-", stdin=b"Disallow: /\n")

    assert ended.status == 1
    assert "[before-any-group]" in ended.out


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C there")
async def test_one_ctrl_c_ends_a_command_that_reads_standard_input(tmp_path: Path, program: Program) -> None:
    """Though nothing comes and nothing is closed, as at a terminal."""
    path = tmp_path / "robots.txt"
    path.write_bytes(CLEAN)
    process = await program.start("lint", str(path), "-")
    assert process.stdout is not None
    assert await process.stdout.readline() == f"{path}\n".encode()

    process.send_signal(signal.SIGINT)

    async with asyncio.timeout(30):
        assert await process.wait() == 130


def test_a_site_is_asked_for_its_file(site: LocalSite) -> None:
    """Once, whatever URLs of it are given; findings are those of the file. Where nothing listens, that is told."""
    site.robots = "User-agent: *\nDisallow /x\n"
    ended = run(
        *("lint", "--contact", CONTACT, "--allow-private-addresses"),
        *(f"{site.base}/any/page", f"{site.base}/robots.txt", "http://127.0.0.1:1/"),
    )

    assert ended.status == 2, ended.err
    assert "not read  http://127.0.0.1:1/robots.txt cannot be read" in ended.out
    assert ended.out.splitlines().count("1 error, 0 warnings, 0 info") == 2
    assert site.asked == {"/robots.txt": 1}
