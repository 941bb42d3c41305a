"""``robotgate cache`` over a server: the same commands, and what is different there is said."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.cli.conftest import CONTACT
from tests.cli.test_cache import record
from tests.redis_server import RedisServer

from robotgate import HostState, RobotsRecord
from robotgate.cli import _store
from robotgate.cli._commands import robotgate
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

SECRET: Final = "open-sesame"
WITHOUT_HOST: Final = {"ls": (), "prune": (), "export": (), "import": ()}
COMMANDS: Final = {
    **WITHOUT_HOST,
    "show": ("a.example",),
    "forget": ("a.example",),
    "refresh": ("a.example", "--contact", CONTACT),
}


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
def url(server: RedisServer) -> str:
    """Of the server, which is empty."""

    async def empty() -> None:
        store = RedisStore(server.url)
        async with store._client as client:
            await client.flushall()

    asyncio.run(empty())
    return server.url


def keep(url: str, records: Iterable[RobotsRecord] = (), **hosts: HostState) -> None:
    """Put this into the server; of hosts, ``_`` in a name stands for a dot."""

    async def save() -> None:
        store = RedisStore(url)
        await store.open()
        for one in records:
            await store.save_record(one)
        for name, state in hosts.items():
            store.remember_host(name.replace("_", "."), state)
        await store.aclose()

    asyncio.run(save())


def run(url: str, command: str, *arguments: str, lines: str = "") -> tuple[int, str]:
    """Run a command on a server; its status, and what it says."""
    ended = CliRunner().invoke(robotgate, ["cache", command, *arguments, "--store", url], input=lines)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, ended.output


def test_the_list_has_every_origin_and_every_host(url: str) -> None:
    """As that of a file has."""
    now = time.time()
    keep(
        url,
        [record("https://a.example"), record("https://c.example:8443", body=b"User-agent: *\nDisallow: /\n")],
        a_example=HostState(last_visit_at=now, next_allowed_at=now + 3605.5, visits=12),
        b_example=HostState(last_visit_at=now - 99, next_allowed_at=now - 98, visits=1),
    )

    status, out = run(url, "ls")

    assert status == 0
    assert [line.split("\t") for line in out.splitlines()[1:]] == [
        ["https://a.example", "controlled", "1m ago", "23h", "12", "in 1h"],
        ["b.example", "-", "-", "-", "1", "now"],
        ["https://c.example:8443", "excluded", "1m ago", "23h", "-", "-"],
    ]


def test_an_empty_server_is_an_empty_store(url: str) -> None:
    """Nobody has to make it first."""
    status, out = run(url, "ls", "--json")

    assert (status, out) == (0, "")
    assert run(url, "show", "a.example") == (1, "nothing is remembered of a.example\n")


def test_a_host_is_shown_whole(url: str) -> None:
    """Every origin of it, and its pace."""
    keep(
        url,
        [record("https://a.example", etag='"x"'), record("http://a.example"), record("http://b.a.example")],
        a_example=HostState(visits=1234, bytes_read=56789),
    )

    status, out = run(url, "show", "a.example")

    assert status == 0
    for told in (
        "https://a.example  controlled",
        "http://a.example  controlled",
        "1,234, 56,789 octets",
        '"x"',
    ):
        assert told in out
    assert "b.a.example" not in out


async def test_a_refresh_asks_and_keeps(program: Program, site: LocalSite, url: str) -> None:
    """And what it learnt, the next program knows."""
    options = ("--store", url, "--allow-private-addresses")
    asked = await program("cache", "refresh", site.base, "--contact", CONTACT, *options)
    known = await program("check", "--contact", CONTACT, *options, f"{site.base}/private/1")

    assert (asked.status, known.status) == (0, 1), asked.err
    assert "read, status 200" in asked.out
    assert site.asked == {"/robots.txt": 1}


def test_forgetting_keeps_a_wait_and_says_who_may_know_it_still(url: str) -> None:
    """The fleet's other processes have a memory of their own, and nobody can tell whether there are any."""
    keep(
        url, [record("https://a.example")], a_example=HostState(next_allowed_at=time.time() + 3600, visits=1)
    )

    status, out = run(url, "forget", "a.example")
    assert status == 0
    assert "forgot the robots.txt of https://a.example" in out
    assert "kept the pace of a.example" in out
    assert "another process may use this store" in out

    status, out = run(url, "forget", "a.example", "--pace")
    assert (status, "forgot the pace of a.example" in out) == (0, True)
    assert run(url, "forget", "a.example")[0] == 1


def test_a_server_prunes_itself(url: str) -> None:
    """What would bound a file is refused."""
    assert run(url, "prune") == (0, "nothing to do: in a server, all has its own end and goes by itself\n")
    for option in ("--max-bytes", "--max-age"):
        status, out = run(url, "prune", option, "9000000")
        assert status == 2
        assert "bounds of a file" in out


def test_what_is_exported_is_imported(url: str, tmp_path: Path) -> None:
    """From a server to a file and back: the same records, and no wait gets shorter."""
    kept, next_at = record("https://a.example"), time.time() + 3600
    keep(
        url,
        [kept, record("http://b.example", body=bytes(range(256)))],
        a_example=HostState(next_allowed_at=next_at),
    )
    status, out = run(url, "export")
    assert status == 0
    file = str(tmp_path / "cache.db")

    assert run(file, "import", lines=out)[0] == 0
    assert run(url, "forget", "a.example", "--pace")[0] == 0
    assert run(url, "import", lines=run(file, "export")[1])[0] == 0

    again = [json.loads(line) for line in run(url, "export")[1].splitlines()]
    lines = [json.loads(line) for line in out.splitlines()]
    assert again[:2] == lines[:2]
    assert again[2]["pace_key"] == "a.example"
    assert next_at <= again[2]["next_allowed_at"] < next_at + 0.1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_away_is_told_of_in_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, which server, and what to do; and no password, though the URL has one."""
    monkeypatch.setattr(_store, "PATIENCE", 0.2)
    with RedisServer(tmp_path) as server:
        gone = f"redis://me:{SECRET}@127.0.0.1:{server.port}/0"

    status, out = run(gone, command, *COMMANDS[command])

    assert status == 2
    (line,) = out.splitlines()
    assert f"127.0.0.1:{server.port}" in line
    assert "cannot be reached" in line
    assert SECRET not in out


def test_a_server_that_lets_nobody_in_is_told_of_at_once(url: str) -> None:
    """As the server says it, and without the password that was wrong."""
    status, out = run(url.replace("//", f"//me:{SECRET}@"), "ls")

    assert status == 2
    assert "does not let us in" in out
    assert SECRET not in out


def test_a_url_that_is_none_is_wrong_usage() -> None:
    """Likewise without what may be a password."""
    status, out = run(f"redis://me:{SECRET}@localhost:port/0", "ls")

    assert status == 2
    assert SECRET not in out
