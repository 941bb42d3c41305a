"""What ``robotgate fetch`` keeps: bodies in a folder, a WARC file, headers and times in rows; and how it resumes."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import FETCH, ROBOTS, run
from warcio.archiveiterator import ArchiveIterator

from robotgate.cli.files import file_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

NAME_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")
HOSTILE: Final = (
    "..", "../..", "%2e%2e/%2e%2e/etc/passwd", "a\\..\\b", "C:\\x", "con", "\x00", "é" * 300, "?q=/../",
)  # fmt: skip


def _warc(path: Path) -> list[tuple[str, str | None, str | None, bytes]]:
    """The type, the URL, the status or request line, and the content of each record; digests are checked."""
    with path.open("rb") as file:
        return [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                None if record.http_headers is None else record.http_headers.statusline,
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
        ]


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=200)), st.one_of(st.none(), st.text(max_size=60)))
def test_no_url_and_no_media_type_leads_out_of_the_folder(path: str, media_type: str | None) -> None:
    """A name is one short component of plain letters that is neither hidden nor a path."""
    name = file_name(f"http://a.example/{path}", media_type)

    assert set(name) <= NAME_LETTERS
    assert name[0] not in ".-"
    assert name.startswith("a.example")
    assert len(name) <= 160


def test_two_urls_have_two_files() -> None:
    """However alike their letters are."""
    urls = [f"http://a.example/{path}" for path in ("B", "b", "b?", "b?x", "b_")]
    assert len({file_name(url, "text/html").lower() for url in urls}) == len(urls)


def test_bodies_are_saved_beside_their_headers(site: LocalSite, tmp_path: Path) -> None:
    """One file a page, of the row's name; its URL, status, media type and headers in another; nothing half written."""
    folder = tmp_path / "pages" / "here"
    urls = [f"{site.base}/a", f"{site.base}/..%2f..%2fb", f"{site.base}/gone"]

    ended = run(*FETCH, "--save-dir", str(folder), *urls, f"{site.base}/private/x")

    assert ended.status == 0
    files = {str(row["url"]): row.get("file") for row in ended.rows}
    assert files[f"{site.base}/private/x"] is None
    for url in urls:
        name = files[url]
        assert isinstance(name, str)
        assert (folder / name).read_bytes() == (b"" if url.endswith("gone") else b"hello")
        meta = json.loads((folder / f"{name}.meta.json").read_text())
        assert (meta["url"], meta["file"]) == (url, name)
        assert meta["status"] == (410 if url.endswith("gone") else 200)
    meta = json.loads((folder / f"{files[urls[0]]}.meta.json").read_text())
    assert meta["media_type"] == "text/plain"
    assert ["Content-Type", "text/plain; charset=utf-8"] in meta["headers"]
    assert len(list(folder.iterdir())) == 2 * len(urls)
    assert {path.name for path in tmp_path.iterdir()} <= {"pages", "user-cache"}


def test_rows_have_times_and_headers(site: LocalSite) -> None:
    """When the request was sent and when its URL was done, by the epoch; headers if they are asked for."""
    before = time.time()
    ended = run(*FETCH, "--headers", f"{site.base}/a", f"{site.base}/private/x")

    rows = {str(row["url"]): row for row in ended.rows}
    page, blocked = rows[f"{site.base}/a"], rows[f"{site.base}/private/x"]
    assert isinstance(page["sent_at"], float)
    assert isinstance(page["ended_at"], float)
    assert before - 0.01 <= page["sent_at"] <= page["ended_at"] <= time.time() + 0.01
    assert (blocked["sent_at"], isinstance(blocked["ended_at"], float)) == (None, True)
    assert page["media_type"] == "text/plain"
    assert ["Content-Length", "5"] in page["headers"]  # type: ignore[operator]
    assert "headers" not in run(*FETCH, f"{site.base}/a").rows[0]


def test_a_warc_file_has_requests_and_responses(site: LocalSite, tmp_path: Path) -> None:
    """As another program reads it: those of robots.txt, and of each page that was answered. None is overwritten."""
    path = tmp_path / "pages.warc.gz"

    ended = run(*FETCH, "--warc", str(path), f"{site.base}/a", f"{site.base}/gone", f"{site.base}/private/x")

    assert ended.status == 0
    head, *records = _warc(path)
    assert head[0] == "warcinfo"
    assert sorted(records) == sorted(
        [
            ("response", f"{site.base}/robots.txt", "200 OK", site.robots.encode()),
            ("request", f"{site.base}/robots.txt", "/robots.txt HTTP/1.1", b""),
            ("response", f"{site.base}/a", "200 OK", b"hello"),
            # warcio takes the first word of a request line for its protocol.
            ("request", f"{site.base}/a", "/a HTTP/1.1", b""),
            ("response", f"{site.base}/gone", "410 Gone", b""),
            ("request", f"{site.base}/gone", "/gone HTTP/1.1", b""),
        ]
    )
    assert b"GET /a HTTP/1.1\r\n" in gzip.decompress(path.read_bytes())
    with path.open("rb") as file:
        requests = [each for each in ArchiveIterator(file) if each.rec_type == "request"]
        (sent,) = {each.http_headers.get_header("User-Agent") for each in requests}
    assert sent.startswith("robotgate/")
    before = path.read_bytes()
    rows = tmp_path / "rows.jsonl"
    rows.write_text("of an earlier run\n")
    again = run(*FETCH, "-o", str(rows), "--warc", str(path), f"{site.base}/a")
    assert (again.status, again.out, path.read_bytes()) == (2, "", before)
    assert again.err == f"Error: cannot write {path}: it exists already; name another file\n"
    assert rows.read_text() == "of an earlier run\n"
    assert site.asked["/a"] == 1


