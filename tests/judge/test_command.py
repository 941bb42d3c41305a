"""``robotgate judge``: crawlers that are no part of it, led to the sites and judged."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest
from tests.cli.conftest import Program

from robotgate.signing import SigningKey
from robotgate.signing.directory import directory_body

if TYPE_CHECKING:
    from pathlib import Path

JUDGE: Final = Program()
PYTHON: Final = (sys.executable, "-c")
GREEDY: Final = """
import os, urllib.error, urllib.request
for url in open(os.environ["ROBOTGATE_JUDGE_URLS"], encoding="utf-8").read().split():
    request = urllib.request.Request(url, headers={"User-Agent": "GreedyBot/1.0"})
    try:
        urllib.request.urlopen(request, timeout=5).read()
    except (OSError, ValueError):
        pass
"""
"""A crawler that reads no robots.txt, with the proxy and the certificates of its environment."""
DOORS: Final = os.path.join(os.path.dirname(__file__), "doors.py")  # noqa: PTH118, PTH120
LWP: Final = """
use LWP::RobotUA;
my $agent = LWP::RobotUA->new('LwpBot/1.0', 'bot@example.org');
$agent->delay(0); $agent->timeout(10); $agent->env_proxy;
open(my $urls, '<', $ENV{ROBOTGATE_JUDGE_URLS});
while (<$urls>) { chomp; $agent->get($_); }
"""


def _claims(file: Path) -> dict[str, dict[str, object]]:
    return {claim["name"]: claim for claim in json.loads(file.read_text(encoding="utf-8"))["claims"]}


async def test_a_greedy_crawler_is_found_out(tmp_path: Path) -> None:
    """With proofs, in each kind of report; the exit status is 1. What it may do is no fault, nor what it leaves out."""
    files = [tmp_path / name for name in ("card.json", "card.html", "card.xml")]
    options = [
        word
        for name, file in zip(("--json", "--html", "--junit"), files, strict=True)
        for word in (name, str(file))
    ]
    only = (
        "--only",
        "Disallow: /",
        "--only",
        "403",
        "--only",
        "404",
        "--only",
        "https",
        "--only",
        "certificate",
    )

    agent = ("--agent", "GreedyBot/2.0")
    ended = await JUDGE("judge", *agent, *only, *options, "--pages", "60", "--", *PYTHON, GREEDY)

    assert ended.status == 1, ended.out + ended.err
    assert max(map(len, ended.out.partition("BROKEN")[0].splitlines())) <= 80
    assert "BROKEN  Disallow: / (MUST, RFC 9309 §2.2.2)" in ended.out
    assert "is closed to the crawler" in ended.out
    assert "GreedyBot" in ended.out
    claims = _claims(files[0])
    results = {name: claim["result"] for name, claim in claims.items()}
    assert results["Disallow: /"] == results["robots.txt comes first"] == results["https"] == "broken"
    assert results["robots.txt: 403"] == results["robots.txt: 404"] == "counted"
    # It checks certificates.
    assert results["certificate: expired"] == results["certificate: other name"] == "held"
    page = files[1].read_text(encoding="utf-8")
    assert "<h1>GreedyBot</h1>" in page
    assert re.search(r"(?:src|href)=|@import|url\(", page) is None
    suite = ET.fromstring(files[2].read_bytes())
    assert (
        int(suite.get("failures", 0))
        == len(suite.findall("testcase/failure"))
        == sum(claim["result"] == "broken" and claim["severity"] != "CONVENTION" for claim in claims.values())
    )


async def test_nothing_outside_is_ever_asked() -> None:
    """The proxy answers 502 for all other names, and they are told."""
    visit = "import urllib.request as r\nr.urlopen(open(r.os.environ['ROBOTGATE_JUDGE_URLS']).readline().strip())\n"
    for url in ("http://elsewhere.example/", "https://elsewhere.example/"):
        program = f"{visit}try: r.urlopen('{url}')\nexcept OSError: pass"
        ended = await JUDGE(
            "judge",
            "--only",
            "robots.txt: 404",
            "--only",
            "Crawl-delay: 1",
            "--pages",
            "8",
            "--",
            *PYTHON,
            program,
        )

        name = url.removeprefix("http://").rstrip("/")
        assert f"outside     {name}\n" in ended.out, ended.out + ended.err


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("/no/such/crawler",), "cannot start /no/such/crawler"),
        (
            (sys.executable, "-c", "raise SystemExit(3)"),
            "made 0 requests, too few to judge it, and ended with exit status 3",
        ),
        (
            ("--only", "Disallow: /", *PYTHON, GREEDY.replace("GreedyBot", "Mozilla")),
            "its first User-Agent has no name of a crawler",
        ),
        (("--only", "no such kind", "true"), "no kind of site has no such kind in its name"),
        (("--public-key", os.devnull, "true"), "there is no JWK of Ed25519 in it"),
    ],
)
async def test_nothing_could_be_judged(command: tuple[str, ...], complaint: str) -> None:
    """In one line, with exit status 2."""
    ended = await JUDGE("judge", *command)

    assert (ended.status, ended.out) == (2, "")
    assert complaint in ended.err


async def test_signatures_are_judged_by_the_public_key(tmp_path: Path) -> None:
    """A JWK, or the directory with it; without one, no signature is asked for."""
    key, stranger = SigningKey.generate(), SigningKey.generate()
    key.write(tmp_path / "key.pem")
    files = {
        tmp_path / "key.json": (json.dumps(key.jwk).encode(), "held"),
        tmp_path / "directory.json": (directory_body([stranger, key]), "held"),
        tmp_path / "stranger.json": (directory_body([stranger]), "broken"),
    }
    signed = ("--sign", str(tmp_path / "key.pem"), "--agent-url", "https://bot.example")
    fetch = (
        "fetch",
        "--no-store",
        "-i",
        "{urls}",
        "--proxy",
        "{proxy}",
        "--contact",
        "bot@example.org",
        "--delay",
        "0.01",
    )
    for file, (body, result) in files.items():
        file.write_bytes(body)
        options = (
            "--pages",
            "4",
            "--only",
            "signatures",
            "--public-key",
            str(file),
            "--json",
            str(tmp_path / "card.json"),
        )

        ended = await JUDGE("judge", *options, "--", sys.executable, "-m", "robotgate", *fetch, *signed)

        assert ended.status == 0, ended.err
        assert _claims(tmp_path / "card.json")["asks for signatures"]["result"] == result


async def test_a_crawl_has_an_end() -> None:
    """After --time, with all that the command has started: its pipe ends with the last process that holds it.

    Browsers are processes of their own session.
    """
    child = [sys.executable, "-c", "import time; time.sleep(600)"]
    is_apart = sys.platform == "linux"
    program = f"import subprocess\nsubprocess.run({child!r}, start_new_session={is_apart})"

    async with asyncio.timeout(60):
        ended = await JUDGE("judge", "-v", "--time", "1", "--", *PYTHON, program)

    assert ended.status == 2
    assert "ended by --time" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to other processes")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
async def test_a_signal_ends_the_crawler(name: str) -> None:
    """And what that has started, with status 130; the pipe ends with the last process that holds it."""
    child = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
    # Under nohup, this process ignores one of them, and so would the judge.
    before = signal.signal(signal.Signals[name], signal.SIG_DFL)
    process = await JUDGE.start("judge", "-v", "--", *PYTHON, f"import subprocess\nsubprocess.run({child!r})")
    signal.signal(signal.Signals[name], before)
    assert process.stderr is not None
    while b"here" not in await process.stderr.readline():
        pass

    process.send_signal(signal.Signals[name])
    async with asyncio.timeout(60):
        await process.communicate()

    assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to other processes")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
async def test_a_crawler_that_does_not_listen_is_ended(name: str) -> None:
    """Even if the judge is told twice."""
    deaf = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True))\n"
        "print('here', flush=True)\n"
        "while True: time.sleep(1)"
    )
    process = await JUDGE.start("judge", "-v", "--", *PYTHON, deaf)
    assert process.stderr is not None
    for word in (b"here", b"told"):
        while word not in await process.stderr.readline():
            pass
        process.send_signal(signal.Signals[name])

    async with asyncio.timeout(30):
        await process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="only there all of 127.0.0.0/8 is this machine")
async def test_a_crawler_without_a_proxy_finds_sites_at_addresses(tmp_path: Path) -> None:
    """Those kinds that need no name and no https."""
    file = tmp_path / "card.json"

    ended = await JUDGE(
        "judge",
        "--direct",
        "--json",
        str(file),
        "--only",
        "ports",
        "--only",
        "Disallow: /",
        "--pages",
        "40",
        "--",
        *PYTHON,
        GREEDY,
    )

    assert ended.status == 1, ended.out + ended.err
    claims = _claims(file)
    assert claims["two ports"]["result"] == "broken"
    assert all(str(site).startswith("127.0.") for site in claims["two ports"]["sites"])  # type: ignore[attr-defined]


async def test_places_are_filled_in(tmp_path: Path) -> None:
    """In the arguments of the command, which may take its seeds as a list, a page or a sitemap."""
    seen = tmp_path / "seen"
    program = (
        "import sys, urllib.request as r\n"
        "urls, start, sitemap, proxy, ca = sys.argv[1:]\n"
        "first = open(urls, encoding='utf-8').readline().strip()\n"
        "pages = [r.urlopen(url).read().decode() for url in (start, sitemap)]\n"
        "assert all(first.replace('&', '&amp;') in page for page in pages)\n"
        "assert r.getproxies()['http'] == r.getproxies()['https'] == proxy\n"
        "assert 'CERTIFICATE' in open(ca).read()\n"
        f"open({str(seen)!r}, 'w').close()\n"
    )

    await JUDGE("judge", "--", *PYTHON, program, "{urls}", "{start}", "{sitemap}", "{proxy}", "{ca}")

    assert seen.exists()


@pytest.mark.parametrize(
    "door",
    [
        "fetch",
        *(
            pytest.param(door, marks=pytest.mark.slow)
            for door in ("middleware", "httpx", "scrapy", "crawlee")
        ),
    ],
)
async def test_every_door_keeps_every_claim(door: str, tmp_path: Path) -> None:
    """MUST, SHOULD and conventions, and no open page is missed."""
    file = tmp_path / "card.json"

    ended = await JUDGE(
        "judge",
        "--time",
        "120",
        "--pages",
        "400",
        "--json",
        str(file),
        "-v",
        "--",
        sys.executable,
        DOORS,
        door,
    )

    assert ended.status == 0, ended.out + ended.err
    claims = _claims(file)
    assert {claim["result"] for claim in claims.values()} == {"held", "counted"}, ended.out
    assert not [name for name, claim in claims.items() if claim["missed"]], ended.out
    assert sum(claim["severity"] in {"MUST", "SHOULD"} for claim in claims.values()) >= 60


@pytest.mark.slow
@pytest.mark.real("chromium")
async def test_a_browser_keeps_the_claims_of_what_it_does_by_itself() -> None:
    """It follows redirects and loads what pages embed."""
    pytest.importorskip("playwright", reason="no playwright: pip install playwright")
    options = ["--agent", "ExampleBot", "--time", "200", "--pages", "60"]
    for kind in ("redirects", "parts of a page", "Crawl-delay: 1", "expired"):
        options += ["--only", kind]

    ended = await JUDGE("judge", *options, "--", sys.executable, DOORS, "browser")

    assert ended.status == 0, ended.out + ended.err
    assert "BROKEN" not in ended.out
    assert " 0 open ones missed" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "held", "broken"),
    [
        pytest.param(
            (
                "wget",
                "-r",
                "-l1",
                "-H",
                "-q",
                "--tries=1",
                "--timeout=10",
                "--ca-certificate={ca}",
                "-P",
                "{folder}",
                "{start}",
            ),
            ("a group of its own", "five redirects"),
            ("robots.txt: 500", "* in a path"),
            marks=pytest.mark.real("wget"),
            id="wget",
        ),
        pytest.param(
            ("perl", "-e", LWP),
            ("five redirects", "redirects within"),
            ("robots.txt: 500", "$ at the end of a path"),
            marks=pytest.mark.real("lwp-request"),
            id="LWP::RobotUA",
        ),
    ],
)
async def test_crawlers_in_other_languages(
    command: tuple[str, ...], held: tuple[str, ...], broken: tuple[str, ...], tmp_path: Path
) -> None:
    """They are led by the proxy alone, and their documented gaps are found."""
    file = tmp_path / "card.json"
    command = tuple(word.replace("{folder}", str(tmp_path)) for word in command)

    ended = await JUDGE("judge", "--json", str(file), "-v", "--", *command)

    assert ended.status == 1, ended.out + ended.err
    results = {name: claim["result"] for name, claim in _claims(file).items()}
    assert {results[name] for name in held} == {"held"}
    assert {results[name] for name in broken} == {"broken"}
