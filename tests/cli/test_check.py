"""``robotgate check``."""

from __future__ import annotations

import gzip
import json
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import LocalSite

ROBOTS: Final = b"""\
# rules of a.example
User-agent: *
Disallow: /tmp/

User-agent: OtherBot
User-agent: ExampleBot
Allow: /private/open
Allow: /a
Allow: /b
Disallow: /private/
Disallow: /x
"""


@pytest.fixture
def robots(tmp_path: Path) -> Path:
    """A robots.txt on disk."""
    path = tmp_path / "robots.txt"
    path.write_bytes(ROBOTS)
    return path


def _check(robots: Path, *arguments: str) -> tuple[int, list[str]]:
    ended = run("check", "--robots", str(robots), *arguments)
    return ended.status, ended.out.splitlines()


@pytest.mark.parametrize(
    ("agent", "url", "status", "deciding"),
    [
        ("ExampleBot/1.0", "http://a.example/private/x", 1, ">    10  Disallow: /private/"),
        ("ExampleBot/1.0", "/private/open/1", 0, ">     7  Allow: /private/open"),
        ("ThirdBot/1.0", "http://a.example/tmp/", 1, ">     3  Disallow: /tmp/"),
        ("ExampleBot/1.0", "http://a.example/tmp/", 0, None),
        ("ExampleBot/1.0", "ftp://a.example/", 2, None),
    ],
)
def test_a_file_decides_offline(
    robots: Path, agent: str, url: str, status: int, deciding: str | None
) -> None:
    """The answer, and the line that gives it, without a contact or a network; of several, the worst counts."""
    exit_code, lines = _check(robots, "--agent", agent, "/", url)

    marked = [line.strip() for line in lines if line.startswith("  >")]
    assert exit_code == status
    assert marked == ([] if deciding is None else [deciding])


def test_an_endless_file_is_not_read_to_its_end() -> None:
    """No more of it than could count."""
    assert run("check", "--robots", "/dev/zero", "/").status == (2 if sys.platform == "win32" else 0)


@pytest.mark.parametrize(
    "encode", [gzip.compress, lambda text: text.decode().encode("utf-16")], ids=["gzip", "UTF-16"]
)
def test_a_file_in_another_form_is_read_and_shown(tmp_path: Path, encode: Callable[[bytes], bytes]) -> None:
    """As the gate reads it, with the text of the deciding line."""
    path = tmp_path / "robots.txt"
    path.write_bytes(encode(ROBOTS))
    exit_code, lines = _check(path, "--agent", "ExampleBot/1.0", "/private/x")
    assert exit_code == 1
    assert "  >    10  Disallow: /private/" in lines


ONLINE: Final = ("check", "--contact", CONTACT, "--allow-private-addresses")


def test_a_site_is_asked_for_its_rules(site: LocalSite) -> None:
    """Online, the rules come from the site, once, and the file is shown; what else it asks, and warnings, are told."""
    site.robots = "User-agent: *\nCrawl-delay: 5\nDisallow: /private/\nAllow: /private/open\n"

    ended = run(*ONLINE, f"{site.base}/private/1", f"{site.base}/private/open")

    lines = ended.out.splitlines()
    assert ended.status == 1
    assert "  >     3  Disallow: /private/" in lines
    assert "  Crawl-delay: 5 s" in lines
    assert "  against line 3: Disallow: /private/" in lines
    assert site.asked == {"/robots.txt": 1}


def test_what_slows_a_host_down_is_told(site: LocalSite, tmp_path: Path) -> None:
    """A 429 for robots.txt teaches a delay; `check` shows it, and afterwards `why` and `cache show` from the store.

    Which header asked for a pause, and until when, `check` tells.
    """
    site.robots_status, site.robots_headers = 429, {"Retry-After": "60"}
    stored = ("--store", str(tmp_path / "store.db"))

    checked = run(*ONLINE, *stored, f"{site.base}/a")
    known = run("why", *stored, f"{site.base}/a"), run("cache", "show", *stored, "127.0.0.1")

    assert "  learned delay 2 s" in checked.out.splitlines()
    assert any(line.startswith("  asked by Retry-After until ") for line in checked.out.splitlines())
    assert all("  learned delay 2 s between visits" in ended.out.splitlines() for ended in known)


def test_an_unreachable_robots_txt_is_no_answer() -> None:
    """Nothing listens at port 1: status 2, the cause, and when it is tried again."""
    ended = run(*ONLINE, "http://127.0.0.1:1/")

    assert ended.status == 2
    assert ended.out.startswith("no answer  http://127.0.0.1:1/\n  robots.txt could not be read: ")
    assert "  next attempt in " in ended.out


def test_preferences_are_shown_on_demand(tmp_path: Path) -> None:
    """With the line that says so; what a site writes cannot control the terminal."""
    path = tmp_path / "robots.txt"
    path.write_bytes(
        b"User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nLicense: https://lic.example/l.xml\n"
        b"Content-Signal: search=yes, x\x1b[2J=no\n"
    )
    status, lines = _check(path, "--preferences", "/page")

    assert status == 0
    assert "  ai_train: disallowed by robots.txt line 3: Content-Usage: train-ai=n" in lines
    assert "  unknown: ai_input, tdm, index, follow, archive, snippet" in lines
    assert "  licence: https://lic.example/l.xml (RSL: it may ask for a payment)" in lines
    assert any(line.startswith("  cannot be read: robots.txt line 5: ") for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert not any("ai_train" in line for line in _check(path, "/page")[1])
    rows = [
        json.loads(_check(path, "--json", *options, "/page")[1][0]) for options in (["--preferences"], [])
    ]
    assert (rows[0]["preference_ai_train"], rows[0]["licenses"]) == (
        "disallowed",
        "https://lic.example/l.xml",
    )
    assert rows[0]["preference_statements"][0]["line"] == 3
    assert "preference_ai_train" not in rows[1]


@pytest.mark.parametrize("where", ["file", "site"])
def test_what_is_reserved_for_a_purpose_is_disallowed(site: LocalSite, tmp_path: Path, where: str) -> None:
    """With the line that says so, of a file as of a site; a purpose that nothing disallows changes no answer."""
    lines = (
        "Content-Signal: ai-input=no",
        "User-agent: *",
        "Allow: /",
        "Content-Usage: train-ai=n, search=y",
    )
    path = tmp_path / "robots.txt"
    site.robots = "\n".join(lines)
    path.write_text(site.robots)
    check = ("check", "--robots", str(path), "/a") if where == "file" else (*ONLINE, f"{site.base}/a")

    ended = run(*check, "--purpose", "ai_train", "--purpose", "search", "--purpose", "ai_input")
    (row,) = run(*check, "--json", "--purpose", "ai_train", "--purpose", "search").rows
    others = run(*check, "--purpose", "search", "--purpose", "tdm")

    assert (ended.status, others.status, run(*check).status) == (1, 0, 0)
    shown = ended.out.splitlines()
    assert f"  >     4  {lines[3]}" in shown or f"  >     1  {lines[0]}" in shown
    assert f"  ai_train: disallowed by robots.txt line 4: {lines[3]}" in shown
    assert f"  search: allowed by robots.txt line 4: {lines[3]}" in shown
    assert any(line.startswith(f"  ai_input: disallowed by robots.txt line 1: {lines[0]}") for line in shown)
    assert (row["answer"], row["line"], row["rule"]) == ("disallowed", 4, lines[3])
    assert (row["reason"], row["reserved"]) == (
        "robots.txt disallows a purpose that we declare",
        ["ai_train"],
    )
