"""``robotgate cache`` over a server: the same commands, and what is different there."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from tests.cli.conftest import CONTACT, run
from tests.cli.test_cache import cache, keep, record
from tests.redis_server import RedisServer

from robotgate.stores import HostState

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite


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


def test_what_is_stored_is_listed_and_shown(site: LocalSite, url: str) -> None:
    """As from a file; an empty server is an empty store; a refresh is known to the next program."""
    options = ("--contact", CONTACT, "--allow-private-addresses")
    assert cache(url, "ls", "--json") == (0, "")
    assert cache(url, "show", "a.example") == (1, "nothing is stored about a.example\n")
    assert cache(url, "refresh", site.base, *options) == (0, f"{site.base}  read, status 200\n")
    assert run("check", *options, "--store", url, f"{site.base}/private/1").status == 1
    assert site.asked == {"/robots.txt": 1}
    keep(
        url,
        [record("https://a.example", etag='"x"'), record("http://b.a.example")],
        a_example=HostState(visits=1234),
        c_example=HostState(visits=1),
    )

    listed = [line.partition("\t")[0] for line in cache(url, "ls")[1].splitlines()[1:]]
    shown = cache(url, "show", "a.example")[1]
    assert listed == [site.base, "https://a.example", "http://b.a.example", "c.example"]
    assert all(told in shown for told in ("https://a.example  controlled", "  visits        1,234\n", '"x"'))
    assert "b.a.example" not in shown


@pytest.mark.parametrize(
    ("command", "is_away", "told"),
    [
        (("import",), True, "cannot be reached"),
        (("ls",), False, "it refuses the login"),
    ],
)
def test_a_server_that_cannot_be_used_is_one_line(
    url: str, tmp_path: Path, command: tuple[str, ...], told: str, *, is_away: bool
) -> None:
    """Status 2, which server, and what to do; and no password, though the URL has one."""
    if is_away:
        with RedisServer(tmp_path) as server:
            url = server.url
    status, out = cache(url.replace("//", "//me:open-sesame@"), *command)

    (line,) = out.splitlines()
    assert (status, line.startswith("Error: ")) == (2, True)
    assert url.removeprefix("redis://").partition("/")[0] in line
    assert told in line
    assert "sesame" not in line
