"""Hosts that share addresses and groups, in one process and virtual time: ``python -m benchmarks.scopes_model``.

A turn needs its host and all scopes of it, and holds nothing while it waits. Printed are the makespan to the bound,
which is what the busiest scope takes; the longest wait for scopes, of hosts with most scopes and of the others; and how
many turns were looked at for each that was granted. For how long `robotgate.pace.scope` keeps scopes for a turn that
others go before was chosen here, with fast responses; slow and uneven ones follow.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.pace.scope import LEAST_KEPT, MOVES_FOR_DELAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Allowed: TypeAlias = Callable[[int, float, bool], float]
    """For how many seconds scopes may be kept for a turn that was passed over so often, by the delay of the scope that
    it leaves, and whether one of its scopes is taken, so that it is not known when that will be free."""
    Takes: TypeAlias = Callable[[], float]
    """How many seconds a response takes."""

GRAIN: Final = 1e-9
SERVICE: Final = 0.01
"""Seconds that a response takes, on average."""
ENDLESS: Final = 10**6
MOST: Final = 2_000.0
"""Seconds that a crawl takes at most."""


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.now = 1.0
        self._serials = count()
        self.events: list[tuple[float, int, Callable[[], object]]] = []

    def at(self, at: float, do: Callable[[], object]) -> None:
        """Do something at an instant."""
        heappush(self.events, (at, next(self._serials), do))

    def run(self, until: float) -> None:
        """Let all that happens before an instant happen."""
        while self.events and self.events[0][0] <= until:
            self.now, _, do = heappop(self.events)
            do()


@dataclass(slots=True, eq=False)
class Scope:
    """An address, a group, or the gate as a whole."""

    delay: float
    ready_at: float = 0.0
    """Infinity while a request is under way."""
    line: list[tuple[int, Host]] = field(default_factory=list)
    """A heap: the hosts that wait for it, by the arrival of their turns."""
    kept: Host | None = None
    """For which it waits although others could go."""
    kept_until: float = 0.0
    used: float = 0.0
    """Seconds for which nobody else could have it."""

    def is_kept_from(self, host: Host, now: float) -> bool:
        """Whether it is kept for a turn that has come earlier."""
        kept = self.kept
        return kept is not None and kept.arrival < host.arrival and now - self.kept_until <= GRAIN

    def is_free(self, host: Host, now: float) -> bool:
        """Whether a turn may go, as far as this scope is concerned."""
        return self.ready_at - now <= GRAIN and not self.is_kept_from(host, now)


@dataclass(slots=True, eq=False)
class Host:
    """A host, and its turn: each page is asked for when the one before it has ended."""

    scopes: tuple[Scope, ...]
    pages: int = 6
    delay: float = 1.0
    arrival: int = 0
    due_at: float = 0.0
    passed: int = 0
    """How often it was first in a scope's line, and others went before it."""
    longest: float = 0.0
    """Seconds that a turn waited for scopes."""


class Gate(Clock):
    """One process."""

    def __init__(self, hosts: Iterable[Host], allowed: Allowed | None, takes: Takes) -> None:
        super().__init__()
        self._allowed, self._takes = allowed, takes
        self._line: list[tuple[int, Host]] = []
        """The only one, where no turn goes before one that came earlier."""
        self._arrivals = count()
        self.looks = self.grants = 0
        for host in hosts:
            self._ask(host, self.now)

    def _ask(self, host: Host, due_at: float) -> None:
        host.arrival, host.due_at, host.passed = next(self._arrivals), due_at, 0
        self.at(due_at, partial(self._come, host))

    def _come(self, host: Host) -> None:
        if self._allowed is None:
            heappush(self._line, (host.arrival, host))
            self._serve_in_order()
        else:
            self._look(host)

    def _serve_in_order(self) -> None:
        while self._line:
            first = self._line[0][1]
            if not all(scope.is_free(first, self.now) for scope in first.scopes):
                self.looks += 1
                return
            heappop(self._line)
            self._look(first)

    def _look(self, host: Host) -> bool:
        """Grant a turn, or have it wait for the scope that is ready last. Return whether it was granted."""
        self.looks += 1
        lacking = [scope for scope in host.scopes if not scope.is_free(host, self.now)]
        if lacking:
            last = max(lacking, key=lambda scope: max(scope.ready_at, scope.kept_until))
            heappush(last.line, (host.arrival, host))
            return False
        self.grants += 1
        host.longest = max(host.longest, self.now - host.due_at)
        for scope in host.scopes:
            scope.ready_at, scope.kept = math.inf, None if scope.kept is host else scope.kept
        seconds = self._takes()
        self.at(self.now + seconds, partial(self._end, host, seconds))
        return True

    def _serve(self, scope: Scope) -> None:
        """Let the first of a scope's line go that can."""
        if self._allowed is None:
            self._serve_in_order()
            return
        while scope.line and scope.is_free(scope.line[0][1], self.now):
            host = heappop(scope.line)[1]
            if not self._look(host):
                host.passed += 1
                self._keep(host, scope, self._allowed)

    def _keep(self, host: Host, left: Scope, allowed: Allowed) -> None:
        """Keep all scopes for a turn until the last of them is ready, if that is soon enough."""
        now, until = self.now, max(scope.ready_at for scope in host.scopes)
        most = allowed(host.passed, max(left.delay, LEAST_KEPT), until == math.inf)
        if math.inf in {until, most}:
            until = now + most
        if 0 <= until - now <= most and not any(scope.is_kept_from(host, now) for scope in host.scopes):
            for scope in host.scopes:
                scope.kept, scope.kept_until = host, until
                self.at(until + 2 * GRAIN, partial(self._serve, scope))

    def _end(self, host: Host, seconds: float) -> None:
        host.pages -= 1
        for scope in host.scopes:
            scope.used += seconds + scope.delay
            scope.ready_at = self.now + scope.delay
            self.at(scope.ready_at, partial(self._serve, scope))
        if host.pages:
            self._ask(host, self.now + host.delay)


