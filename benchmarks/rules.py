"""Parsing and matching beside the libraries that people use: times, memory, and what hostile files cost.

Each library is asked by its public interface with whole URLs; *path only* leaves reading the URL to the caller, as the
gate does, and *explained* says which line decided. A file with its first question pays for whatever a library puts off
until then. It all happens in a process of its own. Every figure has at least 20 ms of work behind it, repeated if need
be, by a clock that counts nanoseconds. What twice the size of a file takes is processor time, measured in turn with
that of the smaller file.
"""

from __future__ import annotations

import gc
import random
import re
import signal
import time
import tracemalloc
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._bench import TICK, alone, clock, each_ns, interleaved, quantile, say
from benchmarks._hard_files import SHAPES, HardFile, filled, hostile_files, large_files
from benchmarks._libraries import EXPLAINED, OURS, PATH_ONLY, PROTEGO, SITE, Ask, Library, libraries
from benchmarks._report import Column, Effort, Findings, ratio
from robotgate import RobotsTxt
from robotgate.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from benchmarks._report import Figure

PACKAGES: Final = ("robotgate", "protego", "robotspy")
CORPUS: Final = Path(__file__).parent / "corpus"
SEED: Final = 9309
ASKED: Final = 20
"""Paths for each file."""
OWN: Final = 6
"""So many of them are drawn from the file's own rules."""
WORDS: Final = (
    "about", "article", "author", "blog", "brand", "cart", "catalog", "category", "contact", "date", "docs",
    "en", "event", "file", "forum", "gallery", "help", "home", "id", "image", "index", "item", "lang", "list",
    "login", "map", "news", "offer", "page", "photo", "post", "press", "price", "print", "product", "profile",
    "q", "query", "report", "review", "search", "section", "shop", "sid", "sort", "source", "staff", "story",
    "tag", "team", "terms", "topic", "track", "user", "utm_source", "video", "view",
)  # fmt: skip
CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
REPEATS: Final = 41
"""Questions before those that are timed: some libraries make ready for many."""
QUICK_FILES: Final = frozenset({"mixed-10000", "agents-x-rules"})
QUESTIONS: Final = (1, 5, 50)
"""How many questions a file is asked, parsing included."""
LEAST_NANOSECONDS: Final = 20_000_000
"""The work behind every figure."""
CORPUS_COLUMNS: Final = (
    Column("parse", "parse, µs a file", None),
    *(
        Column(f"first-{count}", f"and {count} question{'s' * (count > 1)}", None, True)
        for count in QUESTIONS
    ),
    Column("match", "warm question, ns, mean", None, shows_spread=True),
    Column("match-median", "median", None),
    Column("match-p99", "p99", None),
)
HARD_COLUMNS: Final = (
    Column("parse", "parse, ms", None),
    Column("first", "first question, ms", None),
    Column("match", "warm question, µs", None),
    Column("peak", "peak, MB", None),
)
DOUBLED_COLUMNS: Final = (Column("ratio", "time for twice the size, of that for once", None),)


class Over:
    """The group, over a folder of robots.txt files."""

    PACKAGES: tuple[str, ...] = PACKAGES

    def __init__(self, corpus: Path) -> None:
        self._corpus = corpus

    def measure(self, effort: Effort) -> Findings:
        """Everything about rules."""
        return alone(_measure, self._corpus, effort)


def measure(effort: Effort) -> Findings:
    """Everything about rules, over the project's own files."""
    return Over(CORPUS).measure(effort)


def _measure(corpus: Path, effort: Effort) -> Findings:
    findings, rounds = Findings(), effort.pick(1, 9)
    bodies = [path.read_bytes() for path in sorted(corpus.glob("*.txt"))]
    chance = random.Random(SEED)
    paths = [questions(body, chance) for body in bodies]
    each = libraries()
    files = _over_files(findings, each, bodies, paths, rounds)
    _goals(findings, files)
    for file in large_files() + hostile_files():
        if effort is Effort.FULL or file.key in QUICK_FILES:
            _over_hard(findings, each, file, rounds, patience=effort.pick(1.0, 4.0))
    # In a process of its own: here, the collector would look through all that has been read.
    twice = alone(partial(doubled, effort.pick(1, len(SHAPES))))
    rows = {name: {"ratio": [took]} for name, took in twice.items()}
    findings.table("doubled", "Files of 250 KB, and of 500 KB", DOUBLED_COLUMNS, rows)
    for name, took in twice.items():
        findings.goal(f"twice {name}, of the time for once", [took], at_most=3)
    return findings


