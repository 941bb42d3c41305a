"""Parsing and matching beside the libraries that people use: times, memory, and what hostile files cost.

Each library is asked by its public interface with whole URLs; *path only* leaves reading the URL to the caller, as the
gate does, and *explained* says which line decided. A file with its first question pays for whatever a library puts off
until then. It all happens in a process of its own. Every figure has at least 20 ms of work behind it, repeated if need
be, by a clock that counts nanoseconds; what is less than the clock itself takes is shown as such. What twice the
size of a file takes is processor time, measured in turn with that of the smaller file.
"""

from __future__ import annotations

import gc
import random
import signal
import statistics
import time
import tracemalloc
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._client import alone
from benchmarks._hard_files import FULL_OF, SHAPES, HardFile, full_of, hostile_files, large_files
from benchmarks._libraries import (
    AGENT,
    EXPLAINED,
    OURS,
    PATH_ONLY,
    PROTEGO,
    SITE,
    Ask,
    Library,
    libraries,
    missing,
)
from benchmarks._questions import questions
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import interleaved, say
from robotgate import RobotsTxt, lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

PACKAGES: Final = ("robotgate", "protego", "robotspy", "reppy")
CORPUS: Final = Path(__file__).parent / "corpus"
SEED: Final = 9309
ROUNDS: Final = {Effort.QUICK: 1, Effort.FULL: 9}
PATIENCE: Final = {Effort.QUICK: 1.0, Effort.FULL: 4.0}
"""CPU seconds for one library with one file; who needs more is not asked again."""
REPEATS: Final = 41
"""Questions before those that are timed: some libraries make ready for many."""
QUICK_FILES: Final = frozenset({"mixed-10000", "agents-x-rules"})

QUESTIONS: Final = (1, 5, 50)
"""How many questions a file is asked, parsing included."""
LEAST_NANOSECONDS: Final = 20_000_000
"""The work behind every figure."""


def _tick() -> float:
    """The nanoseconds that reading the clock takes: less than that cannot be told from nothing."""
    return statistics.median(-(clock() - clock()) for _ in range(1_001))


clock: Final = time.perf_counter_ns
TICK: Final = _tick()
CORPUS_COLUMNS: Final = (
    Column(key="parse", title="parse, µs a file", digits=2),
    *(
        Column(
            key=f"first-{count}",
            title=f"and {count} question{'s' * (count > 1)}",
            digits=2,
            shows_spread=True,
        )
        for count in QUESTIONS
    ),
    Column(key="match", title="warm question, ns, mean", digits=2, shows_spread=True),
    Column(key="match-median", title="median", digits=2, measurable=TICK),
    Column(key="match-p99", title="p99", digits=2, measurable=TICK),
)
MEMORY_COLUMNS: Final = (
    Column(key="rest", title="KB for each file, at rest", digits=2),
    Column(key="asked", title="once twenty URLs were asked", digits=2),
)
HARD_COLUMNS: Final = (
    Column(key="parse", title="parse, ms", digits=2),
    Column(key="first", title="first question, ms", digits=2),
    Column(key="match", title="warm question, µs", digits=2),
    Column(key="peak", title="peak, MB", digits=2),
)
DOUBLED_COLUMNS: Final = (Column(key="ratio", title="time for twice the size, of that for once", digits=2),)
PEAK_COLUMNS: Final = (
    Column(key="first", title="parse and first question, MB", digits=2),
    Column(key="explained", title="explained", digits=2),
    Column(key="groups", title="all groups", digits=2),
)
MOST_PEAK: Final = 20
"""Megabytes."""


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
    memory = _memory(each, bodies, paths)
    hard = [
        _over_hard(each, file, effort)
        for file in large_files() + hostile_files()
        if effort is Effort.FULL or file.key in QUICK_FILES
    ]
    # In a process of its own: here, the collector would look through all that has been read.
    twice = alone(doubled)
    crowded = peaks()
    goals = (*_goals(files, memory, hard, twice), *_peak_goals(crowded))
    return Findings(tables=(files, memory, *hard, twice, crowded), goals=goals)


def _peak_goals(crowded: Table) -> Iterator[Goal]:
    for row in crowded.rows:
        most = max(row.figures.values(), key=lambda figure: figure.median)
        yield Goal(text=f"512,000 bytes of {row.name}: peak, MB", figure=most, at_most=MOST_PEAK)


def _goals(files: Table, memory: Table, hard: Sequence[Table], twice: Table) -> tuple[Goal, ...]:
    of = {row.name: row.figures for row in files.rows}
    kept = {row.name: row.figures for row in memory.rows}[PATH_ONLY.name]
    ours, path, explained, peer = (of[one.name] for one in (OURS, PATH_ONLY, EXPLAINED, PROTEGO))
    nanoseconds = "a warm question with a path, ns,"
    return (
        Goal(text="parse and first question, µs, mean a file", figure=ours["first-1"], at_most=60),
        *(
            Goal(
                text=f"parse and {count} questions, of Protego's time",
                figure=ours[f"first-{count}"].over(peer[f"first-{count}"]),
                at_most=1 / 3,
            )
            for count in QUESTIONS[1:]
        ),
        Goal(text=f"{nanoseconds} mean", figure=path["match"], at_most=1_200),
        Goal(text=f"{nanoseconds} p99", figure=path["match-p99"], at_most=8_000),
        Goal(
            text="warm questions, of Protego's a second", figure=peer["match"].over(ours["match"]), at_least=4
        ),
        Goal(
            text="parse and first question, explained, of the plain one's time",
            figure=explained["first-1"].over(ours["first-1"]),
            at_most=2,
        ),
        Goal(
            text="warm question, explained, of the plain one's time",
            figure=explained["match"].over(ours["match"]),
            at_most=2,
        ),
        Goal(text="path only, KB a file, at rest", figure=kept["rest"], at_most=1.6),
        Goal(text="path only, KB a file, once asked", figure=kept["asked"], at_most=4),
        *(goal for table in hard for goal in _hard_goals(table)),
        *(
            Goal(text=f"twice {row.name}, of the time for once", figure=row.figures["ratio"], at_most=3)
            for row in twice.rows
        ),
    )


