"""``robotgate --config``: options from a file, and ``--show-config``."""

from __future__ import annotations

import codecs
import json
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run
from tests.test_readme import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite

PAGE: Final = ROOT / "docs" / "command-line.md"
LOCAL: Final = f'contact = "{CONTACT}"\nallow-private-addresses = true\nno-store = true\ndelay = 0\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What the page shows."""
    path = tmp_path / "crawl.toml"
    path.write_text(*blocks(PAGE.read_text(encoding="utf-8"), "toml"))
    return path


def shown(*arguments: str) -> dict[str, object]:
    """What ``--show-config`` prints of a command, read as a file."""
    ended = run(*arguments)
    assert (ended.status, ended.err) == (0, "")
    (table,) = tomllib.loads(ended.out).values()
    return dict(table.get("ls", table))


def test_the_file_of_the_page_is_used(
    site: LocalSite, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every command, as its options; what is at the top by all that have it."""
    monkeypatch.chdir(tmp_path)
    fetched = run("--config", str(file), "fetch", "-q", "--allow-private-addresses", f"{site.base}/a")
    listed = run("--config", str(file), "cache", "ls")

    assert (fetched.status, fetched.out) == (0, "")
    (row,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert "headers" in json.loads(row)
    assert {headers["User-Agent"] for _, headers in site.headers} == {"ExampleBot/1.0"}
    assert {headers["From"] for _, headers in site.headers} == {"bot@example.org"}
    first, second = site.asked_at
    assert second - first >= 2.0
    assert [stored["name"] for stored in listed.rows] == [site.base]


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table goes before the top; of a store and of none, what was typed."""
    file = tmp_path / "crawl.toml"
    file.write_text(
        f'contact = "file@a.example"\nstore = "{tmp_path}/file.db"\ndelay = 2\n[fetch]\ndelay = 3\n'
    )
    use = ("--config", str(file), "--show-config")
    # As some editors save it.
    file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())

    assert shown(*use, "fetch")["delay"] == 3.0
    assert shown(*use, "sitemap")["delay"] == 2.0
    assert shown(*use, "fetch", "--delay", "4")["delay"] == 4.0
    assert shown(*use, "fetch")["contact"] == "file@a.example"
    assert "contact" not in shown("--show-config", "fetch")
    assert "dashboard-token" not in shown(*use, "fetch")
    monkeypatch.setenv("ROBOTGATE_STATUS_TOKEN", "secret")
    assert shown(*use, "fetch")["dashboard-token"] == "***"
    monkeypatch.setenv("ROBOTGATE_CONFIG", str(file))
    assert run("check", "--no-store", "http://127.0.0.1:1/").status == 2
    assert not (tmp_path / "file.db").exists()


