"""One gate's membership in the fleet of a server."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from random import sample
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from robotgate.clock import uptime
from robotgate.errors import OptionError, StoreError
from robotgate.stores.base import Grant, Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.grants import BEAT, EXPIRY, LEASE, Leave, Member
from robotgate.stores.redis.link import GRANTS
from robotgate.stores.redis.messages import (
    binds_for,
    encoded,
    encoded_request,
    encoded_state,
    read_name,
    read_reply,
    spelled,
    state_of,
)
from robotgate.urls import HostPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from robotgate.pace.state import HostState
    from robotgate.stores.base import News
    from robotgate.stores.grants import Hold, Item
    from robotgate.stores.redis.link import Link
    from robotgate.stores.redis.messages import Keys

MIN_POLL: Final = 0.025
MAX_POLL: Final = 1.0
POLLS: Final = 4
"""Looks at the inbox for each delay of a host that is waited for."""
MIN_ASKS: Final = 16
MAX_ASKS: Final = 500
"""In one request."""
PAUSE: Final = 1.0
"""Seconds between attempts at what the server answers with an error of its own."""
CLOSING: Final = 2.0
"""Seconds for the last requests of a session."""
FOREVER: Final = 1e15
"""Seconds that stand for an operator block without an end."""

_logger: Final = logging.getLogger("robotgate.stores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things last, and by which clocks."""

    lease: float
    """Seconds after which a silent session is ended."""
    now: Callable[[], float]
    """Seconds since the epoch."""
    uptime: Callable[[], float] = uptime

    @property
    def beat(self) -> float:
        """Seconds between two signs of life."""
        return self.lease * BEAT / EXPIRY


@dataclass(slots=True, eq=False)
class _Waiter:
    granted: asyncio.Future[Grant]
    since: float
    """By `Timing.uptime`."""
    pace: float | None = None
    """Seconds between two visits of the host, as far as they are known."""


@dataclass(frozen=True, slots=True)
class _Lease:
    seat: _Seat
    hold: Hold

    def is_valid(self) -> bool:
        return self.seat.member.is_valid(self.hold, now=self.seat.timing.uptime())


@dataclass(frozen=True, slots=True)
class _Word:
    """What was said of a pattern."""

    until_at: float
    said_at: float
    """By `Timing.uptime`."""


