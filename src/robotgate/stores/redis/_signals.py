"""What processes tell each other at once: that a lease is free.

A message is a kindness and no more. It may be lost, and so may the connection it would come by; whoever waits for one
looks for himself as well, every now and then.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from redis.exceptions import RedisError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.asyncio import Redis

COMMANDS: Final = ("subscribe", "unsubscribe")
"""What is asked of the server. Who may not subscribe hears nothing, and looks."""
LINGER: Final = 10.0
"""Seconds for which the connection stays after the last who listened: the next may come at once."""
RETRY: Final = 1.0
"""Seconds until a connection that was lost is made again."""


class Signals:
    """Hears what is published on one channel, on a connection of its own that is there while somebody listens.

    One channel for all: what is listened for changes with every wait, and the subscription never does.

    Args:
        client: of which the connection is had.
        channel: its messages are names; who listens for one is woken by it.
    """

    def __init__(self, client: Redis, channel: bytes) -> None:
        self._client = client
        self._channel = channel
        self._listeners: dict[bytes, set[asyncio.Event]] = {}
        self._left_at = 0.0
        self._hearing: asyncio.Task[None] | None = None
        self._is_closed = False

    @contextmanager
    def listening(self, name: bytes) -> Iterator[asyncio.Event]:
        """Have an event set with each message that is this name, and whenever some may have been lost."""
        event = asyncio.Event()
        self._listeners.setdefault(name, set()).add(event)
        if self._hearing is None and not self._is_closed:
            self._hearing = asyncio.create_task(self._hear(), name="robotgate: signals")
        try:
            yield event
        finally:
            listeners = self._listeners[name]
            listeners.remove(event)
            if not listeners:
                del self._listeners[name]
            self._left_at = asyncio.get_running_loop().time()

    async def aclose(self) -> None:
        """Let go of the connection; nobody hears anything any more."""
        self._is_closed = True
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})

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
                    self._wake(self._listeners.get(_octets(message["data"]), set()))
                else:
                    # Subscribed, perhaps anew by the client itself: what was said before is lost.
                    for listeners in list(self._listeners.values()):
                        self._wake(listeners)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _is_wanted(self) -> bool:
        return bool(self._listeners) or asyncio.get_running_loop().time() < self._left_at + LINGER

    @staticmethod
    def _wake(listeners: set[asyncio.Event]) -> None:
        for event in listeners:
            event.set()


def _octets(data: bytes | str) -> bytes:
    """A message as it was published; an operator's client may make text of it."""
    return data if isinstance(data, bytes) else data.encode()
