"""The script of grants does what the model does, whatever is said to both in whatever order."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import redis
from tests.grants_model import LosingGrants
from tests.stores.redis_parts import fresh_prefix

from robotgate.pace.state import moved
from robotgate.stores import HostState
from robotgate.stores.grants import BEAT, EXPIRY, LEASE, ROBOTS, Reply, SessionSide, not_before
from robotgate.stores.redis.link import SCRIPT
from robotgate.stores.redis.messages import encoded_request, read_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis_server import RedisServer

    from robotgate.stores.grants import BlockNotice, Item, Request

KEYS: Final = ("a.example", "b.example", "robots|https://ü.example")
STEPS: Final = 400
START: Final = 1_795_000_000.0
HEARTBEAT: Final = b'["save",[]]'
SETTINGS: Final = json.dumps([EXPIRY, 3600.0])


def script() -> str:
    """Return the script, by a clock and a run that the test sets."""
    source = SCRIPT.decode()
    for line, replacement in (
        ("redis.call('TIME')", "cjson.decode(redis.call('GET', 'test:now'))"),
        ("info('server', 'run_id:(%x+)')", "redis.call('GET', 'test:run')"),
        ("info('server', 'uptime_in_seconds:(%d+)')", "10000000"),
    ):
        assert source.count(line) == 1
        source = source.replace(line, replacement)
    return source


class Medium:
    """The server, as the model has it."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._script = client.register_script(script())
        self._prefix = fresh_prefix()
        self.runs = 0
        self.restart(now=START, forgets_hosts=False)

    def restart(self, *, now: float, forgets_hosts: bool) -> None:
        """Lose memory."""
        self.runs += 1
        if forgets_hosts:
            self._client.flushdb()
        self._client.set("test:run", f"{self.runs:x}")
        self._say(HEARTBEAT, now)

    def exchange(self, request: Request, *, now: float, sent_at: float) -> Reply:
        """Take in a request, and answer it."""
        return read_reply(self._say(encoded_request(request, now=sent_at), now), now=now)[0]

    def _say(self, message: bytes, now: float) -> bytes:
        seconds = math.floor(now)
        self._client.set("test:now", json.dumps([seconds, round((now - seconds) * 1e6)]))
        _, reply = self._script(keys=[self._prefix], args=[SETTINGS, "", message])
        assert isinstance(reply, bytes)
        return reply


class Both:
    """A session that is one of the model's and one of the server's."""

    def __init__(self, name: str) -> None:
        self.sides = SessionSide(name), SessionSide(name)

    @property
    def held(self) -> list[str]:
        """Return what it holds, which must be the same by both."""
        one, other = (sorted(side.holds) for side in self.sides)
        assert one == other
        return one


def told(
    items: list[Item], notices: list[BlockNotice], held: list[str], now: float
) -> tuple[list[object], list[float]]:
    """Return what items and notices say, and their seconds.

    Numbers are left out, which are each medium's own; and of hosts that were held before, all but who wants them.
    """
    items = sorted(items, key=lambda item: item.key)
    said: list[object] = [(item.key, item.is_wanted) for item in items]
    said += sorted((notice.pattern, bool(notice.until_at)) for notice in notices)
    states = [(item.key, item.state or HostState()) for item in items if item.key not in held]
    # What nobody may know to have been visited has no state; of a robots.txt there is none.
    said += [(key, state.visits, state.last_visit_at is None) for key, state in states]
    seconds = [(now - (state.last_visit_at or now), max(not_before(state) - now, 0.0)) for _, state in states]
    return said, [number for numbers in seconds for number in numbers]


def later(request: Request, seconds: float) -> Request:
    """Return a request as it is after some time on its way, over which only relative seconds are sent."""
    leaves = (
        leave if leave.state is None else replace(leave, state=moved(leave.state, seconds))
        for leave in request.leaves
    )
    return replace(request, leaves=tuple(leaves))


