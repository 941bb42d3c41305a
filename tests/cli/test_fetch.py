"""``robotgate fetch``."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, FETCH, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

COLUMNS: Final = ("url", "outcome", "status", "final_url", "bytes", "waited", "elapsed")


def test_each_url_gets_one_row(site: LocalSite) -> None:
    """Fetched with a status, blocked with the line that says so, and what cannot be fetched with a reason."""
    paths = ("/a", "/gone", "/private/b", "/trap")
    ended = run(*FETCH, *(site.base + path for path in paths), "nonsense", "http://127.0.0.1:1/")

    rows = {str(row["url"]).removeprefix(site.base): row for row in ended.rows}
    assert {url: row["outcome"] for url, row in rows.items()} == {
        "/a": "fetched",
        "/gone": "fetched",
        "/private/b": "blocked",
        "/trap": "blocked",
        "nonsense": "invalid",
        "http://127.0.0.1:1/": "unavailable",
    }
    assert all(tuple(row)[: len(COLUMNS)] == COLUMNS for row in rows.values())
    assert (rows["/a"]["status"], rows["/a"]["bytes"], rows["/gone"]["status"]) == (200, 5, 410)
    assert rows["/trap"]["final_url"] == f"{site.base}/private/trap"
    assert (rows["/private/b"]["rule"], rows["/private/b"]["line"]) == ("Disallow: /private/", 2)
    assert rows["/private/b"]["robots_url"] == f"{site.base}/robots.txt"
    assert (rows["nonsense"]["error"], rows["nonsense"]["message"] != "") == ("InvalidURLError", True)
    unavailable = rows["http://127.0.0.1:1/"]
    assert unavailable["reason"] == "robots.txt could not be read"
    assert isinstance(unavailable["retry_after"], float)
    assert ended.status == 1
    assert site.asked == {"/robots.txt": 1, "/a": 1, "/gone": 1, "/trap": 1}


def test_failures_are_told_in_plain_words(site: LocalSite) -> None:
    """Not in those of the library that sends."""
    told = {
        "/endless": "more than 10 redirects",
        "/elsewhere": "redirected to ftp://a.example/, which is no http or https URL",
        "/garbled": "Can not decode content-encoding: gzip",
        "/cut": "Not enough data to satisfy content length header (received 5 of 9 bytes).",
    }
    ended = run(*FETCH, "--delay", "0", *(site.base + path for path in told))

    assert {str(row["url"]).removeprefix(site.base): row["message"] for row in ended.rows} == told


def test_rows_tell_preferences_on_demand(site: LocalSite) -> None:
    """A column for each purpose; a page that is not for the declared purpose is blocked."""
    site.robots = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n, search=y\n"
    (row,) = run(*FETCH, "--preferences", "--tdmrep", f"{site.base}/a").rows
    assert (row["preference_ai_train"], row["preference_search"], row["preference_tdm"]) == (
        "disallowed",
        "allowed",
        None,
    )
    assert row["licenses"] is None
    assert site.asked["/.well-known/tdmrep.json"] == 1

    ended = run(*FETCH, "--purpose", "ai_train", "--purpose", "tdm", f"{site.base}/a")
    (row,) = ended.rows
    assert (row["outcome"], row["rule"], row["line"]) == ("blocked", "Content-Usage: train-ai=n, search=y", 3)
    assert ended.status == 0


def test_a_request_is_repeated_on_demand(site: LocalSite) -> None:
    """So often at most, in the same row; without the option it is not."""
    site.statuses = {"/a": [502], "/b": [502, 502], "/c": [502]}

    ended = run(*FETCH, "--retries", "1", f"{site.base}/a", f"{site.base}/b")
    once = run(*FETCH, f"{site.base}/c")

    assert [(row["status"], row["attempt"]) for row in ended.rows] == [(200, 1), (502, 1)]
    assert [row["status"] for row in once.rows] == [502]
    assert site.asked == {"/robots.txt": 2, "/a": 2, "/b": 2, "/c": 1}


def test_headers_are_sent_with_pages(site: LocalSite, tmp_path: Path) -> None:
    """With each page, and not with robots.txt; but for those by which the crawler is known, and of the message."""
    given = ("--header", "Accept-Language: de", "--header", "X-One:1", "--header", "X-One: 2")
    coded = ("--header", "Accept-Encoding: gzip", "--warc", str(tmp_path / "pages.warc.gz"))
    assert run(*FETCH, *given, *coded, f"{site.base}/moved").status == 0

    (_, robots), (_, first), (_, second) = site.headers
    assert robots.keys() & {"Accept-Language", "X-One"} == set()
    for page in (first, second):
        assert (page["Accept-Language"], page.getall("X-One")) == ("de", ["1", "2"])
        assert (page.getall("Accept-Encoding"), page["From"]) == (["identity"], CONTACT)


@pytest.mark.parametrize(
    "header",
    [
        *("User-Agent: x", "from: a@a.example", "HOST: a.example", "Signature: x", "signature-input: x"),
        *("Signature-Agent: x", "Content-Length: 5", "Accept", "Accept-Language :de", "A: b\r\nC: d", ": x"),
    ],
)
def test_a_header_that_is_not_yours_is_refused(site: LocalSite, header: str) -> None:
    """By its name, and nothing is requested; so is what is no header."""
    ended = run(*FETCH, "--header", header, f"{site.base}/a")
    assert (ended.status, site.asked) == (2, {})
    assert "--header" in ended.err
    name = header.partition(":")[0]
    assert f"{name}: " in ended.err or "give a name and a value" in ended.err


def test_rows_tell_prices(site: LocalSite) -> None:
    """What a page costs; null for one that costs nothing. Nothing is paid, and the command has done what it could."""
    ended = run(*FETCH, f"{site.base}/paid", f"{site.base}/a")
    prices = {row["status"]: row["price"] for row in ended.rows}
    assert prices == {402: {"scheme": "crawler-price", "amount": "0.01", "currency": "USD"}, 200: None}
    assert (ended.status, site.asked["/paid"]) == (0, 1)


def test_a_list_comes_from_a_file(site: LocalSite, tmp_path: Path) -> None:
    """Blank lines and comments are skipped; rows go to a file, never that of the list; blocked pages do not fail it."""
    urls, rows = tmp_path / "urls.txt", tmp_path / "rows.jsonl"
    text = f"# pages\n\n{site.base}/1\r\n  {site.base}/2\n{site.base}/private/3"
    urls.write_text(text, encoding="utf-8", newline="")

    wrong = run(*FETCH, "-i", str(urls), "-o", str(urls))
    ended = run(*FETCH, "-i", str(urls), "-o", str(rows))

    assert (wrong.status, "overwrite" in wrong.err) == (2, True)
    done = sorted(json.loads(line)["url"] for line in rows.read_text(encoding="utf-8").splitlines())
    assert done == [f"{site.base}/1", f"{site.base}/2", f"{site.base}/private/3"]
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.startswith("2 fetched, 1 blocked, 0 failed in ")


def test_a_wrong_option_empties_no_file(tmp_path: Path) -> None:
    """Neither one of the command, nor one that the gate refuses."""
    rows, warc = tmp_path / "rows.jsonl", tmp_path / "pages.warc.gz"
    rows.write_text("kept\n", encoding="utf-8")

    for wrong in (("--delay", "-1"), ("--agent", "???")):
        ended = run(*FETCH, *wrong, "-o", str(rows), "--warc", str(warc), "https://a.example/")
        assert ended.status == 2
    assert rows.read_text(encoding="utf-8") == "kept\n"
    assert not warc.exists()


@pytest.mark.parametrize(
    ("option", "paths", "host"),
    [
        # The URLs of a host that does not answer come first.
        ((), ("hang", *map(str, range(300))), "localhost"),
        (("--concurrency-per-host", "2"), ("hang",), "127.0.0.1"),
    ],
    ids=["another host", "another request"],
)
async def test_a_page_that_hangs_holds_up_no_other(
    program: Program, site: LocalSite, option: tuple[str, ...], paths: tuple[str, ...], host: str
) -> None:
    """Of another host, or of the same one as far as ``--concurrency-per-host`` says; a row comes when it is done."""
    last = f"{site.base.replace('127.0.0.1', host)}/x"
    process = await program.start(*FETCH, *option, *(f"{site.base}/{path}" for path in paths), last)
    assert process.stdout is not None

    async with asyncio.timeout(60):
        row = json.loads(await process.stdout.readline())

    assert (row["url"], row["outcome"]) == (last, "fetched")
    process.kill()
    await process.communicate()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-be"])
def test_a_list_with_a_byte_order_mark_is_read(site: LocalSite, tmp_path: Path, encoding: str) -> None:
    """As some editors and spreadsheets save it."""
    urls = tmp_path / "urls.txt"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    urls.write_bytes(f"{mark}{site.base}/1\r\n{site.base}/é\r\n".encode(encoding))

    ended = run(*FETCH, "-q", "-i", str(urls))

    assert sorted(str(row["url"]) for row in ended.rows) == [f"{site.base}/1", f"{site.base}/é"]
    assert [path for path, _ in site.headers][1:] == ["/1", "/%C3%A9"]


@pytest.mark.parametrize(
    "line", [b"/caf\xe9", b"/caf\xc3", "/café".encode("utf-16-le"), "/caf\ufffd".encode(), b"/\xed\xa0\x80"]
)
def test_a_line_in_another_encoding_is_invalid(site: LocalSite, tmp_path: Path, line: bytes) -> None:
    """No other URL is requested in its place; the row has a hint, and the next line is read."""
    urls = tmp_path / "urls.txt"
    urls.write_bytes(site.base.encode() + line + f"\n{site.base}/2\n".encode() + b"# caf\xe9\n")

    for command in (FETCH, ("check", *FETCH[1:-2], "--json")):
        ended = run(*command, "-i", str(urls))
        wrong, right = ended.rows
        assert str(wrong["url"]).startswith(f"{site.base}/")
        assert str(wrong["url"]).isprintable() or b"\0" in line
        assert "UTF-8" in str(wrong.get("message") or wrong["cause"])
        assert right["url"] == f"{site.base}/2"
        assert ended.status == (1 if command is FETCH else 2)
    assert site.asked == {"/robots.txt": 2, "/2": 1}


def test_a_url_that_comes_twice_is_visited_once(site: LocalSite, tmp_path: Path) -> None:
    """Its fragment and its spelling aside; unless the user wants it."""
    urls = tmp_path / "urls.txt"
    urls.write_text("\n".join(f"{site.base}{path}" for path in ("/a#1", "/b", "/a#2", "/c/../a")))
    lines = (*FETCH, f"{site.base}/a", "nonsense", "nonsense", "-i", str(urls))

    once, twice = run(*lines), run(*lines, "--repeat")

    assert {str(row["url"]) for row in once.rows} == {"nonsense", f"{site.base}/a", f"{site.base}/b"}
    assert once.err.startswith("2 fetched, 0 blocked, 0 failed, 1 invalid, 4 repeated in ")
    assert twice.err.startswith("5 fetched, 0 blocked, 0 failed, 2 invalid in ")
    assert (once.status, twice.status) == (1, 1)


def _rows(path: Path) -> list[tuple[str, str, int]]:
    """The path, the outcome and the attempt of each row of a file."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(row["url"].rpartition("/")[2], row["outcome"], row["attempt"]) for row in rows]


