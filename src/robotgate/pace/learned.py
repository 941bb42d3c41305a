"""The delay that a host teaches us: raised when the host tells us off, lowered step by step by good answers.

A host may allow five requests a second and say so by nothing but a 429. `Learner` finds the delay that such a host
bears, a little above its limit, in three phases. What it has found is in the host's state, which stores keep:
`learned_delay`, `limit_delay` and `eases_at`. A stretch is the time from the end of one pause to the next telling off;
what its answers cost in time says how fast the host lets us be.

::

    unknown     No learned delay, or fewer than `FEW` answers in the stretch. Told off: the delay doubles; after the
                pause it is at least the time that a good answer has cost so far, pauses included.
    searching   Above `NEAR` times the limit. Good answers: lowered by `DROP` of the distance to the limit. Told off
                while the limit `is_rough`: the limit lies between this delay and the last.
    settled     Up to `NEAR` times the limit. Good answers: after `wait`, which grows with each time it is told off,
                slowly lowered below the limit. Told off: the limit is a little above this delay.

A learned delay is never below what the operator and the site ask for: it only adds to that. Constants are from the
model in ``benchmarks/limits_model.py``, which has hidden limits of several kinds in virtual time.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

LEAST: Final = 0.02
"""Seconds: a host that is told to have no delay starts to learn from here."""
NEAR: Final = 1.02
"""Times the limit: the delay that is settled at."""
ABOVE: Final = 1.06
"""Times the limit: the delay after a host that was settled has told us off."""
DROP: Final = 0.4
"""Share of the distance to the limit by which the delay is lowered at a time."""
CAP: Final = 1.12
"""Times the delay: the most by which a limit is taken to be above the delay that was told off."""
FEW: Final = 6
"""Answers; fewer say nothing about a delay."""
SOME: Final = 20
"""Answers in a row that make the next try below the limit wait longer."""
FIRST_WAIT: Final = 12.0
LAST_WAIT: Final = 25.0
"""Seconds between two tries below the limit, doubled each time; at most the second, for each time that the last try was
told off."""
FIRST_GAIN: Final = 0.03
GAIN_GROWTH: Final = 1.6
LAST_GAIN: Final = 0.12
"""Shares by which the delay is lowered below the limit, as long as nothing is told off."""
SETTLING: Final = 1.0
CAUTION: Final = 2.0
"""Seconds, at least, until the delay is lowered again: on the way to the limit, and below it or after a pause."""
LATE: Final = 1.0
SLOWER: Final = 3.0
"""Seconds that answers take, and how many times as long as the fastest, from which on a host counts as overloaded."""
GROWTH: Final = 1.5
"""Times the last pause: the next one, where the host tells us off again at its end. The limit is found so exactly."""
LONGEST_PAUSE: Final = 3600.0


class Taught(Protocol):
    """The host that teaches."""

    visits: int
    learned_delay: float
    limit_delay: float
    eases_at: float
    floor: float
    """Seconds between visits that operator and site ask for."""
    run_began_at: float
    """When the present run of visits began, without a longer time in which the host was left alone."""
    run_visits: int
    """How many visits there were before that run."""


def taught_from(host: Taught) -> float:
    """Return the seconds between visits that are raised where the host is to be visited more slowly."""
    return max(host.floor, host.learned_delay, LEAST)


class Learner:
    """What is remembered in memory of how a host came to its learned delay. Methods take `now`, and change the host.

    Visits are counted rather than answers: several processes may share the host, each with a learner of its own.
    """

    __slots__ = (
        "changed_visits",
        "due_at",
        "first_told_at",
        "gain",
        "held_delay",
        "is_rough",
        "last_pauses",
        "pause",
        "stretch_at",
        "stretch_visits",
        "times_told",
        "told_at",
        "told_visits",
        "wait",
    )

    def __init__(self, host: Taught) -> None:
        self.is_rough: bool = host.learned_delay > host.limit_delay * CAP or not host.learned_delay
        """Whether the limit is known by its order of magnitude alone."""
        self.stretch_at: float = host.run_began_at
        """When the stretch began: when the last pause ended, or the first visit."""
        self.stretch_visits: int = host.run_visits
        """How many visits there were before."""
        self.changed_visits: int = host.run_visits
        """How many visits there were when the delay changed."""
        self.held_delay: float = 0.0
        """The last delay that was held for some answers."""
        self.times_told: int = 0
        """How often we were told off since the last good answer."""
        self.first_told_at: float = 0.0
        """When we were told off first since then."""
        self.told_at: float = -math.inf
        """When we were told off last."""
        self.told_visits: int = 0
        """How many visits there were then."""
        self.last_pauses: float = 0.0
        """How long the last pauses were, from the first to the good answer after them."""
        self.pause: float = 0.0
        self.due_at: float = 0.0
        """When the last pause was to end."""
        self.wait: float = FIRST_WAIT
        self.gain: float = FIRST_GAIN

    def told_off(
        self, host: Taught, asked: float = 0.0, *, now: float, most: float, factor: float = 1.0
    ) -> float:
        """Return the seconds until the host may be asked again. Raises the delay, or the pause alone if no other
        request has begun since the last.

        Args:
            asked: the seconds that it asks for; 0.0 where it does not say.
            most: seconds; the longest delay.
            factor: times the pause that the host does not ask for.
        """
        self._tell_off(host, now, most)
        pause = max(min(self.pause * factor, LONGEST_PAUSE), asked)
        self.due_at = now + pause
        return pause

    def _tell_off(self, host: Taught, now: float, most: float) -> None:
        delay = taught_from(host)
        self.times_told += 1
        self.told_at = now
        begun, self.told_visits = host.visits - self.told_visits, host.visits
        if self.times_told > 1:
            if begun == 1:
                # 1. Nothing good since: the pause was too short.
                self.pause = min(self.pause * GROWTH, LONGEST_PAUSE)
            else:
                # 2. Others began after the pause, and may be good: they came too fast.
                self.is_rough = True
                host.limit_delay = min(delay, most)
                self._change(host, delay * 2, most)
                self.pause = max(self.pause, delay * 2)
            return
        self.first_told_at = now
        if host.run_began_at > self.stretch_at:
            # The host was left alone in between: the stretch began with the visits after that.
            self.stretch_at, self.stretch_visits = host.run_began_at, host.run_visits
        # Those of the stretch, and those since the delay is what it is. The one that tells us off is none.
        answers, alike = host.visits - self.stretch_visits - 1, host.visits - self.changed_visits - 1
        if answers < FEW or not host.learned_delay:
            # 3. Unknown: too few answers to say anything of the limit.
            limit, raised = delay, delay * 2
            self.is_rough = True
        else:
            # 4. Settled, or nearly: the delay was kept for some answers, so the limit is a little above it.
            limit = delay * min(1 + 1 / max(alike, 1), CAP)
            raised = limit * ABOVE
            if self.is_rough and delay > host.limit_delay * 1.5:
                # 5. Searching, far from what the limit was taken for: it is between this delay and the last.
                raised = max(raised, min(self.held_delay, delay * 2))
            self.is_rough = False
        if answers >= SOME:
            self.wait *= 2
        host.limit_delay = min(limit, most)
        self._change(host, raised, most)
        self.pause = min(max(delay * 2, self.last_pauses / 2), LONGEST_PAUSE)

    def answered(self, host: Taught, *, now: float, most: float) -> bool:
        """Take in a good answer: lower the delay if it is time to. Return whether the delay has changed."""
        if self.times_told:
            return self._resumed(host, now, most)
        if host.learned_delay <= host.floor or now < host.eases_at:
            return False
        settled = host.limit_delay * NEAR
        if host.learned_delay > settled:
            step = max((host.learned_delay - host.limit_delay) * DROP, host.limit_delay * 0.01)
            self._change(host, max(host.learned_delay - step, settled * 0.999), most)
            host.eases_at = now + max(SETTLING, 3 * host.learned_delay)
            if host.learned_delay <= settled:
                host.eases_at = now + self.wait
                self.gain, self.is_rough = FIRST_GAIN, False
        else:
            self._change(host, host.learned_delay * (1 - self.gain), most)
            host.limit_delay = host.learned_delay / NEAR
            self.gain = min(self.gain * GAIN_GROWTH, LAST_GAIN)
            host.eases_at = now + max(CAUTION, 6 * host.learned_delay)
        return True

    def raise_to(self, host: Taught, delay: float, *, now: float, most: float) -> None:
        """Raise the delay at least to this, for a host that is slow or comes back, and lower it by the same steps."""
        if delay > host.learned_delay:
            self._change(host, delay, most)
            host.eases_at = max(host.eases_at, now + max(CAUTION, 3 * host.learned_delay))

    def _resumed(self, host: Taught, now: float, most: float) -> bool:
        """Take in the first good answer after a pause."""
        # Had there been no other reason to wait.
        at = min(now, self.due_at + host.learned_delay)
        self.last_pauses = at - self.first_told_at
        is_news = self.is_rough or self.times_told > 2  # A third pause: the limit has changed.
        if is_news:
            # So much time has an answer cost, with the last pauses and without.
            answers = max(host.visits - self.stretch_visits - self.times_told - 1, 1)
            high, low = (at - self.stretch_at) / answers, (self.told_at - self.stretch_at) / answers
            host.limit_delay = min(max(host.limit_delay, low), most)
            self._change(host, max(host.learned_delay, high), most)
            self.is_rough = True
        self.wait = min(self.wait, LAST_WAIT * self.times_told)
        self.times_told = 0
        # The answer that ends the pause is the first of the next stretch.
        self.stretch_at, self.stretch_visits = now, host.visits - 1
        self.changed_visits = min(self.changed_visits, host.visits - 1)
        host.eases_at = max(host.eases_at, now + max(CAUTION, 3 * host.learned_delay))
        return is_news

    def _change(self, host: Taught, delay: float, most: float) -> None:
        if host.visits - self.changed_visits >= FEW or not self.held_delay:
            self.held_delay = host.learned_delay
        host.learned_delay = min(max(delay, host.floor), most)
        self.changed_visits = host.visits