class Fleet:
    """Sessions that say the same to the model and to the server, by messages that may be lost, doubled and late."""

    def __init__(self, client: redis.Redis, seed: int) -> None:
        client.flushdb()
        client.config_resetstat()
        self.random = random.Random(seed)
        self.now = START
        self.names = 0
        self.visits = 0
        self.media = LosingGrants("0"), Medium(client)
        self.sessions = [self.newcomer() for _ in range(4)]
        self.late: list[tuple[Both, tuple[Request, Request], float]] = []

    def newcomer(self) -> Both:
        """Return a session with a name of its own."""
        self.names += 1
        return Both(f"session{self.names}")

    def step(self) -> None:  # noqa: C901, PLR0912 # A table.
        """Do anything."""
        place = self.random.randrange(len(self.sessions))
        one, key = self.sessions[place], self.random.choice(KEYS)
        match self.random.choices(range(9), weights=(30, 8, 25, 30, 30, 2, 2, 2, 5))[0]:
            case 0 if key not in one.held:
                for side in one.sides:
                    side.ask(key)
            case 1:
                for side in one.sides:
                    side.withdraw(key)
            case 2:
                self.leave(one)
            case 3:
                self.talk(one)
            case 4:
                self.now += round(
                    self.random.choice((0.001, 0.1, 1.0, BEAT, LEASE)) * self.random.random(), 3
                )
            case 5:
                # Not to the last digit, which each medium rounds its own way.
                self.now += EXPIRY + 0.0001
            case 6:
                forgets = self.random.random() < 0.5
                model, server = self.media
                # An epoch is named by its microsecond.
                self.now += 0.001
                server.restart(now=self.now, forgets_hosts=forgets)
                model.lose(str(server.runs), now=self.now, forgets_hosts=forgets)
            case 7:
                if self.random.random() < 0.5:
                    self.talk(one, is_last=True)
                self.sessions[place] = self.newcomer()
            case 8:
                pattern, until_at = self.random.choice(KEYS[:2]), self.random.choice((0.0, math.inf))
                for side in one.sides:
                    side.publish_block(pattern, until_at, now=self.now)

    def leave(self, one: Both) -> None:
        """Hand on something, visited or not."""
        key = self.random.choice(one.held or list(KEYS))
        ago, delay = round(self.random.random(), 3), self.random.choice((0.0, 2.0, 30.0))
        self.visits += 1
        state = HostState(
            last_visit_at=self.now - ago, next_allowed_at=delay and self.now + delay, visits=self.visits
        )
        is_visited = self.random.random() < 0.8 and not key.startswith(ROBOTS)
        for side in one.sides:
            side.leave(key, state if is_visited else None)

    def talk(self, one: Both, *, is_last: bool = False) -> None:
        """Say what there is to say; some of it is lost on one way or the other, or comes again later."""
        if self.late and self.random.random() < 0.2:
            speaker, requests, sent_at = self.late.pop(self.random.randrange(len(self.late)))
        else:
            speaker = one
            first, second = (side.request(now=self.now, is_last=is_last) for side in one.sides)
            requests, sent_at = (first, second), self.now
        fate = self.random.random()
        if fate < 0.2:
            self.late.append((speaker, requests, sent_at))
        if fate < 0.1:
            return
        model, server = self.media
        replies = (
            model.exchange(later(requests[0], self.now - sent_at), now=self.now),
            server.exchange(requests[1], now=self.now, sent_at=sent_at),
        )
        if fate > 0.9:
            return
        held = speaker.held
        (said, seconds), (also_said, also_seconds) = (
            told(*side.receive(reply), held, self.now)
            for side, reply in zip(speaker.sides, replies, strict=True)
        )
        assert said == also_said
        assert seconds == pytest.approx(also_seconds, abs=1e-4)
        assert speaker.held is not None


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]
)
def test_script_and_model_agree(every_server: RedisServer, seed: int) -> None:
    """Who is granted which host, from when, and who is told that others want it."""
    with redis.Redis.from_url(every_server.url) as client:
        fleet = Fleet(client, seed)
        for _ in range(STEPS):
            fleet.step()


@pytest.fixture
def server(every_server: RedisServer) -> Iterator[Medium]:
    """One that knows nothing."""
    with redis.Redis.from_url(every_server.url) as client:
        client.flushdb()
        client.config_resetstat()
        yield Medium(client)


def talk(server: Medium, side: SessionSide, now: float, *, ahead: float = 0.0) -> list[Item]:
    """Send what a session has to say. Returns what it is told."""
    reply = server.exchange(side.request(now=now), now=now + ahead, sent_at=now + ahead)
    return side.receive(reply)[0]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_the_servers_clock_is_set(server: Medium, seconds: float) -> None:
    """Whoever holds a host holds it on; all others count as visited a little later, and wait no longer for it."""
    owner, other = SessionSide("owner"), SessionSide("other")
    now = START

    owner.ask("a.example")
    other.ask("b.example")
    for side in (owner, other, owner, other):
        talk(server, side, now)
    hold = owner.holds["a.example"]
    other.leave("b.example", HostState(last_visit_at=now, next_allowed_at=now + 60.0))
    other.ask("a.example")
    talk(server, other, now)
    now += BEAT
    other.ask("b.example")
    told: list[tuple[Item, float]] = []
    for _ in range(8):
        talk(server, owner, now, ahead=seconds)
        assert owner.holds["a.example"] is hold
        assert owner.is_valid(hold, now=now)
        told += [(item, now + seconds) for item in talk(server, other, now, ahead=seconds)]
        now += BEAT
    ((item, told_at),) = told
    assert item.key == "b.example"
    assert item.state is not None
    assert item.state.last_visit_at is not None
    assert told_at - item.state.last_visit_at < BEAT
    assert item.state.next_allowed_at <= told_at + 60.0
