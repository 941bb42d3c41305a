"""Parsing and matching beside the libraries that people use: times, memory, and what hostile files cost.

Each library is asked through its public door with whole URLs; *path only* leaves reading the URL to the caller, as the
gate does, and *explained* says which line decided. "First" is the first question after parsing: it pays for whatever
was put off until then. It all happens in a process of its own, and all times are of CPU.
"""

from __future__ import annotations

import random
import signal
import statistics
import time
import tracemalloc
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._client import alone
from benchmarks._hard_files import HardFile, hostile_files, large_files
from benchmarks._libraries import OURS, PROTEGO, Library, libraries, missing
from benchmarks._questions import questions
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import interleaved, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

PACKAGES: Final = ("robotgate", "protego", "robotspy", "reppy")
CORPUS: Final = Path(__file__).parent / "corpus"
SEED: Final = 9309
ROUNDS: Final = {Effort.QUICK: 1, Effort.FULL: 5}
PATIENCE: Final = {Effort.QUICK: 0.5, Effort.FULL: 2.0}
"""CPU seconds for one library with one file; who needs more is not asked again."""
REPEATS: Final = 20
QUICK_FILES: Final = frozenset({"mixed-10000", "agents-x-rules"})

CORPUS_COLUMNS: Final = (
    Column(key="parse", title="parse, MB/s", decimals=1, shows_spread=True),
    Column(key="parse-median", title="parse, µs, median file", decimals=1),
    Column(key="parse-first", title="parse and first question, MB/s", decimals=1),
    Column(key="match", title="match, ns, mean", shows_spread=True),
    Column(key="match-median", title="median"),
    Column(key="match-p99", title="p99"),
)
MEMORY_COLUMNS: Final = (
    Column(key="rest", title="KB for each file, at rest", decimals=1),
    Column(key="asked", title="once twenty URLs were asked", decimals=1),
)
HARD_COLUMNS: Final = (
    Column(key="parse", title="parse, ms", decimals=1),
    Column(key="first", title="first question, ms", decimals=2),
    Column(key="match", title="match, µs", decimals=1),
    Column(key="peak", title="peak, MB", decimals=1),
)


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
    bodies = [path.read_bytes() for path in sorted(corpus.glob("*.txt"))]
    chance = random.Random(SEED)
    paths = [questions(body, chance) for body in bodies]
    each = libraries()
    say(f"{len(bodies)} files, {len(each)} ways; not installed: {', '.join(missing()) or 'nothing'}")
    files = _over_files(each, bodies, paths, ROUNDS[effort])
    hard = [
        _over_hard(each, file, effort)
        for file in large_files() + hostile_files()
        if effort is Effort.FULL or file.key in QUICK_FILES
    ]
    return Findings(tables=(files, _memory(each, bodies, paths), *hard), goals=_goals(files, hard))


def _goals(files: Table, hard: Sequence[Table]) -> tuple[Goal, ...]:
    of = {row.name: row.figures for row in files.rows}
    ours, peer = of[OURS.name], of[PROTEGO.name]
    return (
        Goal(text="parse, of Protego's MB/s", figure=ours["parse"].over(peer["parse"]), at_least=2.0),
        Goal(text="match, mean, of Protego's time", figure=ours["match"].over(peer["match"]), at_most=1.0),
        *(
            Goal(
                text=f"{table.title}: parse and first question, ms", figure=_until_first(table), at_most=500.0
            )
            for table in hard
        ),
    )


def _until_first(table: Table) -> Figure:
    (figures,) = [row.figures for row in table.rows if row.name == OURS.name]
    rounds = zip(figures["parse"].rounds, figures["first"].rounds, strict=True)
    return Figure(tuple(map(sum, rounds)))


def _over_files(each: Sequence[Library], bodies: list[bytes], paths: list[list[str]], rounds: int) -> Table:
    """Parsing, the first question and further ones, over all files."""
    works = {library.name: partial(_one_pass, library, bodies, paths) for library in each}
    found = interleaved(rounds, works)
    return Table(
        key="corpus",
        title=f"{len(bodies)} files, {sum(map(len, bodies)) / 1e3:,.0f} KB, twenty URLs asked of each",
        columns=CORPUS_COLUMNS,
        rows=tuple(
            Row(name=library.name, figures=found[library.name], is_ours=library.is_ours) for library in each
        ),
        note="*Path only* is given paths, as the gate gives them; *explained* names the line that decided. Protego, "
        "urllib and robotspy make ready for all agents while parsing, robotgate for one. urllib knows no wildcards.",
    )