def test_robots_txt_is_in_a_warc_file_when_it_was_requested(site: LocalSite, tmp_path: Path) -> None:
    """As it was served, and marked if its end was not read; a run that has it from the store does not request it."""
    store = [option for option in FETCH if option != "--no-store"]
    site.robots = ROBOTS + "#" * 600_000
    first, second = tmp_path / "first.warc.gz", tmp_path / "second.warc.gz"

    for path in (first, second):
        assert run(*store, "--warc", str(path), f"{site.base}/a").status == 0

    with first.open("rb") as file:
        bodies = {
            record.rec_headers.get_header("WARC-Truncated"): record.content_stream().read()
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        }
    assert bodies[None] == b"hello"
    assert bodies["length"] == site.robots.encode()[: len(bodies["length"])]
    assert 500_000 < len(bodies["length"]) < 600_000
    assert [url for kind, url, *_ in _warc(second) if kind == "response"] == [f"{site.base}/a"]


def test_a_resumed_run_writes_another_warc_file(site: LocalSite, tmp_path: Path) -> None:
    """With a number in its name; those before it stay as they are, and the pages of all are those of the list."""
    for name, paths in {"pages": ["a"], "pages-2": ["a", "b"], "pages-3": ["a", "b", "c"]}.items():
        urls = [f"{site.base}/{path}" for path in paths]
        kept = ("-o", str(tmp_path / "rows"), "--resume", "--warc", str(tmp_path / "pages.warc.gz"))
        assert run(*FETCH, *kept, *urls).status == 0
        pages = [record for record in _warc(tmp_path / f"{name}.warc.gz") if record[0] == "response"]
        assert [url for _, url, *_ in pages] == [f"{site.base}/robots.txt", urls[-1]]
    assert len(list(tmp_path.glob("*.warc.gz"))) == 3


def test_statements_are_kept_with_the_page(site: LocalSite, tmp_path: Path) -> None:
    """With --preferences, row, saved file and WARC file say the same: AIPREF asks that preferences stay with the asset.

    A WARC metadata record (ISO 28500 §6.6) belongs to the page's response, and is written for no redirect.
    """
    site.robots = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nLicense: https://a.example/l.xml\n"
    path, folder = tmp_path / "pages.warc.gz", tmp_path / "pages"

    ended = run(*FETCH, "--preferences", "--warc", str(path), "--save-dir", str(folder), f"{site.base}/moved")

    (row,) = ended.rows
    assert (row["preference_ai_train"], row["licenses"]) == ("disallowed", "https://a.example/l.xml")
    statements = row["preference_statements"]
    assert isinstance(statements, list)
    assert statements[0] == {
        "source": "robots.txt",
        "line": 3,
        "field": "Content-Usage",
        "words": "train-ai=n",
        "standard": "AIPREF Content-Usage",
        "says": {"ai_train": "disallowed"},
    }
    assert statements[1]["reference"] == "https://a.example/l.xml"
    said = {
        name: value for name, value in row.items() if name.startswith("preference_") or name == "licenses"
    }
    meta = json.loads((folder / f"{row['file']}.meta.json").read_text())
    assert {name: meta[name] for name in said} == said
    with path.open("rb") as file:
        records = [
            (each.rec_type, each.rec_headers, each.content_stream().read())
            for each in ArchiveIterator(file, check_digests="raise")
        ]
    (about,) = [(headers, content) for kind, headers, content in records if kind == "metadata"]
    pages = {
        headers.get_header("WARC-Record-ID"): content
        for kind, headers, content in records
        if kind == "response"
    }
    assert about[0].get_header("WARC-Target-URI") == f"{site.base}/a"
    assert pages[about[0].get_header("WARC-Concurrent-To")] == b"hello"
    assert json.loads(about[1]) == said


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_ctrl_c_leaves_a_valid_warc_file_and_rows_to_resume(
    program: Program, site: LocalSite, tmp_path: Path
) -> None:
    """What was done is whole in both; the next run fetches the rest and nothing twice."""
    rows, warc, urls = tmp_path / "rows.jsonl", tmp_path / "a.warc.gz", tmp_path / "urls.txt"
    listed = [f"{site.base}{path}" for path in ("/1", "/2", "/hang", "/4")]
    urls.write_text("\n".join(listed))
    process = await program.start(*FETCH, "-i", "-", "-o", str(rows), "--warc", str(warc))
    assert process.stdin is not None
    process.stdin.write(urls.read_bytes() + b"\n")
    await site.hanging()
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate(b"")

    assert process.returncode == 130
    assert err.decode().endswith("; 2 URLs and what was left to read not done\n")
    assert [url for kind, url, *_ in _warc(warc) if kind == "response"] == [
        f"{site.base}/robots.txt",
        *listed[:2],
    ]

    # A killed run may have left half a row.
    with rows.open("a") as file:
        file.write('{"url": "http')
    site.answers_hang = True
    ended = await asyncio.to_thread(run, *FETCH, "-i", str(urls), "-o", str(rows), "--resume")

    assert ended.status == 0
    assert "2 fetched, 0 blocked, 0 failed, 2 done before in " in ended.err
    assert [json.loads(line)["url"] for line in rows.read_text().splitlines()] == listed
    assert (site.asked["/1"], site.asked["/2"], site.asked["/4"]) == (1, 1, 1)


def test_without_warcio_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line with the extra; nothing is created."""
    monkeypatch.setitem(sys.modules, "warcio.warcwriter", None)

    ended = run(*FETCH, "--warc", str(tmp_path / "x.warc.gz"), "http://a.example/")

    assert (ended.status, ended.err) == (2, 'Error: --warc needs warcio: pip install "robotgate[warc]"\n')
    assert not (tmp_path / "x.warc.gz").exists()
