"""One gate's membership in the fleet of a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from random import sample
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from robotgate.errors import StoreError
from robotgate.stores.base import logger
from robotgate.stores.grants import BEAT, EXPIRY, LEASE, Member
from robotgate.stores.redis.messages import encoded_request, read_reply
from robotgate.stores.session import Inbox, Seat, uptime

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.pace.state import HostState
    from robotgate.stores.base import Grant
    from robotgate.stores.redis.link import Link
    from robotgate.stores.redis.messages import Keys

MIN_POLL: Final = 0.025
MAX_POLL: Final = 1.0
POLLS: Final = 4
"""How often the inbox is read for each delay of a host for which a task waits."""
MIN_ASKS: Final = 16
MAX_ASKS: Final = 500
"""Hosts that one request asks for; see `RedisSeat._next_asks`."""
PAUSE: Final = 1.0
"""Seconds until a request is tried again that raised an error."""
CLOSING: Final = 2.0
"""Seconds for the last requests of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The length of leases, and the clocks."""

    lease: float
    """Seconds after which a silent session is ended."""
    now: Callable[[], float]
    """Seconds since the epoch."""
    uptime: Callable[[], float] = uptime


class RedisSeat(Seat):
    """The part of a session for one hash tag. It has its own lease: in a cluster, nodes fail one by one."""

    def __init__(self, link: Link, tag: int, timing: Timing, inbox: Inbox) -> None:
        super().__init__(Member(token_hex(8), lease=timing.lease * LEASE / EXPIRY), inbox, timing.uptime)
        self._timing = timing
        self._link = link
        self._tag = tag
        self._unasked: dict[str, None] = {}
        """Hosts that no request has asked for yet."""
        self._asked: tuple[str, ...] = ()
        self._max_asks = MIN_ASKS

    async def exchange(self) -> None:
        """Send a request, and take in the reply.

        Raises:
            StoreError: there is none.
        """
        data = await self._link.call(self._tag, self._request)
        reply, paces = read_reply(data, now=self._timing.now())
        for key, pace in zip(self._asked, paces, strict=False):
            if key in self.waiting:
                self.waiting[key].pace = pace
        self.receive(reply)
        is_contended = any(key in self.waiting for key in self._asked)
        self._max_asks = MIN_ASKS if is_contended else max(2 * len(self._asked), MIN_ASKS)

    def ask(self, key: str) -> None:
        """As `Seat.ask`; `_next_asks` chooses the request."""
        self._unasked[key] = None
        self.send_soon()

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`."""
        error = self._link.given_up(self._tag)
        if error is not None or self._task is None or self._task.done():
            raise error or self._link.stopped()
        return await super().obtain(key)

    async def aclose(self) -> None:
        """Leave every host and every line."""
        await self.stop()
        await self._link.call(self._tag, partial(self._request, is_last=True))

    async def run(self) -> None:
        """Send requests."""
        while True:
            try:
                await self.exchange()
            except StoreError as error:
                self.fail(error)
                await asyncio.sleep(PAUSE)
                continue
            if not (self.member.has_to_send or self._unasked):
                await self._pause()

    def _request(self, *, is_last: bool = False) -> bytes:
        self._is_due.clear()
        for key in self._next_asks():
            del self._unasked[key]
            self.member.want(key)
        request = self.member.request(now=self.uptime(), is_last=is_last)
        self._asked = request.asks
        return encoded_request(request, now=self._timing.now())

    def _next_asks(self) -> list[str]:
        """Return some hosts to ask for, at random.

        One request for all hosts would get them all, and the next session would wait for all of them. So a request asks
        for twice as many hosts as the last one only if all of those were granted at once: no other session wants them.
        """
        self._unasked = {key: None for key in self._unasked if key in self.waiting}
        most = max(self._max_asks, len(self._unasked) // MIN_ASKS)
        return sample(list(self._unasked), min(most, MAX_ASKS, len(self._unasked)))

    async def _pause(self) -> None:
        """Wait until there is something to send, or a sign of life or a look into the inbox is due."""
        now, delay = self.uptime(), self._timing.lease * BEAT / EXPIRY
        unknown = [key for key, waiter in self.waiting.items() if waiter.pace is None]
        for waiter in self.waiting.values():
            pace = now - waiter.since if waiter.pace is None else waiter.pace
            delay = min(delay, max(pace / POLLS, MIN_POLL), MAX_POLL)
        try:
            async with asyncio.timeout(delay):
                await self._is_due.wait()
        except TimeoutError:
            # The first visit of a host tells the server its pace. A few hosts are enough: the fastest sets the delay.
            for key in sample(unknown, min(len(unknown), MIN_ASKS)):
                self.member.want_again(key)


class RedisSession(Inbox):
    """A gate's session: a seat for each hash tag."""

    def __init__(self, link: Link, keys: Keys, timing: Timing) -> None:
        super().__init__()
        self._link = link
        self._keys = keys
        self._timing = timing
        self._seats: dict[int, RedisSeat] = {}
        """For each hash tag of which it uses hosts."""
        self.is_closed: bool = False
        link.listeners.append(self.report)

    async def join(self) -> None:
        """Open the session.

        Raises:
            StoreError: the server cannot be reached.
        """
        # The first seat also carries the operator's blocks.
        seat = self._seats[0] = RedisSeat(self._link, 0, self._timing, self)
        while seat.member.has_to_send:
            await seat.exchange()
        seat.start(seat.run(), self._link.stopped)

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`. One task at a time may wait for a host.

        Raises:
            StoreError: the server was away for longer than the store's `patience`, or refuses.
        """
        if self.is_closed:
            raise self._link.error("the session was closed")
        return await self._seat(key).obtain(key)

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        if not self.is_closed:
            self._seat(key).leave(key, state)

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`. Other sessions receive it with their next request."""
        self._seats[0].publish_block(pattern, until_at)

    def grant_of(self, key: str) -> tuple[str, str] | None:
        """Return the session's name and token, where a host is granted to it."""
        seat = self._seats.get(self._keys.tag_of(key))
        hold = None if seat is None else seat.member.holds.get(key)
        return None if seat is None or hold is None else (seat.member.session, str(hold.token))

    def look(self) -> None:
        """Read the inbox at once: another call is sent to the server in any case."""
        for seat in self._seats.values():
            if seat.member.holds:
                seat.send_soon()

    async def aclose(self) -> None:
        """As `Session.aclose`."""
        if self.is_closed:
            return
        self.is_closed = True
        self._link.listeners.remove(self.report)
        closing = [seat.aclose() for seat in self._seats.values()]
        try:
            async with asyncio.timeout(CLOSING):
                results = await asyncio.gather(*closing, return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    raise error
        except (StoreError, TimeoutError) as error:
            logger.warning(
                "%s: a session could not be ended (%s); its hosts are free after %g seconds",
                *(self._link.server, str(error) or "no answer", self._timing.lease),
            )

    def _seat(self, key: str) -> RedisSeat:
        tag = self._keys.tag_of(key)
        if tag not in self._seats:
            seat = self._seats[tag] = RedisSeat(self._link, tag, self._timing, self)
            seat.start(seat.run(), self._link.stopped)
        return self._seats[tag]
