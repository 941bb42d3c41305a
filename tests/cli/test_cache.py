"""``robotgate cache`` over a file: what is stored is listed, shown, refreshed and removed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run

from robotgate import Origin, SQLiteStore
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cli.conftest import LocalSite

BODY: Final = b"User-agent: *\nDisallow: /private\nCrawl-delay: 5\nSitemap: https://a.example/map.xml\n"


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


def keep(place: Path | str, records: Iterable[RobotsRecord] = (), **hosts: HostState) -> None:
    """Put this into a file, or the server of a URL; ``_`` in the name of a host stands for a dot."""

    async def save() -> None:
        async with RedisStore(place) if isinstance(place, str) else SQLiteStore(place) as store:
            for one in records:
                await store.save_record(one)
            await store.save_hosts({name.replace("_", "."): state for name, state in hosts.items()})

    asyncio.run(save())


CRASH: Final = """
import asyncio, os, sys
from robotgate import SQLiteStore
from robotgate.stores import HostState

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    session = await store.session()
    await session.obtain("a.example")
    await store.save_hosts({"a.example": HostState(last_visit_at=1.0, next_allowed_at=2.0, visits=7)})
    async for _ in store.hosts():
        os._exit(9)

asyncio.run(main())
"""


def crash(path: Path) -> float:
    """Kill a process that has a grant of ``a.example``, after it has saved the host. Returns when that was."""
    ended = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False)
    assert ended.returncode == 9
    return time.time()


def cache(path: Path | str, command: str, *arguments: str) -> tuple[int, str]:
    """Run a command on a store. Returns its status and everything it printed."""
    ended = run("cache", command, *arguments, "--store", str(path))
    return ended.status, ended.out + ended.err


@pytest.mark.parametrize("command", ["ls", "show", "forget", "prune", "export"])
def test_looking_for_a_store_creates_none(path: Path, command: str, cache_directory: Path) -> None:
    """It says so, and which commands create one; the default store is looked for in the cache directory."""
    host = ["a.example"] if command in {"show", "forget"} else []
    for place, option in ((path, ["--store", str(path)]), (cache_directory / "cache.db", [])):
        ended = run("cache", command, *host, *option)
        assert (ended.status, ended.out) == (2, "")
        assert "there is no store yet" in ended.err
        assert str(place) in ended.err
        assert "robotgate fetch" in ended.err
        assert not place.exists()


def test_the_list_has_every_origin_and_every_host(path: Path) -> None:
    """An origin with its host's pace; one without a record too; each once. JSON has instants as numbers."""
    now = time.time()
    kept = record("https://a.example")
    keep(
        path,
        [
            record("http://a.example", outcome=Outcome.MISSING, status=404, body=b"", fetched_at=None),
            kept,
            record("https://c.example:8443", body=b"User-agent: *\nDisallow: /\n", fresh_until_at=now - 1),
            record("https://d.example", body=b""),
        ],
        a_example=HostState(last_visit_at=now, next_allowed_at=now + 5000, visits=12),
        b_example=HostState(last_visit_at=1.5, next_allowed_at=now - 98, visits=1),
        d_example=HostState(last_visit_at=now, blocked_until_at=now + 60 * 60 * 3.5, visits=3),
        e_example=HostState(visits=1, blocked_until_at=float("inf")),
    )

    status, out = cache(path, "ls")

    head, *lines = [line.split("\t") for line in out.splitlines()]
    assert head == ["ORIGIN", "ACCESS", "CHECKED", "FRESH FOR", "VISITS", "NEXT"]
    assert status == 0
    assert lines == [
        ["http://a.example", "open", "1m ago", "23h", "12", "in 1h"],
        ["https://a.example", "controlled", "1m ago", "23h", "12", "in 1h"],
        ["b.example", "-", "-", "-", "1", "now"],
        ["https://c.example:8443", "excluded", "1m ago", "expired", "-", "-"],
        ["https://d.example", "open", "1m ago", "23h", "3", "blocked 3h"],
        ["e.example", "-", "-", "-", "1", "never"],
    ]
    _, one, other, *_ = [json.loads(line) for line in cache(path, "ls", "--json")[1].splitlines()]
    assert (one["name"], one["access"], one["outcome"]) == ("https://a.example", "controlled", "success")
    assert (one["checked_at"], one["visits"]) == (kept.checked_at, 12)
    assert (other["name"], other["access"], other["last_visit_at"]) == ("b.example", None, 1.5)


