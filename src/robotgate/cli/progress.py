"""The counts of ``robotgate fetch``, and how they are shown while it runs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.live import Live
from rich.text import Text

from robotgate import errors
from robotgate.cli import output
from robotgate.cli.rows import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from robotgate import RobotGate

LIVE_PERIOD: Final = 0.25
"""Seconds between two updates on a terminal. Each counts all hosts in memory: 25 ms for 100,000."""
PLAIN_PERIOD: Final = 10.0
"""Seconds between two lines elsewhere."""
MAX_SLOWEST: Final = 2
"""Hosts that are named."""
MAX_HOST: Final = 40
"""Characters that are shown of the name of a host."""


_ALWAYS_SHOWN: Final = {Outcome.FETCHED: "green", Outcome.BLOCKED: "yellow", Outcome.FAILED: "red"}


@dataclass(slots=True)
class Progress:
    """The counts of a run."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """URLs of each host that were taken and are not done. Hosts without any are removed."""
    repeated: int = 0
    """URLs that came before."""
    skipped: int = 0
    """URLs that an earlier run has done."""
    busy: int = 0
    """Those that were fetched with a status that may pass."""
    lost: int = 0
    """Those of `skipped` that were neither fetched nor blocked."""
    began_at: float = field(default_factory=time.monotonic)
    _urls: dict[str, str] = field(default_factory=dict)
    """A URL of each host of `left`."""

    def begin(self, host: str, url: str) -> None:
        """Count a URL as taken."""
        self.left[host] += 1
        self._urls.setdefault(host, url)

    def finish(self, host: str, outcome: Outcome) -> None:
        """Count a URL that was taken as done."""
        self.outcomes[outcome] += 1
        self.left[host] -= 1
        if not self.left[host]:
            del self.left[host], self._urls[host]

    @property
    def failed(self) -> int:
        """The number of URLs that were neither fetched, with a status that stays, nor blocked by the site's rules."""
        done = self.outcomes[Outcome.FETCHED] + self.outcomes[Outcome.BLOCKED]
        return self.outcomes.total() - done + self.lost + self.busy

    def summary(self) -> str:
        """Return the counts as one plain sentence."""
        repeated = f", {self.repeated:,} repeated" if self.repeated else ""
        skipped = f", {self.skipped:,} done before" if self.skipped else ""
        lost = f" ({self.lost:,} of them neither fetched nor blocked)" if self.lost else ""
        busy = f" ({self.busy:,} with status 429, 502, 503 or 504)" if self.busy else ""
        return f"{self._counts()}{busy}{repeated}{skipped}{lost} in {time.monotonic() - self.began_at:.1f} s"

    @asynccontextmanager
    async def shown(self, gate: RobotGate) -> AsyncIterator[None]:
        """Show the counts on standard error until the block ends: live on a terminal, else a line from time to time."""
        # What is printed meanwhile stands above, in whole lines.
        screen = output.Screen(stderr=True, soft_wrap=True)
        can_move = screen.is_terminal and not screen.is_dumb_terminal
        ticker = asyncio.create_task(self._live(screen, gate) if can_move else self._plain(gate))
        try:
            yield
        finally:
            ticker.cancel()
            await asyncio.wait([ticker])

    async def _live(self, screen: output.Screen, gate: RobotGate) -> None:
        is_shared = sys.stdout.isatty()
        with Live(console=screen, auto_refresh=False, transient=True, redirect_stdout=is_shared) as live:
            while True:
                # Folded where the terminal is narrow: a figure that is cut would be a wrong one.
                text = Text("\n          ".join(self._status(gate)))
                for outcome in self.outcomes.keys() | _ALWAYS_SHOWN.keys():
                    style = f"bold {_ALWAYS_SHOWN.get(outcome, 'red')}"
                    text.highlight_regex(rf"[0-9,]+(?= {outcome.replace('_', ' ')}\b(?!/))", style)
                live.update(text, refresh=True)
                await asyncio.sleep(LIVE_PERIOD)

    async def _plain(self, gate: RobotGate) -> None:
        while True:
            await asyncio.sleep(PLAIN_PERIOD)
            output.to_stderr(", ".join(text.lstrip() for text in self._status(gate)))

    def _status(self, gate: RobotGate) -> Iterator[str]:
        """The counts, what is left, and the hosts with the most URLs left: when each may be visited next.

        Turns that wait, and requests under way, are those of the dashboard.
        """
        elapsed = time.monotonic() - self.began_at
        rate = self.outcomes[Outcome.FETCHED] / max(elapsed, 1)
        yield f"{elapsed:6.1f} s  {self._counts()}; {rate:.1f} fetched/s"
        left, stats = self.left.total(), gate.stats()
        yield (
            f"{left:,} left on {output.counted(len(self.left), 'host')}:"
            f" {stats.waiting:,} waiting, {stats.open_turns:,} under way"
        )
        for host, count in self.left.most_common(MAX_SLOWEST):
            wait = 0.0
            with suppress(errors.RobotGateError):
                wait = gate.wait_time(self._urls[host])
            due = "now" if wait <= 0 else f"in {output.span(wait)}"
            yield f"{output.shortened(output.printable(host), MAX_HOST)} ({count:,} left, next {due})"

    def _counts(self) -> str:
        shown = (outcome for outcome in Outcome if self.outcomes[outcome] or outcome in _ALWAYS_SHOWN)
        return ", ".join(f"{self.outcomes[outcome]:,} {outcome.replace('_', ' ')}" for outcome in shown)