class _Seat:
    """A session's part for one hash tag: sends the requests of its `Member`, and passes on what they bring."""

    def __init__(
        self, link: Link, tag: int, key: bytes, timing: Timing, tell: Callable[[News], None]
    ) -> None:
        self.member = Member(token_hex(8), lease=timing.lease * LEASE / EXPIRY)
        self.timing = timing
        self._link = link
        self._tag = tag
        self._key = key
        self._tell = tell
        self._waiting: dict[str, _Waiter] = {}
        self._unasked: dict[str, None] = {}
        """Hosts that no request has asked for yet."""
        self._asked: tuple[str, ...] = ()
        self._is_due = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def obtain(self, key: str) -> Grant:
        error = self._link.given_up(self._tag)
        if error is not None or self._task.done():
            raise error or self._link.stopped()
        if key in self._waiting:
            raise ValueError(f"{key}: another task of this session waits for it")
        if key in self.member.holds:
            self.member.leave(Leave(key), now=self.timing.uptime())
        waiter = _Waiter(asyncio.get_running_loop().create_future(), self.timing.uptime())
        self._waiting[key] = waiter
        self._unasked[key] = None
        self._is_due.set()
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if self._waiting.get(key) is waiter:
                self._forget(key)
            elif not waiter.granted.cancelled():
                self.member.leave(Leave(key), now=self.timing.uptime())
            self._is_due.set()
            raise

    def leave(self, key: str, state: HostState | None) -> None:
        left = Leave(key)
        if state is not None:
            now = self.timing.now()
            visited_ago, not_before_in = binds_for(state, now=now)
            left = Leave(
                key,
                visited_ago=visited_ago,
                not_before_in=not_before_in,
                state=encoded_state(state, now=now),
            )
        self.member.leave(left, now=self.timing.uptime())
        self._is_due.set()

    def look(self) -> None:
        """Look at the inbox now, if it may hold anything."""
        if self.member.holds:
            self._is_due.set()

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

        def encode() -> bytes:
            return encoded_request(self.member.request(now=self.timing.uptime(), is_last=True))

        await self._link.call(GRANTS, self._tag, self._key, encode)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a task that has ended: by a mistake, or cancelled."""
        self._fail(self._link.stopped())
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a session of %s failed", self._link.server, exc_info=error)

    async def _run(self) -> None:
        while True:
            try:
                self._receive(await self._link.call(GRANTS, self._tag, self._key, self._request))
            except StoreError as error:
                self._fail(error)
                await self._link.recovered(self._tag, least=PAUSE)
            else:
                await self._pause()

    def _request(self) -> bytes:
        self._is_due.clear()
        # A few at a time, at random: a session that asked for all hosts in one request would get them all, and then the
        # next session would.
        number = min(max(len(self._unasked) // MIN_ASKS, MIN_ASKS), MAX_ASKS)
        for key in sample(list(self._unasked), min(len(self._unasked), number)):
            del self._unasked[key]
            self.member.want(key)
        request = self.member.request(now=self.timing.uptime())
        self._asked = request.asks
        return encoded_request(request)

    def _receive(self, data: bytes) -> None:
        try:
            reply, paces = read_reply(data)
        except (ValueError, TypeError) as error:
            raise self._link.nonsense(data) from error
        for key, pace in zip(self._asked, paces, strict=False):
            if key in self._waiting:
                self._waiting[key].pace = pace
        wanted = frozenset(item.key for item in self.member.receive(reply) if self._take(item))
        if wanted:
            self._tell(Wanted(wanted))

    def _take(self, item: Item) -> bool:
        """Take in an item. Returns whether others want a host that is held."""
        key, now = item.key, self.timing.now()
        waiter = self._waiting.pop(key, None)
        if waiter is not None and waiter.granted.done():
            # It was cancelled a moment ago.
            self.member.leave(Leave(key), now=self.timing.uptime())
            return False
        if waiter is not None:
            lease = _Lease(self, self.member.holds[key])
            waiter.granted.set_result(Grant(lease, state_of(item, now=now), now + item.not_before_in))
        return item.is_wanted

    async def _pause(self) -> None:
        """Wait until there is something to send, or it is time for a sign of life or a look at the inbox."""
        if self.member.has_to_send or self._unasked:
            return
        now, delay = self.timing.uptime(), self.timing.beat
        for waiter in self._waiting.values():
            pace = now - waiter.since if waiter.pace is None else waiter.pace
            delay = min(delay, max(pace / POLLS, MIN_POLL), MAX_POLL)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._is_due.wait()

    def _fail(self, error: StoreError) -> None:
        for key, waiter in list(self._waiting.items()):
            self._forget(key)
            if not waiter.granted.done():
                waiter.granted.set_exception(StoreError(*error.args))

    def _forget(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._unasked.pop(key, None)
        self.member.unwant(key)


class RedisSession:
    """A gate's session. It keeps itself alive from its first reply on.

    Each hash tag of which it uses hosts has a sign of life of its own: in a cluster, nodes fail one by one.
    """

    def __init__(self, link: Link, keys: Keys, timing: Timing) -> None:
        self._link = link
        self._keys = keys
        self._timing = timing
        self._seats: dict[int, _Seat] = {}
        self._news: list[News] = []
        self._has_news = asyncio.Event()
        self._blocks = _Blocks(link, keys.of_tag(0), timing, self._tell)
        self.is_closed = False
        link.listeners.append(self._heard)

    async def join(self) -> None:
        """Make sure that the server can be reached.

        Raises:
            StoreError: it cannot.
        """
        await self._blocks.share()
        self._blocks.start()

    async def obtain(self, key: str) -> Grant:
        """Wait in line for a host. One task at a time may wait for one.

        Raises:
            StoreError: the server was away for longer than the store's `patience`, or refuses.
        """
        if self.is_closed:
            raise StoreError(f"{self._link.server}: the session was closed")
        return await self._seat(key).obtain(key)

    def leave(self, key: str, state: HostState | None) -> None:
        """Hand a host on, with its state."""
        if not self.is_closed:
            self._seat(key).leave(key, state)

    async def news(self) -> Sequence[News]:
        """Wait for news."""
        await self._has_news.wait()
        self._has_news.clear()
        news, self._news = self._news, []
        return news

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Tell every session of a block; 0 lifts it. Others hear of it with their next sign of life."""
        self._blocks.say(pattern, until_at)

    def grant_of(self, key: str) -> tuple[str, int] | None:
        """Return the session's name and token, where a host is granted to it."""
        seat = self._seats.get(self._keys.tag_of(key))
        hold = None if seat is None else seat.member.holds.get(key)
        return None if seat is None or hold is None else (seat.member.session, hold.token)

    def look(self) -> None:
        """Look at once whether others want hosts: something is sent to the server anyway."""
        for seat in self._seats.values():
            seat.look()

    async def aclose(self) -> None:
        """Leave every host and every line."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._heard in self._link.listeners:
            self._link.listeners.remove(self._heard)
        closing = [seat.aclose() for seat in self._seats.values()]
        try:
            async with asyncio.timeout(CLOSING):
                results = await asyncio.gather(*closing, self._blocks.aclose(), return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    raise error
        except (StoreError, TimeoutError) as error:
            _logger.warning(
                "%s: a session could not be ended (%s); its hosts are free after %g seconds",
                *(self._link.server, str(error) or "no answer", self._timing.lease),
            )

    def _seat(self, key: str) -> _Seat:
        tag = self._keys.tag_of(key)
        if tag not in self._seats:
            self._seats[tag] = _Seat(self._link, tag, self._keys.of_tag(tag), self._timing, self._tell)
        return self._seats[tag]

    def _tell(self, news: News) -> None:
        self._news.append(news)
        self._has_news.set()

    def _heard(self, error: StoreError | None) -> None:
        self._tell(Recovered() if error is None else Lost(error))


class _Blocks:
    """The operator's blocks: shares what one session says with all others.

    Of a pattern, what was said last holds. What the server has lost is said again.
    """

    def __init__(self, link: Link, key: bytes, timing: Timing, tell: Callable[[News], None]) -> None:
        self._link = link
        self._key = key
        self._timing = timing
        self._tell = tell
        self._words: dict[str, _Word] = {}
        self._unsent: dict[str, _Word] = {}
        self._epoch = ""
        self._version = 0
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def say(self, pattern: str, until_at: float) -> None:
        self._words[pattern] = self._unsent[pattern] = _Word(until_at, self._timing.uptime())
        self._is_due.set()

    async def share(self) -> None:
        """Send what was said here, and hear what was said elsewhere."""
        sent: dict[str, _Word] = {}

        def encode() -> bytes:
            now, at = self._timing.now(), self._timing.uptime()
            sent.update(self._unsent)
            said = [
                [spelled(name), at - word.said_at, word.until_at > 0 and min(word.until_at - now, FOREVER)]
                for name, word in self._unsent.items()
            ]
            return encoded(["blocks", str(self._version), said])

        data = await self._link.call(GRANTS, 0, self._key, encode)
        try:
            epoch, version, words = json.loads(data)
            version = int(version)
        except (ValueError, TypeError) as error:
            raise self._link.nonsense(data) from error
        self._unsent = {name: word for name, word in self._unsent.items() if sent.get(name) is not word}
        if version < self._version or epoch != self._epoch != "":
            self._unsent = self._words | self._unsent
            self._is_due.set()
        self._epoch, self._version = epoch, version
        for word in words:
            self._hear(*word)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._unsent:
            await self.share()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.beat):
                    await self._is_due.wait()
            self._is_due.clear()
            try:
                await self.share()
            except StoreError:
                await self._link.recovered(0, least=PAUSE)

    def _hear(self, name: str, said_ago: float, until_in: float | bool) -> None:  # noqa: FBT001 # False lifts.
        now, pattern = self._timing.now(), read_name(name)
        until_at = 0.0
        if until_in is not False:
            until_at = math.inf if until_in > FOREVER / 2 else now + until_in
        known = self._words.get(pattern)
        if pattern in self._unsent or (known is not None and _is_same(known.until_at, until_at)):
            return
        try:
            HostPattern.parse(pattern)
        except OptionError as error:
            _logger.warning("an operator block in the store is ignored: %s", error)
            return
        self._words[pattern] = _Word(until_at, self._timing.uptime() - said_ago)
        if until_at > now or known is not None:
            self._tell(OperatorBlock(pattern, until_at))


def _is_same(one_at: float, other_at: float) -> bool:
    # Two processes that say the same say it a moment apart.
    return one_at == other_at or abs(one_at - other_at) <= 1
