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
from robotgate.stores.base import Grant, Lost, OperatorBlock, Recovered
from robotgate.stores.grants import BEAT, EXPIRY, LEASE, Leave, Member
from robotgate.stores.redis.link import GRANTS
from robotgate.stores.redis.messages import (
    encoded,
    encoded_request,
    encoded_state,
    read_name,
    read_reply,
    spelled,
    state_of,
)
from robotgate.stores.session import Inbox, Seat
from robotgate.urls import HostPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.pace.state import HostState
    from robotgate.stores.base import News
    from robotgate.stores.grants import Item
    from robotgate.stores.redis.link import Link
    from robotgate.stores.redis.messages import Keys
    from robotgate.stores.session import HeldLease

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


@dataclass(frozen=True, slots=True)
class _Word:
    """What was said of a pattern."""

    until_at: float
    said_at: float
    """By `Timing.uptime`."""


class RedisSeat(Seat):
    """A session's part for one hash tag, with a sign of life of its own: in a cluster, nodes fail one by one."""

    def __init__(
        self, link: Link, tag: int, key: bytes, timing: Timing, tell: Callable[[News], None]
    ) -> None:
        super().__init__(Member(token_hex(8), lease=timing.lease * LEASE / EXPIRY), tell)
        self._timing = timing
        self._link = link
        self._tag = tag
        self._key = key
        self._unasked: dict[str, None] = {}
        """Hosts that no request has asked for yet."""
        self._asked: tuple[str, ...] = ()
        self._is_due = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    def uptime(self) -> float:
        """As `Seat.uptime`."""
        return self._timing.uptime()

    def poke(self) -> None:
        """As `Seat.poke`."""
        self._is_due.set()

    def ask(self, key: str) -> None:
        """As `Seat.ask`, not all at once."""
        self._unasked[key] = None
        self.poke()

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`."""
        error = self._link.given_up(self._tag)
        if error is not None or self._task.done():
            raise error or self._link.stopped()
        return await super().obtain(key)

    def leave_with(self, key: str, state: HostState) -> Leave:
        """As `Seat.leave_with`."""
        visited_ago, not_before_in, told = encoded_state(state, now=self._timing.now())
        return Leave(key, None if visited_ago is False else visited_ago, not_before_in, told.encode())

    def grant_of(self, item: Item, lease: HeldLease) -> Grant:
        """As `Seat.grant_of`."""
        now = self._timing.now()
        return Grant(lease, state_of(item, now=now), now + item.not_before_in)

    async def aclose(self) -> None:
        """Leave every host and every line."""
        self._task.cancel()
        await asyncio.wait({self._task})

        def encode() -> bytes:
            return encoded_request(self.member.request(now=self.uptime(), is_last=True))

        await self._link.call(GRANTS, self._tag, self._key, encode)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a task that has ended: by a mistake, or cancelled."""
        self.fail(self._link.stopped())
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a session of %s failed", self._link.server, exc_info=error)

    async def _run(self) -> None:
        while True:
            try:
                data = await self._link.call(GRANTS, self._tag, self._key, self._request)
            except StoreError as error:
                self.fail(error)
                await self._link.recovered(self._tag, least=PAUSE)
                continue
            reply, paces = read_reply(data)
            for key, pace in zip(self._asked, paces, strict=False):
                if key in self.waiting:
                    self.waiting[key].pace = pace
            self.receive(reply)
            if not (self.member.has_to_send or self._unasked):
                await self._pause()

    def _request(self) -> bytes:
        self._is_due.clear()
        # A few at a time, at random: a session that asked for all hosts in one request would get them all, and then the
        # next session would.
        self._unasked = {key: None for key in self._unasked if key in self.waiting}
        number = min(max(len(self._unasked) // MIN_ASKS, MIN_ASKS), MAX_ASKS, len(self._unasked))
        for key in sample(list(self._unasked), number):
            del self._unasked[key]
            self.member.want(key)
        request = self.member.request(now=self.uptime())
        self._asked = request.asks
        return encoded_request(request)

    async def _pause(self) -> None:
        """Wait until there is something to send, or it is time for a sign of life or a look at the inbox."""
        now, delay = self.uptime(), self._timing.beat
        for waiter in self.waiting.values():
            pace = now - waiter.since if waiter.pace is None else waiter.pace
            delay = min(delay, max(pace / POLLS, MIN_POLL), MAX_POLL)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._is_due.wait()


class RedisSession(Inbox):
    """A gate's session. It keeps itself alive from its first reply on."""

    def __init__(self, link: Link, keys: Keys, timing: Timing) -> None:
        super().__init__()
        self._link = link
        self._keys = keys
        self._timing = timing
        self._seats: dict[int, RedisSeat] = {}
        """For each hash tag of which it uses hosts."""
        self._blocks = _Blocks(link, keys.of_tag(0), timing, self.tell)
        self.is_closed = False
        link.listeners.append(self._heard)

    async def join(self) -> None:
        """Make sure that the server can be reached.

        Raises:
            StoreError: it cannot.
        """
        await self._blocks.open()

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

    def publish_block(self, pattern: str, until_at: float) -> None:
        """Tell every session of a block; 0 lifts it. Others hear of it with their next sign of life."""
        self._blocks.say(pattern, until_at)

    def grant_of(self, key: str) -> tuple[str, str] | None:
        """Return the session's name and token, where a host is granted to it."""
        seat = self._seats.get(self._keys.tag_of(key))
        hold = None if seat is None else seat.member.holds.get(key)
        return None if seat is None or hold is None else (seat.member.session, str(hold.token))

    def look(self) -> None:
        """Look at once whether others want hosts: something is sent to the server anyway."""
        for seat in self._seats.values():
            if seat.member.holds:
                seat.poke()

    async def aclose(self) -> None:
        """Leave every host and every line."""
        if self.is_closed:
            return
        self.is_closed = True
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

    def _seat(self, key: str) -> RedisSeat:
        tag = self._keys.tag_of(key)
        if tag not in self._seats:
            self._seats[tag] = RedisSeat(self._link, tag, self._keys.of_tag(tag), self._timing, self.tell)
        return self._seats[tag]

    def _heard(self, error: StoreError | None) -> None:
        self.tell(Recovered() if error is None else Lost(error))


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

    async def open(self) -> None:
        await self.share()
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
        epoch, text, words = json.loads(data)
        version = int(text)
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
        # Two processes that say the same say it a moment apart.
        if pattern in self._unsent or (
            known and math.isclose(known.until_at, until_at, rel_tol=0, abs_tol=1)
        ):
            return
        try:
            HostPattern.parse(pattern)
        except OptionError as error:
            _logger.warning("an operator block in the store is ignored: %s", error)
            return
        self._words[pattern] = _Word(until_at, self._timing.uptime() - said_ago)
        if until_at > now or known is not None:
            self._tell(OperatorBlock(pattern, until_at))
