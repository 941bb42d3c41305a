"""docs/doors.md keeps its word: what it says of the doors is held by tests that exist, and its programs run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.test_readme import ROOT, blocks
from tests.test_rfc_map import defined_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DOCUMENT: Final = (ROOT / "docs" / "doors.md").read_text(encoding="utf-8")
TEXT, _, LIST = DOCUMENT.partition("\n## The tests\n")
NAMED: Final = re.compile(r"^(?P<number>[0-9]+)\. `(?P<test>tests/\S+\.py::test_\w+)`$", re.MULTILINE)
TESTS: Final = {int(found["number"]): found["test"] for found in NAMED.finditer(LIST)}
REFERENCE: Final = re.compile(r"\[(?P<number>[0-9]+)\](?!\()")
ROW: Final = re.compile(r"^\|.*\|$", re.MULTILINE)
PROGRAMS: Final = blocks(TEXT, "python")
NO_TEST_NEEDED: Final = re.compile(r"(?:has none|no|by it|not heeded|cannot happen|as aiohttp does)")
"""Cells that promise nothing of the gate's."""

Main: TypeAlias = Callable[..., Coroutine[object, object, None]]


def main_of(kind: str) -> Main:
    """The `main` of the program whose text has this in it."""
    (program,) = (program for program in PROGRAMS if kind in program)
    names: dict[str, object] = {"__name__": "doors"}
    exec(compile(program, "<docs/doors.md>", "exec"), names)
    return cast("Main", names["main"])


@pytest.fixture
async def site() -> AsyncIterator[TestServer]:
    """A site with a rule, a redirect, a page, and one that fails at first."""
    fails = iter((True, False))

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private\n")
        if request.path == "/moved":
            raise web.HTTPMovedPermanently("/page")
        if request.path == "/fails" and next(fails, False):
            return web.Response(status=500)
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app)
    async with server, asyncio.timeout(30):
        yield server


OPTIONS: Final = {"delay": 0.01, "allow_private_addresses": True}


async def test_page(site: TestServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A page, one by way of another, and one that is refused."""
    page, moved, private = (str(site.make_url(path)) for path in ("/page", "/moved", "/private"))
    await main_of("response.history")([page, moved, private], **OPTIONS)
    assert capsys.readouterr().out.splitlines() == [
        f"{page}: 200, 5 bytes",
        f"{page}: 200, 5 bytes, by {moved}",
        f"{private}: no, by line 2",
    ]


async def test_stream(site: TestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a file."""
    await main_of("iter_chunked")(str(site.make_url("/moved")), tmp_path / "page", **OPTIONS)
    assert (tmp_path / "page").read_bytes() == b"hello"
    assert capsys.readouterr().out == "5 bytes\n"


async def test_session(site: TestServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Sent again where the server fails, and not where the site refuses."""
    page, fails, private = (str(site.make_url(path)) for path in ("/page", "/fails", "/private"))
    await main_of("three_attempts")([page, fails, private], **OPTIONS)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [f"{page}: 200, 5 bytes", f"{fails}: 200, 5 bytes"]
    assert printed[2].endswith("Disallow: /private")


async def test_other_client(site: TestServer, capsys: pytest.CaptureFixture[str]) -> None:
    """One of the standard library, in a thread."""
    await main_of("http.client")(str(site.make_url("/page?q=1")), **OPTIONS)
    assert capsys.readouterr().out == "200 5\n"


def test_every_program_is_run() -> None:
    """Here: there is none that the tests above leave out."""
    assert len(PROGRAMS) == 4


@pytest.mark.parametrize("test", sorted(set(TESTS.values())))
def test_named_test_exists(test: str) -> None:
    """Under the very name, in the very file."""
    path = ROOT / test.partition("::")[0]
    assert path.is_file()
    assert test in defined_in(path)


def test_numbers_are_those_of_the_list() -> None:
    """Every reference leads to a test, and every test is referred to; in order, and none twice."""
    assert {int(found["number"]) for found in REFERENCE.finditer(TEXT)} == set(TESTS)
    assert list(TESTS) == list(range(1, len(TESTS) + 1))
    assert len(set(TESTS.values())) == len(TESTS)
    assert len(TESTS) == len(LIST.strip().splitlines())


@pytest.mark.parametrize("row", [row for row in ROW.findall(TEXT) if not row.startswith(("| |", "| ---"))])
def test_row_says_something_of_every_door(row: str) -> None:
    """No cell is empty, and most of each row is held by a test."""
    _, *cells = (cell.strip() for cell in row.strip("|").split("|"))
    assert all(cells)
    promises = [cell for cell in cells if not NO_TEST_NEEDED.fullmatch(cell)]
    held = [cell for cell in promises if REFERENCE.search(cell)]
    assert len(promises) - len(held) <= 1, row
