"""The protocol of grants under messages that are lost, doubled and late, and sessions that are suspended or die."""

from __future__ import annotations

import math
import random
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.grants_model import LosingGrants

from robotgate.pace.state import moved
from robotgate.stores import HostState
from robotgate.stores.grants import (
    BEAT,
    EXPIRY,
    LEASE,
    Grants,
    Hold,
    Item,
    Reply,
    Request,
    SessionSide,
    not_before,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DELAY: Final = 7.0
"""Seconds between the visits of a host."""
KEY: Final = "a.example"
KEYS: Final = (KEY, "b.example")
GRAIN: Final = 1e-6
ROUNDS: Final = 400
"""Of half a second, in which every waiter must be served once nothing goes wrong any more."""

names: Final = st.integers(0, 2)
keys: Final = st.sampled_from((KEY, KEY, KEY, KEYS[1]))


@dataclass
class Crawler:
    """One session, with a lease clock of its own."""

    side: SessionSide
    offset: float
    """Seconds by which its clock is ahead of the true time."""
    suspended_until: float = 0.0
    grants: dict[str, tuple[Hold, float]] = field(default_factory=dict)
    """What it holds by the protocol, and when it may visit (true time)."""
    wanted: set[str] = field(default_factory=set)

    def valid(self, key: str, now: float) -> bool:
        """Whether it may start a visit as far as the lease goes."""
        known = self.grants.get(key)
        return known is not None and self.side.is_valid(known[0], now=now + self.offset)


class Fleet(RuleBasedStateMachine):
    """Three crawlers, two hosts, and a network that does what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.ahead = 0.0
        """Seconds by which the medium's clock is ahead of the true time."""
        self.epochs = count(1)
        self.medium = LosingGrants("epoch 0")
        self.dumps = [deepcopy(self.medium)]
        self.serial = count()
        self.crawlers: dict[int, Crawler] = {}
        self.requests: list[tuple[int, SessionSide, Request]] = []
        self.replies: list[tuple[SessionSide, Reply]] = []
        self.ended_at = dict.fromkeys(KEYS, -math.inf)
        """When the last visit of each host really ended."""

    @initialize(offsets=st.lists(st.floats(-500, 500), min_size=3, max_size=3))
    def start(self, offsets: list[float]) -> None:
        """All processes join."""
        for name, offset in enumerate(offsets):
            self._start(name, offset)

    def _start(self, name: int, offset: float) -> None:
        self.crawlers[name] = Crawler(SessionSide(f"{name}/{next(self.serial)}"), offset)

    def _line_of(self, key: str) -> tuple[str, ...]:
        """The owner of a host, and the sessions in line behind it."""
        host = self.medium.host(key)
        return tuple(host.line) if host.owner is None else (host.owner, *host.line)

    def _awake(self, name: int) -> Crawler | None:
        crawler = self.crawlers[name]
        return crawler if crawler.suspended_until <= self.now else None

    # What sessions do.

    @rule(name=names, key=keys, is_said=st.booleans())
    def want(self, name: int, key: str, is_said: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        """A crawler asks for a host, and says so."""
        crawler = self._awake(name)
        if crawler is not None and key not in crawler.side.holds:
            crawler.side.ask(key)
            if is_said:
                self._talk(crawler)

    @rule(name=names, key=keys)
    def unwant(self, name: int, key: str) -> None:
        """A crawler does not wait any more."""
        crawler = self._awake(name)
        if crawler is not None:
            crawler.side.withdraw(key)

    @invariant()
    def visit(self) -> None:
        """Each session that can visit a host does so at once."""
        for name in self.crawlers:
            crawler = self._awake(name)
            for key in KEYS if crawler is not None else ():
                self._visit(crawler, key)

    def _visit(self, crawler: Crawler | None, key: str) -> None:
        if crawler is None or not crawler.valid(key, self.now):
            return
        hold, due_at = crawler.grants[key]
        if self.now < due_at:
            return
        since = self.now - self.ended_at[key]
        assert since >= DELAY - GRAIN, f"visited {since} s after the last visit"
        self.ended_at[key] = self.now
        crawler.grants[key] = hold, self.now + DELAY

    @rule(name=names, key=keys)
    def leave(self, name: int, key: str) -> None:
        """A crawler hands a host on."""
        crawler = self._awake(name)
        if crawler is not None:
            self._leave(crawler, key)

    def _leave(self, crawler: Crawler, key: str) -> None:
        known = crawler.grants.pop(key, None)
        crawler.wanted.discard(key)
        if known is not None:
            crawler.side.leave(key, HostState(last_visit_at=known[1] - DELAY, next_allowed_at=known[1]))

    # What the network does.

    @rule(name=names)
    def send(self, name: int) -> None:
        """A crawler sends a request."""
        crawler = self._awake(name)
        if crawler is not None:
            request = crawler.side.request(now=self.now + crawler.offset)
            self.requests.append((name, crawler.side, request))

    @precondition(lambda self: self.requests)
    @rule(pick=st.integers(0, 30), stays=st.booleans())
    def deliver_request(self, pick: int, stays: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        """Any request arrives; it may do so again."""
        place = pick % len(self.requests)
        _, side, request = self.requests[place]
        if not stays:
            del self.requests[place]
        self.replies.append((side, self._exchange(request)))

    @precondition(lambda self: self.replies)
    @rule(pick=st.integers(0, 30), stays=st.booleans())
    def deliver_reply(self, pick: int, stays: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        """Any reply arrives; it may do so again."""
        place = pick % len(self.replies)
        side, reply = self.replies[place]
        for crawler in self.crawlers.values():
            if crawler.side is side and crawler.suspended_until <= self.now:
                if not stays:
                    del self.replies[place]
                self._receive(crawler, reply)
                return
        if all(crawler.side is not side for crawler in self.crawlers.values()):
            del self.replies[place]

    @rule(name=names)
    def talk(self, name: int) -> None:
        """A request and its reply go through, as they mostly do."""
        crawler = self._awake(name)
        if crawler is not None:
            self._talk(crawler)

    @precondition(lambda self: self.requests or self.replies)
    @rule()
    def lose_messages(self) -> None:
        """All that is under way is lost."""
        self.requests.clear()
        self.replies.clear()

    def _talk(self, crawler: Crawler) -> None:
        self._receive(crawler, self._exchange(crawler.side.request(now=self.now + crawler.offset)))

    def _exchange(self, request: Request) -> Reply:
        now = self.now + self.ahead
        request = replace(
            request,
            leaves=tuple(
                replace(leave, state=leave.state and moved(leave.state, self.ahead))
                for leave in request.leaves
            ),
        )
        self.medium.expire(now)
        before = {key: self._line_of(key) for key in KEYS}
        left = {leave.key for leave in request.leaves} | set(request.withdrawals) | set(request.claims)
        reply = self.medium.exchange(request, now=now)
        for key in KEYS:
            line = self._line_of(key)
            if key not in left and not request.is_last:
                assert line[: len(before[key])] == before[key], "somebody lost the place in the line"
            elif before[key] and line and request.session == before[key][0] and line[0] != before[key][0]:
                assert line[0] == before[key][1], "granted out of turn"
        items = (replace(item, state=item.state and moved(item.state, -self.ahead)) for item in reply.items)
        return replace(reply, items=tuple(items))

    def _receive(self, crawler: Crawler, reply: Reply) -> None:
        for item in crawler.side.receive(reply)[0]:
            if (
                item.key not in crawler.grants
                or crawler.grants[item.key][0] is not crawler.side.holds[item.key]
            ):
                self._granted(crawler, item)
            if item.is_wanted:
                crawler.wanted.add(item.key)
        for key, (hold, _) in list(crawler.grants.items()):
            if not hold.is_live:
                del crawler.grants[key]

    def _granted(self, crawler: Crawler, item: Item) -> None:
        state = item.state or HostState()
        due_at = not_before(state)
        if state.last_visit_at is not None:
            due_at = max(due_at, state.last_visit_at + DELAY)
        crawler.grants[item.key] = crawler.side.holds[item.key], due_at

    # What goes wrong besides.

    @rule(seconds=st.sampled_from((0.1, 1.0, BEAT, LEASE - BEAT, EXPIRY)))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule(seconds=st.sampled_from((EXPIRY, 1.25 * EXPIRY, 1000.0)))
    def freeze(self, seconds: float) -> None:
        """The medium does not run for a while; what is sent to it then is processed later, or lost."""
        self.now += seconds
        self.visit()

    @precondition(lambda self: self.medium.sessions)
    @rule(seconds=st.sampled_from((1.25 * EXPIRY, 1000.0)))
    def set_clock(self, seconds: float) -> None:
        """The medium's clock is set forward, by so much that the medium takes it for silence."""
        self.ahead += seconds

    @rule(name=names, seconds=st.sampled_from((1.0, LEASE, EXPIRY, 2 * EXPIRY)))
    def suspend(self, name: int, seconds: float) -> None:
        """A crawler does not run for a while; its lease clock does."""
        crawler = self.crawlers[name]
        crawler.suspended_until = max(crawler.suspended_until, self.now + seconds)

    @rule(name=names, offset=st.floats(-500, 500))
    def kill(self, name: int, offset: float) -> None:
        """A crawler dies, and another starts in its place."""
        self._start(name, offset)

    @rule(name=names)
    def close(self, name: int) -> None:
        """A crawler ends in order: it leaves every host, and says that it is the last."""
        crawler = self._awake(name)
        if crawler is None:
            return
        for key in list(crawler.grants):
            self._leave(crawler, key)
        request = crawler.side.request(now=self.now + crawler.offset, is_last=True)
        self.requests.append((name, crawler.side, request))
        self._start(name, crawler.offset)

    @rule()
    def dump(self) -> None:
        """The medium is saved."""
        self.dumps.append(deepcopy(self.medium))

    @rule()
    def flush(self) -> None:
        """The medium forgets everything."""
        self.medium.lose(f"epoch {next(self.epochs)}", now=self.now + self.ahead, forgets_hosts=True)

    @rule(pick=st.integers(0, 30))
    def restore(self, pick: int) -> None:
        """The medium starts from an old dump."""
        self.medium = deepcopy(self.dumps[pick % len(self.dumps)])
        self.medium.lose(f"epoch {next(self.epochs)}", now=self.now + self.ahead, forgets_hosts=False)

    # What must hold.

    @invariant()
    def one_valid_grant(self) -> None:
        """No two grants of a host are valid at once, each by its own clock."""
        for key in KEYS:
            valid = [name for name, crawler in self.crawlers.items() if crawler.valid(key, self.now)]
            assert len(valid) <= 1, f"{key} is held by {valid}"

    def teardown(self) -> None:
        """Once nothing goes wrong any more, every waiter is served."""
        self.requests.clear()
        self.replies.clear()
        for _ in range(ROUNDS):
            self.now += 0.5
            for crawler in self.crawlers.values():
                self._talk(crawler)
                for key in KEYS:
                    self._visit(crawler, key)
                    if key in crawler.wanted:
                        self._leave(crawler, key)
            self.one_valid_grant()
            if not any(crawler.side.awaited for crawler in self.crawlers.values()):
                return
        raise AssertionError("somebody is never served")


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=50)


def test_second_leave_changes_nothing() -> None:
    """A host that was left, and is left again before that was sent, without a state: the end of its visit is told."""
    grants, one, two = Grants("epoch"), SessionSide("one"), SessionSide("two")
    for side in (one, two):
        side.receive(grants.exchange(side.request(now=0.0), now=0.0))
        side.ask(KEY)
        side.receive(grants.exchange(side.request(now=0.0), now=0.0))
    state = HostState(last_visit_at=1.0, next_allowed_at=6.0, visits=1)
    one.leave(KEY, state)
    one.leave(KEY, None)
    one.receive(grants.exchange(one.request(now=2.0), now=2.0))
    reply = grants.exchange(two.request(now=2.0), now=2.0)
    (item,) = reply.items
    assert item.state == state


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 400), marks=pytest.mark.slow)], ids=str)
def test_long_lives(seeds: range) -> None:
    """The same over hundreds of steps, of which most go well: Hypothesis rarely gets as far."""
    for seed in seeds:
        _live(random.Random(seed))