def questions(body: bytes, chance: random.Random) -> list[str]:
    """Twenty paths, of which the file's own rules speak of six, or of fewer where they are fewer."""
    patterns = sorted({rule.path_pattern for group in RobotsTxt.parse(body).groups for rule in group.rules})
    own = [_path_for(pattern) for pattern in chance.sample(patterns, min(OWN, len(patterns)))]
    return own + [_page(chance) for _ in range(ASKED - len(own))]


def _path_for(pattern: str) -> str:
    """A path that the pattern might be meant for."""
    path = pattern.removesuffix("$").replace("*", "x").replace("#", "")
    path = CONTROL.sub(lambda control: f"%{ord(control[0]):02X}", path)
    return path if path.startswith("/") else f"/{path}"


def _page(chance: random.Random) -> str:
    """A path as sites have it."""
    path = "/" + "/".join(
        "-".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 5))
    )
    path += chance.choice(("", "", "/", ".html", ".php", ".pdf", "/%E2%82%AC"))
    if chance.random() < 0.3:
        path += "?" + "&".join(
            f"{chance.choice(WORDS)}={chance.randrange(10_000)}" for _ in range(chance.randint(1, 3))
        )
    return path


def _goals(findings: Findings, files: Mapping[str, Mapping[str, Figure]]) -> None:
    ours, path, explained, peer = (files[one.name] for one in (OURS, PATH_ONLY, EXPLAINED, PROTEGO))
    findings.goal("parse and first question, µs, mean a file", ours["first-1"], at_most=60)
    for count in QUESTIONS[1:]:
        part = ratio(ours[f"first-{count}"], peer[f"first-{count}"])
        findings.goal(f"parse and {count} questions, of Protego's time", part, at_most=1 / 3)
    findings.goal("a warm question with a path, ns, mean", path["match"], at_most=1_200)
    findings.goal("a warm question with a path, ns, p99", path["match-p99"], at_most=8_000)
    findings.goal("warm questions, of Protego's a second", ratio(peer["match"], ours["match"]), at_least=4)
    for key, what in (("first-1", "parse and first question"), ("match", "warm question")):
        text = f"{what}, explained, of the plain one's time"
        findings.goal(text, ratio(explained[key], ours[key]), at_most=2)


def _over_files(
    findings: Findings, each: Sequence[Library], bodies: list[bytes], paths: list[list[str]], rounds: int
) -> dict[str, dict[str, Figure]]:
    """Parsing, the first question and further ones, over all files."""
    works = {library.name: partial(_one_pass, library, bodies, paths) for library in each}
    found = interleaved(rounds, works)
    findings.table(
        "corpus",
        f"{len(bodies)} files, {sum(map(len, bodies)) / 1e3:,.0f} KB, twenty URLs asked of each",
        CORPUS_COLUMNS,
        found,
        ours=_ours(each),
        note="*Path only* is given paths, as the gate gives them; *explained* names the line that decided. Protego, "
        "urllib and robotspy make ready for all agents while parsing, robotgate for one. urllib knows no wildcards. "
        f"Less than {TICK:.0f} ns, which reading the clock takes, cannot be told from nothing.",
    )
    return found


def _ours(each: Sequence[Library]) -> list[str]:
    return [library.name for library in each if library.is_ours]


def _one_pass(library: Library, bodies: list[bytes], paths: list[list[str]]) -> dict[str, float]:
    asked = [[library.asked(path) for path in some] for some in paths]
    files = list(zip(bodies, asked, strict=True))
    found = {
        key: _nanoseconds(partial(_parse_and_ask, library, files, count)) / len(files) / 1e3
        for key, count in (("parse", 0), *((f"first-{count}", count) for count in QUESTIONS))
    }
    pairs = [(ask, url) for body, urls in files for ask in [library.parse(body)] for url in urls]
    for _ in range(3):
        _ask_all(pairs)
    found["match"] = sum(_nanoseconds(partial(_ask_all, pairs)) for _ in range(5)) / 5 / len(pairs)
    each: list[float] = []
    while sum(each) < LEAST_NANOSECONDS:
        for ask, url in pairs:
            each += each_ns(ask, (url,))
    return found | {"match-median": quantile(each, 0.5), "match-p99": quantile(each, 0.99)}


