"""The law of the pace, for one host, as an observer holds it against what happens.

It knows nothing of lanes, timers and queues: only who came, who went, who had a turn, and what the host asked for. From
these it works out the one instant at which the next turn is due, and notes whatever happens before it or fails to
happen at it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.outage_law import GRAIN, JITTER, OutageLaw

from robotgate import HostUnavailableError, TooSoonError

if TYPE_CHECKING:
    from robotgate import RobotGate, Turn

TARDINESS: Final = 0.001 + GRAIN
"""Seconds by which the gate may be late: it sets no shorter timer, or it would spin on coarse loops."""
LEAST_BLOCK: Final = 60.0
LONGEST_BLOCK: Final = 24 * 3600.0


class MishapError(Exception):
    """What goes wrong inside a turn, and is no business of the gate's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A task that asks for one turn."""

    who: int
    url: str
    priority: int = 0
    max_wait: float | None = None
    takes: float = 0.0
    """Seconds from having the turn to the answer."""
    status: int | None = 200
    """Of the answer; None for a mishap in its place."""
    retry_after: str | None = None
    error: OSError | None = None
    """What comes in place of an answer: the host cannot be reached, or is silent."""

    @property
    def origin(self) -> str:
        """Whom it asks."""
        return self.url.rpartition("/")[0]

    async def visit(self, gate: RobotGate, law: PaceLaw) -> None:
        """Ask for the turn, and tell the law of everything.

        Raises:
            asyncio.CancelledError: only.
        """
        law.arrives(_now(), self.who, self.origin, priority=self.priority, max_wait=self.max_wait)
        try:
            async with gate.turn(self.url, priority=self.priority, max_wait=self.max_wait) as turn:
                law.starts(_now(), self.who)
                try:
                    await asyncio.sleep(self.takes)
                    self._report(turn, gate, law)
                finally:
                    law.ends(_now(), self.who)
        except MishapError:
            return
        except TooSoonError:
            law.is_refused(_now(), self.who)
        except HostUnavailableError:
            law.is_sent_away(_now(), self.who)
        except asyncio.CancelledError:
            if self.who in law.waiting:
                law.leaves(_now(), self.who)
            raise

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": self.retry_after}

    def _report(self, turn: Turn, gate: RobotGate, law: PaceLaw) -> None:
        if self.error is not None:
            turn.report(error=self.error)
            retry_at = gate.host(self.url).unreachable_until_at or 0.0
            law.fails(
                _now(), self.who, self.origin, retry_at, not isinstance(self.error, ConnectionRefusedError)
            )
            return
        if self.status is None:
            raise MishapError
        turn.report(status=self.status, headers=self._headers)
        law.answers(
            _now(),
            self.who,
            self.origin,
            asks_for_pause=self.status in {429, 503},
            retry_after=None if self.retry_after is None else float(self.retry_after),
            until_at=gate.host(self.url).blocked_until_at or 0.0,
        )


@dataclass(frozen=True, slots=True)
class Waiter:
    """A task that waits for a turn."""

    rank: tuple[int, int]
    """The higher priority, then the earlier arrival; the least goes first."""
    deadline_at: float
    origin: str
    is_hopeless: bool
    """Whether even the very next turn would have come too late when it came: it has to be told so at once."""


