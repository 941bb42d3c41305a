"""The learned delay against hidden limits, in virtual time: ``python -m benchmarks.limits_model``.

One host answers requests as fast as the learner lets them through, and refuses those above a limit that it keeps to
itself. Printed are the share of what the limit allows that was fetched, and the share of requests that were told off.
The constants of `robotgate.pace.learned` were chosen here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from robotgate.demo import sites
from robotgate.pace.learned import Learner

if TYPE_CHECKING:
    from collections.abc import Callable

LATENCY: Final = 0.004
MOST: Final = 60.0


class Limit(Protocol):
    """What a host allows."""

    def takes(self, now: float) -> bool:
        """Whether it takes a request now."""
        ...

    def allowed(self, since: float, until: float) -> float:
        """How many requests it allows in the long run."""
        ...


class Bucket(sites.Bucket):
    """A leaky bucket, or a token bucket: so many requests a second, and some at once."""

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


def crawl(
    limit: Limit, *, since: float, until: float, asked: float = 0.0, floor: float = 0.02
) -> tuple[float, float]:
    """Return the share that was fetched, and the share that was told off, between two instants.

    Args:
        asked: the seconds of Retry-After.
    """
    host, now = Host(floor), 0.0
    learner = Learner(host)
    good = off = 0
    while now < until:
        host.visits += 1
        is_good = limit.takes(now)
        if now >= since:
            good, off = good + is_good, off + (not is_good)
        now += LATENCY * random.uniform(0.8, 1.4)
        pause = 0.0
        if is_good:
            learner.answered(host, now=now, most=MOST)
        else:
            pause = learner.told_off(host, asked, now=now, most=MOST)
        now += max(pause, host.floor, host.learned_delay)
    return good / limit.allowed(since, until), off / max(good + off, 1)


LIMITS: Final[dict[str, tuple[Callable[[], Limit], float, float, float]]] = {
    "bucket, 5 a second": (lambda: Bucket(5, 2), 15, 180, 0),
    "the same, Retry-After: 1": (lambda: Bucket(5, 2), 15, 180, 1),
    "bucket, 5 a second, 20 at once": (lambda: Bucket(5, 20), 15, 180, 0),
    "bucket, 1 in 5 seconds": (lambda: Bucket(0.2, 1), 60, 300, 0),
    "bucket, 50 a second": (lambda: Bucket(50, 10), 15, 180, 0),
    "leaky bucket, 2 a second": (lambda: Bucket(2, 2), 15, 180, 0),
    "window, 20 in 10 seconds": (lambda: Window(20, 10), 15, 180, 0),
    "window, 10 in 2 seconds": (lambda: Window(10, 2), 15, 180, 0),
    "window, 100 in a minute": (lambda: Window(100, 60), 60, 300, 0),
    "sliding window, 20 in 10 seconds": (lambda: Sliding(20, 10), 15, 180, 0),
    "the same, in the first minute": (lambda: Sliding(20, 10), 15, 60, 0),
    "5 a second, then 2.5, then 5": (lambda: Halved(5, 2), 15, 135, 0),
    "no limit": (lambda: Bucket(1e9, 2), 15, 60, 0),
}
"""The limit, the seconds from which and until which is counted, and Retry-After."""


def main(rounds: int = 8) -> None:
    """Print a table: least share and most told off of some rounds."""
    print(f"{'hidden limit':34} {'share':>6} {'told off':>9}")
    for name, (make, since, until, asked) in LIMITS.items():
        found = [crawl(make(), since=since, until=until, asked=asked) for _ in range(rounds)]
        print(f"{name:34} {min(share for share, _ in found):6.2f} {max(off for _, off in found):8.1%}")


if __name__ == "__main__":
    random.seed(1)
    main()
