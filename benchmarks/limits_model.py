"""The learned delay against hidden limits, in virtual time: ``python -m benchmarks.limits_model``.

One host answers requests as fast as the learner lets them through, and refuses those above a limit that it keeps to
itself. Printed are the share of what the limit allows that was fetched, and the share of requests that were told off.
The constants of `robotgate.pace.learned` were chosen here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from robotgate.pace.learned import Learner

if TYPE_CHECKING:
    from collections.abc import Callable

LATENCY: Final = 0.004
FLOOR: Final = 0.02
MOST: Final = 60.0


class Limit(Protocol):
    """What a host allows."""

    def takes(self, now: float) -> bool:
        """Whether it takes a request now."""
        ...

    def allowed(self, since: float, until: float) -> float:
        """How many requests it allows in the long run."""
        ...


@dataclass
class Bucket:
    """A leaky bucket, or a token bucket: so many requests a second, and some at once."""

    rate: float
    depth: int = 2
    level: float = 0.0
    at: float = 0.0

    def takes(self, now: float) -> bool:
        """A request fits in."""
        self.level, self.at = max(0.0, self.level - (now - self.at) * self.rate), now
        if self.level + 1 > self.depth + 1e-9:
            return False
        self.level += 1
        return True

    def allowed(self, since: float, until: float) -> float:
        """The rate; the depth is used up once."""
        return self.rate * (until - since)


class Halved(Bucket):
    """A bucket whose rate is halved after 45 s, and doubled again after 90 s."""

    def takes(self, now: float) -> bool:
        """A request fits in."""
        self.rate = 2.5 if 45 <= now < 90 else 5.0
        return super().takes(now)

    def allowed(self, since: float, until: float) -> float:
        """The rate, but for what it is halved by meanwhile."""
        return 5.0 * (until - since) - 2.5 * max(0.0, min(until, 90.0) - max(since, 45.0))


@dataclass
class Window:
    """So many requests in each window, which begin on the minute."""

    requests: int
    seconds: float
    number: int = -1
    left: int = 0

    def takes(self, now: float) -> bool:
        """The window has room."""
        number = int(now / self.seconds)
        if number != self.number:
            self.number, self.left = number, self.requests
        self.left -= 1
        return self.left >= 0

    def allowed(self, since: float, until: float) -> float:
        """All windows full."""
        return self.requests / self.seconds * (until - since)


@dataclass
class Sliding(Window):
    """So many requests in any window, as HAProxy counts: those refused too, and those of the last window in part."""

    counts: list[int] = field(default_factory=lambda: [0, 0])

    def takes(self, now: float) -> bool:
        """The windows have room."""
        number = int(now / self.seconds)
        if number != self.number:
            self.counts = [0, self.counts[0] if number == self.number + 1 else 0]
            self.number = number
        self.counts[0] += 1
        return self.counts[0] + self.counts[1] * (1 - now / self.seconds % 1) <= self.requests


@dataclass
class AtOnce:
    """So many requests at once, each of which takes so long."""

    requests: int
    seconds: float
    ends: list[float] = field(default_factory=list)

    def takes(self, now: float) -> bool:
        """Fewer are under way."""
        self.ends = [end for end in self.ends if end > now]
        if len(self.ends) >= self.requests:
            return False
        self.ends.append(now + self.seconds)
        return True

    def allowed(self, since: float, until: float) -> float:
        """One after the other, at each place."""
        return self.requests / self.seconds * (until - since)


@dataclass
class Host:
    """What a learner knows of its host."""

    floor: float
    visits: int = 0
    learned_delay: float = 0.0
    limit_delay: float = 0.0
    eases_at: float = 0.0
    run_began_at: float = 0.0
    run_visits: int = 0


class Case(NamedTuple):
    """A limit, and how it is met."""

    make: Callable[[], Limit]
    since: float = 15
    until: float = 180
    """Seconds between which is counted."""
    asked: float = 0
    """The seconds of Retry-After."""
    latency: float = LATENCY
    """The seconds that a good answer takes."""
    slots: int = 1
    """Requests that may be under way at once."""


def crawl(case: Case) -> tuple[float, float]:
    """Return the share that was fetched, and the share that was told off."""
    limit, host = case.make(), Host(FLOOR)
    learner = Learner(host)
    answers: list[tuple[float, bool, float]] = []
    start = last = blocked_until_at = good = off = 0.0
    told_at = -1.0
    while start < case.until:
        if answers and (len(answers) == case.slots or answers[0][0] <= start):
            now, is_good, began_at = heappop(answers)
            # Those that were under way when another was told off say nothing new.
            if began_at > told_at and is_good:
                learner.answered(host, now=now, most=MOST)
            elif began_at > told_at:
                told_at = now
                blocked_until_at = now + learner.told_off(host, case.asked, now=now, most=MOST)
            if case.slots == 1:
                last = now
            start = max(last + max(host.floor, host.learned_delay), blocked_until_at, now)
            continue
        host.visits += 1
        is_good = limit.takes(start)
        if start >= case.since:
            good, off = good + is_good, off + (not is_good)
        takes = (case.latency if is_good else LATENCY) * random.uniform(1, 1.4)
        heappush(answers, (start + takes, is_good, start))
        last, start = start, start + max(host.floor, host.learned_delay)
    return good / limit.allowed(case.since, case.until), off / max(good + off, 1)


LIMITS: Final[dict[str, Case]] = {
    "bucket, 5 a second": Case(lambda: Bucket(5, 2)),
    "the same, Retry-After: 1": Case(lambda: Bucket(5, 2), asked=1),
    "bucket, 1 in 5 seconds": Case(lambda: Bucket(0.2, 1), since=60),
    "leaky bucket, 2 a second": Case(lambda: Bucket(2, 2)),
    "window, 20 in 10 seconds": Case(lambda: Window(20, 10)),
    "window, 10 in 2 seconds": Case(lambda: Window(10, 2)),
    "window, 100 in a minute": Case(lambda: Window(100, 60), since=60, until=300),
    "sliding window, 20 in 10 seconds": Case(lambda: Sliding(20, 10)),
    "2 at once, of 0.1 s each": Case(lambda: AtOnce(2, 0.1), latency=0.1, slots=8),
    "2.5 a second, 30 s after it was 5": Case(lambda: Halved(5, 2), since=75, until=90),
    "5 a second, 30 s after it was 2.5": Case(lambda: Halved(5, 2), since=120),
}


def main(rounds: int = 8) -> None:
    """Print a table: least share and most told off of some rounds."""
    print(f"{'hidden limit':34} {'share':>6} {'told off':>9}")
    for name, case in LIMITS.items():
        found = [crawl(case) for _ in range(rounds)]
        print(f"{name:34} {min(share for share, _ in found):6.2f} {max(off for _, off in found):8.1%}")


if __name__ == "__main__":
    random.seed(1)
    main()
