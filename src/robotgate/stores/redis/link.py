"""The way to the server: calls of its script that are made in one turn of the event loop travel together."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files
from random import uniform
from typing import TYPE_CHECKING, Final

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError, RedisError

from robotgate.errors import StoreError
from robotgate.stores.redis.client import server_name
from robotgate.stores.redis.faults import Kind, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from robotgate.stores.redis.client import Client
    from robotgate.stores.redis.faults import Fault
    from robotgate.stores.redis.messages import Keys

TIMEOUT: Final = 5.0
"""Seconds for a reply, whatever the client's own are."""
FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 1.0
MAX_CALLS: Final = 200
"""In one command: the server does nothing else while it runs a script."""

_logger: Final = logging.getLogger("robotgate.stores")


SCRIPT: Final = (files("robotgate.stores.redis") / "lua" / "grants.lua").read_bytes()
"""It has one key and one argument for each call, behind an argument of settings for all."""
_PROBE: Final = b'["save",[]]'
"""Changes nothing but writes, as calls do."""


@dataclass(slots=True, eq=False)
class _Call:
    encode: Callable[[], bytes]
    reply: asyncio.Future[bytes]


@dataclass(slots=True, eq=False)
class _Loss:
    """A server, or the node of a cluster that has a tag, that is lost."""

    error: StoreError
    gives_up_at: float
    """By the loop's clock; callers fail from then on."""
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    probing: asyncio.Task[None] | None = None


