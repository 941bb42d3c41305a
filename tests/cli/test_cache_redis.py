"""``robotgate cache`` over a server: the same commands, and what is different there."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final

import pytest
from redis import Redis
from tests.cli.conftest import CONTACT, run
from tests.cli.test_cache import cache, record
from tests.redis_server import RedisServer

from robotgate import RobotGate
from robotgate.stores import HostState
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

    from robotgate.sites import RobotsRecord

SECRET: Final = "open-sesame"


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
def url(server: RedisServer) -> str:
    """Of the server, which is empty."""
    with Redis.from_url(server.url) as client:
        client.flushall()
    server.settle()
    return server.url


def keep(url: str, records: Iterable[RobotsRecord] = (), **hosts: HostState) -> None:
    """Put this into the server; ``_`` in the name of a host stands for a dot."""

    async def save() -> None:
        async with RedisStore(url) as store:
            for one in records:
                await store.save_record(one)
            await store.save_hosts({name.replace("_", "."): state for name, state in hosts.items()})

    asyncio.run(save())


def test_the_list_has_every_origin_and_every_host(url: str) -> None:
    """As that of a file has."""
    now = time.time()
    keep(
        url,
        [record("https://a.example"), record("https://c.example:8443", body=b"User-agent: *\nDisallow: /\n")],
        a_example=HostState(last_visit_at=now, next_allowed_at=now + 3605.5, visits=12),
        b_example=HostState(last_visit_at=now - 99, next_allowed_at=now - 98, visits=1),
    )

    status, out = cache(url, "ls")

    assert status == 0
    assert [line.split("\t") for line in out.splitlines()[1:]] == [
        ["https://a.example", "controlled", "1m ago", "23h", "12", "in 1h"],
        ["b.example", "-", "-", "-", "1", "now"],
        ["https://c.example:8443", "excluded", "1m ago", "23h", "-", "-"],
    ]


def test_an_empty_server_is_an_empty_store(url: str) -> None:
    """It need not be created first."""
    status, out = cache(url, "ls", "--json")

    assert (status, out) == (0, "")
    assert cache(url, "show", "a.example") == (1, "nothing is stored about a.example\n")


def test_a_host_is_shown_whole(url: str) -> None:
    """Every origin of it, and its pace."""
    keep(
        url,
        [record("https://a.example", etag='"x"'), record("http://a.example"), record("http://b.a.example")],
        a_example=HostState(visits=1234, bytes_read=56789),
    )

    status, out = cache(url, "show", "a.example")

    assert status == 0
    for told in (
        "https://a.example  controlled",
        "http://a.example  controlled",
        "  visits        1,234\n  read          56,789 bytes",
        '"x"',
    ):
        assert told in out
    assert "b.a.example" not in out


def test_a_refresh_is_stored(site: LocalSite, url: str) -> None:
    """The next program does not ask the site again."""
    options = ("--contact", CONTACT, "--allow-private-addresses")

    assert cache(url, "refresh", site.base, *options) == (0, f"{site.base}  read, status 200\n")
    assert run("check", *options, "--store", url, f"{site.base}/private/1").status == 1
    assert site.asked == {"/robots.txt": 1}


def test_forgetting_keeps_an_unserved_wait(url: str) -> None:
    """As in a file, with a note about running processes of the fleet."""
    wait = HostState(next_allowed_at=time.time() + 3600, visits=1)
    keep(url, [record("https://a.example")], a_example=wait)

    status, out = cache(url, "forget", "a.example")
    assert status == 0
    assert "removed the robots.txt of https://a.example" in out
    assert "kept the pace of a.example" in out
    assert "a crawler that uses this store" in out

    status, out = cache(url, "forget", "a.example", "--pace")
    assert (status, "removed the pace of a.example" in out) == (0, True)
    assert cache(url, "forget", "a.example")[0] == 1


def test_why_tells_of_a_block_of_the_fleet(url: str) -> None:
    """What `gate.block` said at one process is in the server for all."""

    async def block() -> None:
        async with (
            RedisStore(url) as store,
            RobotGate("ExampleBot/1.0", contact=CONTACT, store=store) as gate,
        ):
            gate.block("*.a.example")

    asyncio.run(block())

    ended = run("why", "https://www.a.example/", "--store", url)
    assert ended.status == 0
    assert "  blocked       by the crawler's operator, until it is lifted" in ended.out
    assert run("why", "https://b.example/", "--store", url).status == 1


def test_a_server_prunes_itself(url: str) -> None:
    """The bounds of a file are refused."""
    assert cache(url, "prune") == (0, "nothing to do: in a server, every key expires by itself\n")
    for option in ("--max-bytes", "--max-age"):
        status, out = cache(url, "prune", option, "9000000")
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
    lines_file, file = tmp_path / "lines.jsonl", tmp_path / "cache.db"
    assert cache(url, "export", str(lines_file)) == (0, "")
    lines = [json.loads(line) for line in lines_file.read_text().splitlines()]

    assert cache(file, "import", str(lines_file))[0] == 0
    assert cache(file, "export", "--force", str(lines_file))[0] == 0
    assert cache(url, "forget", "a.example", "--pace")[0] == 0
    assert cache(url, "import", str(lines_file))[0] == 0

    again = [json.loads(line) for line in cache(url, "export")[1].splitlines()]
    assert again[:2] == lines[:2]
    assert again[2]["pace_key"] == "a.example"
    assert next_at <= again[2]["next_allowed_at"] < next_at + 0.1


async def test_a_server_that_is_away_is_one_line(program: Program, tmp_path: Path) -> None:
    """Status 2, which server, and what to do; and no password, though the URL has one."""
    with RedisServer(tmp_path) as server:
        gone = f"redis://me:{SECRET}@127.0.0.1:{server.port}/0"
    commands = ("ls",), ("import",), ("refresh", "a.example", "--contact", CONTACT)

    for ended in await asyncio.gather(*(program("cache", *command, "--store", gone) for command in commands)):
        assert (ended.status, ended.out) == (2, "")
        (line,) = ended.err.splitlines()
        assert line.startswith("Error: ")
        assert f"127.0.0.1:{server.port}" in line
        assert "cannot be reached" in line
        assert SECRET not in line


def test_a_server_that_refuses_the_password_is_told_at_once(url: str) -> None:
    """Without the password that was wrong."""
    status, out = cache(url.replace("//", f"//me:{SECRET}@"), "ls")

    assert status == 2
    assert "it refuses the login" in out
    assert SECRET not in out


def test_a_wrong_url_is_wrong_usage() -> None:
    """The message leaves out what may be a password."""
    status, out = cache(f"redis://me:{SECRET}@localhost:port/0", "ls")

    assert status == 2
    assert SECRET not in out
