"""docs/pace.md keeps its word: its programs run, and its tables say what the code says."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import inspect
import io
import math
import re
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from typing import Final, TypeAlias, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.test_readme import ROOT, blocks

from robotgate import HostOverride, HostView, RobotGate

PAGE: Final = (ROOT / "docs" / "pace.md").read_text(encoding="utf-8")
PROGRAMS: Final = blocks(PAGE, "python")
WHOLE: Final = 'if __name__ == "__main__":'
"""Ends a program that stands for itself; the others go on from the first."""
TABLE: Final = re.compile(r"^\|(?P<head>.*)\|\n\| --- .*\n(?P<rows>(?:\|.*\|\n)+)", re.MULTILINE)
NAME: Final = re.compile(r"`(?P<name>[\w.]+)`")
NOT_PACE: Final = {
    "agent",
    "contact",
    "token",
    "session",
    "store",
    "allow_private_addresses",
    "status_policy",
    "max_hosts",
    "recheck",
    "max_bytes",
    "middleware_timeout",
    "clock",
    "fetcher",
}
"""Options of the gate that the page has no need to list."""

Row: TypeAlias = dict[str, str]
Crawl: TypeAlias = Callable[..., Coroutine[object, object, None]]


def cells(line: str) -> list[str]:
    """The cells of one line of a table, without the bars at its ends."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows(*columns: str) -> list[Row]:
    """The rows of every table that has all these columns, by the heads of the columns."""
    tables = [(cells(table["head"]), table["rows"].splitlines()) for table in TABLE.finditer(PAGE)]
    return [
        dict(zip(heads, cells(line), strict=True))
        for heads, lines in tables
        if set(columns) <= set(heads)
        for line in lines
    ]


def named(column: str) -> list[str]:
    """All names that stand in the cells of one column, in order."""
    return [found["name"] for row in rows(column) for found in NAME.finditer(row[column])]


def as_written(value: object) -> str:
    """A default, as the page writes it."""
    if value is None or (isinstance(value, Mapping) and not value):
        return "none"
    if isinstance(value, Enum):
        return f"`{value}`"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


OPTIONS: Final = inspect.signature(RobotGate).parameters
CONTINUED: Final = [program for program in PROGRAMS if WHOLE not in program]
(CRAWLER,) = (program for program in PROGRAMS if WHOLE in program)


@pytest.mark.parametrize("last", range(1, len(CONTINUED)))
def test_programs_run(last: int) -> None:
    """Each goes on from the first, needs none of the others, and asserts its own instants."""
    names: dict[str, object] = {"__name__": "pace"}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in (CONTINUED[0], CONTINUED[last]):
            exec(compile(program, "<docs/pace.md>", "exec"), names)


async def answer(request: web.Request) -> web.Response:
    """A site with a rule, a redirect and a page."""
    if request.path == "/robots.txt":
        return web.Response(text="User-agent: *\nDisallow: /private\n")
    if request.path == "/moved":
        raise web.HTTPMovedPermanently("/page")
    return web.Response(text="hello")


async def test_crawler_crawls(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole program visits what it may, follows a redirect by a turn of its own, and comes to an end."""
    names: dict[str, object] = {"__name__": "pace"}
    exec(compile(CRAWLER, "<docs/pace.md>", "exec"), names)
    crawl = cast("Crawl", names["crawl"])
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as site:
        first, moved, private, page = (
            str(site.make_url(path)) for path in ("/", "/moved", "/private/1", "/page")
        )
        async with asyncio.timeout(30):
            await crawl([first, moved, private], workers=2, delay=0.01, allow_private_addresses=True)
            # Without anything to do it ends as well.
            await crawl([])
    printed = capsys.readouterr().out.splitlines()
    assert f"200 {first} 5" in printed
    assert any(line.startswith(f"301 {moved} ") for line in printed)
    assert f"200 {page} 5" in printed
    assert any(line.startswith(f"{private} ") and "Disallow: /private" in line for line in printed)
    assert len(printed) == 4


@pytest.mark.parametrize("row", rows("option", "default"), ids=lambda row: row["option"])
def test_defaults_are_the_gates(row: Row) -> None:
    """An option that a table names exists, with the very default."""
    (name,) = NAME.findall(row["option"])
    assert row["default"] == as_written(OPTIONS[name].default)


def test_every_option_of_the_pace_is_told_of() -> None:
    """None is left out, and a new one of the gate is either told of here or no option of the pace."""
    assert set(named("option")) == set(OPTIONS) - NOT_PACE


@pytest.mark.parametrize("value", [HostOverride, HostView])
def test_fields_are_these(value: type[HostOverride | HostView]) -> None:
    """A table of fields has all of them, in their order."""
    assert named(f"field of `{value.__name__}`") == [field.name for field in dataclasses.fields(value)]


def test_overrides_stand_for_options_of_the_gate() -> None:
    """What a field is in place of is an option of the gate."""
    known = {**OPTIONS, "NO_RATE": None}
    assert all(name in known for name in named("in place of"))


@pytest.mark.parametrize("row", rows("seconds", "in the code"), ids=lambda row: row["in the code"])
def test_figures_are_those_of_the_code(row: Row) -> None:
    """A figure that is no option has the value that the page gives."""
    module, _, constant = NAME.findall(row["in the code"])[0].rpartition(".")
    value: object = getattr(importlib.import_module(f"robotgate.{module}"), constant)
    assert isinstance(value, float)
    assert math.isclose(float(row["seconds"].replace(",", "")), value)
