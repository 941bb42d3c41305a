"""What the commands print: safe text, times, and the progress of a run."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from robotgate import InvalidURLError
from robotgate.stores.codec import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from robotgate import RobotGateError

PIPE_WIDTH: Final = 100
"""Columns where the output is no terminal."""
LIVE_PERIOD: Final = 0.125
"""Seconds between two updates of the live line."""
RATE_WINDOW: Final = 5.0
"""Seconds over which the rate is measured."""
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"))


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal. Without a terminal: `PIPE_WIDTH` columns, no colours."""
    terminal = Console(stderr=stderr)
    return terminal if terminal.is_terminal else Console(stderr=stderr, width=PIPE_WIDTH)


def say(message: str) -> None:
    """Print one plain line on standard error."""
    console(stderr=True).print(Text(message), soft_wrap=True)


def print_excerpt(screen: Console, lines: Iterable[Text]) -> None:
    """Print lines of a file: cut to the width of a terminal, whole elsewhere, where a program may read them."""
    for line in lines:
        screen.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=not screen.is_terminal)


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters as escapes, so that it cannot control a terminal."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def moment(instant: float) -> str:
    """Return an instant (seconds since the epoch) as text, to the second."""
    if instant >= MAX_AMOUNT:
        return "the end of time"
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """Return a duration in its largest unit: ``12s``, ``4m``, ``23h``, ``30d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            # Until the year 9999 is for ever, counted from any time near now.
            return f"{seconds // size:.0f}{unit}" if seconds < MAX_AMOUNT - 1e10 else "ever"
    return f"{max(math.ceil(seconds), 0)}s"


def counted(count: int, word: str) -> str:
    """Return a count with its noun: ``1 host``, ``2,000 hosts``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def with_cli_options(text: str) -> str:
    """Return a text of the library with the command line's option where it names the library's."""
    return text.replace("allow_private_addresses=True", "--allow-private-addresses")


def problem_of(error: RobotGateError) -> str:
    """Return what is wrong, in terms of the command line."""
    return with_cli_options(error.problem if isinstance(error, InvalidURLError) else str(error))


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
    return f"{_counts(tally)} in {tally.elapsed:.1f} s"


@asynccontextmanager
async def progress(screen: Console, tally: Tally, *, plain_period: float) -> AsyncIterator[None]:
    """Show the tally until the block ends: live on a terminal, elsewhere a line every `plain_period` seconds."""
    shown = _show_live(screen, tally) if screen.is_terminal else _show_plain(screen, tally, plain_period)
    ticker = asyncio.create_task(shown)
    try:
        yield
    finally:
        ticker.cancel()
        await asyncio.wait([ticker])


async def _show_live(screen: Console, tally: Tally) -> None:
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_live_line(tally), refresh=True)
            await asyncio.sleep(LIVE_PERIOD)


async def _show_plain(screen: Console, tally: Tally, period: float) -> None:
    next_at = time.monotonic() + period
    while True:
        await asyncio.sleep(min(period, 1.0))
        rate = tally.rate()
        if time.monotonic() >= next_at:
            next_at += period
            counts = f"{tally.done:,} done ({_counts(tally)}), {_waiting(tally)}, {rate:.1f}/s"
            line = f"{tally.elapsed:.0f} s: {counts}"
            screen.print(line, markup=False, highlight=False, soft_wrap=True)


def _live_line(tally: Tally) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{tally.elapsed:6.1f} s  ", style="dim")
    for outcome, count, word in tally.shown():
        line.append(count, style=f"bold {_STYLES.get(outcome, 'red')}")
        line.append(f" {word}  ")
    line.append(f"{tally.rate():.1f}/s  ", style="bold")
    return line.append(_waiting(tally))


def _waiting(tally: Tally) -> str:
    return f"{tally.waiting:,} waiting on {counted(len(tally.waiting_by_host), 'host')}"


def _counts(tally: Tally) -> str:
    return ", ".join(f"{count} {word}" for _, count, word in tally.shown())
