"""The commands of docs/store.md run, and its fields are those that are written."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shlex
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.test_readme import ROOT, blocks

from robotgate import Origin, SQLiteStore
from robotgate.cli.app import robotgate
from robotgate.cli.cache import host_line, record_line
from robotgate.cli.common import stated_store
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
COMMANDS: Final = [line.removeprefix("$ ") for text in blocks(PAGE, "console") for line in text.splitlines()]
NAME: Final = re.compile(r"`(\w+)`")
RECORD: Final = RobotsRecord(
    origin=Origin("https", "example.org", 443), outcome=Outcome.SUCCESS, checked_at=1.0, fresh_until_at=2.0
)
HOST: Final = HostState()


async def keep(path: str) -> None:
    """A store that has one record."""
    async with SQLiteStore(path) as store:
        await store.save_record(RECORD)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as it stands there, one after the other; but that the one that asks a site is given one of ours."""
    monkeypatch.chdir(tmp_path)
    store = str(tmp_path / "cache.db")
    asyncio.run(keep(store))
    with serving() as (site, asked):
        for command in COMMANDS:
            program, *arguments = shlex.split(command)
            arguments += ["--store", store]
            if "refresh" in arguments:
                arguments[arguments.index("https://example.org")] = site
                arguments.append("--allow-private-addresses")
            ended = CliRunner().invoke(robotgate, arguments)
            assert program == "robotgate"
            assert ended.exit_code == 0, ended.output
    assert asked == ["/robots.txt"]
    assert (tmp_path / "sites.jsonl").exists()


@contextmanager
def serving() -> Iterator[tuple[str, list[str]]]:
    """A site in a thread of its own, as the commands have event loops of their own; and what it was asked for."""
    asked: list[str] = []

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_every_command_is_told_of() -> None:
    """Those that the program has, in the order in which one wants them."""
    ended = CliRunner().invoke(robotgate, ["cache", "--help"])
    listed = re.findall(r"^  (\w+)  ", ended.output.partition("Commands:")[2], re.MULTILINE)

    assert sorted(listed) == sorted(command.split()[2] for command in COMMANDS)


@pytest.mark.parametrize(
    ("value", "line", "others"),
    [
        (RECORD, record_line(RECORD), {"version", "kind"}),
        (HOST, host_line("example.org", HOST), {"version", "kind", "pace_key"}),
    ],
)
def test_fields_are_those_of_the_classes_that_are_named(
    value: RobotsRecord | HostState, line: str, others: set[str]
) -> None:
    """And those that the page names besides."""
    section = PAGE.partition("## JSON Lines\n")[2].partition("\n## ")[0]

    assert set(NAME.findall(section)) >= {type(value).__name__, *others}
    assert set(json.loads(line)) == {*others, *(field.name for field in dataclasses.fields(value))}


def place() -> Path:
    """The file that the commands use."""
    store = stated_store(None)
    assert isinstance(store, SQLiteStore)
    return store.path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the page has another place for this system")
def test_place_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment, or below the home directory."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert place() == Path("/home/somebody/.cache/robotgate/cache.db")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert place() == Path("/var/cache/somebody/robotgate/cache.db")
    assert "$XDG_CACHE_HOME/robotgate/cache.db" in PAGE
    assert "~/.cache/robotgate/cache.db" in PAGE