def test_the_list_is_for_one_crawler(path: Path) -> None:
    """What a file allows depends on the crawler's name."""
    keep(path, [record("https://a.example", body=b"User-agent: ExampleBot\nDisallow: /\n")])

    assert "\topen\t" in cache(path, "ls")[1]
    assert "\texcluded\t" in cache(path, "ls", "--agent", "ExampleBot/1.0")[1]
    assert "1 for ExampleBot in the group of ExampleBot" in " ".join(
        cache(path, "show", "a.example", "--agent", "ExampleBot/1.0")[1].split()
    )
    assert (
        "\texcluded\t" in cache(path, "ls", "--agent", "Mozilla/5.0 ExampleBot", "--token", "ExampleBot")[1]
    )


def test_a_host_is_shown_whole(path: Path) -> None:
    """Every origin of it, and its pace: what is stored, and what it means."""
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

    status, out = cache(path, "show", "a.example")

    assert status == 0
    for told in (
        "https://a.example  controlled", "https://a.example/robots.txt, status 200", f"{len(BODY)} bytes",
        "1 for robotgate in the group of *; 1 group in all", "5 s", "https://a.example/map.xml", '"x"',
        "http://a.example  controlled", "status 503", "3 times in a row, since ", "2h ago", ", stale",
        "expired; fetched again when it is needed", "pace of a.example",
        "  visits        1,234\n  read          56,789 bytes", "1h, not before ",
        "2 in a row, the last since ", "0.250 s",
    ):  # fmt: skip
        assert told in out, told
    assert "b.example" not in out


HTTP, HTTPS, OTHER = "http://a.example", "https://a.example", "http://a.example:8080"
FOREIGN: Final = "https://xn--bcher-kva.example"
ADDRESS: Final = "http://[2001:db8::1]:8080"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, {HTTP, HTTPS, OTHER}) for text in ("a.example", "A.Example.")),
        *((text, {OTHER}) for text in ("a.example:8080", "http://a.example:8080/page?q")),
        ("a.example:80", {HTTP}),
        ("https://a.example", {HTTPS}),
        *((text, {FOREIGN}) for text in ("bücher.example", "https://Bücher.example")),
        *((text, {ADDRESS}) for text in ("2001:db8::1", "[2001:DB8:0::1]:8080")),
        *((text, set()) for text in ("https://a.example:8080", "b.example", "http://bücher.example")),
        *((text, set()) for text in ("192.0.2.1:8080", "[2001:db8::1]:8081")),
        *((text, None) for text in ("", " ", "ftp://a.example", "a b", "a.example:0", "a.example:x", "[::1")),
        *((text, None) for text in ("a\x1b.example", "://", "1.2.3")),
    ],
)
def test_a_host_is_written_in_many_ways(path: Path, text: str, shown: set[str] | None) -> None:
    """It is all its origins, unless a port or a scheme selects some. A gate may have paced by origin."""
    origins = (HTTP, HTTPS, OTHER, FOREIGN, ADDRESS)
    keep(path, map(record, origins), **{FOREIGN.replace(".", "_"): HostState(visits=1)})

    status, out = cache(path, "show", text)

    assert status == (2 if shown is None else 0 if shown else 1)
    assert {origin for origin in origins if f"{origin}  controlled" in out} == (shown or set())
    assert (f"pace of {FOREIGN}" in out) == (shown == {FOREIGN})


def test_forgetting_removes_all_origins(path: Path) -> None:
    """And the host's pace, if its wait is over, with a note about running crawlers; or one origin, and no pace."""
    keep(
        path,
        [record("https://a.example"), record("http://a.example:8080"), record("https://b.example")],
        a_example=HostState(last_visit_at=1.0, next_allowed_at=2.0, visits=1),
    )

    one = run("cache", "forget", "https://a.example", "--store", str(path))
    assert one.out == "removed the robots.txt of https://a.example\n"
    ended = run("cache", "forget", "a.example", "--store", str(path))
    assert ended.status == 0
    assert ended.out.splitlines() == [
        "removed the robots.txt of http://a.example:8080",
        "removed the pace of a.example",
    ]
    assert "a crawler that uses this store" in ended.err
    for command in ("show", "forget"):
        assert cache(path, command, "a.example") == (1, "nothing is stored about a.example\n")
    assert cache(path, "show", "b.example")[0] == 0


