"""The right to fetch a robots.txt, among the tasks of one event loop and among all processes of a fleet.

A lease is the fleet's for a while, and is renewed while it is held: a holder that dies keeps the others waiting for
that while at most. Each has a token, and each is later than those before. A holder that was asleep for so long that
its lease has passed on may still come back with an answer; it is not saved in place of what a later one has learnt.

Most who wait have no use for the right once the holder has saved what it learnt. They are told of that all at once,
instead of having the right one after the other, each to find that it needs it no more.
"""

from __future__ import annotations

import asyncio
import os
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from robotgate._errors import StoreError
from robotgate.stores._lease import Lease
from robotgate.stores.redis._records import NO_TOKEN, SCRIPT, places

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate._urls import Origin
    from robotgate.stores._lease import Lock
    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link
    from robotgate.stores.redis._signals import Listener, Signals

POLL: Final = 0.25
LAST_POLL: Final = 1.0
"""Seconds until who waits looks for himself: first, and at the most, for he looks less often the longer he waits."""
MANY: Final = 256
"""Of more that wait in one process, each looks less often, so that together they look no more often than these."""

_TAKEN: Final = b"1"
_NEWS: Final = b"2"
_NOT_TOLD: Final = -1.0
"""In place of the token of a record, before the server has told which it has."""
_ANSWER: Final = struct.Struct("<d")


class Held:
    """A lease as its holder has it: what that task saves, it has learnt by the lease."""

    __slots__ = ("has_news", "id", "known", "origin", "task", "token")

    def __init__(self, origin: Origin, *, or_news: bool = False) -> None:
        self.origin = origin
        self.id = os.urandom(16)
        self.token = NO_TOKEN
        """Until it is had."""
        self.task = asyncio.current_task()
        self.known = _NOT_TOLD if or_news else None
        """By which token the record was saved that was there when the wait began; None for who waits for no other."""
        self.has_news = False
        """Whether there is another record, and the lease was left to whoever needs it."""

    def is_news(self, said: bytes | None) -> bool:
        """Whether the message that a lease is free tells of a record that was not there."""
        if self.known is None or said is None or not said.isdigit():
            return False
        return float(said) != self.known


class Leases:
    """The leases that this process has.

    Args:
        lease: for how long one is the fleet's without a sign of life of its holder, in seconds.
        goes_on_alone: whether the right among our own tasks has to do while nobody can tell of the fleet's.
    """

    def __init__(
        self, link: Link, signals: Signals, keys: Keys, *, lease: float, goes_on_alone: bool = False
    ) -> None:
        self._link = link
        self._signals = signals
        self._keys = keys
        self._channel = keys.fleet("signals")
        self._lease = lease
        self._goes_on_alone = goes_on_alone
        self._locks: dict[Origin, Lock] = {}
        self._held: dict[Origin, Held] = {}
        self._renewing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """The sole right to fetch this origin's robots.txt: first ours, then everybody's. Cancelled, it leaves nothing.

        Raises:
            StoreError: nobody can tell whose it is.
        """
        async with Lease(self._locks, origin):
            await self._take(Held(origin))
            try:
                yield
            finally:
                self._leave(origin)

    @asynccontextmanager
    async def lease_or_news(self, origin: Origin) -> AsyncIterator[bool]:
        """As `lease`, and True; but False, and no right, once a record was saved while it was waited for.

        Raises:
            StoreError: as `lease`.
        """
        async with Lease(self._locks, origin):
            held = Held(origin, or_news=True)
            await self._take(held)
            try:
                yield not held.has_news
            finally:
                self._leave(origin)

    def token(self, origin: Origin) -> float:
        """By which lease the task that runs now learns of an origin; `NO_TOKEN` if by none."""
        held = self._held.get(origin)
        return held.token if held is not None and held.task is asyncio.current_task() else NO_TOKEN

    async def _take(self, held: Held) -> None:
        """Have the fleet's lease, or news; one task at a time asks for one."""
        try:
            await self._taken(held)
        except StoreError:
            self._release(held)
            if not self._goes_on_alone:
                raise
            return
        except BaseException:
            # The server may have given it to us already, or be about to: what is said now is said after that.
            self._release(held)
            raise
        if held.has_news:
            return
        self._held[held.origin] = held
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="robotgate: leases")

    def _leave(self, origin: Origin) -> None:
        """Give a lease back; the server is told meanwhile."""
        held = self._held.pop(origin, None)
        if held is not None:
            self._release(held)

    async def aclose(self) -> None:
        """Give back what is held still; the link is to be closed after that."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
        for origin in list(self._held):
            self._leave(origin)

    async def _taken(self, held: Held) -> None:
        # Before the first question: what is said behind its answer is heard.
        with self._signals.listening(self._keys.lease(held.origin)) as listener:
            left = await self._left(held)
            if left is None:
                return
            with self._signals.hearing():
                await self._awaited(held, listener, left)

    async def _awaited(self, held: Held, listener: Listener, left: float | None) -> None:
        """Wait for another's lease that is over in so many seconds."""
        pause = POLL
        while left is not None:
            if self._signals.is_heard:
                # Only a connection that is gone, and does not know it yet, keeps messages away.
                pause = max(pause, LAST_POLL)
            pause_of_many = pause * max(1.0, self._signals.waiting / MANY)
            if not await _set_within(listener.heard, min(pause_of_many, left)):
                pause = max(pause, min(2 * pause, LAST_POLL))
            elif held.is_news(listener.said):
                held.has_news = True
                return
            left = await self._left(held)

    async def _left(self, held: Held) -> float | None:
        """Ask for a lease. None if it is ours, or there is news; else for how many seconds it is another's should he be
        dead.
        """
        reply = await self._ask(held)
        (number,) = _ANSWER.unpack_from(reply, 1)
        if reply[:1] == _TAKEN:
            held.token = number
            return None
        if reply[:1] == _NEWS:
            held.has_news = True
            return None
        if held.known is not None:
            (held.known,) = _ANSWER.unpack_from(reply, 1 + _ANSWER.size)
        return float(number) / 1000.0 + 0.001

    def _ask(self, held: Held) -> asyncio.Future[bytes]:
        """Have a lease taken, or renewed if it is ours."""
        ttl = self._lease * 1000.0 // 1
        if held.known is None or held.token != NO_TOKEN:
            argument = struct.pack("<c16sdd", b"T", held.id, held.token, ttl)
        else:
            argument = struct.pack("<c16sddd", b"N", held.id, held.token, ttl, held.known)
        return self._link.ask(SCRIPT, places(self._keys, held.origin), argument)

    def _release(self, held: Held) -> None:
        argument = b"R" + held.id + self._channel
        # Where the server cannot be told, the lease comes to its end by itself.
        self._link.ask(SCRIPT, places(self._keys, held.origin), argument).add_done_callback(_pass_over)

    async def _renew(self) -> None:
        """Renew what is held, all at once, three times as often as need be.

        What has become another's stays so. Its holder goes on all the same, for it may have asked the site by now; but
        what it learns is not kept where the other's is.
        """
        try:
            while self._held:
                await asyncio.sleep(self._lease / 3)
                # All are asked for at one instant: what is given back after it is so in the server as well.
                renewals = [self._ask(held) for held in self._held.values()]
                for renewal in renewals:
                    renewal.add_done_callback(_pass_over)
                if renewals:
                    await asyncio.wait(renewals)
        finally:
            self._renewing = None


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, though not for long, and clear it. Returns whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True


def _pass_over(reply: asyncio.Future[bytes]) -> None:
    if not reply.cancelled():
        reply.exception()