def _hard_goals(table: Table) -> Iterator[Goal]:
    of = {row.name: row.figures for row in table.rows}
    ours, peer = of[OURS.name], of[PROTEGO.name]
    until_first = Figure(tuple(map(sum, zip(ours["parse"].rounds, ours["first"].rounds, strict=True))))
    yield Goal(text=f"{table.title}: parse and first question, ms", figure=until_first, at_most=500)
    yield Goal(text=f"{table.title}: a warm question, µs", figure=ours["match"], at_most=200_000)
    if table.key == "plain-10000":
        yield Goal(text=f"{table.title}: a warm question, µs", figure=ours["match"], at_most=1.3)
        if "match" in peer:
            speed = peer["match"].over(ours["match"])
            yield Goal(
                text=f"{table.title}: warm questions, of Protego's a second", figure=speed, at_least=25
            )


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
    files = list(zip(bodies, asked, strict=True))
    found = {"parse": _nanoseconds(partial(_parse_and_ask, library, files, 0)) / len(files) / 1e3}
    for count in QUESTIONS:
        taken = _nanoseconds(partial(_parse_and_ask, library, files, count))
        found[f"first-{count}"] = taken / len(files) / 1e3
    pairs = [(ask, url) for body, urls in files for ask in [library.parse(body)] for url in urls]
    for _ in range(3):
        _ask_all(pairs)
    found["match"] = sum(_nanoseconds(partial(_ask_all, pairs)) for _ in range(5)) / 5 / len(pairs)
    each: list[float] = []
    while sum(each) < LEAST_NANOSECONDS:
        for ask, url in pairs:
            began = clock()
            ask(url)
            each.append(clock() - began - TICK)
    each.sort()
    found["match-median"], found["match-p99"] = each[len(each) // 2], each[int(len(each) * 0.99)]
    return found


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


def doubled() -> Table:
    """How much longer twice the size takes: about twice, unless something is quadratic, be it within one call of C."""
    return Table(
        key="doubled",
        title="Files of 250 KB, and of 500 KB",
        columns=DOUBLED_COLUMNS,
        rows=(
            *(Row(name=name, figures=_ratio(file, _read_and_ask)) for name, file in SHAPES.items()),
            Row(name="rules, linted", figures=_ratio(SHAPES["rules"], lambda made: lint(made.body))),
        ),
    )


def _ratio(file: Callable[[int], HardFile], work: Callable[[HardFile], object]) -> dict[str, Figure]:
    once, twice = (partial(work, file(size)) for size in (250_000, 500_000))
    taken = [[_nanoseconds(each, time.process_time_ns) for each in (once, twice)] for _ in range(5)]
    least, of_twice = map(min, zip(*taken, strict=True))
    return {"ratio": Figure((of_twice / least,))}


def _read_and_ask(file: HardFile) -> None:
    _parse_and_ask(OURS, [(file.body, [SITE + file.paths[0]])], 1)


def peaks() -> Table:
    """The most memory that is taken at once by files of 512,000 bytes, each full of lines of one kind."""
    return Table(
        key="peaks",
        title="Memory for files of 512,000 bytes, full of one kind of line",
        columns=PEAK_COLUMNS,
        rows=tuple(
            Row(name=name, figures=_peaks(full_of(line)), is_ours=True) for name, line in FULL_OF.items()
        ),
        note="By `tracemalloc`, without the file itself.",
    )


def _peaks(body: bytes) -> dict[str, Figure]:
    works: dict[str, Callable[[], object]] = {
        "first": lambda: RobotsTxt.parse(body).allowed("/a", AGENT),
        "explained": lambda: RobotsTxt.parse(body).verdict("/x/a", AGENT),
        "groups": lambda: RobotsTxt.parse(body).groups,
    }
    return {key: Figure((_peak(work),)) for key, work in works.items()}


def _peak(work: Callable[[], object]) -> float:
    """The most megabytes that a piece of work takes at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


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
        note="By `tracemalloc`. *Path only* is what a gate keeps besides the body of the answer, which its record "
        "holds; a `RobotsTxt` keeps the text of the file.",
    )


def _kept(library: Library, bodies: list[bytes], paths: list[list[str]]) -> dict[str, Figure]:
    # Caches of the library's own fill before it counts.
    library.parse(bodies[0])(library.asked("/"))
    # What Python reuses of its own free lists would not be counted.
    gc.collect()
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
    """One file that costs much; a library that took too long in one round is left out of the next."""
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
        parsing = _nanoseconds(partial(self._library.parse, self._body))
        first = _nanoseconds(self._parse_and_ask) - parsing
        ask = self._library.parse(self._body)
        pairs = [(ask, url) for url in self._asked]
        for _ in range(REPEATS):
            _ask_all(pairs)
        match = _nanoseconds(partial(_ask_all, pairs)) / len(pairs)
        return {"parse": parsing / 1e6, "first": max(0.0, first) / 1e6, "match": match / 1e3}

    def _parse_and_ask(self) -> None:
        self._library.parse(self._body)(self._asked[0])

    def peak(self) -> dict[str, Figure]:
        """The most megabytes while parsing and answering once; counting them takes longer than that."""
        if not self._library.is_traced:
            return {}
        return {"peak": Figure((_peak(self._parse_and_ask),))}


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
