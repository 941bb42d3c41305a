"""Calls of ``turns.lua``, and what every reply tells besides: the server's time, and whether it has forgotten."""

from __future__ import annotations

from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final
from zlib import crc32

from robotgate.stores.redis._keys import BUCKETS, FLEET_BUCKET, HOSTS_AT_HAND, text
from robotgate.stores.redis._script import load
from robotgate.stores.redis._server_clock import ServerClock
from robotgate.stores.redis._wire import DONE, HEAD, Flag, Operation

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from robotgate._ports import Clock
    from robotgate.stores.redis._calls import Trip
    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link

SCRIPT: Final = load("turns", keys_per_call=2)

COMMANDS: Final = (
    "del",
    "get",
    "info",
    "pexpire",
    "set",
    "time",
    "zadd",
    "zcard",
    "zrem",
    "zremrangebyscore",
)
"""The commands that the script calls. Without INFO it works, but takes whatever is missing to have been visited now,
and does not see a restart."""


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
        self._may_evict = False
        self._flags = 0
        self._link = link
        self._keys = keys
        self._worker = worker
        self._nobody = worker + bytes(8)
        self._clock = clock
        self._keep = keep
        self._host_keys = [keys.hosts_of(bucket) for bucket in range(BUCKETS)]
        self._epoch_keys = [keys.epoch(bucket) for bucket in range(BUCKETS)]
        self._place_of = lru_cache(HOSTS_AT_HAND)(self._find_place)
        self._epochs: dict[int, float] = {}
        self._noted: Trip | None = None
        """The last of which the server's clock has heard."""

    @property
    def can_tell(self) -> bool:
        """Whether the server is there, and its time is known."""
        return self.server.is_known and self._link.lost is None

    @property
    def may_evict(self) -> bool:
        """Whether the server may throw keys out for lack of memory."""
        return self._may_evict

    @may_evict.setter
    def may_evict(self, may_evict: bool) -> None:
        self._may_evict = may_evict
        self._reckon_flags()

    def of_host(
        self,
        operation: Operation,
        pace_key: str,
        body: bytes = b"",
        *,
        turn: bytes | None = None,
        flags: Flag = Flag.NONE,
        on_failure: Callable[[], object] | None = None,
    ) -> asyncio.Future[bytes]:
        """Have something done with a host, and what comes of it.

        Args:
            on_failure: called if nobody can tell whether it was done.
        """
        bucket, keys = self._place_of(pace_key)
        argument = self._head(operation, flags, turn or self._nobody) + body
        return self._link.ask(SCRIPT, keys, argument, heard=partial(self._heard, bucket, on_failure))

    def tell(
        self,
        operation: Operation,
        pace_key: str,
        body: bytes = b"",
        *,
        turn: bytes | None = None,
        flags: Flag = Flag.NONE,
        on_failure: Callable[[], object] | None = None,
    ) -> None:
        """As `of_host`, where nobody waits."""
        bucket, keys = self._place_of(pace_key)
        argument = self._head(operation, flags, turn or self._nobody) + body
        self._link.call(SCRIPT, keys, argument, partial(self._heard, bucket, on_failure))

    def look(self, bucket: int) -> asyncio.Future[bytes]:
        """Hear of a bucket's epoch, and begin it if it is the first."""
        head = self._head(Operation.LOOK, Flag.NONE, self._nobody)
        return self._ask(bucket, self._epoch_keys[bucket], head)

    def beat(self, flags: Flag) -> asyncio.Future[bytes]:
        """Give a sign of life."""
        head = self._head(Operation.BEAT, flags, self._nobody)
        return self._ask(FLEET_BUCKET, self._keys.fleet("workers"), head)

    def _head(self, operation: int, flags: int, turn: bytes) -> bytes:
        # Added, not joined: these are never set, and flags that are joined take as long as all the rest.
        return HEAD.pack(operation, flags + self._flags, turn, self._keep)

    def _find_place(self, pace_key: str) -> tuple[int, tuple[bytes, bytes]]:
        """The bucket of a host, and the keys of a call that concerns it, the last as `Keys.host` in less time."""
        name = text(pace_key)
        bucket = crc32(name) % BUCKETS
        return bucket, (self._epoch_keys[bucket], self._host_keys[bucket] + name)

    def _ask(self, bucket: int, key: bytes, argument: bytes) -> asyncio.Future[bytes]:
        heard = partial(self._heard, bucket, None)
        return self._link.ask(SCRIPT, (self._epoch_keys[bucket], key), argument, heard=heard)

    def _heard(
        self, bucket: int, on_failure: Callable[[], object] | None, reply: bytes | None, trip: Trip | None
    ) -> None:
        if reply is None or trip is None:
            if on_failure is not None:
                on_failure()
            return
        _, told_at, epoch = DONE.unpack_from(reply)
        if epoch != self._epochs.get(bucket):
            self._take_in(bucket, epoch)
        if trip is not self._noted:
            self._note(trip, told_at)

    def _note(self, trip: Trip, told_at: float) -> None:
        """What time it was there; all replies that came together tell the same."""
        self._noted = trip
        # Whatever comes between the readings makes the trip seem longer, which is never early by a clock that goes on
        # as the monotonic one does.
        before, now, after = monotonic(), self._clock.now(), monotonic()
        self.server.note(
            asked_at=now - (after - trip.sent_at), told_at=told_at, heard_at=now - (before - trip.came_at)
        )

    def _take_in(self, bucket: int, epoch: float) -> None:
        is_known = bucket in self._epochs
        self._epochs[bucket] = epoch
        self._reckon_flags()
        if is_known:
            # It may be another server, with another clock.
            self.server.restart()
            self._noted = None
            self.on_epoch(bucket)

    def _reckon_flags(self) -> None:
        established = Flag.ESTABLISHED if self._epochs else Flag.NONE
        self._flags = int(established | (Flag.EVICTING if self._may_evict else Flag.NONE))


def _heed_nothing(_: object) -> None:
    """Nobody listens yet."""
