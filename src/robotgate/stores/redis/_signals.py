"""What processes tell each other at once: that a lease is free, and what its holder has left.

A message is a kindness and no more. It may be lost, and so may the connection it would come by; whoever waits for one
looks for himself as well, every now and then.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from redis.exceptions import RedisError

from robotgate.stores.redis._ending import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.asyncio import Redis

COMMANDS: Final = ("subscribe", "unsubscribe")
"""What is asked of the server. Who may not subscribe hears nothing, and looks."""
LINGER: Final = 10.0
"""Seconds for which the connection stays after the last who waited: the next may come at once."""
SAID: Final = 16
"""Characters of a message before the name."""
RETRY: Final = 1.0
"""Seconds until a connection that was lost is made again."""


class Listener:
    """Who listens for one name."""

    __slots__ = ("heard", "said")

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        """Set with each message of this name, and whenever some may have been lost."""
        self.said: bytes | None = None
        """What the last message said; None where some may have been lost."""


class Signals:
    """Hears what is published on one channel, on a connection of its own that is there while somebody waits.

    One channel for all: what is listened for changes with every wait, and the subscription never does.

    Args:
        client: of which the connection is had.
        channel: its messages are names, each behind `SAID` characters; who listens for one is woken by it.
    """

    def __init__(self, client: Redis, channel: bytes) -> None:
        self._client = client
        self._channel = channel
        self._listeners: dict[bytes, set[Listener]] = {}
        self._left_at = 0.0
        self._hearing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.is_heard = False
        """Whether messages arrive, as far as is known."""
        self.waiting = 0
        """For how many they are heard."""

    @contextmanager
    def listening(self, name: bytes) -> Iterator[Listener]:
        """Hear of a name, as long as messages are heard for somebody: see `hearing`."""
        listener = Listener()
        self._listeners.setdefault(name, set()).add(listener)
        try:
            yield listener
        finally:
            listeners = self._listeners[name]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[name]

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Have messages heard: somebody waits for one."""
        self.waiting += 1
        if self._hearing is None and not self._is_closed:
            self._hearing = asyncio.create_task(self._hear(), name="robotgate: signals")
        try:
            yield
        finally:
            self.waiting -= 1
            self._left_at = asyncio.get_running_loop().time()

    async def aclose(self) -> None:
        """Let go of the connection; nobody hears anything any more."""
        self._is_closed = True
        if self._hearing is not None:
            # Time enough to give the connection back.
            await ended(self._hearing, within=2 * RETRY)

    async def _hear(self) -> None:
        try:
            while self._is_wanted():
                try:
                    await self._hear_on_one_connection()
                except (RedisError, OSError, UnicodeError):
                    await asyncio.sleep(RETRY)
        finally:
            self._hearing = None

    async def _hear_on_one_connection(self) -> None:
        pubsub = self._client.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while self._is_wanted():
                message = await pubsub.get_message(timeout=RETRY)
                if message is None:
                    continue
                if message["type"] == "message":
                    data = _octets(message["data"])
                    _wake(self._listeners.get(data[SAID:], set()), data[:SAID])
                else:
                    # Subscribed, perhaps anew by the client itself: what was said before is lost.
                    self.is_heard = True
                    for listeners in list(self._listeners.values()):
                        _wake(listeners, None)
        finally:
            self.is_heard = False
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _is_wanted(self) -> bool:
        if self._is_closed:
            return False
        return self.waiting > 0 or asyncio.get_running_loop().time() < self._left_at + LINGER


def _wake(listeners: set[Listener], said: bytes | None) -> None:
    for listener in listeners:
        listener.said = said
        listener.heard.set()


def _octets(data: bytes | str) -> bytes:
    """A message as it was published; an operator's client may make text of it."""
    return data if isinstance(data, bytes) else data.encode()
