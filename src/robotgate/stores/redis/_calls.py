"""Calls that wait, and calls that are on their way together."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from robotgate._errors import StoreError
from robotgate.stores.redis._keys import HOSTS_AT_HAND
from robotgate.stores.redis._line import packed, pieces_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from robotgate.stores.redis._script import Script

Heard: TypeAlias = "Callable[[bytes | None, Trip | None], object]"
"""Called with the reply and its trip, at once and whoever still waits; with neither if there is no reply."""
MAX_CALLS: Final = 200
MAX_BYTES: Final = 100_000
"""Of one batch: the server does nothing else while it runs one. A call that is longer goes alone."""


class Trip(NamedTuple):
    """There and back: when a batch was sent, and when its replies had come, in seconds of the monotonic clock."""

    sent_at: float
    came_at: float


class Call(NamedTuple):
    """One call of a script. Somebody waits for its reply, or wants to hear of it, or both."""

    script: Script
    keys: tuple[bytes, ...]
    """As many as any call of the script has."""
    argument: bytes
    reply: asyncio.Future[bytes] | None
    heard: Heard | None = None

    def settle(self, reply: bytes, trip: Trip) -> None:
        """Give its reply to who waits for it."""
        if self.heard is not None:
            self.heard(reply, trip)
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(reply)

    def reject(self, error: StoreError) -> None:
        """Tell who waits for it why it failed."""
        if self.heard is not None:
            self.heard(None, None)
        if self.reply is not None and not self.reply.done():
            # Of his own: what is raised in several tasks gathers the traces of all.
            self.reply.set_exception(StoreError(*error.args))
            # Who has stopped waiting does not want to hear of it either.
            self.reply.exception()


class Batch:
    """Calls that travel together, in the order of their scripts; those of one script in their own order."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.groups: dict[str, list[Call]] = {}
        for call in calls:
            self.groups.setdefault(call.script.sha, []).append(call)

    def left(self) -> list[Call]:
        """The calls that have not been settled."""
        return [call for calls in self.groups.values() for call in calls]


class Waiting:
    """Calls that wait, in the order in which they were made."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """Put a call behind all others."""
        self._calls.append(call)

    def take(self) -> Batch:
        """The next calls to be sent."""
        taken: list[Call] = []
        size = 0
        calls = self._calls
        while calls and len(taken) < MAX_CALLS:
            call = calls[0]
            size += sum(map(len, call.keys)) + len(call.argument)
            if size > MAX_BYTES and taken:
                break
            taken.append(calls.popleft())
        return Batch(taken)

    def put_back(self, batch: Batch) -> None:
        """Let what is left of a batch wait again, before all others."""
        self._calls.extendleft(reversed(batch.left()))

    def fail(self, error: StoreError) -> None:
        """Tell the error to all."""
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.reject(error)


def evalsha(calls: Sequence[Call]) -> bytes:
    """The command that runs a script once for all these calls."""
    keys = len(calls[0].keys) * len(calls)
    words = [b"EVALSHA", calls[0].script.sha.encode(), b"%d" % keys]
    pieces = [b"*%d\r\n" % (len(words) + keys + len(calls)), *pieces_of(words)]
    pieces += [_packed_keys(call.keys) for call in calls]
    pieces += pieces_of([call.argument for call in calls])
    return b"".join(pieces)


def script_load(script: Script) -> bytes:
    """The command that makes a script known to the server."""
    return packed((b"SCRIPT", b"LOAD", script.source))


@lru_cache(HOSTS_AT_HAND)
def _packed_keys(keys: tuple[bytes, ...]) -> bytes:
    """The keys of one call, as they are sent: a turn at a host is two calls at the least."""
    return b"".join(pieces_of(keys))
