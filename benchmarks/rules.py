"""Parsing and matching beside Protego and urllib.robotparser: times, memory, and what hostile files cost.

All libraries take turns in every round, so that what else the machine does meets them alike; figures are medians of
rounds. Each is asked through its public door with whole URLs; `target only` leaves reading the URL to the caller, as
the gate does. "first" is the first question after parsing: it pays for whatever was put off until then.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.robotparser import RobotFileParser

from protego import Protego

from benchmarks._machine import describe
from benchmarks.corpus import path_for
from robotgate import RobotsTxt
from robotgate._compile import compile_rules
from robotgate._lines import canonical

SITE: Final = "https://site.example"
AGENT: Final = "examplebot"
WORDS: Final = (
    "about", "article", "author", "blog", "brand", "cart", "catalog", "category", "contact", "date", "docs", "en",
    "event", "file", "forum", "gallery", "help", "home", "id", "image", "index", "item", "lang", "list", "login",
    "map", "news", "offer", "page", "photo", "post", "press", "price", "print", "product", "profile", "q", "query",
    "report", "review", "search", "section", "shop", "sid", "sort", "source", "staff", "story", "tag", "team",
    "terms", "topic", "track", "user", "utm_source", "video", "view",
)  # fmt: skip
ROUNDS: Final = 5
MEBIBYTE: Final = 1024 * 1024

Ask = Callable[[str], object]


@dataclass(frozen=True)
class Library:
    """One way to use one library."""

    name: str
    parse: Callable[[bytes], Callable[[], Ask]]
    """Of a file, what makes the question: a URL or, for `target only`, a path."""
    takes_path: bool = False


def _ours(body: bytes) -> Callable[[], Ask]:
    robots = RobotsTxt.parse(body, f"{SITE}/robots.txt")
    robots.rules(AGENT)
    return lambda: lambda url: robots.allowed(url, AGENT)


def _ours_target(body: bytes) -> Callable[[], Ask]:
    rules = compile_rules(canonical(body), AGENT)
    return lambda: rules.allows


def _protego(body: bytes) -> Callable[[], Ask]:
    robots = Protego.parse(body.decode("utf-8", "replace"))
    return lambda: lambda url: robots.can_fetch(url, AGENT)


def _urllib(body: bytes) -> Callable[[], Ask]:
    robots = RobotFileParser()
    robots.parse(body.decode("utf-8", "replace").splitlines())
    return lambda: lambda url: robots.can_fetch(AGENT, url)


OURS: Final = Library("robotgate", _ours)
TARGET: Final = Library("robotgate, target only", _ours_target, takes_path=True)
PROTEGO: Final = Library("protego", _protego)
URLLIB: Final = Library("urllib", _urllib)
LIBRARIES: Final = (OURS, TARGET, PROTEGO, URLLIB)


def questions(body: bytes, chance: random.Random) -> list[str]:
    """Twenty paths: six that the file's own rules speak of, or fewer, and others as sites have them."""
    patterns = sorted({rule.path_pattern for group in RobotsTxt.parse(body).groups for rule in group.rules})
    own = [path_for(pattern) for pattern in chance.sample(patterns, min(6, len(patterns)))]
    return [path.replace("#", "") for path in own] + [_page(chance) for _ in range(20 - len(own))]


def _page(chance: random.Random) -> str:
    path = "/" + "/".join(
        "-".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 5))
    )
    path += chance.choice(("", "", "/", ".html", ".php", ".pdf", "/%E2%82%AC"))
    if chance.random() < 0.3:
        path += "?" + "&".join(
            f"{chance.choice(WORDS)}={chance.randrange(10_000)}" for _ in range(chance.randint(1, 3))
        )
    return path


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@dataclass
class Pass:
    """What one library took for all files: seconds."""

    parsing: list[float]
    first: list[float]
    asking: float
    questions: list[float]