@dataclass(slots=True, kw_only=True)
class PaceLaw:
    """What one host's visitors may do, and when. All instants are on one clock, and are told in order."""

    floor: float
    """The operator's delay."""
    slots: int
    """Requests under way at once; where it is 1 the delay counts from the end of one to the start of the next."""
    max_block: float
    """Seconds; what is longer is not waited out."""
    give_up_after: float = 60.0
    """Seconds of outage after which turns wait for the host no more."""
    violations: list[str] = field(default_factory=list)
    now: float = 0.0
    visits: int = 0
    served: list[int] = field(default_factory=list)
    waiting: dict[int, Waiter] = field(default_factory=dict)
    open: dict[int, float] = field(default_factory=dict)
    """The open turns, and when each began."""
    outages: OutageLaw = field(default_factory=OutageLaw)
    left_alone_until_at: float = 0.0
    """The operator's block."""
    blocked_until_at: float = 0.0
    incidents: int = 0
    """How often a block was noticed."""
    _blocked_at: float = -1.0
    _asked: dict[str, float] = field(default_factory=dict)
    _promised_at: float = 0.0
    """The latest of the instants that past delays promised; lowering the delay takes no promise back."""
    _last_visit_at: float | None = None

    @property
    def delay(self) -> float:
        """What holds now: the longest of what the operator and the host's origins ask for."""
        return max(self.floor, *self._asked.values(), 0.0)

    @property
    def due_at(self) -> float:
        """No turn starts before this; if a slot is free and a task waits, a turn starts then."""
        spaced = 0.0 if self._last_visit_at is None else self._last_visit_at + self.delay
        return max(self._promised_at, spaced, self.blocked_until_at, self.left_alone_until_at)

    def due_at_of(self, origin: str) -> float:
        """As `due_at`, for one of the host's origins."""
        return max(self.due_at, self.outages.retry_at(origin))

    @property
    def is_closed(self) -> bool:
        """Whether the block is one that is not waited out: all turns are refused."""
        return max(self.blocked_until_at, self.left_alone_until_at) - self.now > self.max_block

    def pass_to(self, at: float) -> None:
        """Time goes by in which nothing happens."""
        if at > self.now + GRAIN:
            for who, waiter in self.waiting.items():
                if waiter.is_hopeless or self._is_closed_to(waiter.origin):
                    self._object(f"{who} is left to wait in vain at {self.now}")
                elif waiter.deadline_at < at - TARDINESS:
                    self._object(f"{who} still waits at {at}, after {waiter.deadline_at}")
            free = {
                max(self.due_at_of(them.origin), self.now): who
                for who, them in self.waiting.items()
                if not self.outages.is_tried(them.origin)
            }
            if free and len(self.open) < self.slots and min(free) < at - TARDINESS:
                self._object(f"nobody started at {min(free)}, nor by {at}, though {free} wait")
        self.now = at

    def asks(self, at: float, origin: str, delay: float) -> None:
        """One of the host's origins asks for a delay, in place of what it asked for before."""
        self.pass_to(at)
        self._asked[origin] = delay

    def grants(self, at: float, floor: float) -> None:
        """The operator wants another delay."""
        self.pass_to(at)
        self.floor = floor

    def is_left_alone(self, at: float, until_at: float) -> None:
        """The operator blocks the host; an instant that has passed lifts the block."""
        self.pass_to(at)
        self.left_alone_until_at = until_at

    def arrives(self, at: float, who: int, origin: str, *, priority: int, max_wait: float | None) -> None:
        """A task asks for a turn; later tasks have higher numbers."""
        self.pass_to(at)
        deadline_at = float("inf") if max_wait is None else at + max_wait
        is_hopeless = self.due_at_of(origin) > deadline_at + GRAIN
        self.waiting[who] = Waiter((-priority, who), deadline_at, origin, is_hopeless)

    def starts(self, at: float, who: int) -> None:
        """A turn begins."""
        self.pass_to(at)
        waiter = self.waiting.pop(who)
        if len(self.open) >= self.slots:
            self._object(f"{who} started at {at} while {list(self.open)} were under way")
        if at < self.due_at - GRAIN:
            self._object(f"{who} started at {at}, before {self.due_at}")
        if self._is_barred(waiter):
            self._object(f"{who} started at {at}, though {waiter.origin} cannot be reached")
        ahead = [who for who, them in self.waiting.items() if them.rank < waiter.rank]
        if passed := [other for other in ahead if not self._is_barred(self.waiting[other])]:
            self._object(f"{who} started at {at}, before {passed}")
        self.outages.starts(who, waiter.origin)
        self.visits += 1
        self.served.append(who)
        self.open[who] = at
        self._visited(at)

    def ends(self, at: float, who: int) -> None:
        """A turn is over."""
        self.pass_to(at)
        del self.open[who]
        self.outages.ends(who)
        if self.slots == 1:
            self._visited(at)

    def leaves(self, at: float, who: int) -> None:
        """A task is cancelled while it waits."""
        self.pass_to(at)
        del self.waiting[who]

    def is_refused(self, at: float, who: int) -> None:
        """A task is refused because its turn comes too late: at its deadline, or as soon as that is sure."""
        self.pass_to(at)
        waiter = self.waiting.pop(who)
        ahead = sum(them.rank < waiter.rank for them in self.waiting.values())
        under_way = self.delay if self.slots == 1 and self.open else 0.0
        soonest = max(self.due_at_of(waiter.origin), at + under_way) + ahead * self.delay
        if soonest < waiter.deadline_at - GRAIN and at < waiter.deadline_at - GRAIN:
            self._object(f"{who} was refused at {at}, though {soonest} would do till {waiter.deadline_at}")
        if at > waiter.deadline_at + TARDINESS:
            self._object(f"{who} was refused at {at}, long after {waiter.deadline_at}")

    def is_sent_away(self, at: float, who: int) -> None:
        """A task is refused because the host is blocked for long, or given up."""
        self.pass_to(at)
        waiter = self.waiting.pop(who)
        if not self._is_closed_to(waiter.origin):
            self._object(f"{who} was sent away at {at}, though the block ends at {self.blocked_until_at}")

    def fails(self, at: float, who: int, origin: str, retry_at: float, is_silence: bool) -> None:  # noqa: FBT001
        """A request found the origin unreachable, or silent; the gate tries it again at `retry_at`."""
        self.pass_to(at)
        wrong = self.outages.fails(
            origin,
            began_at=self.open[who],
            at=at,
            retry_at=retry_at,
            give_up_after=self.give_up_after,
            is_silence=is_silence,
        )
        if wrong is not None:
            self._object(wrong)

    def answers(
        self,
        at: float,
        who: int,
        origin: str,
        *,
        asks_for_pause: bool,
        retry_after: float | None,
        until_at: float,
    ) -> None:
        """A request was answered.

        Args:
            asks_for_pause: whether by 429 or 503.
            until_at: until when the gate then takes the host for blocked; 0 when it does not.
        """
        self.pass_to(at)
        self.outages.answers(origin)
        # A block that is over and none at all look alike.
        before, until_at = max(at, self.blocked_until_at), max(at, until_at)
        least = most = before
        if asks_for_pause:
            is_news = self.open[who] > self._blocked_at
            if is_news:
                self.incidents += 1
                self._blocked_at = at
            least, most = self._pause(is_news=is_news, retry_after=retry_after)
            least, most = max(before, at + least), max(before, at + most)
        if not least - GRAIN <= until_at <= most + GRAIN:
            self._object(f"{who}'s answer at {at} blocks until {until_at}, not from {least} to {most}")
        self.blocked_until_at = max(self.blocked_until_at, until_at)

    def _pause(self, *, is_news: bool, retry_after: float | None) -> tuple[float, float]:
        """The seconds an answer asks for, at the least and at the most. Chance and history decide within."""
        doubled = 2.0 ** min(self.incidents - 1, 16)
        if retry_after is not None:
            return retry_after, max(retry_after, doubled if self.incidents > 1 else 0.0)
        if not is_news:
            return 0.0, 0.0
        return LEAST_BLOCK, JITTER * min(LEAST_BLOCK * doubled, LONGEST_BLOCK)

    def _is_closed_to(self, origin: str) -> bool:
        return self.is_closed or self.outages.refuses(origin, at=self.now, max_block=self.max_block)

    def _is_barred(self, waiter: Waiter) -> bool:
        return self.outages.bars(waiter.origin, at=self.now)

    def _visited(self, at: float) -> None:
        self._last_visit_at = at if self._last_visit_at is None else max(at, self._last_visit_at)
        self._promised_at = max(self._promised_at, at + self.delay)

    def _object(self, what: str) -> None:
        self.violations.append(what)


def _now() -> float:
    return asyncio.get_running_loop().time()
