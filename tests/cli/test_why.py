"""``robotgate why``: what an operator can tell a site owner of the crawler's visits."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run
from tests.cli.test_cache import keep, record

from robotgate import RobotGate, SQLiteStore
from robotgate.cli.output import moment
from robotgate.sites import Outcome
from robotgate.stores import HostState

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Result

URL: Final = "https://a.example/private/1"
GROUPS: Final = (
    b"User-agent: OtherBot\nCrawl-delay: 30\nDisallow: /\n\nUser-agent: *\nRequest-rate: 1/4\nDisallow:\n"
)
HOSTILE: Final = "\x1b[2J\u202e"


def why(path: Path, url: str, *arguments: str) -> Result:
    """Ask a store about a URL."""
    return run("why", url, "--store", str(path), *arguments)


def test_answer_has_the_rule_the_visits_and_the_delay(path: Path) -> None:
    """The line that decides, how often and when we came, our delay and the line that asks for it."""
    now = time.time()
    state = HostState(last_visit_at=now - 10, next_allowed_at=now - 5, visits=1234, bytes_read=56789)
    keep(path, [record("https://a.example"), record("https://b.example")], a_example=state)

    ended = why(path, URL)

    assert ended.status == 0
    for told in (
        f"disallowed  {URL}",
        "disallowed by a rule, line 2, in the group of *",
        "Disallow: /private",
        "5 s between visits, line 3 of robots.txt, Crawl-delay: 5",
        "  visits        1,234\n  read          56,789 bytes",
        moment(now - 10),
        "not its single requests",
    ):
        assert told in ended.out, told
    assert "b.example" not in ended.out


@pytest.mark.parametrize(
    ("body", "options", "told"),
    [
        (GROUPS, ["--delay", "9"], "9 s between visits, the crawler's own"),
        (GROUPS, ["--delay", "2"], "4 s between visits, line 6 of robots.txt, Request-rate: 1/4"),
        (GROUPS, ["--agent", "OtherBot/1"], "in the group of OtherBot"),
        (
            b"Crawl-delay: 0.2 min\n\n" + GROUPS,
            [],
            "12 s between visits, line 1 of robots.txt, Crawl-delay: 0.2 min",
        ),
        (b"User-agent: ExampleBot\nDisallow: /\n", [], "no group names us"),
        (None, [], "robots.txt could not be read: HTTP status 503"),
    ],
)
def test_answer_names_what_decides(path: Path, body: bytes | None, options: list[str], told: str) -> None:
    """The longest delay and who asks for it; the group; or, where there is no rule, why nothing may be fetched."""
    failed = {"outcome": Outcome.FAILURE, "status": 503, "cause": "HTTP status 503", "fetched_at": None}
    keep(path, [record("https://a.example", body=body or b"", **({} if body else failed))])

    ended = why(path, URL, *options)

    assert (ended.status, told in ended.out) == (0, True), ended.out


def test_rows_tell_of_single_requests(path: Path, tmp_path: Path) -> None:
    """Those to the host are counted, apart from what was refused, which was not requested, and has its time.

    Lines that are no rows are told of.
    """
    rows = tmp_path / "rows.jsonl"
    refused = {"outcome": "blocked", "ended_at": 100.0, "reason": "disallowed by a rule", "line": 2}
    lines = [
        {"url": URL, **refused, "final_url": URL, "rule": "Disallow: /private"},
        {"url": "https://a.example/1", "outcome": "fetched", "status": 200, "sent_at": 86_400.0},
        # Redirected to what is blocked.
        {
            "url": "http://A.example:80/",
            **refused,
            "ended_at": 200.0,
            "final_url": "http://a.example/private",
        },
        {"url": "https://b.example/", "outcome": "fetched", "sent_at": 1.0},
    ]
    rows.write_text("\n".join([*map(json.dumps, lines), "no row", "[1]", '{"url": 1}', "[" * 10_000, ""]))
    keep(path)

    ended = why(path, URL, "--rows", str(rows))

    assert ended.status == 0
    for told in (
        "its robots.txt is not stored",
        "  1 fetched, 1 blocked\n  not requested: 1 blocked\n",
        "from 1970-01-01 00:03:20 UTC to 1970-01-02 00:00:00 UTC",
        "4 lines could not be read",
        "0 requests for this URL",
        "1970-01-01 00:01:40 UTC  blocked: disallowed by a rule, line 2: Disallow: /private",
    ):
        assert told in ended.out, told


def test_rows_of_a_fetch_are_read(site: LocalSite, path: Path, tmp_path: Path) -> None:
    """As they are written: a page, and one that the rules refuse."""
    rows, urls = tmp_path / "rows.jsonl", (f"{site.base}/a", f"{site.base}/private/b")
    options = ("--contact", CONTACT, "--allow-private-addresses", "--store", str(path), "--delay", "0")
    assert run("fetch", "-o", str(rows), *options, *urls).status == 0

    one, other = (json.loads(why(path, url, "--rows", str(rows), "--json").out) for url in urls)

    assert one["requests"]["outcomes"] == other["requests"]["outcomes"] == {"fetched": 1, "blocked": 1}
    assert (one["answer"], other["answer"], other["line"]) == ("allowed", "disallowed", 2)
    assert [request["status"] for request in one["requests"]["of_url"]] == [200]
    assert "Disallow: /private/" in other["requests"]["of_url"][0]["reason"]
    assert one["hosts"]["127.0.0.1"]["visits"] == 2
    assert site.asked["/robots.txt"] == 1


def test_answer_as_json(path: Path) -> None:
    """One row; instants are numbers, and what is not known is told too."""
    kept = record("https://a.example")
    keep(path, [kept], a_example=HostState(last_visit_at=1.5, visits=3))

    (row,) = why(path, URL, "--json").rows

    assert (row["url"], row["answer"], row["line"]) == (URL, "disallowed", 2)
    assert (row["checked_at"], row["delay"], row["delay_line"]) == (kept.checked_at, 5.0, 3)
    assert row["requests"] is None
    assert row["not_known"]


def test_block_of_the_operator_is_told(path: Path) -> None:
    """What `gate.block` has said is in the store, and the answer has it; a block that is over or lifted is none."""

    async def block() -> None:
        async with (
            SQLiteStore(path) as store,
            RobotGate("ExampleBot/1.0", contact=CONTACT, store=store) as gate,
        ):
            gate.block("a.example", time.time() + 5000)
            gate.block("c.example")
            gate.unblock("c.example")

    asyncio.run(block())

    ended = why(path, URL)
    assert ended.status == 0
    assert "  blocked       by the crawler's operator, until 20" in ended.out
    (row,) = why(path, URL, "--json").rows
    assert isinstance(row["blocked_by_operator_until_at"], float)
    assert why(path, "https://c.example/").status == 1


def test_nothing_known_has_its_own_status(path: Path, tmp_path: Path) -> None:
    """1: a script can tell. A missing store or wrong URL is 2."""
    keep(path, [record("https://b.example")])

    assert (why(path, URL).status, why(path, URL).err) == (1, "nothing is stored about a.example\n")
    assert why(path, "a.example").status == 2
    assert why(tmp_path / "none.db", URL).status == 2
    assert why(path, URL, "--rows", str(tmp_path)).status == 2


def test_hostile_text_is_escaped(path: Path, tmp_path: Path) -> None:
    """Rules, rows and names come from sites."""
    body = f"User-agent: *\nDisallow: /{HOSTILE}{'x' * 200}\nCrawl-delay: 3 {HOSTILE}\n".encode()
    url, rows = f"https://a.example/{'x' * 300}", tmp_path / "rows.jsonl"
    row = {"url": url, "outcome": HOSTILE, "reason": HOSTILE * 50, "line": 1, "rule": HOSTILE}
    rows.write_text(json.dumps(row))
    state = HostState(visits=1)
    keep(path, [record("https://a.example", body=body)], **{"https://a_example": state, "a_example": state})

    ended = why(path, url, "--rows", str(rows))

    assert ended.status == 0
    assert all(letter.isprintable() or letter == "\n" for letter in ended.out)
    assert "\\u001b[2J" in ended.out
    assert "1 unknown" in ended.out
