"""What a run of ``robotgate fetch`` has done, and how that is shown while it lasts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from rich.live import Live
from rich.text import Text

from robotgate import RobotGateError
from robotgate.cli.output import Screen, counted, printable, say, shortened, span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from robotgate import RobotGate

LIVE_PERIOD: Final = 0.125
"""Seconds between two updates on a terminal."""
PLAIN_PERIOD: Final = 10.0
"""Seconds between two lines elsewhere."""
MAX_SLOWEST: Final = 2
"""Hosts that are named."""
MAX_HOST: Final = 40
"""Characters that are shown of the name of a host."""


class Outcome(Enum):
    """How a URL ended. The values stand in the JSON rows."""

    FETCHED = "fetched"
    BLOCKED = "blocked"
    FAILED = "failed"
    INVALID = "invalid"
    TOO_SOON = "too_soon"
    UNAVAILABLE = "unavailable"

    def __str__(self) -> str:
        return self.value.replace("_", " ")


_ALWAYS_SHOWN: Final = {Outcome.FETCHED: "green", Outcome.BLOCKED: "yellow", Outcome.FAILED: "red"}


@dataclass(slots=True)
class Progress:
    """The counts of a run."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    """URLs of each host that were taken and are not done. Hosts without any are removed."""
    skipped: int = 0
    """URLs that an earlier run has done."""
    began_at: float = field(default_factory=time.monotonic)
    _urls: dict[str, str] = field(default_factory=dict)
    """A URL of each host of `waiting`."""

    def begin(self, host: str, url: str) -> None:
        """Count a URL as waiting."""
        self.waiting[host] += 1
        self._urls.setdefault(host, url)

    def finish(self, host: str, outcome: Outcome) -> None:
        """Count a waiting URL as done."""
        self.outcomes[outcome] += 1
        self.waiting[host] -= 1
        if not self.waiting[host]:
            del self.waiting[host], self._urls[host]

    @property
    def done(self) -> int:
        """The number of URLs that are done."""
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        """The number of URLs that were neither fetched nor blocked by the site's rules."""
        return self.done - self.outcomes[Outcome.FETCHED] - self.outcomes[Outcome.BLOCKED]

    def summary(self) -> str:
        """Return the counts as one plain sentence."""
        skipped = f", {self.skipped:,} done before" if self.skipped else ""
        return f"{self._counts()}{skipped} in {time.monotonic() - self.began_at:.1f} s"

    @asynccontextmanager
    async def shown(self, gate: RobotGate) -> AsyncIterator[None]:
        """Show the counts on standard error until the block ends: live on a terminal, else a line from time to time."""
        # What is printed meanwhile stands above, in whole lines.
        screen = Screen(stderr=True, soft_wrap=True)
        ticker = asyncio.create_task(self._live(screen, gate) if screen.is_terminal else self._plain(gate))
        try:
            yield
        finally:
            ticker.cancel()
            await asyncio.wait([ticker])

    async def _live(self, screen: Screen, gate: RobotGate) -> None:
        rows_too = sys.stdout.isatty()
        with Live(console=screen, auto_refresh=False, transient=True, redirect_stdout=rows_too) as live:
            while True:
                # Folded where the terminal is narrow: a figure that is cut would be a wrong one.
                text = Text("\n          ".join(self._told(gate)))
                for outcome in self.outcomes.keys() | _ALWAYS_SHOWN.keys():
                    text.highlight_regex(
                        rf"[0-9,]+(?= {outcome}\b)", f"bold {_ALWAYS_SHOWN.get(outcome, 'red')}"
                    )
                live.update(text, refresh=True)
                await asyncio.sleep(LIVE_PERIOD)

    async def _plain(self, gate: RobotGate) -> None:
        while True:
            await asyncio.sleep(PLAIN_PERIOD)
            say(", ".join(text.lstrip() for text in self._told(gate)))

    def _told(self, gate: RobotGate) -> Iterator[str]:
        """The counts, what waits, and the hosts with the most URLs left: when each may be visited next."""
        elapsed = time.monotonic() - self.began_at
        yield f"{elapsed:6.1f} s  {self._counts()}, {self.done / max(elapsed, 1):.1f}/s"
        yield f"{self.waiting.total():,} waiting on {counted(len(self.waiting), 'host')}"
        for host, count in self.waiting.most_common(MAX_SLOWEST):
            left = 0.0
            with suppress(RobotGateError):
                left = gate.wait_time(self._urls[host])
            due = "now" if left <= 0 else f"in {span(left)}"
            yield f"{shortened(printable(host), MAX_HOST)} ({count:,}, next {due})"

    def _counts(self) -> str:
        shown = (outcome for outcome in Outcome if self.outcomes[outcome] or outcome in _ALWAYS_SHOWN)
        return ", ".join(f"{self.outcomes[outcome]:,} {outcome}" for outcome in shown)