def over_files(bodies: list[bytes], seed: int) -> dict[str, dict[str, float]]:
    """Parsing, the first question and further ones, over all files."""
    chance = random.Random(seed)
    paths = [questions(body, chance) for body in bodies]
    size = sum(map(len, bodies)) / 1e6
    passes: dict[str, list[Pass]] = {library.name: [] for library in LIBRARIES}
    for _ in range(ROUNDS):
        for library in LIBRARIES:
            passes[library.name].append(_one_pass(library, bodies, paths))
    figures = {}
    count = sum(map(len, paths))
    for name, rounds in passes.items():
        each = sorted(map(statistics.median, zip(*(one.questions for one in rounds), strict=True)))
        parsing = list(map(statistics.median, zip(*(one.parsing for one in rounds), strict=True)))
        first = list(map(statistics.median, zip(*(one.first for one in rounds), strict=True)))
        figures[name] = {
            "parse MB/s": size / sum(parsing),
            "parse µs, median file": statistics.median(parsing) * 1e6,
            "parse + first MB/s": size / (sum(parsing) + sum(first)),
            "match µs, mean": statistics.median(one.asking for one in rounds) / count * 1e6,
            "match µs, median": statistics.median(each) * 1e6,
            "match µs, p99": each[int(len(each) * 0.99)] * 1e6,
        }
    return figures


