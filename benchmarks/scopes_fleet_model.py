"""A fleet whose hosts share addresses and groups, in virtual time: ``python -m benchmarks.scopes_fleet_model``.

Processes that all want pages of every host are granted hosts and scopes by `robotgate.stores.grants`. Printed are the
makespan to the bound, which is what the busiest host or scope takes, calls of the store a page, gaps that were too
short, and pages that were not got. When a process hands a scope on, and how often it looks whether it is granted what
it waits for, was chosen here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.scopes_model import GRAIN, MOST, SERVICE, Clock
from robotgate.pace.state import HostState
from robotgate.stores.grants import BEAT, Grants, Reply, Request, SessionSide, not_before
from robotgate.stores.redis.store import MAX_ASKS, MAX_POLL, MIN_ASKS, MIN_POLL, POLLS

if TYPE_CHECKING:
    from collections.abc import Iterable

TRIP: Final = 0.003
"""Seconds for the way to the store and back."""
SAVED: Final = 0.5
"""Seconds after which visits are saved, as in `robotgate.client.persistence`."""


@dataclass(slots=True, eq=False)
class Held:
    """A host or a scope that is granted to a process."""

    due_at: float
    is_wanted: bool
    last_visit_at: float | None = None
    turns: int = 0
    is_open: bool = False


class Shape(NamedTuple):
    """What a fleet crawls, and how it shares scopes."""

    hosts: int
    scopes: tuple[tuple[int, float], ...] = ()
    """So many of each kind, and their delay; a host is in one of each."""
    turns: int = 1
    """After how many a scope is handed on that others want."""
    slowness: float = 2.0
    """Delays of its scopes that a host's pace counts at least as, when a process looks whether it is granted."""
    processes: int = 8
    pages: int = 20
    delay: float = 0.2


