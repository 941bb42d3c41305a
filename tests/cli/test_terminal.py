"""What comes from outside cannot control the terminal, and what cannot be written is told in one line."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.cli.conftest import CONTACT, run
from tests.cli.test_cache import keep, record

from robotgate.cli.app import robotgate
from robotgate.sites import Outcome
from robotgate.stores import HostState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

EVIL: Final = "\x1b]0;OWNED\a\x9b31m\x7f\u202e\u2066\u200f"
"""Sets the title of a terminal and a colour, and turns the direction of what follows."""
POLITE: Final = ("--contact", CONTACT, "--allow-private-addresses", "--no-store")


def _raw(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter)[0] == "C" and letter not in "\n\t"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", *POLITE, f"http://127.0.0.1/{EVIL}"),
        ("check", *POLITE, f"http://127.0.0.1:1/{EVIL}"),
        ("check", "--robots", EVIL, "/"),
        ("check", "--contact", CONTACT, "--agent", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--proxy", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--policy", EVIL, "http://127.0.0.1/"),
        ("fetch", *POLITE, EVIL, f"http://127.0.0.1:1/{EVIL}"),
        ("fetch", *POLITE, "-v", f"http://127.0.0.1:1/{EVIL}"),
        ("fetch", *POLITE, "-i", EVIL),
        ("fetch", *POLITE, "-o", f"/no/{EVIL}", "http://127.0.0.1/"),
        ("fetch", *POLITE, "--rate", EVIL, "http://127.0.0.1/"),
        ("fetch", *POLITE, "--save-dir", f"/dev/null/{EVIL}", "http://127.0.0.1/"),
        ("sitemap", *POLITE, "--since", EVIL, "http://127.0.0.1/"),
        ("sitemap", *POLITE, EVIL, f"http://127.0.0.1:1/{EVIL}"),
        ("lint", EVIL),
        ("lint", "--ignore", EVIL, "-"),
        ("lint", *POLITE, f"http://{EVIL}/"),
        *(("cache", name, "--store", f"/no/{EVIL}/x") for name in ("ls", "prune", "export", "import")),
        *(("cache", name, EVIL) for name in ("show", "forget", EVIL)),
        ("why", EVIL),
        ("why", f"http://a.example/{EVIL}", "--store", f"/no/{EVIL}/x"),
        ("cache", "refresh", "--contact", CONTACT, EVIL),
        ("cache", "import", EVIL),
        ("demo", "--json", f"/no/{EVIL}"),
        ("demo", "--pages", EVIL),
        ("judge", "--only", EVIL, "true"),
        ("judge", "--", EVIL),
        (EVIL,),
        (f"--{EVIL}",),
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode().replace("\x1b", "?"),
)
def test_what_is_typed_is_never_printed_raw(arguments: tuple[str, ...]) -> None:
    """URLs, file names, store paths and options may come from anywhere: a list, a script, a file name on a share."""
    ended = run(*arguments, stdin=b"")

    assert _raw(ended.out + ended.err) == set()
    assert ended.out + ended.err


def test_what_a_site_sends_is_never_printed_raw(site: LocalSite, tmp_path: Path) -> None:
    """Its rules, its group names, its sitemaps, its redirects and what was stored of it, in every command."""
    site.robots = (
        f"User-agent: *\nUser-agent: robotgate{EVIL}\nCrawl-delay {EVIL}\nDisallow: /private/{EVIL}\n"
        f"Disallow: /private/\nSitemap: {site.base}/{EVIL}\n"
    )
    store = ("--store", str(tmp_path / "cache.db"))
    polite = ("--contact", CONTACT, "--allow-private-addresses", *store)
    keep(
        tmp_path / "cache.db",
        [
            record("http://a.example", etag=EVIL, last_modified=EVIL, redirects=(EVIL,), robots_url=EVIL),
            record("http://b.example", outcome=Outcome.FAILURE, status=None, cause=EVIL, body=b""),
        ],
    )
    commands: list[tuple[str, ...]] = [
        ("check", *polite, f"{site.base}/private/{EVIL}"),
        ("check", *polite, "--json", f"{site.base}/private/x"),
        ("lint", *polite, "-v", f"{site.base}/"),
        ("lint", *polite, "--json", f"{site.base}/"),
        ("fetch", *polite, "-vv", "--headers", f"{site.base}/private/x", f"{site.base}/{EVIL}"),
        ("cache", "refresh", "127.0.0.1", *polite, "-vv"),
        *(("cache", "show", host, *store) for host in ("127.0.0.1", "a.example", "b.example")),
        *(("why", f"http://{host}/private/", *store) for host in ("127.0.0.1", "a.example", "b.example")),
        ("why", "--json", "http://a.example/", *store),
        ("cache", "ls", *store),
        ("cache", "ls", "--json", *store),
        ("cache", "export", *store),
        ("cache", "forget", "127.0.0.1", *store),
    ]

    for command in commands:
        ended = run(*command)
        assert _raw(ended.out + ended.err) == set(), command
        assert ended.out, command


PRINTING: Final = (
    ("lint", "/dev/null"),
    ("lint", "--json", __file__),
    ("check", "--robots", "/dev/null", "/"),
    ("check", "--robots", "/dev/null", "--json", "/"),
    ("cache", "ls"),
    ("cache", "ls", "--json"),
    ("cache", "show", "a.example"),
    ("cache", "export"),
    ("cache", "prune"),
    ("why", "--rows", "/dev/null", "http://a.example/"),
    ("fetch", "--contact", CONTACT, "--no-store", "-q", "nonsense"),
    ("demo", "--list"),
    ("demo", "--help"),
    ("--version",),
)


def full_disk() -> int:
    """A file that takes nothing."""
    return os.open("/dev/full", os.O_WRONLY)


def closed_pipe() -> int:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no device that is always full")
@pytest.mark.parametrize(
    ("output", "status", "told"),
    [
        (full_disk, 2, "Error: cannot write: No space left on device\n"),
        # `| head` wants no more: the status is that of SIGPIPE.
        (closed_pipe, 141, ""),
    ],
    ids=["full disk", "closed pipe"],
)
async def test_output_that_cannot_be_written_has_a_status(
    *,
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: Callable[[], int],
    status: int,
    told: str,
) -> None:
    """Of every command: a script that keeps the output must not take half of it for all."""
    path = tmp_path / "cache.db"
    await asyncio.to_thread(keep, path, [record("http://a.example")], a_example=HostState(visits=1))
    for arguments in PRINTING:
        store = (
            ("--store", str(path)) if arguments[0] in {"cache", "why"} and "--help" not in arguments else ()
        )
        with os.fdopen(output(), "w") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            with pytest.raises(SystemExit) as ended:
                await asyncio.to_thread(robotgate, [*arguments, *store], prog_name="robotgate")
        assert (arguments, ended.value.code, capsys.readouterr().err) == (arguments, status, told)

    descriptor = output()
    process = await program.start("lint", "-", stdout=descriptor)
    os.close(descriptor)
    _, err = await process.communicate(b"Disallow: /\n")
    assert (process.returncode, err.decode()) == (status, told)


def test_a_width_of_nothing_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some terminals and shells tell of no columns: lines are whole then, as in a file."""
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: *\nDisallow /\n")
    whole = run("lint", str(path))
    monkeypatch.setenv("COLUMNS", "0")
    assert run("lint", str(path)) == whole