def fast() -> float:
    """10 ms."""
    return SERVICE * random.uniform(0.5, 1.5)


def crawled(hosts: Sequence[Host], allowed: Allowed | None, takes: Takes = fast) -> str:
    """Let one process crawl, and return the figures as a line."""
    gate = Gate(hosts, allowed, takes)
    start = gate.now
    gate.run(start + MOST)
    for host in hosts:
        host.longest = max(host.longest, gate.now - host.due_at if host.pages else 0.0)
    bound = max(scope.used for host in hosts for scope in host.scopes)
    most = max(len(host.scopes) for host in hosts)
    crossed = max(host.longest for host in hosts if len(host.scopes) == most)
    others = max((host.longest for host in hosts if len(host.scopes) < most), default=0.0)
    return f"{(gate.now - start) / bound:9.3f}{crossed:9.1f}{others:9.1f}{gate.looks / gate.grants:9.2f}"


def scopes_of(number: int, delay: float) -> list[Scope]:
    """So many alike."""
    return [Scope(delay) for _ in range(number)]


def dealt(hosts: int, *kinds: Sequence[Scope]) -> list[Host]:
    """Hosts that are in one scope of each kind; of slow ones one page is asked for."""
    scopes = [tuple(kind[number % len(kind)] for kind in kinds) for number in range(hosts)]
    return [Host(each, pages=6 if each[0].delay < 1 else 1) for each in scopes]


def sampled(hosts: int, scopes: Sequence[Scope], each: int) -> list[Host]:
    """Names with several addresses."""
    return [Host(tuple(random.sample(scopes, each))) for _ in range(hosts)]


def between(here: float, there: float) -> list[Host]:
    """Two hosts in two scopes, which 40 others each never leave idle."""
    one, other = Scope(here), Scope(there)
    members = [(one,), (other,)] * 40 + [(one, other)] * 2
    return [Host(scopes, pages=ENDLESS) for scopes in members]


CASES: Final[dict[str, Callable[[], list[Host]]]] = {
    "1,000 hosts on 10 addresses": lambda: dealt(1_000, scopes_of(10, 0.5)),
    "10 addresses of one group": lambda: dealt(500, scopes_of(10, 0.5), scopes_of(1, 0.06)),
    "10 addresses across 7 groups": lambda: dealt(490, scopes_of(10, 0.5), scopes_of(7, 0.3)),
    "one of 10 is slow": lambda: dealt(500, [*scopes_of(9, 0.5), Scope(5)], scopes_of(1, 0.06)),
    "and a total": lambda: dealt(490, scopes_of(10, 0.5), scopes_of(7, 0.3), scopes_of(1, 0.04)),
    "3 of 30 addresses each": lambda: sampled(500, scopes_of(30, 0.5), 3),
    "between 0.5 and 0.3 s": lambda: between(0.5, 0.3),
    "between 0.5 and 5 s": lambda: between(0.5, 5),
}
POLICIES: Final[dict[str, Allowed | None]] = {
    "one line for all": None,
    "never kept": lambda _passed, _delay, _is_taken: -1.0,
    "kept once passed 4 times": lambda passed, _delay, _is_taken: math.inf if passed >= 4 else -1.0,
    "kept for passed / 8 delays": lambda passed, delay, _is_taken: passed / 8 * delay,
    "kept for passed / 32 delays": lambda passed, delay, _is_taken: passed / 32 * delay,
    "kept for passed / 64 delays": lambda passed, delay, _is_taken: passed / 64 * delay,
    "as it is, taken ones late": lambda passed, delay, is_taken: (
        passed / MOVES_FOR_DELAY * delay if passed >= MOVES_FOR_DELAY or not is_taken else -1.0
    ),
}
RESPONSES: Final[dict[str, Takes]] = {
    "10 ms": fast,
    "300 ms": lambda: 30 * fast(),
    "10 ms, a tenth 2 s": lambda: 200 * fast() if random.random() < 0.1 else fast(),
}


def main() -> None:
    """Print a table."""
    print(f"{'':77} to bound  crossed   others    looks")
    for response, takes in RESPONSES.items():
        for name, case in CASES.items():
            for policy, allowed in POLICIES.items():
                print(f"{response:20}{name:30}{policy:27}{crawled(case(), allowed, takes)}")


if __name__ == "__main__":
    random.seed(1)
    main()
