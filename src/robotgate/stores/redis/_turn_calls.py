"""Calls of ``turns.lua``, and what every reply tells besides: the server's time, and whether it has forgotten."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.stores.redis._keys import BUCKETS, bucket_of
from robotgate.stores.redis._script import load
from robotgate.stores.redis._server_clock import ServerClock
from robotgate.stores.redis._wire import DONE, HEAD, Flag, Operation

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from robotgate._ports import Clock
    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link

SCRIPT: Final = load("turns", keys_per_call=2)


class TurnCalls:
    """Makes calls on behalf of one worker.

    Args:
        worker: its octets.
        keep: seconds for which the server keeps what nobody is heard of.
    """

    def __init__(
        self,
        link: Link,
        keys: Keys,
        *,
        worker: bytes,
        clock: Clock,
        keep: float,
    ) -> None:
        self.on_epoch: Callable[[int], object] = _heed_nothing
        """Called with the number of a bucket that the server has begun anew: what was in it may be lost."""
        self.server = ServerClock()
        self.may_evict = False
        self._link = link
        self._keys = keys
        self._worker = worker
        self._nobody = worker + bytes(8)
        self._clock = clock
        self._keep = keep
        self._epoch_keys = [keys.epoch(bucket) for bucket in range(BUCKETS)]
        self._epochs: dict[int, float] = {}

    @property
    def can_tell(self) -> bool:
        """Whether the server is there, and its time is known."""
        return self.server.is_known and self._link.lost is None

    def of_host(
        self,
        operation: Operation,
        pace_key: str,
        body: bytes = b"",
        *,
        turn: bytes | None = None,
        flags: Flag = Flag.NONE,
    ) -> asyncio.Future[bytes]:
        """Have something done with a host."""
        head = self._head(operation, flags, turn or self._nobody)
        return self._call(bucket_of(pace_key), self._keys.host(pace_key), head + body)

    def look(self, bucket: int) -> asyncio.Future[bytes]:
        """Hear of a bucket's epoch, and begin it if it is the first."""
        head = self._head(Operation.LOOK, Flag.NONE, self._nobody)
        return self._call(bucket, self._epoch_keys[bucket], head)

    def beat(self, flags: Flag) -> asyncio.Future[bytes]:
        """Give a sign of life."""
        head = self._head(Operation.BEAT, flags, self._nobody)
        return self._call(0, self._keys.fleet("workers"), head)

    def _head(self, operation: int, flags: int, turn: bytes) -> bytes:
        if self._epochs:
            flags |= Flag.ESTABLISHED
        if self.may_evict:
            flags |= Flag.EVICTING
        return HEAD.pack(operation, flags, turn, self._keep)

    def _call(self, bucket: int, key: bytes, argument: bytes) -> asyncio.Future[bytes]:
        reply = self._link.ask(SCRIPT, (self._epoch_keys[bucket], key), argument)
        reply.add_done_callback(partial(self._heard, bucket, self._clock.now()))
        return reply

    def _heard(self, bucket: int, asked_at: float, reply: asyncio.Future[bytes]) -> None:
        if reply.cancelled() or reply.exception() is not None:
            return
        _, told_at, epoch = DONE.unpack_from(reply.result())
        known = self._epochs.get(bucket)
        if epoch != known:
            self._epochs[bucket] = epoch
            if known is not None:
                # It may be another server, with another clock.
                self.server.restart()
                self.on_epoch(bucket)
        self.server.note(asked_at=asked_at, told_at=told_at, heard_at=self._clock.now())


def _heed_nothing(_: object) -> None:
    """Nobody listens yet."""
