"""The connection to the server: calls of its script are collected and sent in one command."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files
from random import uniform
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError, RedisError

from robotgate.errors import StoreError
from robotgate.stores.base import logger
from robotgate.stores.redis.client import TIMEOUT, Client, server_name
from robotgate.stores.redis.faults import ClientError, Fault, Kind, client_errors, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from robotgate.stores.redis.messages import Keys

FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 1.0
MAX_CALLS: Final = 200
"""Calls in one command: the server does nothing else while it runs a script."""
HALF: Final = 5.0
"""Seconds: what replies have told of the server's clock counts for one to two times as long. Clocks that are slewed
against each other, by 0.5 ms a second at most, are then 5 ms apart at worst."""
CLOCK_STEP: Final = 1e-6
"""Seconds; the server tells the time in full steps."""


class ServerClock:
    """How far a server's clock is ahead of ours, within bounds that each reply may narrow.

    The server has read its clock after a call was sent, and before its reply came. Of the calls of some seconds, the
    fastest on its way there sets one bound, and the fastest on its way back the other. So an instant that passes
    through the server becomes later by what these two took, and not by what its own call takes on a busy machine or
    network. It never becomes earlier. A clock that was set contradicts the bounds, which then begin anew.
    """

    __slots__ = ("_bounds", "_earlier", "_since")

    def __init__(self) -> None:
        self._bounds = self._earlier = (-math.inf, math.inf)
        self._since = -math.inf

    def learn(self, sent_at: float, read_at: float, came_at: float) -> None:
        """Take in a reply.

        Args:
            sent_at: before the call was sent, by our clock; `came_at`: when its reply had come.
            read_at: what the server's clock has read.
        """
        least, most = read_at - came_at, read_at + CLOCK_STEP - sent_at
        if came_at - self._since > HALF:
            self._since, self._earlier, self._bounds = came_at, self._bounds, (-math.inf, math.inf)
        known_least, known_most = self._ahead()
        if least > known_most or most < known_least:
            self._bounds = self._earlier = (least, most)
        else:
            self._bounds = max(least, self._bounds[0]), min(most, self._bounds[1])

    def server_time(self, at: float) -> float:
        """Return what the server's clock reads at one of our instants, or later; `math.inf` if nothing is known."""
        return at + self._ahead()[1]

    def our_time(self, read_at: float) -> float:
        """Return our instant, or a later one, at which the server's clock has read that."""
        return read_at - self._ahead()[0]

    def _ahead(self) -> tuple[float, float]:
        return max(self._bounds[0], self._earlier[0]), min(self._bounds[1], self._earlier[1])


@dataclass(frozen=True, slots=True)
class Answer:
    """What the script has returned."""

    data: bytes
    read_at: float
    """When the server has read its clock for it, or later: by `time.monotonic`."""

    def age(self) -> float:
        """Return for how many seconds it has been on its way, at most."""
        return monotonic() - self.read_at


SCRIPT: Final = (files("robotgate.stores.redis") / "lua" / "grants.lua").read_bytes()
"""Its first argument has settings, each other is a call."""
PROBE: Final = b'["save",[]]'
"""A call that changes no host, but needs a server that accepts writes."""
POLICY: Final = b'["policy"]'
"""A call for the server's maxmemory-policy."""


@dataclass(slots=True, eq=False)
class _Call:
    encode: Callable[[], bytes]
    reply: asyncio.Future[Answer]


@dataclass(slots=True, eq=False)
class _Place:
    """The server, or the node of a cluster that has a tag, while it has calls to answer or is lost."""

    calls: list[_Call] = field(default_factory=list)
    """Those without a reply, the oldest first."""
    error: StoreError | None = None
    """Why it is lost."""
    giving_up: asyncio.TimerHandle | None = None
    """Runs `patience` seconds after the loss."""
    has_given_up: bool = False
    """Whether calls fail until the place is found."""


