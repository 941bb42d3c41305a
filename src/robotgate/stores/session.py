"""What the sessions of all shared stores have in common: tasks that wait for hosts, leases, and news."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.errors import OptionError, StoreError
from robotgate.stores.base import Grant, OperatorBlock, Wanted
from robotgate.stores.grants import not_before
from robotgate.urls import HostPattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate.pace.state import HostState
    from robotgate.stores.base import News
    from robotgate.stores.grants import Hold, Member, Reply, Word

_logger: Final = logging.getLogger("robotgate.stores")


class Inbox:
    """The news of a session, until they are heard."""

    def __init__(self) -> None:
        self._news: list[News] = []
        self._told = asyncio.Event()

    async def news(self) -> Sequence[News]:
        """As `Session.news`."""
        await self._told.wait()
        self._told.clear()
        news, self._news = self._news, []
        return news

    def tell(self, *news: News) -> None:
        """Have it heard."""
        if news:
            self._news += news
            self._told.set()

    def overrule(self, pattern: str) -> None:
        """Drop what was not heard yet of a pattern of which this session has said something since."""
        self._news = [
            news for news in self._news if not (isinstance(news, OperatorBlock) and news.pattern == pattern)
        ]


@dataclass(frozen=True, slots=True)
class HeldLease:
    """Valid while the host is held, and its session is known to be alive."""

    seat: Seat
    hold: Hold

    def is_valid(self) -> bool:
        """As `Lease.is_valid`."""
        return self.seat.member.is_valid(self.hold, now=self.seat.uptime())


@dataclass(slots=True, eq=False)
class Waiter:
    """A task that waits for a host."""

    granted: asyncio.Future[Grant]
    since: float
    """By the clock of leases."""
    pace: float | None = None
    """Seconds between two visits of the host, as far as they are known."""


class Seat(ABC):
    """A `Member`, and the tasks that wait for what it asks for.

    Args:
        inbox: is told which hosts others want, and what was said elsewhere.
    """

    def __init__(self, member: Member, inbox: Inbox) -> None:
        self.member = member
        self.waiting: dict[str, Waiter] = {}
        self._inbox = inbox

    @abstractmethod
    def uptime(self) -> float:
        """The clock of leases, which runs while the machine is suspended."""

    @abstractmethod
    def poke(self) -> None:
        """There is something to send."""

    def ask(self, key: str) -> None:
        """Ask for a host."""
        self.member.want(key)
        self.poke()

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`. One task at a time may wait for a host."""
        if key in self.member.holds:
            self.leave(key, None)
        granted: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        waiter = self.waiting[key] = Waiter(granted, self.uptime())
        self.ask(key)
        try:
            return await granted
        except asyncio.CancelledError:
            if self.waiting.get(key) is waiter:
                self._forget(key)
            elif not granted.cancelled():
                # It was granted in the same moment.
                self.leave(key, None)
            raise

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        self.member.leave(key, state)
        self.poke()

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`."""
        self._inbox.overrule(pattern)
        self.member.say(pattern, until_at, now=self.uptime())
        self.poke()

    def receive(self, reply: Reply) -> None:
        """Take in a reply: wake those who waited, and tell what is wanted, and what was said."""
        wanted = set()
        items, words = self.member.receive(reply)
        for item in items:
            waiter = self.waiting.pop(item.key, None)
            if waiter is not None and waiter.granted.done():
                # It was cancelled a moment ago.
                self.leave(item.key, None)
                continue
            if waiter is not None:
                lease = HeldLease(self, self.member.holds[item.key])
                due_at = 0.0 if item.state is None else not_before(item.state)
                waiter.granted.set_result(Grant(lease, item.state, due_at))
            if item.is_wanted:
                wanted.add(item.key)
        if wanted:
            self._inbox.tell(Wanted(frozenset(wanted)))
        self._inbox.tell(*(OperatorBlock(word.pattern, word.until_at) for word in words if _is_valid(word)))

    def fail(self, error: StoreError) -> None:
        """Tell all who wait that the store cannot tell."""
        for key, waiter in list(self.waiting.items()):
            self._forget(key)
            if not waiter.granted.done():
                # An error of its own: one that is raised twice gathers two traces.
                waiter.granted.set_exception(StoreError(*error.args))

    def _forget(self, key: str) -> None:
        del self.waiting[key]
        self.member.unwant(key)
        self.poke()


def _is_valid(word: Word) -> bool:
    try:
        HostPattern.parse(word.pattern)
    except OptionError as error:
        _logger.warning("an operator block in the store is ignored: %s", error)
        return False
    return True
