"""Judge the field: ``python -m benchmarks.field [NAME]...`` runs crawlers under `robotgate judge`.

The card of each, with every request that the server saw and how the crawler was run, goes to
``benchmarks/results/field`` as JSON in gzip. The table of all cards that lie there is printed as Markdown;
docs/judge.md has it. Without names, only the table is printed; ``all`` runs every crawler, in some 45 minutes, most of
which is waiting.

The group ``test`` of pyproject.toml has the crawlers in Python, but for Crawl4AI and LinkChecker: ``FIELD_PYTHON`` is a
Python that has them. ``NODE_PATH`` is the folder node_modules where npm has installed ``@crawlee/http``. Of Debian come
the others and what leads them: chromium, curl, httrack, libwww-perl, proxychains4, wget, and for Crawl4AI
chromium-headless-shell and libnss3-tools.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results" / "field"
DOORS: Final = ROOT / "tests" / "judge" / "doors.py"
PEERS: Final = Path(__file__).with_name("peers.py")
NODE_PEER: Final = PEERS.with_name("crawlee.cjs")
NODE_VERSION: Final = (
    "`@crawlee/http ${require('@crawlee/http/package.json').version}, Node.js ${process.version}`"
)
OTHER_PYTHON: Final = os.environ.get("FIELD_PYTHON", sys.executable)
SEVERITIES: Final = ("MUST", "SHOULD", "CONVENTION")
LWP: Final = """
use LWP::RobotUA;
my $agent = LWP::RobotUA->new('ExampleBot/1.0', 'bot@example.org');
$agent->delay($ENV{DELAY}) if defined $ENV{DELAY};
$agent->timeout(10); $agent->env_proxy;
open(my $urls, '<', $ENV{ROBOTGATE_JUDGE_URLS});
while (<$urls>) { chomp; $agent->get($_); }
"""
WGET: Final = (
    *(
        "wget",
        "-r",
        "-l1",
        "-H",
        "-q",
        "--tries=1",
        "--timeout=10",
        "--ca-certificate={ca}",
        "--delete-after",
    ),
    *("-U", "ExampleBot/1.0"),
)
TUNNEL: Final = """
set -- $(echo "$ROBOTGATE_JUDGE_PROXY" | tr -s :/ ' ') "$@"
printf 'strict_chain\nproxy_dns\nremote_dns_subnet 224\n[ProxyList]\n%s\n' "$1 $2 $3" > proxychains.conf
shift 3
exec proxychains4 -q -f proxychains.conf "$@"
"""
"""Sends each connection of a command through the proxy, for crawlers that ask for robots.txt without their proxies."""
HTTRACK: Final = (
    *("httrack", "{start}", "-r2", "-e", "-P", "{proxy}"),
    *("-F", "ExampleBot/1.0", "-O", "mirror", "-q"),
)
LINKCHECKER: Final = """
chmod go+x "$(dirname "$ROBOTGATE_JUDGE_CA")"
printf '[checking]\nmaxrequestspersecond=%s\n' "$1" > settings
shift
exec "$@" -f settings --no-status -r1 --check-extern --user-agent ExampleBot/1.0 "${ROBOTGATE_JUDGE_START}"
"""
"""Started by root, it goes on as nobody, who has to find the certificate."""
CURL: Final = "xargs -d '\\n' -n 1 curl -sL -m 10 --cacert {ca} -A ExampleBot/1.0 -o /dev/null < {urls}"


class Crawler(NamedTuple):
    """A crawler of the field, with its settings."""

    title: str
    command: Sequence[str]
    seconds: int = 300
    version: Sequence[str] = ()
    """The command that prints it on its first line."""


def at_most(rate: int) -> tuple[str, ...]:
    """LinkChecker with at most so many requests a second to each host."""
    return ("sh", "-c", LINKCHECKER, "sh", str(rate), OTHER_PYTHON, "-m", "linkcheck")


def tunnelled(*command: str) -> tuple[str, ...]:
    """A command whose connections all go through the proxy."""
    return ("sh", "-c", TUNNEL, "sh", *command)


def version_of(package: str, python: str = sys.executable) -> tuple[str, ...]:
    """What prints the version of a package of Python."""
    return (python, "-c", f"import importlib.metadata as m; print('{package}', m.version('{package}'))")


CRAWLERS: Final = {
    **{
        f"robotgate-{door}": Crawler(f"robotgate, {title}", (sys.executable, str(DOORS), door))
        for door, title in (
            ("fetch", "`gate.fetch`"),
            ("middleware", "aiohttp"),
            ("httpx", "httpx"),
            ("scrapy", "Scrapy"),
            ("crawlee", "Crawlee"),
            ("browser", "Playwright"),
        )
    },
    "scrapy": Crawler("Scrapy, defaults: robots.txt off", (sys.executable, str(PEERS), "scrapy")),
    "scrapy-polite": Crawler("Scrapy, template, AutoThrottle", (sys.executable, str(PEERS), "scrapy-polite")),
    "crawlee": Crawler(
        "Crawlee, defaults: robots.txt off",
        tunnelled(sys.executable, str(PEERS), "crawlee"),
        version=version_of("crawlee"),
    ),
    "crawlee-polite": Crawler(
        "Crawlee, robots.txt on",
        tunnelled(sys.executable, str(PEERS), "crawlee-polite"),
        version=version_of("crawlee"),
    ),
    "node-crawlee": Crawler(
        "Crawlee for Node.js, defaults: robots.txt off",
        tunnelled("node", str(NODE_PEER)),
        version=("node", "-p", NODE_VERSION),
    ),
    "node-crawlee-polite": Crawler(
        "Crawlee for Node.js, robots.txt on, 1 s",
        tunnelled("node", str(NODE_PEER), "polite"),
        version=("node", "-p", NODE_VERSION),
    ),
    "crawl4ai": Crawler(
        "Crawl4AI, defaults: robots.txt off",
        (OTHER_PYTHON, str(PEERS), "crawl4ai"),
        version=version_of("crawl4ai", OTHER_PYTHON),
    ),
    "crawl4ai-polite": Crawler(
        "Crawl4AI, robots.txt on, 1 s",
        (OTHER_PYTHON, str(PEERS), "crawl4ai-polite"),
        version=version_of("crawl4ai", OTHER_PYTHON),
    ),
    "linkchecker": Crawler("LinkChecker", at_most(10), version=version_of("linkchecker", OTHER_PYTHON)),
    "linkchecker-polite": Crawler(
        "LinkChecker, 1 a second", at_most(1), version=version_of("linkchecker", OTHER_PYTHON)
    ),
    "urllib": Crawler("urllib.robotparser, by hand", (sys.executable, str(PEERS), "urllib")),
    "wget": Crawler("wget -r", (*WGET, "{start}")),
    "wget-polite": Crawler(
        "wget -r -w 0.5 --random-wait", (*WGET, "-w", "0.5", "--random-wait", "{start}"), 600
    ),
    "httrack": Crawler("httrack -r2 -e", HTTRACK, 290, ("httrack", "--version")),
    "httrack-polite": Crawler(
        "httrack -r2 -e -s3 -c1 -%c1 -A25000",
        (*HTTRACK, "-s3", "-c1", "-%c1", "-A25000"),
        290,
        ("httrack", "--version"),
    ),
    "curl": Crawler("curl -L: knows no robots.txt", ("sh", "-c", CURL)),
    "lwp": Crawler("LWP::RobotUA, defaults", ("perl", "-e", LWP), 900),
    "lwp-1s": Crawler("LWP::RobotUA, 1 s", ("env", f"DELAY={1 / 60}", "perl", "-e", LWP)),
}


def run(name: str) -> None:
    """Judge a crawler, and keep its card."""
    crawler = CRAWLERS[name]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "card.json"
        options = (
            "--agent",
            "ExampleBot",
            "--time",
            str(crawler.seconds),
            "--json",
            str(file),
        )
        command = (sys.executable, "-m", "robotgate", "judge", *options, "--", *crawler.command)
        ended = subprocess.run(command, cwd=folder, check=False)  # noqa: S603 - one of ours
        if ended.returncode < 2:
            RESULTS.mkdir(parents=True, exist_ok=True)
            card = json.loads(file.read_bytes()) | {"run": how(crawler)}
            content = f"{json.dumps(card, indent=1)}\n".encode()
            (RESULTS / f"{name}.json.gz").write_bytes(gzip.compress(content, mtime=0))


def how(crawler: Crawler) -> dict[str, object]:
    """A note of how a crawler was run, without the paths of this machine."""
    words = "\0".join(crawler.command).replace(f"{ROOT}/", "")
    for python in (sys.executable, OTHER_PYTHON):
        words = words.replace(python, "python")
    note: dict[str, object] = {"command": words.split("\0"), "seconds": crawler.seconds}
    if crawler.version:
        told = subprocess.run(crawler.version, check=True, capture_output=True, text=True)  # noqa: S603 - as above
        note["version"] = told.stdout.splitlines()[0]
    return note


def table() -> Iterator[str]:
    """The lines of the table."""
    yield f"| crawler | {' | '.join(SEVERITIES)} | open pages missed | requests |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, crawler in CRAWLERS.items():
        file = RESULTS / f"{name}.json.gz"
        if file.exists():
            card = json.loads(gzip.decompress(file.read_bytes()))
            scores = [card["score"].get(severity, {"held": 0, "judged": 0}) for severity in SEVERITIES]
            held = " | ".join(f"{score['held']}/{score['judged']}" for score in scores)
            missed = sum(claim["missed"] for claim in card["claims"] if claim["sites"])
            yield f"| {crawler.title} | {held} | {missed} | {len(card['visits'])} |"


if __name__ == "__main__":
    for each in CRAWLERS if sys.argv[1:] == ["all"] else sys.argv[1:]:
        run(each)
    print("\n".join(table()))