class Link:
    """Calls the script at the server.

    Each place has a task while it has calls or is lost. Calls that are made while a command is under way are sent
    together in the next command. A place that fails is lost: the task tries it again and again, and its calls wait for
    at most `patience` seconds. A call may be run twice; its argument is made anew for each attempt.

    It belongs to the event loop that first uses it.

    Args:
        settings: the first argument of the script.
        patience: seconds.
    """

    script: ClassVar[bytes] = SCRIPT

    def __init__(self, client: Client, keys: Keys, *, settings: bytes, patience: float) -> None:
        self.server: str = server_name(client)
        self._client = client
        self._settings = settings
        self._keys = keys
        self._patience = patience
        # The name of the script for EVALSHA.
        self._sha = sha1(self.script, usedforsecurity=False).hexdigest()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places: dict[int, _Place] = {}
        self._clocks: dict[int, ServerClock] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.listeners: list[Callable[[StoreError | None], object]] = []
        """Each is called with the error when a place is lost, and with None when none is lost any more."""
        self._is_closed = False

    async def call(self, tag: int, encode: Callable[[], bytes]) -> Answer:
        """Call the script for the keys of a tag.

        Args:
            encode: makes the argument, at each attempt.

        Raises:
            StoreError: the server was lost for longer than `patience`, or refuses the call; or the link was closed.
        """
        loop = self.check()
        if (error := self.given_up(tag)) is not None:
            raise error
        call = _Call(encode, loop.create_future())
        self._places.setdefault(tag, _Place()).calls.append(call)
        if tag not in self._tasks:
            # Not by the loop's task factory, which may begin a task at once, and end it.
            self._tasks[tag] = asyncio.Task(self._serve(tag))
        return await call.reply

    def given_up(self, tag: int) -> StoreError | None:
        """Return the error for new calls, if the server has been lost for longer than `patience`."""
        place = self._places.get(tag)
        if place is None or place.error is None or not place.has_given_up:
            return None
        # A new error: one that is raised twice collects both tracebacks.
        return StoreError(*place.error.args)

    async def aclose(self) -> None:
        """Fail all calls that wait, and end all tasks."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def check(self) -> asyncio.AbstractEventLoop:
        """Return the event loop.

        Raises:
            StoreError: the link was closed, or belongs to another.
        """
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise self.stopped()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise self.error("another event loop uses this store; make one in each event loop")
        return loop

    def stopped(self) -> StoreError:
        """Return the error for callers of a task that has ended."""
        if self._is_closed:
            return self.error("the store was closed; make another")
        return self.error("a task of the store has ended; look at the log, and cancel only your own tasks")

    def error(self, problem: str) -> StoreError:
        """Return an error that names the server."""
        return StoreError(f"{self.server}: {problem}")

    async def _serve(self, tag: int) -> None:
        """Send calls, one command after the other; while the place is lost, try it until it accepts writes again."""
        place, pause = self._places[tag], FIRST_PAUSE
        try:
            # With Python 3.11, redis-py can swallow the cancellation of a task.
            while (place.calls or place.error) and not self._is_closed:
                if place.error is None:
                    pause = FIRST_PAUSE
                    await self._carry(tag, place.calls[:MAX_CALLS])
                    place.calls = [call for call in place.calls if not call.reply.done()]
                    continue
                # Processes that lost their server at the same time should not return at the same time.
                await asyncio.sleep(pause * uniform(0.5, 1.0))
                pause = min(2 * pause, LAST_PAUSE)
                found = await self._try(tag, [PROBE])
                if isinstance(found, list) or found.kind is Kind.CALL:
                    self._find(place)
                else:
                    self._lose(place, found)
        finally:
            del self._tasks[tag], self._places[tag]
            self._find(place)
            self._give_up(place)

    async def _carry(self, tag: int, calls: Sequence[_Call]) -> None:
        """Send calls in one command, and set their results."""
        found = await self._try(tag, [call.encode() for call in calls])
        if isinstance(found, list):
            for call, reply in zip(calls, found, strict=True):
                if not call.reply.done():
                    call.reply.set_result(reply)
        elif found.kind is not Kind.CALL:
            # They are sent again once the place is found.
            self._lose(self._places[tag], found)
        elif len(calls) == 1:
            _fail(calls[0], found.error)
        else:
            # Usually one call is at fault: send each by itself.
            for call in calls:
                await self._carry(tag, [call])

    async def _try(self, tag: int, arguments: Sequence[bytes]) -> list[Answer] | Fault:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._run(tag, arguments)
        except (RedisError, OSError) as error:
            found = explained(self.server, error)
            if isinstance(error, ClientError) and self._places[tag].error is None:
                logger.warning("%s", found.error, exc_info=error)
            if found.kind is not Kind.CALL:
                await self._disconnect()
            return found

    async def _run(self, tag: int, arguments: Sequence[bytes]) -> list[Answer]:
        clock, sent_at = self._clocks.setdefault(tag, ServerClock()), monotonic()
        known_at = clock.server_time(sent_at)
        encoded_at = f"{known_at:.6f}" if known_at < math.inf else ""
        # One key, which also tells a cluster's client the node.
        key = self._keys.of_tag(tag)
        rest: tuple[int | str | bytes, ...] = (1, key, self._settings, encoded_at, *arguments)
        execute = self._client.execute_command
        with client_errors():
            try:
                # The operator's client may be set to decode replies.
                replies: list[bytes] = await execute("EVALSHA", self._sha, *rest, NEVER_DECODE=True)
            except NoScriptError:
                replies = await execute("EVAL", self.script, *rest, NEVER_DECODE=True)
        came_at, read_at = monotonic(), float(replies[0])
        clock.learn(sent_at, read_at, came_at)
        read_at = min(clock.our_time(read_at), came_at)
        return [Answer(data, read_at) for data in replies[1:]]

    async def _disconnect(self) -> None:
        """Close idle connections: a server that became a replica keeps them open."""
        if not isinstance(self._client, RedisCluster):
            with suppress(RedisError, OSError), client_errors():
                async with asyncio.timeout(FIRST_PAUSE):
                    await self._client.connection_pool.disconnect(inuse_connections=False)

    def _lose(self, place: _Place, found: Fault) -> None:
        if place.error is None:
            place.giving_up = asyncio.get_running_loop().call_later(self._patience, self._give_up, place)
        place.error = found.error
        self._publish(found.error)
        if found.kind is Kind.REFUSED:
            self._give_up(place)

    def _give_up(self, place: _Place) -> None:
        place.has_given_up = True
        calls, place.calls = place.calls, []
        for call in calls:
            _fail(call, StoreError(*(place.error or self.stopped()).args))

    def _find(self, place: _Place) -> None:
        """Note that a place is not lost any more, if it was."""
        if place.giving_up is None:
            return
        place.giving_up.cancel()
        place.error, place.giving_up, place.has_given_up = None, None, False
        if not any(other.error for other in self._places.values()):
            self._publish(None)

    def _publish(self, error: StoreError | None) -> None:
        for listener in list(self.listeners):
            listener(error)


def _fail(call: _Call, error: Exception) -> None:
    if not call.reply.done():
        call.reply.set_exception(error)