def _one_pass(library: Library, bodies: list[bytes], paths: list[list[str]]) -> dict[str, float]:
    asked = [[library.asked(path) for path in some] for some in paths]
    library.parse(bodies[0])(asked[0][0])
    clock, tick = time.process_time, _tick()
    parsing: list[float] = []
    first: list[float] = []
    pairs = []
    for body, urls in zip(bodies, asked, strict=True):
        started = clock()
        ask = library.parse(body)
        parsed = clock()
        ask(urls[0])
        first.append(clock() - parsed - tick)
        parsing.append(parsed - started - tick)
        pairs += [(ask, url) for url in urls]
    for ask, url in pairs:
        ask(url)
    began = time.process_time()
    for ask, url in pairs:
        ask(url)
    mean = (time.process_time() - began) / len(pairs)
    each = []
    for ask, url in pairs:
        begin = clock()
        ask(url)
        each.append(clock() - begin - tick)
    each.sort()
    size = sum(map(len, bodies)) / 1e6
    return {
        "parse": size / sum(parsing),
        "parse-median": statistics.median(parsing) * 1e6,
        "parse-first": size / (sum(parsing) + sum(first)),
        "match": mean * 1e9,
        "match-median": each[len(each) // 2] * 1e9,
        "match-p99": each[int(len(each) * 0.99)] * 1e9,
    }


def _tick() -> float:
    """The seconds that looking at the clock takes."""
    clock = time.process_time
    return statistics.median(-(clock() - clock()) for _ in range(1_000))


def _memory(each: Sequence[Library], bodies: list[bytes], paths: list[list[str]]) -> Table:
    """What is kept of each file, parsed, and once its URLs were asked."""
    return Table(
        key="memory",
        title="Memory for each of these files",
        columns=MEMORY_COLUMNS,
        rows=tuple(
            Row(name=library.name, figures=_kept(library, bodies, paths), is_ours=library.is_ours)
            for library in each
            if library.is_traced
        ),
        note="By `tracemalloc`. *Path only* is what a gate keeps; a `RobotsTxt` keeps the text of the file besides.",
    )


def _kept(library: Library, bodies: list[bytes], paths: list[list[str]]) -> dict[str, Figure]:
    # Caches of the library's own fill before it counts.
    library.parse(bodies[0])(library.asked("/"))
    tracemalloc.start()
    kept = [library.parse(body) for body in bodies]
    at_rest = tracemalloc.get_traced_memory()[0]
    for ask, asked in zip(kept, paths, strict=True):
        for path in asked:
            ask(library.asked(path))
    once_asked = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "rest": Figure((at_rest / len(bodies) / 1e3,)),
        "asked": Figure((once_asked / len(bodies) / 1e3,)),
    }


def _over_hard(each: Sequence[Library], file: HardFile, effort: Effort) -> Table:
    """One file that costs much; who has no patience left in one round is not asked in the next."""
    say(file.title)
    tries = {library.name: _Try(library, file, PATIENCE[effort]) for library in each}
    found = interleaved(ROUNDS[effort], tries)
    late = [name for name, one in tries.items() if one.is_late]
    return Table(
        key=file.key,
        title=file.title,
        columns=HARD_COLUMNS,
        rows=tuple(
            Row(
                name=library.name,
                figures={} if library.name in late else found[library.name] | tries[library.name].peak(),
                is_ours=library.is_ours,
            )
            for library in each
        ),
        note=f"Not done after {PATIENCE[effort]:g} s of CPU: {', '.join(late)}." if late else "",
    )


class _Try:
    """One library with one file."""

    def __init__(self, library: Library, file: HardFile, patience: float) -> None:
        self.is_late = False
        self._library = library
        self._body = file.body
        self._asked = [library.asked(path) for path in file.paths]
        self._patience = patience

    def __call__(self) -> dict[str, float]:
        if self.is_late:
            return {}
        try:
            with _within(self._patience):
                return self._figures()
        except _TooLongError:
            self.is_late = True
            return {}

    def _figures(self) -> dict[str, float]:
        clock = time.process_time
        began = clock()
        ask = self._library.parse(self._body)
        parsed = clock()
        ask(self._asked[0])
        answered = clock()
        for url in self._asked:
            ask(url)
        asking = clock()
        count = 0
        while count < REPEATS and clock() - asking < self._patience / 8:
            for url in self._asked:
                ask(url)
            count += 1
        match = (clock() - asking) / count / len(self._asked)
        return {"parse": (parsed - began) * 1e3, "first": (answered - parsed) * 1e3, "match": match * 1e6}

    def peak(self) -> dict[str, Figure]:
        """The most megabytes while parsing and answering once; counting them takes longer than that."""
        if not self._library.is_traced:
            return {}
        tracemalloc.start()
        self._library.parse(self._body)(self._asked[0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return {"peak": Figure((peak / 1e6,))}


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