def test_resume_asks_again_for_what_was_unavailable(site: LocalSite, tmp_path: Path) -> None:
    """Its attempts are counted, and it is left alone once it was fetched."""
    lines = (*FETCH, "-o", str(tmp_path / "rows"), f"{site.base}/a", f"{site.base}/b#c")
    site.robots_status = 500
    statuses = [run(*lines).status, run(*lines, "--resume").status]
    site.robots_status = 200

    ended = run(*lines, "--resume")

    assert (*statuses, ended.status) == (1, 1, 0)
    assert sorted(_rows(tmp_path / "rows")) == sorted(
        (name, outcome, attempt)
        for name in ("a", "b#c")
        for attempt, outcome in enumerate(("unavailable", "unavailable", "fetched"), 1)
    )
    assert run(*lines, "--resume").err.startswith("0 fetched, 0 blocked, 0 failed, 2 done before in ")
    assert site.asked["/a"] == site.asked["/b"] == 1


def test_pages_of_a_host_are_bounded(site: LocalSite, path: Path, tmp_path: Path) -> None:
    """By all runs with a store. Each URL beyond has a row, other hosts go on, and --resume goes on with more."""
    other = site.base.replace("127.0.0.1", "localhost")
    urls = (*(f"{site.base}/{number}" for number in range(5)), f"{other}/a")
    options = (each for each in FETCH if each != "--no-store")
    lines = (*options, "--store", str(path), "-o", str(tmp_path / "rows"), *urls)

    first = run(*lines, "--max-pages-per-host", "2")
    again = run(*lines, "--max-pages-per-host", "2", "--resume")

    rows = [json.loads(line) for line in (tmp_path / "rows").read_text(encoding="utf-8").splitlines()]
    beyond = [row for row in rows if row["outcome"] == "over_budget"]
    assert {(row["message"], row["retry_after"]) for row in beyond} == {
        ("the budget of 127.0.0.1 is used up: 2 pages", None)
    }
    assert (first.status, again.status, len(beyond), site.asked["/a"]) == (1, 1, 6, 1)
    assert sum(site.asked[f"/{number}"] for number in range(5)) == 2
    known = run("why", urls[0], "--store", str(path)).out
    assert re.search(r"budget +2 pages and [0-9]+ bytes used since .*; it is there once\n", known)
    assert run("cache", "forget", "127.0.0.1", "--store", str(path)).status == 0
    assert run(*lines, "--max-pages-per-host", "3", "--resume").status == 0
    assert sum(site.asked[f"/{number}"] for number in range(5)) == 5


