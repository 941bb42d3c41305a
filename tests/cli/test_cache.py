"""``robotgate cache``: what is kept is shown, asked for again, and let go of."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.cli.conftest import CONTACT

from robotgate import HostState, Origin, Outcome, RobotsRecord, SQLiteStore
from robotgate.cli._commands import robotgate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

BODY: Final = b"User-agent: *\nDisallow: /private\nCrawl-delay: 5\nSitemap: https://a.example/map.xml\n"
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
NOTHING_KEPT: Final = "there is no store yet"


def record(origin: str, **changes: object) -> RobotsRecord:
    """A good copy, read a minute ago."""
    now = time.time()
    return replace(
        RobotsRecord(
            origin=Origin.of(origin),
            outcome=Outcome.SUCCESS,
            status=200,
            checked_at=now - 60,
            fresh_until_at=now + 86_000,
            body=BODY,
            fetched_at=now - 60,
            robots_url=f"{origin}/robots.txt",
        ),
        **changes,  # type: ignore[arg-type]
    )


def keep(path: Path, records: Iterable[RobotsRecord] = (), **hosts: HostState) -> None:
    """Put this into a store; of hosts, ``_`` in a name stands for a dot."""

    async def save() -> None:
        store = SQLiteStore(path)
        for one in records:
            await store.save_record(one)
        for name, state in hosts.items():
            store.remember_host(name.replace("_", "."), state)
        await store.aclose()

    asyncio.run(save())


CRASH: Final = """
import asyncio, os, sys
from robotgate import HostState, SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    store.remember_host("a.example", HostState(last_visit_at=1.0, next_allowed_at=2.0, visits=7))
    async for _ in store.hosts():
        os._exit(9)

asyncio.run(main())
"""


def crash(path: Path) -> float:
    """Have a process that uses the store end at once, when it has written of ``a.example``. Returns when that was."""
    ended = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False)
    assert ended.returncode == 9
    return time.time()


def run(path: Path, command: str, *arguments: str) -> tuple[int, str]:
    """Run a command on a store; its status, and what it says."""
    ended = CliRunner().invoke(robotgate, ["cache", command, *arguments, "--store", str(path)])
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    return ended.exit_code, ended.output


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where there is no store yet."""
    return tmp_path / "cache.db"


@pytest.mark.parametrize("command", ["ls", "show", "forget", "prune", "export"])
def test_looking_for_a_store_makes_none(path: Path, command: str) -> None:
    """Where there is none, that is said, and how one comes to be; and there is still none."""
    status, out = run(path, command, *(["a.example"] if command in {"show", "forget"} else []))

    assert status == 2
    assert NOTHING_KEPT in out
    assert str(path) in out
    assert "robotgate fetch" in out
    assert list(path.parent.glob("cache.db*")) == []


def test_the_default_store_is_looked_for_in_the_cache_directory(cache_directory: Path) -> None:
    """And not made there by looking, either."""
    ended = CliRunner().invoke(robotgate, ["cache", "ls"])

    assert ended.exit_code == 2
    assert str(cache_directory / "cache.db") in ended.output
    assert not cache_directory.exists()


@pytest.mark.parametrize("command", ["ls", "prune", "export", "import"])
def test_a_file_that_is_no_store_is_an_error(path: Path, command: str) -> None:
    """Status 2, and the file's name; the file is as it was."""
    path.write_bytes(b"these are my notes" * 100)

    status, out = run(path, command)

    assert status == 2
    assert str(path) in out
    assert path.read_bytes() == b"these are my notes" * 100


@pytest.mark.parametrize("command", ["show", "forget", "refresh"])
def test_what_is_no_host_is_wrong_usage(path: Path, command: str) -> None:
    """Status 2, and nothing that could steer a terminal."""
    status, out = run(
        path, command, "a\x1b[2J.example", *(["--contact", CONTACT] if command == "refresh" else [])
    )

    assert status == 2
    assert "HOST" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", ["show", "forget"])
def test_an_unknown_host_is_said_to_be_unknown(path: Path, command: str) -> None:
    """Status 1: a script can tell."""
    keep(path, [record("https://a.example")])

    status, out = run(path, command, "b.example")

    assert (status, out.strip()) == (1, "nothing is remembered of b.example")


@pytest.mark.parametrize("command", ["show", "forget"])
def test_a_crash_makes_no_host_known(path: Path, command: str) -> None:
    """Every host is taken to have been visited then; of those that nobody met, nothing is remembered all the same."""
    crash(path)

    status, out = run(path, command, "b.example")

    assert (status, out.strip()) == (1, "nothing is remembered of b.example")


