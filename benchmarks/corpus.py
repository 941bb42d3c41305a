"""Parses every robots.txt of a folder and asks twenty URLs of each: an answer and a reason each, or it fails.

It prints what each file says about the use of its pages, to our crawler at the root.

The URLs are drawn from the file's own rules where it has enough of them, and from a list of ordinary and awkward
ones; half of them are asked for a crawler that the file names, if it names one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._machine import describe
from robotgate import Reason, RobotsTxt

if TYPE_CHECKING:
    from robotgate.usage import Statement

OUR_AGENT: Final = "ExampleBot/1.0"
SITE: Final = "https://site.example"
QUESTIONS: Final = 20
OWN_PATHS: Final = 12
CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
PATHS: Final = (
    "/",
    "/index.html",
    "/robots.txt",
    "/private",
    "/search?q=robots&sort=price",
    "/a/b/c/d/e.json",
    "/%7Ejoe/",
    "/caf%C3%A9",
    "/café",
    "/100%",
    "/a//b",
    "/?",
    "/price$",
    "/a*b",
    "/" + 80 * "a",
    "/" + "ab/" * 600,
    "/x?y=https://site.example/&z=%2F",
    "/wp-admin/admin-ajax.php",
    "/en/node/add/",
    "/feed/",
)


def paths_for(robots: RobotsTxt, chance: random.Random) -> list[str]:
    """Twenty paths, those that the file speaks of first."""
    patterns = sorted({rule.path_pattern for group in robots.groups for rule in group.rules})
    own = [path_for(pattern) for pattern in chance.sample(patterns, min(OWN_PATHS, len(patterns)))]
    return own + chance.sample(PATHS, QUESTIONS - len(own))


def path_for(pattern: str) -> str:
    """A path that the pattern might be meant for."""
    path = pattern.removesuffix("$").replace("*", "x")
    path = CONTROL.sub(lambda control: f"%{ord(control[0]):02X}", path)
    return path if path.startswith("/") else f"/{path}"


def ask(path: Path, chance: random.Random) -> tuple[Counter[Reason], float]:
    """How often each reason was given for one file, and the seconds it took to parse."""
    body = path.read_bytes()
    start = time.perf_counter()
    robots = RobotsTxt.parse(body, f"{SITE}/robots.txt")
    elapsed = time.perf_counter() - start
    named = [name for group in robots.groups for name in group.agents if name != "*"]
    agents = (OUR_AGENT, named[0] if named else OUR_AGENT)
    reasons: Counter[Reason] = Counter()
    for index, asked in enumerate(paths_for(robots, chance)):
        verdict = robots.verdict(SITE + asked, agents[index % 2])
        reasons[verdict.reason] += 1
    return reasons, elapsed


def main() -> int:
    """Reads the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "corpus")
    parser.add_argument("--seed", type=int, default=9309)
    options = parser.parse_args()
    files = sorted(options.folder.glob("*.txt"))
    chance = random.Random(options.seed)
    reasons: Counter[Reason] = Counter()
    slowest = (0.0, "-")
    stated: dict[str, tuple[Statement, ...]] = {}
    for path in files:
        try:
            found, elapsed = ask(path, chance)
            usage = RobotsTxt.parse(path.read_bytes(), f"{SITE}/robots.txt").usage(SITE, OUR_AGENT)
        except Exception as error:
            error.add_note(f"while asking {path}")
            raise
        reasons += found
        if usage.statements:
            stated[path.name] = usage.statements
        slowest = max(slowest, (elapsed, path.name))
    print(describe("robotgate"))
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes, seed {options.seed}")
    for reason, count in reasons.most_common():
        print(f"{count:8,}  {reason.value}")
    print(f"{reasons.total():8,}  answers, each with a reason; {QUESTIONS * len(files):,} asked")
    print(f"{sum(map(len, stated.values())):8,}  statements about use, in {len(stated)} files")
    for name, statements in stated.items():
        for statement in statements:
            says = ", ".join(f"{purpose} {preference.value}" for purpose, preference in statement.says)
            print(f"          {name}: {statement} -> {says or statement.reference or 'nothing'}")
    print(f"slowest to parse: {slowest[1]}, {slowest[0] * 1000:.1f} ms")
    return 0 if reasons.total() == QUESTIONS * len(files) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
