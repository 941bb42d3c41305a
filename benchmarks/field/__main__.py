"""Judge the field: ``python -m benchmarks.field [NAME]...`` runs crawlers under `robotgate judge`.

The card of each, with every request that the server saw, goes to ``benchmarks/results/field`` as JSON in gzip. The
table of all cards that lie there is printed as Markdown; docs/judge.md has it. Without names, only the table is
printed; ``all`` runs every crawler, in some half an hour, most of which is waiting.
"""

from __future__ import annotations

import gzip
import json
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
CURL: Final = "xargs -d '\\n' -n 1 curl -sL -m 10 --cacert {ca} -A ExampleBot/1.0 -o /dev/null < {urls}"


class Crawler(NamedTuple):
    """A crawler of the field, with its settings."""

    title: str
    command: Sequence[str]
    seconds: int = 300
    options: Sequence[str] = ()
    """Of `robotgate judge`."""


CRAWLERS: Final = {
    **{
        f"robotgate-{door}": Crawler(f"robotgate, {title}", (sys.executable, str(DOORS), door))
        for door, title in (
            ("fetch", "`gate.fetch`"),
            ("middleware", "aiohttp"),
            ("httpx", "httpx"),
            ("scrapy", "Scrapy"),
            ("crawlee", "Crawlee"),
        )
    },
    "scrapy": Crawler("Scrapy, defaults: robots.txt off", (sys.executable, str(PEERS), "scrapy")),
    "scrapy-polite": Crawler("Scrapy, template, AutoThrottle", (sys.executable, str(PEERS), "scrapy-polite")),
    "crawlee": Crawler(
        "Crawlee, defaults: robots.txt off", (sys.executable, str(PEERS), "crawlee"), options=("--direct",)
    ),
    "crawlee-polite": Crawler(
        "Crawlee, robots.txt on", (sys.executable, str(PEERS), "crawlee-polite"), options=("--direct",)
    ),
    "urllib": Crawler("urllib.robotparser, by hand", (sys.executable, str(PEERS), "urllib")),
    "wget": Crawler("wget -r", (*WGET, "{start}")),
    "wget-polite": Crawler(
        "wget -r -w 0.5 --random-wait", (*WGET, "-w", "0.5", "--random-wait", "{start}"), 600
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
            *crawler.options,
        )
        command = (sys.executable, "-m", "robotgate", "judge", *options, "--", *crawler.command)
        ended = subprocess.run(command, cwd=folder, check=False)  # noqa: S603 - one of ours
        if ended.returncode < 2:
            RESULTS.mkdir(parents=True, exist_ok=True)
            (RESULTS / f"{name}.json.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))


def table() -> Iterator[str]:
    """The lines of the table."""
    yield f"| crawler | {' | '.join(SEVERITIES)} | open pages missed | requests |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, crawler in CRAWLERS.items():
        file = RESULTS / f"{name}.json.gz"
        if file.exists():
            card = json.loads(gzip.decompress(file.read_bytes()))
            scores = [card["score"].get(severity, {"held": 0, "judged": 0}) for severity in SEVERITIES]
            held = " | ".join(f"{score['held']} of {score['judged']}" for score in scores)
            missed = sum(claim["missed"] for claim in card["claims"] if claim["sites"])
            yield f"| {crawler.title} | {held} | {missed} | {len(card['visits'])} |"


if __name__ == "__main__":
    for each in CRAWLERS if sys.argv[1:] == ["all"] else sys.argv[1:]:
        run(each)
    print("\n".join(table()))
