"""The way to the server: calls made in the same turn of the event loop travel together."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from random import uniform
from typing import TYPE_CHECKING, Final

from robotgate._errors import StoreError
from robotgate.stores.redis._calls import Batch, Call, Waiting
from robotgate.stores.redis._carrier import Carrier
from robotgate.stores.redis._client import server_name
from robotgate.stores.redis._ending import ended
from robotgate.stores.redis._faults import Kind
from robotgate.stores.redis._script import Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

    from robotgate.stores.redis._calls import Heard
    from robotgate.stores.redis._faults import Fault

TIMEOUT: Final = 5.0
FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 1.0
CLOSING: Final = 2.0
"""Seconds for what is left to arrive when the link is closed."""
_SHORTEST: Final = 0.05
"""Seconds that an attempt is given, however little of the patience is left."""
_PROBE: Final = Script(b"redis.call('set', KEYS[1], '', 'XX', 'PX', 1) return {''}", keys_per_call=1)
"""Writes, as calls do, and leaves nothing: there is no such key."""

_logger: Final = logging.getLogger("robotgate.stores")


@dataclass(slots=True)
class _Loss:
    """A server that is lost."""

    error: StoreError
    since: float
    """By the loop's clock."""
    pause: float = FIRST_PAUSE
    has_given_up: bool = False
    """Whether nobody waits for it any more."""