def test_what_is_shown_is_what_is_written(path: Path) -> None:
    """Not when the host is taken to have been visited, since a crash may have lost it."""
    crash(path)

    status, out = run(path, "show", "a.example")

    assert status == 0
    assert "1970-01-01 00:00:01 UTC" in out
    assert out.count("pace of") == 1


def test_the_list_has_every_origin_and_every_host(path: Path) -> None:
    """An origin with its host's pace; a host without a record all the same; each once."""
    now = time.time()
    keep(
        path,
        [
            record("http://a.example", outcome=Outcome.MISSING, status=404, body=b"", fetched_at=None),
            record("https://a.example"),
            record("https://c.example:8443", body=b"User-agent: *\nDisallow: /\n", fresh_until_at=now - 1),
            record("https://d.example", body=b""),
        ],
        a_example=HostState(last_visit_at=now, next_allowed_at=now + 3600.5, visits=12),
        b_example=HostState(last_visit_at=now - 99, next_allowed_at=now - 98, visits=1),
        d_example=HostState(last_visit_at=now, blocked_until_at=now + 60 * 60 * 3.5, visits=3),
        e_example=HostState(visits=1),
    )

    status, out = run(path, "ls")

    head, *lines = [line.split("\t") for line in out.splitlines()]
    assert head == ["ORIGIN", "ACCESS", "CHECKED", "FRESH FOR", "VISITS", "NEXT"]
    assert status == 0
    assert lines == [
        ["http://a.example", "open", "1m ago", "23h", "12", "in 1h"],
        ["https://a.example", "controlled", "1m ago", "23h", "12", "in 1h"],
        ["b.example", "-", "-", "-", "1", "now"],
        ["https://c.example:8443", "excluded", "1m ago", "expired", "-", "-"],
        ["https://d.example", "open", "1m ago", "23h", "3", "blocked 3h"],
        ["e.example", "-", "-", "-", "1", "now"],
    ]


def test_the_list_is_of_whoever_asks(path: Path) -> None:
    """What a file leaves open depends on the crawler's name."""
    keep(path, [record("https://a.example", body=b"User-agent: ExampleBot\nDisallow: /\n")])

    assert "\topen\t" in run(path, "ls")[1]
    assert "\texcluded\t" in run(path, "ls", "--agent", "ExampleBot/1.0")[1]
    assert "\texcluded\t" in run(path, "ls", "--agent", "Mozilla/5.0 ExampleBot", "--token", "ExampleBot")[1]


def test_the_list_as_json(path: Path) -> None:
    """A row for each, with instants as numbers."""
    kept = record("https://a.example")
    keep(path, [kept], b_example=HostState(last_visit_at=1.5, visits=1))

    status, out = run(path, "ls", "--json")

    one, other = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert (one["name"], one["access"], one["outcome"]) == ("https://a.example", "controlled", "success")
    assert (one["checked_at"], one["visits"]) == (kept.checked_at, None)
    assert (other["name"], other["access"], other["visits"]) == ("b.example", None, 1)
    assert other["last_visit_at"] == 1.5


def test_nothing_that_is_kept_steers_the_terminal(path: Path) -> None:
    """Names, causes, URLs and headers may come from sites, or from an import."""
    hostile = "\x1b[2J\r\n\u202e"
    keep(
        path,
        [
            record(
                "https://a.example",
                etag=hostile,
                redirects=(hostile,),
                last_modified=hostile,
                robots_url=hostile,
            ),
            record("http://a.example", outcome=Outcome.FAILURE, cause=hostile, failing_since_at=1.0),
        ],
        **{f"b{hostile}": HostState(visits=1)},
    )

    for out in (run(path, "ls")[1], run(path, "show", "a.example")[1]):
        assert all(letter.isprintable() or letter in "\n\t" for letter in out)
        assert "\\u001b[2J" in out


def test_a_host_is_shown_whole(path: Path) -> None:
    """Every origin of it, and its pace: what is known, and what it means."""
    now = time.time()
    keep(
        path,
        [
            record("https://a.example", etag='"x"', redirects=("https://a.example/robots.txt",)),
            record(
                "http://a.example",
                outcome=Outcome.FAILURE,
                status=503,
                cause="HTTP status 503",
                failures=3,
                failing_since_at=now - 7300,
                fresh_until_at=now - 5,
            ),
            record("https://b.example"),
        ],
        a_example=HostState(
            last_visit_at=now - 10,
            next_allowed_at=now - 5,
            blocked_at=now - 10,
            blocked_until_at=now + 3601,
            failures=2,
            visits=1234,
            bytes_read=56789,
            latency=0.25,
        ),
    )

    status, out = run(path, "show", "a.example")

    assert status == 0
    for told in (
        "https://a.example  controlled",
        "https://a.example/robots.txt, status 200",
        f"{len(BODY)} octets",
        "1 for robotgate in the group of *; 1 group in all",
        "5 s",
        "https://a.example/map.xml",
        '"x"',
        "http://a.example  controlled",
        "status 503",
        "3 times in a row, since ",
        "2h ago",
        ", stale",
        "expired; asked again when it is needed next",
        "pace of a.example",
        "1,234, 56,789 octets",
        "1h, until ",
        "2 in a row, the last since ",
        "0.250 s",
    ):
        assert told in out, told
    assert "b.example" not in out