def test_what_is_shown_can_be_used(tmp_path: Path) -> None:
    """It is a file itself, without the passwords; each line says where it is from."""
    file = tmp_path / "crawl.toml"
    options = ("--rate", "600/3600", "--dashboard", "[::1]:8099", "--purpose", "search", "--policy", "google")
    hours = ("--open-hours", "Mo-Fr 22:00-06:00, Sa-Su Europe/Berlin")
    typed = (*options, *hours, "--proxy", "http://me:secret@127.0.0.1:8000", "-o", "\x1b[2J")

    printed = run(
        "--show-config", "fetch", "--max-pages-per-host", "1000/86400", "--max-delay", "inf", *typed
    )
    file.write_text(printed.out, encoding="utf-8")

    assert "secret" not in printed.out
    assert "\x1b" not in printed.out
    assert '\nrate = "600/3600"                       # command line\n' in printed.out
    assert '\nmax-pages-per-host = "1000/86400"' in printed.out
    assert shown("--config", str(file), "--show-config", "fetch") == tomllib.loads(printed.out)["fetch"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("dely = 1", "dely: there is no such option"),
        ("json = true", "json: there is no such option of fetch"),
        ("[fetch]\ndely = 1", "fetch.dely: there is no such option"),
        ("[cache.ls]\ndely = 1", "cache.ls.dely: there is no such option"),
        ("[fecth]\ndelay = 1", "fecth: there is no such command"),
        ("[cache.list]\njson = true", "cache.list: there is no such command"),
        ("[cache]\nls = true", "cache.ls: it is a command; its options stand in a table"),
        ('delay = "x"', "delay: 'x' is not a valid float"),
        ("delay = true", "delay: give one value"),
        ("contact = ['x']", "contact: give one value"),
        ("resume = 1", "resume: give true or false"),
        ('purpose = "search"', "purpose: give a list"),
        ('purpose = ["sleep"]', "purpose: 'sleep' is not one of"),
        ('policy = "mine"', "policy: 'mine' is not one of"),
        ("max-pages-per-host = 0", "max-pages-per-host: give pages or pages/seconds"),
        ("[overrides.host]\nmax-pages-per-host = '9/h'", "overrides.host.max-pages-per-host: give pages"),
        ("overrides = 1", "overrides: there is no such option"),
        ("open-hours = '25:00-06:00'", "open-hours: hours='25:00-06:00': give windows"),
        (
            "[overrides.host]\nopen-hours = 'Mo Mars/X'",
            "overrides.host.open-hours: zone='Mars/X': there is no",
        ),
        ("[overrides]\ndelay = 1", "overrides.delay: give a table"),
        ("[groups.host]\ndelay = 1", "groups.host: give a name"),
        ("[groups.host]\nname = 'a'\ndelay = -1", "groups.host.delay = -1.0: give a finite number"),
        ("[overrides.host]\ndely = 1", "overrides.host.dely: there is no such option"),
        ("[overrides.host]\ndelay = 'x'", "overrides.host.delay: 'x' is not a valid float"),
        ("[overrides.host]\ndelay = -1", "overrides.host.delay = -1.0: give a finite number"),
        ("delay", "Expected '=' after a key"),
        ("\udcff", "save it in UTF-8"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    """By the file, the table and the key, whichever command runs."""
    file = tmp_path / "crawl.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    ended = run("--config", str(file), "cache", "ls")
    assert (ended.status, ended.out) == (2, "")
    assert f"Error: {file}: " in ended.err
    assert complaint in ended.err


def test_a_host_has_options_of_its_own(site: LocalSite, tmp_path: Path) -> None:
    """Of every command that visits it; a pattern makes no difference to other hosts. They are shown, too."""
    file = tmp_path / "crawl.toml"
    own = '[overrides."127.0.0.1"]\nignore-robots = true\nrate = "600/3600"\npolicy = "google"\n'
    file.write_text(LOCAL + own)
    other = f"{site.base.replace('127.0.0.1', 'localhost')}/private/x"

    fetched = run("--config", str(file), "fetch", "-q", f"{site.base}/private/x", other)
    checked = run("--config", str(file), "check", "--json", f"{site.base}/private/x", other)
    printed = run("--config", str(file), "--show-config", "lint", "-")

    assert {str(row["url"]): row["outcome"] for row in fetched.rows} == {
        f"{site.base}/private/x": "fetched",
        other: "blocked",
    }
    assert [row["answer"] for row in checked.rows] == ["allowed", "disallowed"]
    assert tomllib.loads(printed.out)["overrides"] == tomllib.loads(own)["overrides"]


def test_hosts_of_a_group_share_a_pace(site: LocalSite, tmp_path: Path) -> None:
    """By pattern, and by any name of an option of the gate; they are shown, too."""
    file = tmp_path / "crawl.toml"
    own = '[groups."*"]\nname = "all"\nrate = "20/3600"\nmax-pages = "1/60"\nbytes-per-second = 50000.0\n'
    more = 'pace-key = "origin"\ndialect = "classic"\nrecheck = "600s"\naddress-delay = 0.1\n'
    more += 'address-exempt = ["10.0.0.0/8"]\n'
    file.write_text(LOCAL + more + own)
    other = f"{site.base.replace('127.0.0.1', 'localhost')}/a"

    fetched = run("--config", str(file), "fetch", "-q", f"{site.base}/a", other)
    printed = run("--config", str(file), "--show-config", "fetch", other)

    assert sorted(str(row["outcome"]) for row in fetched.rows) == ["fetched", "over_budget"]
    shown = tomllib.loads(printed.out)
    assert shown["groups"] == tomllib.loads(own)["groups"]
    assert {name: shown["fetch"][name] for name in tomllib.loads(more)} == tomllib.loads(more)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Before anything is done."""
    ended = run("--config", str(tmp_path / "none.toml"), "cache", "ls")
    assert (ended.status, "none.toml" in ended.err) == (2, True)
