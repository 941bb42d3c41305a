"""What comes from outside cannot control the terminal, and what cannot be written is told in one line."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.cli.conftest import CONTACT, run
from tests.cli.test_cache import keep, record

from robotgate.cli.output import in_plain_words
from robotgate.sites import Outcome
from robotgate.stores import HostState

if TYPE_CHECKING:
    from tests.cli.conftest import LocalSite, Program

EVIL: Final = "\x1b]0;OWNED\a\x9b31m\x7f\u202e\u2066\u200f"
"""Sets the title of a terminal and a colour, and turns the direction of what follows."""
POLITE: Final = ("--contact", CONTACT, "--allow-private-addresses", "--no-store")
FULL: Final = Path("/dev/full")


def _raw(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter)[0] == "C" and letter not in "\n\t"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", *POLITE, f"http://127.0.0.1/{EVIL}"),
        ("check", *POLITE, f"http://127.0.0.1:1/{EVIL}"),
        ("check", *POLITE, "--json", f"http://127.0.0.1:1/{EVIL}"),
        ("check", *POLITE, EVIL),
        ("check", "--robots", EVIL, "/"),
        ("check", "-i", EVIL),
        ("check", "--contact", CONTACT, "--store", f"/no/{EVIL}/x", "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--agent", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--token", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--proxy", EVIL, "http://127.0.0.1/"),
        ("check", "--contact", CONTACT, "--policy", EVIL, "http://127.0.0.1/"),
        ("fetch", *POLITE, EVIL, f"http://127.0.0.1:1/{EVIL}"),
        ("fetch", *POLITE, "-v", f"http://127.0.0.1:1/{EVIL}"),
        ("fetch", *POLITE, "-i", EVIL),
        ("fetch", *POLITE, "-o", f"/no/{EVIL}", "http://127.0.0.1/"),
        ("fetch", *POLITE, "--rate", EVIL, "http://127.0.0.1/"),
        ("fetch", *POLITE, "--warc", f"/no/{EVIL}", "http://127.0.0.1/"),
        ("fetch", *POLITE, "--save-dir", f"/dev/null/{EVIL}", "http://127.0.0.1/"),
        ("lint", EVIL),
        ("lint", "--json", EVIL),
        ("lint", "--ignore", EVIL, "-"),
        ("lint", *POLITE, f"http://{EVIL}/"),
        ("lint", *POLITE, f"http://127.0.0.1:1/{EVIL}"),
        *(("cache", name, "--store", f"/no/{EVIL}/x") for name in ("ls", "prune", "export", "import")),
        *(("cache", name, "a.example", "--store", f"/no/{EVIL}/x") for name in ("show", "forget")),
        *(("cache", name, EVIL) for name in ("show", "forget", EVIL)),
        ("why", EVIL),
        ("why", f"http://a.example/{EVIL}", "--store", f"/no/{EVIL}/x"),
        ("cache", "refresh", "--contact", CONTACT, EVIL),
        ("cache", "import", EVIL),
        ("demo", "--store", f"redis://{EVIL}"),
        ("demo", "--json", f"/no/{EVIL}"),
        ("demo", "--pages", EVIL),
        (EVIL,),
        (f"--{EVIL}",),
        ("cache", f"--{EVIL}"),
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


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("cache", "ls"),
        ("cache", "ls", "--json"),
        ("cache", "show", "a.example"),
        ("cache", "export"),
        ("cache", "forget", "a.example"),
        ("cache", "prune"),
        ("lint", "-"),
        ("lint", "--json", "/no/such/file"),
        ("check", "--robots", "-", "/"),
        ("check", "--robots", "-", "--json", "/"),
        ("fetch", "--contact", CONTACT, "-q", "nonsense"),
        ("--help",),
        ("demo", "--help"),
    ],
    ids=" ".join,
)
async def test_a_full_disk_is_one_line_and_a_status(
    program: Program, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """A script that keeps the output must not take half of it for all."""
    await asyncio.to_thread(
        keep, tmp_path / "cache.db", [record("http://a.example")], a_example=HostState(visits=1)
    )
    store = ("--store", str(tmp_path / "cache.db")) if arguments[0] == "cache" else ()
    full = os.open(FULL, os.O_WRONLY)
    process = await program.start(*arguments, *store, stdout=full)
    os.close(full)
    _, err = await process.communicate(b"Disallow: /\n")

    assert process.returncode == 2
    assert err == b"Error: cannot write: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "-"),
        ("lint", "--json", "-"),
        ("check", "--robots", "-", "/"),
        ("check", "--robots", "-", "--json", "/"),
        ("cache", "ls", "--json"),
        ("cache", "export"),
        ("why", "--rows", "/dev/null", "http://a.example/"),
        ("demo", "--list"),
        ("--help",),
        ("--version",),
        ("fetch", "--contact", CONTACT, "--no-store", "nonsense"),
    ],
    ids=" ".join,
)
async def test_a_closed_pipe_ends_it_as_other_tools(
    program: Program, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """``| head`` wants no more: nothing is printed, and the status is that of SIGPIPE."""
    await asyncio.to_thread(keep, tmp_path / "cache.db", [record("http://a.example")])
    store = ("--store", str(tmp_path / "cache.db")) if arguments[0] in {"cache", "why"} else ()
    reader, writer = os.pipe()
    os.close(reader)
    process = await program.start(*arguments, *store, stdout=writer)
    os.close(writer)

    _, err = await process.communicate(b"Disallow: /\n")

    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
async def test_a_closed_pipe_ends_a_server(program: Program) -> None:
    """``demo --serve | head`` ends with the next request that it would print, without a traceback."""
    reader, writer = os.pipe()
    process = await program.start("demo", "--serve", "--port", "0", stdout=writer)
    os.close(writer)
    greeting = await asyncio.to_thread(os.read, reader, 65536)
    os.close(reader)
    proxy = greeting.decode().split()[0]

    async with aiohttp.ClientSession(proxy=proxy) as session:
        with suppress(aiohttp.ClientError):
            await session.get("http://example.org/")
    _, err = await process.communicate()

    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
async def test_a_closed_standard_output_is_one_line() -> None:
    """What cannot be printed is not taken for done."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "robotgate", "lint", "-"),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate(b"Disallow: /\n")

    assert (process.returncode, err) == (2, b"Error: cannot write: not writable\n")


def test_an_error_is_folded_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal no word of it is cut, and no line is wider."""
    monkeypatch.setenv("COLUMNS", "60")

    ended = run("cache", "ls", "--store", str(tmp_path / "no.db"))

    first, *rest = ended.err.splitlines()
    assert first.startswith("Error: ")
    assert all(text.startswith("  ") and len(text) <= 60 for text in rest)
    assert "robotgate cache import when it reads a file" in " ".join(ended.err.split())


def test_what_a_proxy_answers_is_told_in_words() -> None:
    """As the library's errors are: without Python's names of things."""
    said = "502, message='Bad Gateway', url='http://127.0.0.1:3128'"

    assert in_plain_words(said) == "http://127.0.0.1:3128 answered 502 Bad Gateway"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
async def test_a_closed_standard_error_ends_nothing() -> None:
    """``2>&1 >rows | head`` wants no more notes; the work is done, and the status is its own."""
    program = shlex.join([sys.executable, "-W", "error", "-m", "robotgate"])
    command = f"{program} fetch --no-store --contact {CONTACT} nonsense 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert (out, err) == (b"1\n", b"")
