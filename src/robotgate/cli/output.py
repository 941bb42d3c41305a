"""What the commands print: safe text, times, and the progress of a run.

Everything that a command prints passes `printable`: `line` for plain lines, `Screen` for styled ones, `failure` for
errors, `logged` for what the library logs.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import os
import re
import sys
import time
from collections import Counter, deque
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from robotgate import InvalidURLError
from robotgate.stores.codec import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from rich.console import ConsoleOptions, RenderableType

    from robotgate import RobotGateError

PIPE_WIDTH: Final = 100
"""Columns where the output is no terminal."""
LIVE_PERIOD: Final = 0.125
"""Seconds between two updates of the live line."""
MAX_SLOWEST: Final = 2
"""Hosts that the progress names."""
MAX_HOST: Final = 40
"""Characters that the progress shows of the name of a host."""
RATE_WINDOW: Final = 5.0
"""Seconds over which the rate is measured."""
_CONNECTING: Final = re.compile(r"Cannot connect to host (\S{1,300}) ssl:[^\[\]]{1,200} \[([^\]]*)\]")
"""What aiohttp says of a host that cannot be reached."""
_CLASS_NAME: Final = re.compile(r"\b[A-Za-z]{1,60}(?:Error|Exception): ")
_THOUSANDS: Final = ("", "k", "M", "G", "T", "P")
_HELP: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What newer versions of click raise to print the help of a group; its message has several lines."""
_UNITS: Final = ((31_557_600, "y"), (86_400, "d"), (3600, "h"), (60, "m"))


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters as escapes, so that it cannot control a terminal.

    Control characters, bidirectional controls and lone surrogates are unprintable (Unicode categories C and Z).
    """
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


class Screen(Console):
    """A console that prints no character of the texts it is given raw: only its own styles control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what is printed, as rich's console does, with every text `printable`."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)

    @property
    def folds(self) -> bool:
        """Whether long lines are folded at the console's width: on a terminal, or where COLUMNS gives a width."""
        return self.is_terminal or _has_columns()

    def paragraph(self, text: Text, *, indent: int = 0) -> None:
        """Print a text that may be long: folded between words, its further lines indented; or whole, see `folds`."""
        if not self.folds:
            self.print(text, soft_wrap=True)
            return
        head = text.wrap(self, self.width)[0]
        rest = text[len(head) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
        lines = [head, *(rest.wrap(self, max(self.width - indent, 20)) if rest else ())]
        for number, part in enumerate(lines):
            part.rstrip()
            self.print(Text(" " * indent if number else "") + part, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Raise the error, which `failure` reports. Rich would end the program in silence."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False) -> Screen:
    """Return a console as wide as the terminal or as COLUMNS says. Without either: `PIPE_WIDTH` columns."""
    screen = Screen(stderr=stderr, highlight=False)
    return screen if screen.folds else Screen(stderr=stderr, highlight=False, width=PIPE_WIDTH)


def _has_columns() -> bool:
    return os.environ.get("COLUMNS", "").isdecimal()


def line(*cells: str) -> None:
    """Print one plain line on standard output; tabs separate the cells."""
    click.echo("\t".join(map(printable, cells)))


def tell(message: str) -> None:
    """Print one sentence on standard output, folded where lines are folded."""
    console().paragraph(Text(printable(message)), indent=2)


def say(message: str) -> None:
    """Print one plain line on standard error."""
    console(stderr=True).paragraph(Text(printable(message)), indent=2)


def discard_output() -> None:
    """Drop what is still buffered for standard output. Otherwise Python reports the same error again as it exits."""
    # Standard output may be an object without a descriptor.
    with suppress(OSError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def failure() -> Iterator[None]:
    """Make every error that ends a command one printable line, and flush standard output while it can be reported."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except _HELP:
        raise
    except click.UsageError as error:
        raise click.UsageError(printable(error.format_message()), error.ctx) from error
    except click.ClickException as error:
        kind = click.UsageError if error.exit_code == 2 else click.ClickException
        raise kind(printable(error.format_message())) from error
    except OSError as error:
        discard_output()
        raise click.UsageError(printable(f"cannot write: {error.strerror or error}")) from error


class _LogLines(logging.Handler):
    """Prints log records on standard error: one line each, and the lines of a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        head, *traceback = self.format(record).splitlines() or [""]
        say(in_plain_words(head))
        for text in traceback:
            say(text)


@contextmanager
def logged(verbosity: int) -> Iterator[None]:
    """Print what is logged within the block, with the library's own records from a level on.

    Args:
        verbosity: up to 0 for errors and the warnings of stores, which no command tells itself; 1 adds blocks,
            refusals and requests for robots.txt; 2 adds each turn.
    """
    levels = {
        "robotgate": (logging.ERROR, logging.INFO, logging.DEBUG)[max(verbosity, 0)],
        "robotgate.stores": (logging.WARNING, logging.INFO, logging.DEBUG)[max(verbosity, 0)],
    }
    before = {name: logging.getLogger(name).level for name in levels}
    handler, root = _LogLines(), logging.getLogger()
    root.addHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def print_excerpt(screen: Screen, lines: Iterable[Text]) -> None:
    """Print lines of a file: cut to the width of a terminal, whole elsewhere, where a program may read them."""
    for text in lines:
        screen.print(text, no_wrap=True, overflow="ellipsis", soft_wrap=not screen.folds)


def moment(instant: float) -> str:
    """Return an instant (seconds since the epoch) as text, to the second."""
    if instant >= MAX_AMOUNT:
        return "the end of time"
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """Return a duration in its largest unit: ``12s``, ``4m``, ``23h``, ``30d``, ``2y``."""
    for size, unit in _UNITS:
        if seconds >= size:
            # A block without an end is stored as one until the year 9999.
            return f"{seconds // size:.0f}{unit}" if seconds < MAX_AMOUNT - 1e10 else "ever"
    return f"{max(math.ceil(seconds), 0)}s"


def short(count: int) -> str:
    """Return a count in at most six characters: ``12345``, ``123k``, ``12M``; rounded down from 100,000 on."""
    for unit in _THOUSANDS:
        if count < 100_000:
            return f"{count}{unit}"
        count //= 1000
    return "many"


def shortened(name: str, width: int) -> str:
    """Return a name with an ellipsis in its middle if it is too wide: its end has the registrable domain and port."""
    if cell_len(name) <= width:
        return name
    return f"{name[: width // 3]}…{name[-(width - width // 3 - 1) :]}"


def counted(count: int, word: str) -> str:
    """Return a count with its noun: ``1 host``, ``2,000 hosts``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def in_plain_words(text: str) -> str:
    """Return a message of the library for the command line: its option in place of the library's, no class names."""
    text = text.replace("allow_private_addresses=True", "--allow-private-addresses")
    text = _CONNECTING.sub(r"cannot connect to \1: \2", text)
    return _CLASS_NAME.sub("", text)


def problem_of(error: RobotGateError) -> str:
    """Return what is wrong, in terms of the command line."""
    return in_plain_words(error.problem if isinstance(error, InvalidURLError) else str(error))


class Outcome(Enum):
    """How a URL ended. The values stand in the JSON rows."""

    FETCHED = "fetched"
    BLOCKED = "blocked"
    FAILED = "failed"
    INVALID = "invalid"
    TOO_SOON = "too_soon"
    UNAVAILABLE = "unavailable"


_STYLES: Final = {Outcome.FETCHED: "green", Outcome.BLOCKED: "yellow"}


@dataclass(slots=True)
class Tally:
    """The counts of a run."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    waiting_by_host: Counter[str] = field(default_factory=Counter)
    """URLs that were taken and are not done. Hosts without any are removed."""
    skipped: int = 0
    """URLs that an earlier run has done."""
    began_at: float = field(default_factory=time.monotonic)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, host: str) -> None:
        """Count a URL of a host as waiting."""
        self.waiting_by_host[host] += 1

    def finish(self, host: str, outcome: Outcome) -> None:
        """Count a waiting URL as done."""
        self.outcomes[outcome] += 1
        self.waiting_by_host[host] -= 1
        if not self.waiting_by_host[host]:
            del self.waiting_by_host[host]

    @property
    def waiting(self) -> int:
        """The number of URLs that were taken and are not done."""
        return self.waiting_by_host.total()

    @property
    def done(self) -> int:
        """The number of URLs that are done."""
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        """The number of URLs that were neither fetched nor blocked by the site's rules."""
        return self.done - self.outcomes[Outcome.FETCHED] - self.outcomes[Outcome.BLOCKED]

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_at

    def rate(self) -> float:
        """Return the URLs done per second over the last seconds. Call it regularly: it measures between calls."""
        now = time.monotonic()
        self._marks.append((now, self.done))
        while now - self._marks[0][0] > RATE_WINDOW:
            self._marks.popleft()
        since, before = self._marks[0]
        return (self.done - before) / (now - since) if now > since else 0.0

    def shown(self) -> list[tuple[Outcome, str, str]]:
        """Return the outcomes worth showing, each with its count and its word."""
        return [
            (outcome, f"{self.outcomes[outcome]:,}", outcome.value.replace("_", " "))
            for outcome in Outcome
            if self.outcomes[outcome] or outcome in (Outcome.FETCHED, Outcome.BLOCKED, Outcome.FAILED)
        ]


def summary(tally: Tally) -> str:
    """Return the counts as one plain sentence."""
    skipped = f", {tally.skipped:,} done before" if tally.skipped else ""
    return f"{_counts(tally)}{skipped} in {tally.elapsed:.1f} s"


@dataclass(frozen=True, slots=True)
class Progress:
    """Shows a run while it lasts."""

    screen: Screen
    tally: Tally
    due_in: Callable[[str], float]
    """Returns the seconds until a host may be visited next."""
    plain_period: float
    """Seconds between two lines where there is no terminal."""

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show the tally until the block ends: live on a terminal, elsewhere a line from time to time."""
        ticker = asyncio.create_task(self._live() if self.screen.is_terminal else self._plain())
        try:
            yield
        finally:
            ticker.cancel()
            await asyncio.wait([ticker])

    async def _live(self) -> None:
        with Live(console=self.screen, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._live_lines(), refresh=True)
                await asyncio.sleep(LIVE_PERIOD)

    async def _plain(self) -> None:
        next_at = time.monotonic() + self.plain_period
        while True:
            await asyncio.sleep(min(self.plain_period, 1.0))
            rate = self.tally.rate()
            if time.monotonic() >= next_at:
                next_at += self.plain_period
                say(
                    f"{self.tally.elapsed:.0f} s: {self.tally.done:,} done ({_counts(self.tally)}), {rate:.1f}/s,"
                    f" {', '.join([_waiting(self.tally), *self._slowest()])}"
                )

    def _live_lines(self) -> Text:
        # Folded where the terminal is narrow: a figure that is cut would be a wrong one.
        text = Text()
        text.append(f"{self.tally.elapsed:6.1f} s  ", style="dim")
        for outcome, count, word in self.tally.shown():
            text.append(count, style=f"bold {_STYLES.get(outcome, 'red')}")
            text.append(f" {word}  ")
        text.append(f"{self.tally.rate():.1f}/s", style="bold")
        lines = [_waiting(self.tally), *self._slowest()]
        return text.append("".join(f"\n          {told}" for told in lines))

    def _slowest(self) -> Iterator[str]:
        """The hosts with the most URLs left, and when each may be visited next."""
        for host, count in self.tally.waiting_by_host.most_common(MAX_SLOWEST):
            left = self.due_in(host)
            due = "now" if left <= 0 else f"in {span(left)}"
            yield f"{shortened(printable(host), MAX_HOST)} ({count:,}, next {due})"


def _waiting(tally: Tally) -> str:
    return f"{tally.waiting:,} waiting on {counted(len(tally.waiting_by_host), 'host')}"


def _counts(tally: Tally) -> str:
    return ", ".join(f"{count} {word}" for _, count, word in tally.shown())