class Link:
    """Has the server run its script.

    Calls for one place travel together, and gather while others are on their way. The place is the whole
    server, or in a cluster the node that has a tag. A place that fails is lost: it is tried again and again, and its
    calls wait for as long as `patience` from then on. A call may be run twice, and its arguments are made anew for each
    attempt.

    It belongs to the event loop that first uses it.

    Args:
        settings: the first argument of the script.
        script: run for all calls.
        patience: seconds.
    """

    def __init__(
        self, client: Client, keys: Keys, *, settings: bytes, patience: float, script: bytes = SCRIPT
    ) -> None:
        self.server = server_name(client)
        self._client = client
        self._settings = settings
        self._keys = keys
        self._script = script
        # The name by which EVALSHA finds it; it protects nothing.
        self._sha = sha1(script, usedforsecurity=False).hexdigest()
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, list[_Call]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._losses: dict[int, _Loss] = {}
        self.listeners: list[Callable[[StoreError | None], object]] = []
        """Each is called with the error when the first place is lost, and with None when all are back."""
        self._is_closed = False

    async def call(self, tag: int, encode: Callable[[], bytes]) -> bytes:
        """Call the script for the keys of a tag.

        Args:
            encode: makes the argument, at each attempt.

        Raises:
            StoreError: the server was lost for longer than `patience`, or refuses the call; or the link was closed.
        """
        loop = self.check()
        call = _Call(encode, loop.create_future())
        self._waiting.setdefault(tag, []).append(call)
        if tag not in self._senders:
            self._senders[tag] = loop.create_task(self._send(tag))
        return await call.reply

    def given_up(self, tag: int) -> StoreError | None:
        """Return the error for a new caller, where the server has been lost for longer than `patience`."""
        loss = self._losses.get(tag)
        if loss is None or asyncio.get_running_loop().time() < loss.gives_up_at:
            return None
        return StoreError(*loss.error.args)

    async def recovered(self, tag: int, *, least: float = 0.0) -> None:
        """Wait until the server is not lost; where it is not, for some seconds."""
        loss = self._losses.get(tag)
        await (asyncio.sleep(least) if loss is None else loss.is_over.wait())

    async def aclose(self) -> None:
        """Fail what is still waiting, and end all tasks."""
        self._is_closed = True
        tasks = [*self._senders.values(), *(loss.probing for loss in self._losses.values() if loss.probing)]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    def check(self) -> asyncio.AbstractEventLoop:
        """Return the event loop.

        Raises:
            StoreError: the link was closed, or belongs to another.
        """
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise self._closed()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise StoreError(
                f"{self.server}: another event loop uses this store; make one in each event loop"
            )
        return loop

    def _closed(self) -> StoreError:
        return StoreError(f"{self.server}: the store was closed; make another")

    async def _send(self, tag: int) -> None:
        """Send what waits, one command after the other. While the place is lost, wait until it gives up."""
        waiting, reason = self._waiting[tag], None
        try:
            while waiting:
                while (loss := self._losses.get(tag)) is not None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(loss.gives_up_at):
                            await loss.is_over.wait()
                    if not loss.is_over.is_set():
                        reason = loss.error
                        return
                calls = waiting[:MAX_CALLS]
                await self._carry(tag, calls)
                waiting[: len(calls)] = [call for call in calls if not call.reply.done()]
        finally:
            del self._senders[tag], self._waiting[tag]
            for call in waiting:
                # Without a reason, after a mistake, or when somebody cancelled this task. An error that is raised twice
                # gathers two traces.
                _fail(call, StoreError(*(reason or self.stopped()).args))

    def stopped(self) -> StoreError:
        """Return the error for callers of a task that has ended."""
        if self._is_closed:
            return self._closed()
        return StoreError(
            f"{self.server}: a task of the store has ended; look at the log, and cancel only your own tasks"
        )

    async def _carry(self, tag: int, calls: Sequence[_Call]) -> None:
        """Send calls in one command, and settle them."""
        found = await self._try(tag, [call.encode() for call in calls])
        if isinstance(found, list):
            for call, reply in zip(calls, found, strict=True):
                if not call.reply.done():
                    call.reply.set_result(reply)
        elif found.kind is not Kind.CALL:
            # They are sent again once it is over.
            self._lose(tag, found)
        elif len(calls) == 1:
            _fail(calls[0], found.error)
        else:
            # One call of many, as a rule, and the others should not pay for it.
            for call in calls:
                await self._carry(tag, [call])

    async def _try(self, tag: int, arguments: Sequence[bytes]) -> list[bytes] | Fault:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._run(tag, arguments)
        except (RedisError, OSError, TimeoutError) as error:
            found = explained(self.server, error)
            if found.kind is not Kind.CALL:
                await self._disconnect()
            return found

    async def _run(self, tag: int, arguments: Sequence[bytes]) -> list[bytes]:
        keys = [self._keys.of_tag(tag)] * len(arguments)
        rest: tuple[int | bytes, ...] = (len(keys), *keys, self._settings, *arguments)
        execute = self._client.execute_command
        try:
            # Whatever the operator's client makes of replies, ours are bytes.
            replies: list[bytes] = await execute("EVALSHA", self._sha, *rest, NEVER_DECODE=True)
        except NoScriptError:
            replies = await execute("EVAL", self._script, *rest, NEVER_DECODE=True)
        return replies

    async def _disconnect(self) -> None:
        """Close idle connections: a server that became a replica keeps them open."""
        if not isinstance(self._client, RedisCluster):
            with suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(FIRST_PAUSE):
                    await self._client.connection_pool.disconnect(inuse_connections=False)

    def _lose(self, tag: int, found: Fault) -> None:
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + (self._patience if found.kind is Kind.AWAY else 0.0)
        loss = self._losses.get(tag)
        if loss is not None:
            loss.error, loss.gives_up_at = found.error, min(loss.gives_up_at, gives_up_at)
            return
        is_first = not self._losses
        loss = self._losses[tag] = _Loss(found.error, gives_up_at)
        loss.probing = loop.create_task(self._seek(tag, loss))
        if is_first:
            self._publish(found.error)

    async def _seek(self, tag: int, loss: _Loss) -> None:
        """Try until the server answers again, and takes writes."""
        pause = FIRST_PAUSE
        # With Python 3.11, redis-py can swallow the cancellation of a task.
        while not self._is_closed:
            # Processes that lost their server together should not come back together.
            await asyncio.sleep(pause * uniform(0.5, 1.0))
            pause = min(2 * pause, LAST_PAUSE)
            found = await self._try(tag, [_PROBE])
            if isinstance(found, list) or found.kind is Kind.CALL:
                break
            self._lose(tag, found)
        del self._losses[tag]
        loss.is_over.set()
        if not self._losses:
            self._publish(None)

    def _publish(self, error: StoreError | None) -> None:
        for listener in list(self.listeners):
            listener(error)


def _fail(call: _Call, error: Exception) -> None:
    if not call.reply.done():
        call.reply.set_exception(error)