def test_resume_leaves_what_would_fail_again(site: LocalSite, tmp_path: Path) -> None:
    """A time-out and a wait that was too long may pass; a page that is too long and a wrong URL stay, and count."""
    rows = tmp_path / "rows"
    lines = (*FETCH, "--timeout", "0.5", "-o", str(rows))
    big = run(*lines, "--max-bytes", "3", f"{site.base}/big", "nonsense", f"{site.base}/private/x")
    late = run(*lines, "--resume", f"{site.base}/hang")
    impatient = (*FETCH[:-1], "30", "--max-wait", "0", "-o", str(rows), "--resume")
    too_soon = run(*impatient, f"{site.base}/a", f"{site.base}/b")
    assert (big.status, late.status, too_soon.status) == (1, 1, 1)
    assert f"the body of {site.base}/big is over --max-bytes 3" in {
        row["message"] for row in map(json.loads, rows.read_text().splitlines()) if "message" in row
    }
    site.answers_hang = True
    urls = (*(f"{site.base}/{path}" for path in ("big", "private/x", "hang", "a", "b")), "nonsense")

    ended = run(*lines, "--resume", *urls)

    assert (ended.status, site.asked["/big"], site.asked["/private/x"]) == (1, 1, 0)
    assert "done before (2 of them neither fetched nor blocked) in " in ended.err
    assert ("hang", "fetched", 2) in _rows(rows)
    assert {name for name, outcome, _ in _rows(rows) if outcome == "fetched"} == {"hang", "a", "b"}
    assert run(*lines, "--resume", *urls[1:-1]).status == 0