def test_one_origin_is_shown_alone(path: Path) -> None:
    """Where a scheme or a port picks it; however its host is written."""
    keep(path, [record("https://xn--bcher-kva.example"), record("http://[2001:db8::1]:8080")])

    assert "https://xn--bcher-kva.example  controlled" in run(path, "show", "https://Bücher.example")[1]
    assert run(path, "show", "http://bücher.example")[0] == 1
    assert "http://[2001:db8::1]:8080  controlled" in run(path, "show", "2001:db8::1")[1]
    assert run(path, "show", "[2001:db8::1]:8081")[0] == 1


def test_a_pace_of_an_origin_is_shown_too(path: Path) -> None:
    """A gate may have paced by origin."""
    keep(path, [record("https://a.example")], **{"https://a_example": HostState(visits=1)})

    assert "pace of https://a.example" in run(path, "show", "a.example")[1]


def test_forgetting_lets_go_of_all_origins(path: Path) -> None:
    """And of the host's pace, where its wait is served."""
    keep(
        path,
        [record("https://a.example"), record("http://a.example:8080"), record("https://b.example")],
        a_example=HostState(last_visit_at=1.0, next_allowed_at=2.0, visits=1),
    )

    status, out = run(path, "forget", "a.example")

    assert status == 0
    assert out.splitlines() == [
        "forgot the robots.txt of https://a.example",
        "forgot the robots.txt of http://a.example:8080",
        "forgot the pace of a.example",
    ]
    assert run(path, "show", "a.example")[0] == 1
    assert run(path, "show", "b.example")[0] == 0


async def test_forgetting_beside_a_crawler_tells_of_it(program: Program, path: Path) -> None:
    """It goes by what it has in memory; who is alone is told nothing."""
    await asyncio.to_thread(keep, path, [record("https://a.example"), record("https://b.example")])
    crawler = SQLiteStore(path)
    await crawler.open()

    beside = await program("cache", "forget", "a.example", "--store", str(path))
    await crawler.aclose()
    alone = await program("cache", "forget", "b.example", "--store", str(path))

    assert (beside.status, beside.out) == (0, "forgot the robots.txt of https://a.example\n")
    assert beside.err == (
        "another process uses this store: what it has in memory it goes by, and may write again\n"
    )
    assert (alone.status, alone.out, alone.err) == (0, "forgot the robots.txt of https://b.example\n", "")


def test_the_age_that_prunes_is_told_in_days() -> None:
    """Nobody reads millions of seconds."""
    ended = CliRunner().invoke(robotgate, ["cache", "prune", "--help"])

    assert "(90 days)" in " ".join(ended.output.split())


@pytest.mark.parametrize("wait", ["next_allowed_at", "blocked_until_at"])
def test_forgetting_keeps_an_unserved_wait(path: Path, wait: str) -> None:
    """Forgetting a host must not let it be visited sooner; unless that is what is asked for."""
    later = time.time() + 1000
    state = HostState(
        last_visit_at=1.0,
        next_allowed_at=later if wait == "next_allowed_at" else 2.0,
        blocked_until_at=later if wait == "blocked_until_at" else 0.0,
    )
    keep(path, [record("https://a.example")], a_example=state)

    status, out = run(path, "forget", "a.example")

    assert status == 0
    assert "forgot the robots.txt of https://a.example" in out
    assert "kept the pace of a.example: it may not be visited before" in out
    assert "--pace" in out
    assert "pace of a.example" in run(path, "show", "a.example")[1]

    assert run(path, "forget", "a.example", "--pace") == (0, "forgot the pace of a.example\n")
    assert run(path, "show", "a.example")[0] == 1


def test_forgetting_one_origin_leaves_the_others(path: Path) -> None:
    """And the pace, which is the host's."""
    keep(
        path,
        [record("https://a.example"), record("http://a.example")],
        a_example=HostState(last_visit_at=1.0, visits=1),
    )

    assert run(path, "forget", "https://a.example") == (0, "forgot the robots.txt of https://a.example\n")
    out = run(path, "show", "a.example")[1]
    assert "http://a.example  controlled" in out
    assert "https://a.example  controlled" not in out
    assert "pace of a.example" in out