@pytest.mark.parametrize("wait", ["next_allowed_at", "blocked_until_at"])
def test_forgetting_keeps_an_unserved_wait(path: Path, wait: str) -> None:
    """Forgetting a host must not let it be visited earlier, unless that is asked for."""
    later = time.time() + 1000
    state = HostState(
        last_visit_at=1.0,
        next_allowed_at=later if wait == "next_allowed_at" else 2.0,
        blocked_until_at=later if wait == "blocked_until_at" else 0.0,
    )
    keep(path, [record("https://a.example")], a_example=state)

    status, out = cache(path, "forget", "a.example")

    assert status == 0
    assert "removed the robots.txt of https://a.example" in out
    assert "kept the pace of a.example: it may not be visited before" in out
    assert "--pace" in out
    assert "pace of a.example" in cache(path, "show", "a.example")[1]

    assert "removed the pace of a.example" in cache(path, "forget", "a.example", "--pace")[1]
    assert cache(path, "show", "a.example")[0] == 1


def test_pruning_says_what_went(path: Path) -> None:
    """What is older than the bound, 90 days unless told otherwise; no host whose wait is not over."""
    keep(
        path,
        [record("https://a.example")],
        a_example=HostState(last_visit_at=1.0),
        b_example=HostState(next_allowed_at=time.time() + 1000),
    )

    assert "(90 days)" in " ".join(run("cache", "prune", "--help").out.split())
    assert cache(path, "prune") == (0, "removed 0 robots.txt and the pace of 0 hosts\n")
    assert cache(path, "prune", "--max-age", "0") == (0, "removed 1 robots.txt and the pace of 1 host\n")
    assert "b.example" in cache(path, "ls")[1]
    status, out = cache(path, "prune", "--max-age", "-1")
    assert (status, "--max-age -1.0: " in out) == (2, True)


REFRESH: Final = ("--contact", CONTACT, "--allow-private-addresses")


def test_refreshing_fetches_now_and_keeps_the_pace(site: LocalSite, path: Path) -> None:
    """Though the copy is fresh, but in the host's turn; and it says whether the file has changed."""
    host = site.base.removeprefix("http://")
    first = cache(path, "refresh", site.base, *REFRESH)
    again = cache(path, "refresh", "127.0.0.1", *REFRESH)
    site.robots = "User-agent: *\nAllow: /\n"
    changed = cache(path, "refresh", host, *REFRESH)

    assert first == (0, f"{site.base}  read, status 200\n")
    assert again == (0, f"{site.base}  unchanged, status 200\n")
    assert changed == (0, f"{site.base}  changed, status 200\n")
    assert run("check", *REFRESH, "--store", str(path), f"{site.base}/private/1").status == 0
    assert site.asked == {"/robots.txt": 3}
    one, two, three = site.asked_at
    assert min(two - one, three - two) >= 1.0


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("nobody.invalid", "https://nobody.invalid"),
        ("nobody.invalid:80", "http://nobody.invalid"),
        ("nobody.invalid:8080", "https://nobody.invalid:8080"),
    ],
)
def test_a_host_that_is_not_known_is_asked_by_https(path: Path, text: str, origin: str) -> None:
    """Unless something says otherwise."""
    assert cache(path, "refresh", text, "--contact", CONTACT)[1].startswith(f"{origin}  failed: ")


def test_refreshing_makes_a_good_copy_no_worse(site: LocalSite, path: Path) -> None:
    """If the server fails just then, that is told; the copy is as fresh as it was, and its rules still hold."""
    kept = record(site.base)
    keep(path, [kept])
    site.robots_status = 500

    assert cache(path, "refresh", site.base, *REFRESH) == (
        1,
        f"{site.base}  failed: HTTP status 500; the stored copy stays valid\n",
    )

    row = json.loads(cache(path, "ls", "--json")[1])
    assert (row["outcome"], row["fresh_until_at"]) == ("success", kept.fresh_until_at)
    checked = run("check", *REFRESH, "--store", str(path), f"{site.base}/private/1")
    assert (checked.status, "stale" in checked.out) == (1, False)
    assert site.asked == {"/robots.txt": 1}


def test_a_refresh_that_is_not_permitted_changes_nothing(path: Path) -> None:
    """Here, because the address is private: the copy is as fresh as before. What fails is told, and stored."""
    kept = record("http://127.0.0.1:1")
    keep(path, [kept])

    status, out = cache(path, "refresh", "127.0.0.1:1", "--contact", CONTACT)

    assert status == 1
    assert "--allow-private-addresses permits it" in out
    assert json.loads(cache(path, "ls", "--json")[1])["fresh_until_at"] == kept.fresh_until_at
    status, out = cache(path, "refresh", "http://127.0.0.1:2", *REFRESH)
    assert (status, out.startswith("http://127.0.0.1:2  failed: ")) == (1, True)
    assert "http://127.0.0.1:2  unreachable" in cache(path, "show", "127.0.0.1:2")[1]
