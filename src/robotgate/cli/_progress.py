"""What happens, while it happens: a live line on a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.console import Console

LIVE_PERIOD: Final = 0.125
"""Seconds between two pictures of the live line."""
RATE_WINDOW: Final = 5.0
"""Seconds over which the rate is taken."""


class Outcome(Enum):
    """How a URL ended."""

    FETCHED = "fetched"
    BLOCKED = "blocked"
    FAILED = "failed"
    INVALID = "invalid"
    TOO_SOON = "too_soon"
    UNAVAILABLE = "unavailable"

    @property
    def is_answer(self) -> bool:
        """Whether nothing is left to be done: the page is here, or the site said no."""
        return self in (Outcome.FETCHED, Outcome.BLOCKED)

    @property
    def words(self) -> str:
        """As people read it."""
        return self.value.replace("_", " ")


_STYLES: Final = {
    Outcome.FETCHED: "green",
    Outcome.BLOCKED: "yellow",
    Outcome.FAILED: "red",
    Outcome.INVALID: "red",
    Outcome.TOO_SOON: "magenta",
    Outcome.UNAVAILABLE: "magenta",
}


@dataclass(slots=True)
class Tally:
    """The counts that a run keeps."""

    total: int | None = None
    """URLs in all; None when nobody knows yet."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    waiting_by_host: Counter[str] = field(default_factory=Counter)
    """URLs taken in and not done; a host of which there are none is not kept."""
    began_at: float = field(default_factory=time.monotonic)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, host: str) -> None:
        """One more URL of a host has been taken in."""
        self.waiting_by_host[host] += 1

    def finish(self, host: str, outcome: Outcome) -> None:
        """A URL that was taken in is done."""
        self.outcomes[outcome] += 1
        self.waiting_by_host[host] -= 1
        if not self.waiting_by_host[host]:
            del self.waiting_by_host[host]

    def refuse(self, outcome: Outcome) -> None:
        """A URL that was never taken in is done."""
        self.outcomes[outcome] += 1

    @property
    def waiting(self) -> int:
        """URLs taken in and not done."""
        return self.waiting_by_host.total()

    @property
    def hosts(self) -> int:
        """Hosts of the URLs that wait."""
        return len(self.waiting_by_host)

    @property
    def done(self) -> int:
        """URLs done."""
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        """URLs that came to nothing, for whatever reason but the site's rules."""
        return sum(count for outcome, count in self.outcomes.items() if not outcome.is_answer)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_at

    def mark_rate(self) -> float:
        """URLs done per second, over the last few seconds; to be asked regularly."""
        now = time.monotonic()
        self._marks.append((now, self.done))
        while now - self._marks[0][0] > RATE_WINDOW:
            self._marks.popleft()
        since, before = self._marks[0]
        return (self.done - before) / (now - since) if now > since else 0.0


@asynccontextmanager
async def progress(console: Console, tally: Tally, *, plain_period: float) -> AsyncIterator[None]:
    """Show the tally on the console until the block ends; every `plain_period` seconds where it is no terminal."""
    show = _show_live if console.is_terminal else _show_plain
    ticker = asyncio.create_task(show(console, tally, plain_period))
    try:
        yield
    finally:
        ticker.cancel()
        await asyncio.wait([ticker])


def summary(tally: Tally) -> str:
    """The counts in one plain sentence."""
    return f"{_counts(tally)} in {tally.elapsed:.1f} s"


async def _show_live(console: Console, tally: Tally, _plain_period: float) -> None:
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_live_line(tally), refresh=True)
            await asyncio.sleep(LIVE_PERIOD)


async def _show_plain(console: Console, tally: Tally, plain_period: float) -> None:
    next_at = time.monotonic() + plain_period
    while True:
        await asyncio.sleep(min(plain_period, 1.0))
        rate = tally.mark_rate()
        if time.monotonic() >= next_at:
            next_at += plain_period
            console.print(_plain_line(tally, rate), markup=False, highlight=False, soft_wrap=True)


def _live_line(tally: Tally) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{tally.elapsed:6.1f} s  ", style="dim")
    if tally.total:
        line.append(_bar(tally.done / tally.total), style="cyan")
        line.append("  ")
    for outcome in _shown(tally):
        line.append(f"{tally.outcomes[outcome]:,}", style=f"bold {_STYLES[outcome]}")
        line.append(f" {outcome.words}  ")
    line.append(f"{tally.mark_rate():.1f}/s  ", style="bold")
    line.append(f"{tally.waiting:,} waiting on {tally.hosts:,} hosts")
    return line


def _shown(tally: Tally) -> list[Outcome]:
    always = (Outcome.FETCHED, Outcome.BLOCKED, Outcome.FAILED)
    return [outcome for outcome in Outcome if tally.outcomes[outcome] or outcome in always]


def _bar(share: float, width: int = 8) -> str:
    full = round(min(share, 1.0) * width)
    return "━" * full + "╌" * (width - full)


def _plain_line(tally: Tally, rate: float) -> str:
    of_all = f" of {tally.total:,}" if tally.total else ""
    return (
        f"{tally.elapsed:.0f} s: {tally.done:,}{of_all} done ({_counts(tally)}),"
        f" {tally.waiting:,} waiting on {tally.hosts:,} hosts, {rate:.1f}/s"
    )


def _counts(tally: Tally) -> str:
    return ", ".join(f"{tally.outcomes[outcome]:,} {outcome.words}" for outcome in _shown(tally))
