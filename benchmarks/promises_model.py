"""Tasks of one host that engines bring back, in virtual time: ``python -m benchmarks.promises_model``.

A task asks for its turn and is told when to come again, by `robotgate.pace.promises`. Its engine brings it back then:
at once, at its next look, or in whole seconds, rounded up. Turns take a random time. Some tasks are lost, and new ones
come meanwhile. Printed are asks in vain a page, the makespan to the bound, for how long a task slept in its worker, and
how often the unluckiest was refused. How long a task may sleep for which a promise is due was chosen here.
"""

from __future__ import annotations

import math
import random
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.scopes_model import GRAIN, Clock
from robotgate.pace.promises import MAX_WAIT, is_due, is_free, next_place, period, promise, redeem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robotgate.pace.lease import Lease
    from robotgate.pace.quota import StartWindow

ENGINES: Final[Mapping[str, Callable[[float], float]]] = {
    "at once": lambda seconds: seconds + random.expovariate(50),
    "looks each 0.5 s": lambda seconds: seconds + random.uniform(0, 0.5),
    "whole seconds": lambda seconds: math.ceil(seconds) + random.expovariate(50),
}


class Host(Clock):
    """One host with one slot, and the tasks that want it."""

    slots: int = 1
    lease: Lease | None = None
    window: StartWindow | None = None
    promised_from_at = promised_until_at = promised_step = admitted_until_at = 0.0

    def __init__(
        self, engine: str, max_wait: float, *, tasks: int, delay: float, takes: float, lost: float, new: float
    ) -> None:
        super().__init__()
        self.delay, self.turn_time = delay, 0.8 * takes
        self._takes, self._comes_after = takes, ENGINES[engine]
        self._max_wait, self._lost = max_wait, lost
        self._line: list[tuple[float, int]] = []
        """Tasks that sleep: since when, and how often each was refused."""
        self._is_open, self._ended_at, self._began_at, self._busy = False, -math.inf, self.now, 0.0
        self.vain = self.pages = self.missed = self.unluckiest = 0
        self._slept = 0.0
        for _ in range(tasks):
            self.at(self.now + random.random(), partial(self._ask, 0))
        at, until = self.now, self.now + tasks * (delay + takes)
        while new and (at := at + random.expovariate(new)) < until:
            self.at(at, partial(self._ask, 0))
        self.run(math.inf)

    def figures(self) -> str:
        """The figures as a line."""
        # A place that nobody comes for is lost to all.
        bound = self._busy + self.delay * (self.pages - 1) + self.missed * (self.delay + self._takes)
        makespan = self._ended_at - self._began_at
        figures = self.vain / self.pages, makespan / bound, self._slept / self.pages
        return "".join(f"{figure:9.2f}" for figure in figures) + f"{self.unluckiest:9}"

    def _ask(self, refused: int) -> None:
        now, seconds = self.now, period(self, self.turn_time)
        free_at = now + self.delay if self._is_open else max(now, self._ended_at + self.delay)
        due_at = free_at + len(self._line) * seconds
        if is_due(self, due_at, now, period=seconds, max_wait=self._max_wait):
            redeem(self)
            is_admitted = due_at - now <= self._max_wait
        else:
            is_admitted = due_at - now <= GRAIN and is_free(self, due_at, period=seconds)
        if is_admitted:
            self._line.append((now, refused))
            self._start()
            return
        self.vain += 1
        at = next_place(self, due_at, now, period=seconds)
        promise(self, at, period=seconds)
        if not refused and random.random() < self._lost:
            self.missed += 1
        else:
            self.at(now + self._comes_after(at - now), partial(self._ask, refused + 1))

    def _start(self) -> None:
        due_at = self._ended_at + self.delay
        if self._is_open or not self._line:
            return
        if due_at - self.now > GRAIN:
            self.at(due_at, self._start)
            return
        since, refused = self._line.pop(0)
        self._is_open = True
        self._slept += self.now - since
        self.unluckiest = max(self.unluckiest, refused)
        took = self._takes * random.lognormvariate(-0.125, 0.5)
        self.at(self.now + took, partial(self._end, took))

    def _end(self, took: float) -> None:
        self._is_open, self._ended_at = False, self.now
        self.pages += 1
        self._busy += took
        self.turn_time += (took - self.turn_time) / 8
        self.at(self.now + self.delay, self._start)


def main() -> None:
    """Print a table."""
    print(f"{'':56}  in vain to bound    slept  refused")
    for delay, takes, lost, new in (
        (1.0, 0.3, 0.0, 0.0),
        (5.0, 0.5, 0.0, 0.0),
        (0.2, 0.1, 0.0, 0.0),
        (1.0, 0.3, 0.05, 0.2),
    ):
        for engine in ENGINES:
            for max_wait in (0.0, 0.25, 1.0, MAX_WAIT):
                random.seed(1)
                host = Host(engine, max_wait, tasks=1000, delay=delay, takes=takes, lost=lost, new=new)
                what = f"{delay:g} s, {'some lost and new, ' if lost else ''}{engine}, sleeps {max_wait:g} s"
                print(f"{what:56}{host.figures()}")


if __name__ == "__main__":
    main()
