"""What commands that visit sites have in common: proxies, policies, how much they print; and the way a URL comes in."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import CONTACT, run
from tests.terminal import shown_on_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite

POLITE: Final = ("--contact", CONTACT, "--no-store")
LOCAL: Final = (*POLITE, "--allow-private-addresses")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_everything_goes_through_the_proxy(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Pages and robots.txt alike, by --proxy or by the environment's; names are not looked up here."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if way == "environment":
        monkeypatch.setenv("http_proxy", site.base)
    option = (*POLITE, "--proxy", site.base) if way == "option" else POLITE

    fetched = run("fetch", *option, "--delay", "0", "http://a.invalid/x", "http://a.invalid/private/")
    checked = run("check", *option, "http://b.invalid/private/x")
    linted = run("lint", *option, "http://c.invalid/")

    assert {str(row["outcome"]) for row in fetched.rows} == {"fetched", "blocked"}
    assert (fetched.status, checked.status, linted.status) == (0, 1, 0)
    assert [url for url, _ in site.headers] == [
        "http://a.invalid/robots.txt",
        "http://a.invalid/x",
        "http://b.invalid/robots.txt",
        "http://c.invalid/robots.txt",
    ]


def test_a_policy_is_the_gates(site: LocalSite) -> None:
    """403 for robots.txt closes a site, unless the policy says otherwise; an unknown policy is wrong usage."""
    site.robots_status = 403

    assert run("check", *LOCAL, f"{site.base}/a").status == 1
    assert run("check", *LOCAL, "--policy", "rfc9309", f"{site.base}/a").status == 0
    assert run("check", *LOCAL, "--policy", "mine", f"{site.base}/a").status == 2


def test_a_rate_and_a_concurrency_are_the_gates(site: LocalSite) -> None:
    """A third page within the window would be too soon."""
    fetch = ("fetch", *LOCAL, "--delay", "0", "--concurrency-per-host", "2", "--max-wait", "0.5")

    ended = run(*fetch, "--rate", "3/3600", *(f"{site.base}/{number}" for number in range(4)))

    outcomes = sorted(str(row["outcome"]) for row in ended.rows)
    assert outcomes == ["fetched", "fetched", "too_soon", "too_soon"]


def test_urls_to_check_come_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    """As those of fetch: blank lines and comments are skipped, and the worst answer is the exit status."""
    robots, urls = tmp_path / "robots.txt", tmp_path / "urls.txt"
    robots.write_text("User-agent: *\nDisallow: /private/\n")
    urls.write_text("# pages\n\n/a\r\n/private/b\n")

    ended = run("check", "--robots", str(robots), "--json", "-i", str(urls), "/c")

    assert ended.status == 1
    assert [(row["url"], row["answer"], row["line"]) for row in ended.rows] == [
        ("/c", "allowed", None),
        ("/a", "allowed", None),
        ("/private/b", "disallowed", 2),
    ]
    assert run("check", "--robots", str(robots)).status == 2


def test_v_tells_what_happens(site: LocalSite) -> None:
    """Refusals with -v, turns with -vv, as lines on standard error; the rows stay the same."""
    urls = (f"{site.base}/a", f"{site.base}/private/x")
    quiet, told, all_told = (
        run("fetch", *LOCAL, "--delay", "0", *v, *urls) for v in (("-q",), ("-v",), ("-vv",))
    )

    assert quiet.err == ""
    assert "/private/x" in told.err
    assert f"{site.base}/a" not in told.err
    assert f"{site.base}/a" in all_told.err
    assert [row["url"] for row in quiet.rows] == [row["url"] for row in told.rows]


def test_lint_shows_information_only_when_it_is_asked_for(tmp_path: Path) -> None:
    """A file without errors and warnings prints little; what is hidden is counted."""
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: *\nDisallow: /private/\nCrawl-delay: 5\nDisallow x\n")

    plain, verbose = run("lint", str(path)), run("lint", "-v", str(path))
    without = run("lint", "--ignore", "missing-colon", "--ignore", "path-without-slash", str(path))

    assert "\ninfo  " not in plain.out
    assert "\ninfo  " in verbose.out
    assert " info (-v shows it)" in plain.out
    assert " (-v" not in verbose.out
    assert {row["severity"] for row in run("lint", "--json", str(path)).rows} >= {"info", "error"}
    assert (plain.status, without.status) == (1, 0)
    assert "missing-colon" not in without.out
    assert run("lint", "--ignore", "no-such-code", str(path)).status == 2


HASTY: Final = """
from robotgate.cli import main, progress
progress.PLAIN_PERIOD = 0.1
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("kind", ["xterm", "dumb"])
async def test_progress_names_the_hosts_that_hold_it_up(site: LocalSite, kind: str) -> None:
    """On a terminal of any kind: how many URLs wait for which host, and when it may be visited next."""
    import pty  # noqa: PLC0415 - not on Windows

    terminal, side = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HASTY, "fetch", *LOCAL, "--delay", "50"),
        *(f"{site.base}/{number}" for number in range(3)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=side,
        env=os.environ | {"TERM": kind},
    )
    shown = b""
    async with asyncio.timeout(30):
        while not re.search(rb"127.0.0.1 \(3 left, next in (50|49)s\)", shown):
            shown += await asyncio.to_thread(os.read, terminal, 65536)
    process.send_signal(signal.SIGINT)
    await process.wait()
    os.close(side)
    os.close(terminal)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.slow
async def test_progress_does_not_mix_with_what_is_printed(site: LocalSite) -> None:
    """Rows and lines of -v stand above it: each begins where the lines of progress have been erased."""
    urls = [f"{site.base}/{path}" for path in ("a", "private/x", "b")]
    shown = await shown_on_terminal("fetch", "-v", *LOCAL, "--delay", "1", *urls, columns=80, kind="xterm")

    for begin, count in (
        (b'{"url": ', 3),
        (b"robots.txt of ", 1),
        (site.base.encode() + b"/private/x is dis", 1),
    ):
        assert shown.count(begin) == count
        assert len(re.findall(rb"(?:\x1b\[2K|\n)" + re.escape(begin), shown)) == count, shown