def _parse_and_ask(library: Library, files: list[tuple[bytes, list[str]]], count: int) -> None:
    for body, urls in files:
        ask = library.parse(body)
        for url in islice(cycle(urls), count):
            ask(url)


def _ask_all(pairs: list[tuple[Ask, str]]) -> None:
    for ask, url in pairs:
        ask(url)


def _nanoseconds(work: Callable[[], object], clock: Callable[[], int] = clock) -> float:
    """What a piece of work takes, repeated until there is enough to measure."""
    taken = count = 0
    while taken < LEAST_NANOSECONDS:
        began = clock()
        work()
        taken += clock() - began
        count += 1
    return taken / count


def doubled(count: int = len(SHAPES), *, rounds: int = 5) -> dict[str, float]:
    """How much longer twice the size takes: about twice, unless something is quadratic, be it within one call of C."""
    ratios = {name: _ratio(line, _read_and_ask, rounds) for name, line in islice(SHAPES.items(), count)}
    return ratios | {"rules, linted": _ratio(SHAPES["rules"], lint, rounds)}


def _ratio(line: str, work: Callable[[bytes], object], rounds: int) -> float:
    once, twice = (partial(work, filled(line, size)) for size in (250_000, 500_000))
    taken = [[_nanoseconds(each, time.process_time_ns) for each in (once, twice)] for _ in range(rounds)]
    return min(of_twice for _, of_twice in taken) / min(of_once for of_once, _ in taken)


def _read_and_ask(body: bytes) -> None:
    _parse_and_ask(OURS, [(body, [f"{SITE}/a/b.html"])], 1)


def _over_hard(
    findings: Findings, each: Sequence[Library], file: HardFile, rounds: int, *, patience: float
) -> None:
    """One file that costs much; a library that took too long in one round is left out of the next."""
    say(file.title)
    late: set[str] = set()

    def one(library: Library) -> dict[str, float]:
        if library.name not in late:
            try:
                with _within(patience):
                    return _hard_figures(library, file)
            except _TooLongError:
                late.add(library.name)
        return {}

    found = interleaved(rounds, {library.name: partial(one, library) for library in each})
    for library in each:
        name = library.name
        if name in late:
            found[name] = {}
        else:
            asked = [(file.body, [library.asked(file.paths[0])])]
            found[name] = found[name] | {"peak": [_peak(partial(_parse_and_ask, library, asked, 1))]}
    note = f"Not done after {patience:g} s of CPU: {', '.join(sorted(late))}." if late else ""
    findings.table(file.key, file.title, HARD_COLUMNS, found, ours=_ours(each), note=note)
    ours, peer = found[OURS.name], found[PROTEGO.name]
    until_first = [parse + first for parse, first in zip(ours["parse"], ours["first"], strict=True)]
    findings.goal(f"{file.title}: parse and first question, ms", until_first, at_most=500)
    findings.goal(f"{file.title}: a warm question, µs", ours["match"], at_most=200_000)
    if file.key == "plain-10000":
        findings.goal(f"{file.title}: a warm question, µs", ours["match"], at_most=1.3)
        if "match" in peer:
            speed = ratio(peer["match"], ours["match"])
            findings.goal(f"{file.title}: warm questions, of Protego's a second", speed, at_least=25)


def _hard_figures(library: Library, file: HardFile) -> dict[str, float]:
    asked = [library.asked(path) for path in file.paths]
    parsing = _nanoseconds(partial(library.parse, file.body))
    first = _nanoseconds(lambda: library.parse(file.body)(asked[0])) - parsing
    ask = library.parse(file.body)
    pairs = [(ask, url) for url in asked]
    for _ in range(REPEATS):
        _ask_all(pairs)
    match = _nanoseconds(partial(_ask_all, pairs)) / len(pairs)
    return {"parse": parsing / 1e6, "first": max(0.0, first) / 1e6, "match": match / 1e3}


def _peak(work: Callable[[], object]) -> float:
    """The most megabytes that a piece of work takes at once; counting them takes longer than that."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


class _TooLongError(BaseException):
    """The time is over. No `Exception`: libraries catch those."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Break off what takes more CPU than that: regular expressions, too, look for signals while they search."""
    before = signal.signal(signal.SIGVTALRM, _break_off)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _break_off(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _TooLongError