class Link:
    """Has the server run scripts. While one batch is on its way, the next gathers: calls arrive in the order in which
    they were made, and none of a script overtakes another. After a fault a batch is sent again, though the server may
    have run it: calls must bear that.

    It has one connection, and at most one task, which ends when there is nothing to do. It belongs to the event loop
    that first uses it; once that is closed, to the next one.

    Args:
        client: whose connections are copied. It is asked for nothing but EVALSHA and SCRIPT LOAD.
        patience: how long a call is tried again, in seconds from when the server was lost.
        timeout: seconds for a batch to be answered, whatever the client's own are.
    """

    def __init__(self, client: Redis, *, patience: float, timeout: float = TIMEOUT) -> None:
        self.server = server_name(client)
        self._carrier = Carrier(client, self.server)
        self._patience = patience
        self._timeout = timeout
        self._waiting = Waiting()
        self._under_way = Batch(())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: asyncio.Task[None] | None = None
        self._loss: _Loss | None = None
        self._probe_key = b"robotgate:probe"
        self._callbacks: list[Callable[[StoreError | None], None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def lost(self) -> StoreError | None:
        """What is wrong with the server; None while all is well."""
        return None if self._loss is None else self._loss.error

    def subscribe(self, callback: Callable[[StoreError | None], None]) -> None:
        """Have it told once when the server is lost, and once, with None, when it is back."""
        self._callbacks.append(callback)

    def ask(
        self,
        script: Script,
        keys: tuple[bytes, ...],
        argument: bytes,
        *,
        heard: Heard | None = None,
    ) -> asyncio.Future[bytes]:
        """Have a call made, and its reply.

        Who stops waiting stops no call: once it is on its way, its reply may be an offer that has to be turned down.

        Args:
            heard: called before anybody goes on who waits for the reply.

        Raises:
            StoreError: (the future) the server was away for too long, or refused it; or the link was closed.
            StoreError: another event loop uses the link.
        """
        loop = self._bind()
        reply: asyncio.Future[bytes] = loop.create_future()
        self._add(Call(script, keys, argument, reply, heard), loop)
        return reply

    def call(
        self,
        script: Script,
        keys: tuple[bytes, ...],
        argument: bytes,
        heard: Heard,
    ) -> None:
        """As `ask`, where nobody waits: `heard` is all, and takes less time than a future."""
        self._add(Call(script, keys, argument, None, heard), self._bind())

    async def aclose(self) -> None:
        """Send what is left, if that takes but a moment, and close the connection. Calls that have no reply by then
        fail; a second time changes nothing.

        Raises:
            StoreError: another event loop uses the link.
        """
        loop = self._bind()
        self._is_closed = True
        if self._closing is None or self._closing.get_loop() is not loop:
            self._closing = loop.create_task(self._close())
        # Whoever is cancelled here ends nothing but his own waiting.
        await asyncio.wait({self._closing})

    def _add(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_closed:
            call.reject(self._closed())
            return
        if self._loss is not None and self._loss.has_given_up:
            call.reject(self._loss.error)
        else:
            self._waiting.add(call)
        if self._sending is None:
            self._start(loop)

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None:
                if not self._loop.is_closed():
                    raise self._elsewhere()
                self._abandon()
                if self._loss is not None:
                    self._loss.since = loop.time()
            self._loop = loop
        return loop

    def _abandon(self) -> None:
        """Forget who waited in a loop that has been closed."""
        self._waiting = Waiting()
        self._under_way = Batch(())
        self._sending = None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sending = loop.create_task(self._send())
        self._sending.add_done_callback(self._ended)

    async def _send(self) -> None:
        while self._waiting or self._is_to_be_probed():
            self._under_way = self._waiting.take() if self._waiting else self._probe()
            found = await self._carrier.carry(self._under_way, within=self._time_left())
            if found is None:
                self._recover()
            else:
                self._lose(found)
                await self._pause()
        # At once: whoever asks before `_ended` is told starts the next one.
        self._sending = None

    def _ended(self, sending: asyncio.Task[None]) -> None:
        """Somebody cancelled the task, or there is a mistake in it."""
        if sending is not self._sending:
            return
        self._sending = None
        self._waiting.put_back(self._under_way)
        self._under_way = Batch(())
        error = None if sending.cancelled() else sending.exception()
        if error is not None:
            _logger.error("The link to %s failed", self.server, exc_info=error)
        if self._waiting:
            self._waiting.fail(self._closed() if self._is_closed else self._stopped(error))

    def _lose(self, found: Fault) -> None:
        now = asyncio.get_running_loop().time()
        self._remember_key()
        self._waiting.put_back(self._under_way)
        self._under_way = Batch(())
        loss = self._loss
        is_news = loss is None
        if loss is None:
            loss = self._loss = _Loss(found.error, now)
        loss.error = found.error
        if found.kind is Kind.REFUSED or now - loss.since >= self._patience:
            loss.has_given_up = True
        if loss.has_given_up:
            self._waiting.fail(loss.error)
        if is_news:
            self._publish(loss.error)

    def _recover(self) -> None:
        if self._loss is not None:
            self._loss = None
            self._publish(None)

    def _publish(self, error: StoreError | None) -> None:
        for callback in self._callbacks:
            callback(error)

    async def _pause(self) -> None:
        """Wait before the next attempt, and not beyond the end of the patience."""
        loss = self._loss
        if loss is None:
            return
        # A fleet that lost its server at once does not come back at once.
        pause = loss.pause * uniform(0.5, 1.0)
        loss.pause = min(2 * loss.pause, LAST_PAUSE)
        if not loss.has_given_up:
            end = loss.since + self._patience
            pause = min(pause, max(end - asyncio.get_running_loop().time(), 0.0))
        await asyncio.sleep(pause)

    def _time_left(self) -> float:
        """Seconds for one attempt: who waits is told in time."""
        loss = self._loss
        if loss is None or loss.has_given_up:
            return self._timeout
        end = loss.since + self._patience
        return min(self._timeout, max(end - asyncio.get_running_loop().time(), _SHORTEST))

    def _is_to_be_probed(self) -> bool:
        """Whether it has to be found out that the server is back, though nobody has anything to say to it."""
        return self._loss is not None and not self._is_closed

    def _probe(self) -> Batch:
        return Batch((Call(_PROBE, (self._probe_key,), b"", None),))

    def _remember_key(self) -> None:
        """What a probe may write to: a key that no call has, in a slot, and of a prefix, that calls have."""
        for call in self._calls_under_way():
            if call.keys:
                self._probe_key = call.keys[0] + b"\0probe"
                return

    def _calls_under_way(self) -> list[Call]:
        return [call for call in self._under_way.left() if call.script is not _PROBE]

    async def _close(self) -> None:
        sending = self._sending
        if sending is not None:
            if self._waiting or self._calls_under_way():
                await asyncio.wait({sending}, timeout=CLOSING)
            await ended(sending, within=_SHORTEST)
        await self._carrier.aclose()

    def _closed(self) -> StoreError:
        return StoreError(f"{self.server}: the store was closed; make another")

    def _elsewhere(self) -> StoreError:
        return StoreError(f"{self.server}: another event loop uses this store; make one in each event loop")

    def _stopped(self, error: BaseException | None) -> StoreError:
        if error is None:
            return StoreError(
                f"{self.server}: the task that talks to it was cancelled; cancel only your own tasks"
            )
        return StoreError(f"{self.server}: the store failed ({error!r}); report this to robotgate")