def _one_pass(library: Library, bodies: list[bytes], paths: list[list[str]]) -> Pass:
    asked = paths if library.takes_path else [[SITE + path for path in some] for some in paths]
    clock = time.perf_counter
    ticks = sorted(clock() - clock() for _ in range(1_000))
    tick = -ticks[len(ticks) // 2]
    found = Pass([], [], 0.0, [])
    asks = []
    for body, urls in zip(bodies, asked, strict=True):
        started = clock()
        prepare = library.parse(body)
        parsed = clock()
        ask = prepare()
        ask(urls[0])
        found.first.append(clock() - parsed - tick)
        found.parsing.append(parsed - started - tick)
        asks.append((ask, urls))
    for ask, urls in asks:
        for url in urls:
            ask(url)
    started = time.process_time()
    for ask, urls in asks:
        for url in urls:
            ask(url)
    found.asking = time.process_time() - started
    for ask, urls in asks:
        for url in urls:
            begin = clock()
            ask(url)
            found.questions.append(clock() - begin - tick)
    return found


def memory(bodies: list[bytes], paths: list[list[str]]) -> dict[str, dict[str, float]]:
    """Kilobytes for each file: parsed, and once twenty URLs were asked."""
    figures = {}
    for library in (TARGET, PROTEGO, URLLIB):
        # Caches of the library's own fill before it counts.
        library.parse(bodies[0])()("/" if library.takes_path else f"{SITE}/")
        tracemalloc.start()
        kept = [library.parse(body)() for body in bodies]
        at_rest = tracemalloc.get_traced_memory()[0]
        for ask, asked in zip(kept, paths, strict=True):
            for path in asked:
                ask(path if library.takes_path else SITE + path)
        once_asked = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        figures[library.name] = {
            "KB at rest": at_rest / len(bodies) / 1e3,
            "KB once asked": once_asked / len(bodies) / 1e3,
        }
    return figures


def _plain(count: int) -> bytes:
    return "\n".join(
        ["User-agent: *", *(f"Disallow: /section-{number}/page" for number in range(count))]
    ).encode()


def _mixed(count: int) -> bytes:
    forms = (
        "Disallow: /dir{0}/page",
        "Disallow: /section-{0}/",
        "Allow: /dir{0}/page/open",
        "Disallow: /dir{0}/*/print",
        "Disallow: /*?id{0}=",
    )
    return "\n".join(
        ["User-agent: *", *(forms[number % 5].format(number) for number in range(count))]
    ).encode()


def _bombs(count: int) -> bytes:
    rules = (f"Disallow: /{'*a' * (8 + number % 24)}*b{number}" for number in range(count))
    return "\n".join(["User-agent: *", *rules]).encode()


def large_files() -> dict[str, tuple[bytes, list[str]]]:
    """Files with many rules, and what is asked of them."""
    pages = [
        "/dir1234/page/open/x",
        "/dir5/page",
        "/about/us.html",
        "/section-77/page?id9=1",
        "/dir8/x/print",
    ]
    return {
        "10,000 plain rules": (
            _plain(10_000),
            ["/section-77/page/x", "/section-9999/page", "/section-a/page.html", "/about/us.html"],
        ),
        "10,000 mixed rules": (_mixed(10_000), pages),
        "1,000 wildcard bombs, 2,000 octets": (_bombs(1_000), [f"/{'a' * 1_999}"]),
    }


def hostile_files() -> dict[str, tuple[bytes, list[str]]]:
    """Files made to cost time or memory, and what is asked of them."""
    agents = b"".join(b"User-agent: a%d\n" % number for number in range(6_000))
    rules = b"".join(b"Disallow: /%d\n" % number for number in range(6_000))
    floating = b"".join(b"Disallow: *%x*z\n" % number for number in range(30_000))
    return {
        "200 KB of agents x rules": (agents + b"User-agent: *\n" + rules, ["/5999/x", "/a"]),
        "17,000 agents": (
            b"".join(b"User-agent: a%d\n" % number for number in range(17_000))
            + b"User-agent: *\nDisallow: /a\n",
            ["/a", "/b"],
        ),
        "500 KB in one line": (
            b"User-agent: *\nDisallow: /" + b"a" * 500_000 + b"\nDisallow: /b\n",
            ["/a", "/b"],
        ),
        "8,000 duplicate groups": (b"User-agent: *\nDisallow: /a\n" * 8_000, ["/a", "/b"]),
        "500 KB of newlines": (b"\n" * 500_000, ["/a"]),
        "30,000 floating wildcards, 8 KB URL": (
            b"User-agent: *\n" + floating,
            ["/" + "0123456789abcdef" * 500, "/a/b.html"],
        ),
    }


def over_large(files: dict[str, tuple[bytes, list[str]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds to parse and to answer first, microseconds for further questions."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for title, (body, paths) in files.items():
        rows: dict[str, tuple[list[float], list[float], list[float]]] = {
            library.name: ([], [], []) for library in LIBRARIES
        }
        for _ in range(ROUNDS):
            for library in LIBRARIES:
                _one_large(library, body, paths, rows[library.name])
        figures[title] = {
            name: {
                "parse ms": statistics.median(parse) * 1e3,
                "first ms": statistics.median(first) * 1e3,
                "match µs": statistics.median(match) * 1e6,
            }
            for name, (parse, first, match) in rows.items()
        }
    return figures


def _one_large(
    library: Library, body: bytes, paths: list[str], row: tuple[list[float], list[float], list[float]]
) -> None:
    asked = paths if library.takes_path else [SITE + path for path in paths]
    started = time.perf_counter()
    ask = library.parse(body)()
    row[0].append(time.perf_counter() - started)
    row[1].append(_timed(lambda: ask(asked[0])))
    for url in asked:
        ask(url)
    repeats = 20
    row[2].append(_timed(lambda: [ask(url) for _ in range(repeats) for url in asked]) / repeats / len(asked))


def over_hostile() -> dict[str, dict[str, float]]:
    """What hostile files cost us, verdicts included."""
    return {title: _hostile(body, paths) for title, (body, paths) in hostile_files().items()}


def _hostile(body: bytes, paths: list[str]) -> dict[str, float]:
    tracemalloc.start()
    rules = compile_rules(canonical(body), AGENT)
    rules.allows(paths[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    repeats = 20
    return {
        "parse + first ms": _timed(lambda: compile_rules(canonical(body), AGENT).allows(paths[0])) * 1e3,
        "peak MB": peak / 1e6,
        "match µs": _timed(lambda: [rules.allows(path) for _ in range(repeats) for path in paths])
        / (repeats * len(paths))
        * 1e6,
        "first verdict ms": _timed(lambda: rules.decide(paths[0])) * 1e3,
        "verdict µs": _timed(lambda: rules.decide(paths[0])) * 1e6,
    }


def _show(title: str, rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    for name, figures in rows.items():
        print(f"  {name:26}", "  ".join(f"{what} {value:,.2f}" for what, value in figures.items()))


def main() -> int:
    """Measures over the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "corpus")
    parser.add_argument("--seed", type=int, default=9309)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    bodies = [path.read_bytes() for path in sorted(options.folder.glob("*.txt"))]
    results: dict[str, dict[str, dict[str, float]]] = {}
    if bodies:
        chance = random.Random(options.seed)
        results[f"{len(bodies)} files"] = over_files(bodies, options.seed)
        results["memory for each file"] = memory(bodies, [questions(body, chance) for body in bodies])
    results |= over_large(large_files())
    results["hostile files"] = over_hostile()
    if options.json:
        print(
            json.dumps({"machine": describe("robotgate", "protego"), **results}, indent=2, ensure_ascii=False)
        )
        return 0
    print(describe("robotgate", "protego"))
    for title, rows in results.items():
        _show(title, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