async def test_what_the_encoding_lacks_is_printed_as_escapes(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where output goes into a file on Windows, or the locale is an old one."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: *\nDisallow /\u0142\n", encoding="utf-8")

    ended = await program("lint", str(path))

    assert (ended.status, ended.err) == (1, "")
    assert "Disallow /\\u0142\n" in ended.out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
async def test_a_closed_pipe_ends_a_server(program: Program) -> None:
    """``demo --serve | head`` ends with the next request that it would print, without a traceback."""
    reader, writer = os.pipe()
    process = await program.start("demo", "--serve", "--port", "0", stdout=writer)
    os.close(writer)
    greeting = await asyncio.to_thread(os.read, reader, 65536)
    os.close(reader)

    async with aiohttp.ClientSession(proxy=greeting.decode().split()[0]) as session:
        with suppress(aiohttp.ClientError):
            await session.get("http://example.org/")
    _, err = await process.communicate()

    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
@pytest.mark.parametrize(
    ("line", "printed"),
    [
        # What cannot be printed is not taken for done.
        ("{} --version >&-", ("2\n", "Error: cannot write: the stream is closed\n")),
        # Nor is another file read for the input.
        ("{} lint - <&-", ("-\nnot read  cannot be read: the stream is closed\n2\n", "")),
        ("{} check --robots - / <&-", ("2\n", "Error: cannot read -: the stream is closed\n")),
        ("{} check -i - <&-", ("2\n", "Error: cannot read -: the stream is closed\n")),
        # Nobody reads the notes; the work is done, and the status is its own.
        (f"{{}} fetch --no-store --contact {CONTACT} nonsense 2>&1 >/dev/null | true", ("1\n", "")),
        (f"{{}} fetch --no-store --contact {CONTACT} -i /dev/null 2>&-", ("0\n", "")),
        ("{} fetch 2>&-", ("2\n", "")),
        pytest.param(
            f"{{}} fetch --no-store --contact {CONTACT} -i /dev/null 2>/dev/full",
            ("0\n", ""),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no device that is always full"),
        ),
    ],
    ids=["output", "lint", "robots", "list", "unread", "errors", "usage", "full"],
)
async def test_a_stream_may_be_closed(line: str, printed: tuple[str, str]) -> None:
    """As shells do it: the status tells whether all that was asked for has been written."""
    command = line.format(shlex.join([sys.executable, "-W", "error", "-m", "robotgate"]))
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out.decode(), err.decode()) == printed
