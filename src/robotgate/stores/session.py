"""What the sessions of memory and of SQLite share: tasks that wait for hosts, and news."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from robotgate.stores.base import OperatorBlock, Wanted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from robotgate.errors import StoreError
    from robotgate.pace.state import HostState
    from robotgate.stores.base import Grant, News
    from robotgate.stores.grants import Hold, Member, Reply


class GrantSession(ABC):
    """A `Session` that speaks by a `Member`."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self._granted: dict[str, asyncio.Future[None]] = {}
        """For each host that is waited for."""
        self._news: list[News] = []
        self._told = asyncio.Event()

    @abstractmethod
    def poke(self) -> None:
        """There is something to send."""

    @abstractmethod
    def grant_of(self, key: str, hold: Hold) -> Grant:
        """The grant of a host that is held."""

    @abstractmethod
    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""

    @abstractmethod
    async def confirm(self) -> None:
        """Wait until it is known whether what is held is held still."""

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`. One task at a time may wait for a host."""
        member = self.member
        if key in member.holds:
            await self.confirm()
        if key not in member.holds:
            granted = self._granted[key] = asyncio.get_running_loop().create_future()
            member.want(key)
            self.poke()
            try:
                await granted
            except BaseException:
                if key in member.holds:
                    self.leave(key, None)
                else:
                    member.unwant(key)
                    self.poke()
                raise
            finally:
                self._granted.pop(key, None)
        return self.grant_of(key, member.holds[key])

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

    def overrule(self, patterns: Collection[str]) -> None:
        """Drop what was not heard yet of patterns of which this session has said something since."""
        self._news = [
            news for news in self._news if not (isinstance(news, OperatorBlock) and news.pattern in patterns)
        ]

    def receive(self, reply: Reply) -> None:
        """Take in a reply: wake those who waited, and tell what is wanted."""
        wanted = []
        for item in self.member.receive(reply):
            granted = self._granted.get(item.key)
            if granted is not None and not granted.done():
                granted.set_result(None)
            if item.is_wanted:
                wanted.append(item.key)
        if wanted:
            self.tell(Wanted(frozenset(wanted)))

    def fail(self, error: StoreError) -> None:
        """Tell all who wait that the store cannot tell."""
        for granted in self._granted.values():
            if not granted.done():
                granted.set_exception(error)