class Fleet(Clock):
    """Processes that share hosts and scopes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.keys: dict[str, tuple[str, ...]] = {}
        """What a turn needs, in the order in which it is asked for: the host, then its scopes."""
        self.delays: dict[str, float] = {}
        for number in range(shape.hosts):
            kinds = enumerate(shape.scopes)
            scopes = {f"{kind}|{number % many}": delay for kind, (many, delay) in kinds}
            self.keys[f"{number}"] = f"{number}", *scopes
            self.delays |= {f"{number}": shape.delay, **scopes}
        self.grants = Grants("")
        self.calls, self.left = 0, shape.hosts * shape.pages
        self.visits: dict[str, list[tuple[float, float]]] = {key: [] for key in self.delays}
        for number in range(shape.processes):
            Process(self, number, len(range(number, shape.pages, shape.processes)))

    def figures(self) -> str:
        """Run, and return the figures as a line."""
        start = self.now
        self.run(start + MOST)
        pairs = ((self.delays[key], pair) for key in self.delays for pair in pairwise(self.visits[key]))
        short = sum(begins - ends < delay - GRAIN for delay, ((_, ends), (begins, _)) in pairs)
        takes = ((SERVICE + delay) * len(self.visits[key]) - delay for key, delay in self.delays.items())
        calls = self.calls / (self.shape.hosts * self.shape.pages - self.left)
        return f"{(self.now - start) / max(takes):9.3f}{calls:9.2f}{short:9}{self.left:9}"


class Process:
    """One of a fleet: a session, and the turns that wait."""

    def __init__(self, fleet: Fleet, number: int, pages: int) -> None:
        self._fleet, self._side = fleet, SessionSide(str(number))
        self._left = dict.fromkeys(random.sample([*fleet.keys], len(fleet.keys)), pages)
        self._hosts: dict[str, list[str]] = {key: [] for key in fleet.delays}
        for host in self._left:
            for key in fleet.keys[host]:
                self._hosts[key].append(host)
        self._held: dict[str, Held] = {}
        self._awaited: dict[str, tuple[float, float | None]] = {}
        """Since when, and the seconds between two visits; None: not known."""
        self._unasked: list[str] = []
        self._most = MIN_ASKS
        self._is_calling = self._is_due = False
        self._calls, self._saves_at = 0, 0.0
        fleet.at(fleet.now, partial(self._go_on, [*self._left]))

    def _go_on(self, hosts: Iterable[str]) -> None:
        """Start what may start, hand on what is done with or of no use, and ask for what lacks."""
        fleet, held = self._fleet, self._held
        hosts = [host for host in hosts if host in held] + [host for host in hosts if host not in held]
        full = [host for host in hosts if all(key in held for key in fleet.keys[host])]
        for host in sorted(full, key=lambda host: (not held[host].is_wanted, held[host].due_at)):
            keys = fleet.keys[host]
            at = max(held[key].due_at for key in keys)
            if not self._left[host] or any(held[key].is_open for key in keys):
                continue
            if at - fleet.now > GRAIN:
                fleet.at(at + random.uniform(0, 0.002), partial(self._go_on, [host]))
            else:
                self._start(host)
        for key in dict.fromkeys(key for host in hosts for key in fleet.keys[host]):
            if key in held and not held[key].is_open and self._hands_on(key, held[key]):
                left = held.pop(key)
                visited = HostState(last_visit_at=left.last_visit_at, next_allowed_at=left.due_at)
                self._side.leave(key, visited if left.turns else None)
                self._call()
        for host in hosts:
            lacking = next((key for key in fleet.keys[host] if key not in held), host)
            if not self._left[host] or lacking in held or lacking in self._awaited:
                continue
            if lacking != host and held[host].due_at - fleet.now > GRAIN:
                fleet.at(held[host].due_at, partial(self._go_on, [host]))
                continue
            self._awaited[lacking] = fleet.now, None
            self._unasked.append(lacking)
            self._call()

    def _hands_on(self, key: str, grant: Held) -> bool:
        """Whether others may have a host or a scope."""
        shape, now = self._fleet.shape, self._fleet.now
        if key in self._left:
            return grant.is_wanted and (grant.turns > 0 or not self._left[key])
        if not any(self._left[host] for host in self._hosts[key]):
            return True
        is_done = grant.turns >= shape.turns or not self._is_of_use(key, max(now, grant.due_at))
        return grant.is_wanted and is_done

    def _is_of_use(self, key: str, at: float) -> bool:
        """Whether a turn that is due holds all that is asked for before this scope."""
        for host in self._hosts[key]:
            keys, own = self._fleet.keys[host], self._held.get(host)
            if own is None or own.is_open or not self._left[host] or own.due_at - at > GRAIN:
                continue
            if all(each in self._held for each in keys[: keys.index(key)]):
                return True
        return False

    def _start(self, host: str) -> None:
        now = self._fleet.now
        for key in self._fleet.keys[host]:
            self._held[key].is_open = True
        self._fleet.at(now + SERVICE * random.uniform(0.5, 1.5), partial(self._end, host, now))

    def _end(self, host: str, began_at: float) -> None:
        fleet, now = self._fleet, self._fleet.now
        for key in fleet.keys[host]:
            grant = self._held[key]
            grant.is_open, grant.turns, grant.last_visit_at = False, grant.turns + 1, now
            grant.due_at = now + fleet.delays[key]
            fleet.visits[key].append((began_at, now))
        self._left[host] -= 1
        fleet.left -= 1
        if now >= self._saves_at:
            self._saves_at = now + SAVED
            fleet.at(self._saves_at, self._call)
        self._go_on(dict.fromkeys(other for key in fleet.keys[host] for other in self._hosts[key]))
        if not fleet.left:
            fleet.events.clear()

    def _call(self) -> None:
        self._is_due = True
        if not self._is_calling:
            self._is_calling = True
            self._fleet.at(self._fleet.now, self._send)

    def _send(self) -> None:
        fleet = self._fleet
        fleet.calls += 1
        self._calls += 1
        self._is_due = False
        most = min(max(self._most, len(self._unasked) // MIN_ASKS), MAX_ASKS, len(self._unasked))
        for key in random.sample(self._unasked, most):
            self._unasked.remove(key)
            self._side.ask(key)
        request = self._side.request(now=fleet.now)
        fleet.at(fleet.now + TRIP / 2, partial(self._exchange, request))

    def _exchange(self, request: Request) -> None:
        """What the store does."""
        grants, now = self._fleet.grants, self._fleet.now
        reply = grants.exchange(request, now=now)
        for key in request.asks:
            state, since = grants.known(key), self._awaited[key][0]
            if state is not None and state.last_visit_at is not None:
                self._awaited[key] = since, not_before(state) - state.last_visit_at
        self._fleet.at(now + TRIP / 2 * random.uniform(1, 2), partial(self._receive, request, reply))

    def _receive(self, request: Request, reply: Reply) -> None:
        fleet, hosts = self._fleet, dict[str, None]()
        for item in self._side.receive(reply)[0]:
            if item.key in self._held:
                self._held[item.key].is_wanted = True
            else:
                del self._awaited[item.key]
                due_at = 0.0 if item.state is None else not_before(item.state)
                self._held[item.key] = Held(due_at, item.is_wanted)
            hosts |= dict.fromkeys(self._hosts[item.key])
        is_contended = any(key in self._awaited for key in request.asks)
        self._most = MIN_ASKS if is_contended else max(2 * len(request.asks), MIN_ASKS)
        self._go_on(hosts)
        self._is_calling = False
        if self._is_due or self._unasked or self._side.has_to_send:
            self._call()
        else:
            delay = min([BEAT, *map(self._poll_delay, self._awaited)])
            fleet.at(fleet.now + delay, partial(self._poll, self._calls))

    def _poll_delay(self, key: str) -> float:
        fleet, (since, pace) = self._fleet, self._awaited[key]
        scopes = fleet.keys.get(key, (key, key))[1:]
        least = fleet.shape.slowness * max((fleet.delays[scope] for scope in scopes), default=0.0)
        pace = max(fleet.now - since if pace is None else pace, least)
        return min(max(pace / POLLS, MIN_POLL), MAX_POLL)

    def _poll(self, calls: int) -> None:
        if calls == self._calls:
            unknown = [key for key, (_, pace) in self._awaited.items() if pace is None]
            for key in random.sample(unknown, min(len(unknown), MIN_ASKS)):
                self._side.ask_again(key)
            self._call()


FLEETS: Final[dict[str, Shape]] = {
    "no scopes": Shape(200),
    "20 addresses, 0.05 s": Shape(200, ((20, 0.05),)),
    "20 addresses, 0.1 s": Shape(200, ((20, 0.1),)),
    "20 addresses, 0.5 s": Shape(200, ((20, 0.5),)),
    "the same, looked for as without": Shape(200, ((20, 0.5),), slowness=0.0),
    "the same, handed on after 2 turns": Shape(200, ((20, 0.5),), turns=2),
    "after 4": Shape(200, ((20, 0.5),), turns=4),
    "a host an address, 2 processes": Shape(2, ((2, 0.5),), processes=2),
    "10 addresses across 7 groups": Shape(100, ((10, 0.5), (7, 0.3))),
    "10 addresses of one group": Shape(100, ((10, 0.5), (1, 0.1))),
}


def main() -> None:
    """Print a table."""
    print(f"{'':36} to bound    calls    short     left")
    for name, shape in FLEETS.items():
        print(f"{name:36}{Fleet(shape).figures()}")


if __name__ == "__main__":
    random.seed(1)
    main()