def _live(chance: random.Random) -> None:
    fleet = Fleet()
    fleet.start([chance.uniform(-500, 500) for _ in range(3)])
    steps: list[tuple[int, Callable[[int, str], object]]] = [
        (25, lambda name, _: fleet.talk(name)),
        (15, lambda *_: fleet.wait(chance.choice((0.1, 1.0, 1.0, 3.0, BEAT)))),
        (10, lambda name, key: fleet.want(name, key, chance.random() < 0.5)),
        (3, fleet.unwant),
        (7, fleet.leave),
        (10, lambda name, _: fleet.send(name)),
        (
            10,
            lambda *_: fleet.requests and fleet.deliver_request(chance.randrange(31), chance.random() < 0.4),
        ),
        (10, lambda *_: fleet.replies and fleet.deliver_reply(chance.randrange(31), chance.random() < 0.3)),
        (2, lambda *_: fleet.wait(chance.choice((LEASE - BEAT, LEASE, EXPIRY)))),
        (2, lambda name, _: fleet.suspend(name, chance.choice((1.0, LEASE, EXPIRY, 2 * EXPIRY)))),
        (1, lambda name, _: fleet.kill(name, chance.uniform(-500, 500))),
        (1, lambda name, _: fleet.close(name)),
        (1, lambda *_: fleet.lose_messages()),
        (1, lambda *_: fleet.dump()),
        (1, lambda *_: fleet.flush()),
        (1, lambda *_: fleet.restore(chance.randrange(31))),
        (1, lambda *_: fleet.freeze(chance.choice((EXPIRY, 1.25 * EXPIRY, 1000.0)))),
        (1, lambda *_: fleet.medium.sessions and fleet.set_clock(chance.choice((1.25 * EXPIRY, 1000.0)))),
    ]
    weights = [weight for weight, _ in steps]
    for _, step in chance.choices(steps, weights, k=300):
        step(chance.randrange(3), chance.choice((KEY, KEY, KEY, KEYS[1])))
        fleet.visit()
        fleet.one_valid_grant()
    fleet.teardown()