def test_resume_asks_again_for_a_status_that_may_pass(site: LocalSite, tmp_path: Path) -> None:
    """429 and those of servers that are busy; the exit status tells that something is left to do. Another one stays."""
    site.statuses = {"/a": [502], "/b": [504, 504]}
    lines = (*FETCH, "-o", str(tmp_path / "rows"), *(f"{site.base}/{path}" for path in ("a", "b", "gone")))

    first, second, third = (run(*lines, "--resume") for _ in range(3))

    assert first.err.startswith("3 fetched, 0 blocked, 0 failed (2 with status 429, 502, 503 or 504) in ")
    assert second.err.startswith(
        "2 fetched, 0 blocked, 0 failed (1 with status 429, 502, 503 or 504), 1 done before"
    )
    assert [ended.status for ended in (first, second, third)] == [1, 1, 0]
    assert site.asked == {"/robots.txt": 3, "/a": 2, "/b": 3, "/gone": 1}
    assert ("b", "fetched", 3) in _rows(tmp_path / "rows")


def test_what_failed_for_good_is_asked_for_again_by_choice(site: LocalSite, tmp_path: Path) -> None:
    """An error's status, a refusal and a body that was too long; not what was fetched. Then the new rows count."""
    rows = ("-o", str(tmp_path / "rows"))
    names = ("a", "big", "gone", "private/x")
    site.pages["/big"] = "x" * 1000
    urls = [f"{site.base}/{name}" for name in names]
    assert run(*FETCH, *rows, "--max-bytes", "100", *urls).status == 1
    assert run(*FETCH, *rows, "--resume", *urls).status == 1
    assert site.asked == {"/robots.txt": 1, "/a": 1, "/big": 1, "/gone": 1}
    site.robots = ""

    again = run(*FETCH, *rows, "--resume", "--retry-failed", *urls)

    assert again.err.startswith("3 fetched, 0 blocked, 0 failed, 1 done before in ")
    assert {row for row in _rows(tmp_path / "rows") if row[2] == 2} == {
        (name, "fetched", 2) for name in ("big", "gone", "x")
    }
    assert run(*FETCH, *rows, "--resume", *urls).status == 0
    assert run(*FETCH, *rows, "--retry-failed", *urls).status == 2
    assert [run(*FETCH, *rows, "--resume", "--retry-failed", "nonsense").status for _ in range(2)] == [1, 1]
    assert _rows(tmp_path / "rows")[-1] == ("nonsense", "invalid", 2)


@pytest.mark.parametrize("asks", [True, False], ids=["407", "down"])
def test_a_proxy_that_fails_is_no_answer(site: LocalSite, tmp_path: Path, *, asks: bool) -> None:
    """Status 1 and a row that says `failed`; nothing is stored of the site, and the next run fetches it."""
    site.robots_status = 407
    store = tmp_path / "cache.db"
    proxy = site.base if asks else "http://127.0.0.1:1"
    polite = [option for option in FETCH if option != "--no-store"]
    ended = run(*polite, "-q", "--store", str(store), "--proxy", proxy, "http://site.example/a")

    (row,) = ended.rows
    assert (ended.status, row["outcome"], row["error"]) == (1, "failed", "ProxyUnavailableError")
    assert proxy in str(row["message"])
    listed = run("cache", "ls", "--json", "--store", str(store))
    assert all(each["access"] is None for each in listed.rows)