def test_pruning_says_what_went(path: Path) -> None:
    """What is older than the bound; no host whose wait is unserved."""
    keep(
        path,
        [record("https://a.example")],
        a_example=HostState(last_visit_at=1.0),
        b_example=HostState(next_allowed_at=time.time() + 1000),
    )

    assert run(path, "prune") == (0, "let go of 0 robots.txt and the pace of 0 hosts\n")
    assert run(path, "prune", "--max-age", "0") == (0, "let go of 1 robots.txt and the pace of 1 host\n")
    assert "b.example" in run(path, "ls")[1]
    status, out = run(path, "prune", "--max-age", "-1")
    assert status == 2
    assert "max_age" in out


REFRESH: Final = ("cache", "refresh", "--contact", CONTACT, "--allow-private-addresses")


async def test_refreshing_asks_now(program: Program, site: LocalSite, path: Path) -> None:
    """Though the copy is fresh; and says whether it is another one."""
    store = ("--store", str(path))
    check = ("check", "--contact", CONTACT, "--allow-private-addresses", *store, f"{site.base}/private/1")
    assert (await program(*check)).status == 1
    host = site.base.removeprefix("http://")

    again = await program(*REFRESH, *store, "127.0.0.1")
    site.robots = "User-agent: *\nAllow: /\n"
    changed = await program(*REFRESH, *store, host)
    checked = await program(*check)

    assert (again.status, again.out) == (0, f"{site.base}  unchanged, status 200\n")
    assert (changed.status, changed.out) == (0, f"{site.base}  changed, status 200\n")
    assert checked.status == 0
    assert site.asked == {"/robots.txt": 3}


async def test_refreshing_keeps_the_pace(program: Program, site: LocalSite, path: Path) -> None:
    """A refresh waits the host's turn, as every request does."""
    store = ("--store", str(path))
    for _ in range(3):
        assert (await program(*REFRESH, *store, site.base)).status == 0

    assert [
        later - earlier >= 1.0 for earlier, later in zip(site.asked_at, site.asked_at[1:], strict=False)
    ] == [
        True,
        True,
    ]


async def test_refreshing_what_fails_says_so(program: Program, path: Path) -> None:
    """Nobody listens at port 1: status 1, and why; what is known is that it failed."""
    store = ("--store", str(path))

    ended = await program(*REFRESH, *store, "http://127.0.0.1:1")

    assert ended.status == 1
    assert ended.out.startswith("http://127.0.0.1:1  failed: ")
    shown = await program("cache", "show", *store, "127.0.0.1")
    assert "http://127.0.0.1:1  excluded" in shown.out


async def test_refreshing_makes_a_good_copy_no_worse(program: Program, site: LocalSite, path: Path) -> None:
    """A server that fails just then is told of; the copy is as fresh as it was, and still the rules."""
    store = ("--store", str(path))
    assert (await program(*REFRESH, *store, site.base)).status == 0
    (before,) = (await program("cache", "ls", "--json", *store)).rows
    site.robots_status = 500

    ended = await program(*REFRESH, *store, site.base)

    assert ended.status == 1
    assert ended.out == f"{site.base}  failed: HTTP status 500; what was known still holds\n"
    (after,) = (await program("cache", "ls", "--json", *store)).rows
    assert (after["outcome"], after["fresh_until_at"]) == ("success", before["fresh_until_at"])
    checked = await program("check", *REFRESH[2:], *store, f"{site.base}/private/1")
    assert (checked.status, "stale" in checked.out) == (1, False)
    assert site.asked == {"/robots.txt": 2}


async def test_a_refresh_that_may_not_be_leaves_all_as_it_was(program: Program, path: Path) -> None:
    """Here, because the address is private: the copy is as fresh as before."""
    kept = record("http://127.0.0.1:1")
    await asyncio.to_thread(keep, path, [kept])
    store = ("--store", str(path))

    ended = await program("cache", "refresh", "--contact", CONTACT, *store, "127.0.0.1:1")

    assert ended.status == 1
    assert "--allow-private-addresses permits it" in ended.out
    listed = await program("cache", "ls", "--json", *store)
    assert listed.rows[0]["fresh_until_at"] == kept.fresh_until_at


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("columns", [80, 160])
def test_the_list_fits_its_terminal(path: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider; a name that is too long is cut, and its columns stay where they are."""
    name = "a-very-long-name.of-some-department.of-some-university.example"
    keep(path, [record(f"https://{name}:8443"), record("https://b.example")])
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    lines = COLOURS.sub("", run(path, "ls")[1]).splitlines()

    assert len(lines) == 3
    assert all(len(line) <= columns for line in lines)
    assert len({line.index("1m ago") for line in lines[1:]}) == 1
    assert (name in lines[1]) == (columns == 160)
