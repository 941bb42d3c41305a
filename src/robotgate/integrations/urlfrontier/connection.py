"""The calls to the service: one at a time, and again while it is away."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate.errors import RobotGateError, needs_extra
from robotgate.integrations.urlfrontier import messages

with needs_extra("urlfrontier", __package__):
    import grpc
    import grpc.aio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from grpc.aio import StreamStreamMultiCallable, UnaryStreamMultiCallable, UnaryUnaryMultiCallable

    from robotgate.integrations.urlfrontier.messages import URLInfo

Result = TypeVar("Result")

SERVICE: Final = "/urlfrontier.URLFrontier"
TIMEOUT: Final = 60.0
"""Seconds of one call."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries while the service is away."""
OPTIONS: Final = [
    ("grpc.initial_reconnect_backoff_ms", int(FIRST_PAUSE * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(LONGEST_PAUSE * 1000)),
]
REFUSALS: Final = {"INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"}
"""Statuses that another try does not mend."""

UNAVAILABLE: Final = grpc.StatusCode.UNAVAILABLE

logger: Final = logging.getLogger("robotgate.urlfrontier")


class FrontierError(RobotGateError):
    """The service refuses a call, or was away for longer than `max_outage`; or the frontier is not open."""


class Connection:
    """A channel to the service.

    Args:
        target: an address, or a channel of the caller's.
        tell_anew: tells the service what it forgets when it restarts. It makes its calls directly.
    """

    def __init__(
        self, target: str | grpc.aio.Channel, max_outage: float, tell_anew: Callable[[], Awaitable[None]]
    ) -> None:
        self._target, self._max_outage, self._tell_anew = target, max_outage, tell_anew
        self._channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(target, OPTIONS) if isinstance(target, str) else target
        )
        # Messages go in and come out as bytes.
        self._get: UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(f"{SERVICE}/GetURLs")
        self._put: StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(f"{SERVICE}/PutURLs")
        self._lock = asyncio.Lock()
        self._is_forgotten = False
        """Whether the service may have restarted since it was told something."""

    async def persist(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call of the methods below until the service answers.

        Raises:
            FrontierError: it refuses the call, or is away for too long.
        """
        async with self._lock:
            began_at, pause = monotonic(), FIRST_PAUSE
            while True:
                try:
                    # A channel whose connection was closed is idle until the next call.
                    is_ready = self._channel.get_state() is grpc.ChannelConnectivity.READY
                    if self._is_forgotten or not is_ready:
                        await self._tell_anew()
                        self._is_forgotten = False
                    return await call()
                except grpc.aio.AioRpcError as error:
                    self._is_forgotten = self._is_forgotten or error.code() is UNAVAILABLE
                    text = f"URLFrontier at {self._target}: {error.code().name}, {error.details()}"
                    if error.code().name in REFUSALS or monotonic() - began_at >= self._max_outage:
                        raise FrontierError(text) from error
                    logger.warning("%s; it is called again", text)
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def get(self, params: bytes, most: int) -> list[URLInfo]:
        """Ask for URLs. What is no message, and what is more than was asked for, is left out."""
        found: list[URLInfo] = []
        call = self._get(params, timeout=TIMEOUT)
        try:
            async for message in call:
                with suppress(ValueError):
                    found.append(messages.read_url_info(message))
                if len(found) >= most:
                    call.cancel()
                    break
        except grpc.aio.AioRpcError as error:
            if not found:
                raise
            self._is_forgotten = error.code() is UNAVAILABLE
        return found

    async def put(self, items: Mapping[str, bytes]) -> AsyncIterator[str]:
        """Send items in one call; the IDs of those that the service has dealt with."""
        if not items:
            return
        left = set(items)
        try:
            async for message in self._put(iter(items.values()), timeout=TIMEOUT):
                with suppress(ValueError):
                    item_id, is_done = messages.read_ack(message)
                    if is_done and item_id in left:
                        left.discard(item_id)
                        yield item_id
        except grpc.aio.AioRpcError:
            if left:
                raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # grpcio itself cancels a call whose connection is lost when all items have been written.
            none = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(UNAVAILABLE, none, none, "the connection was lost") from None

    async def tell(self, method: str, params: bytes) -> None:
        """Make one of the calls about a queue."""
        call: UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"{SERVICE}/{method}")
        await call(params, timeout=TIMEOUT)

    async def aclose(self, last: Callable[[], Awaitable[None]]) -> None:
        """Make a last call, once, and close the channel."""
        try:
            await last()
        except grpc.aio.AioRpcError as error:
            logger.warning("URLFrontier at %s was not told all: %s", self._target, error.details())
        finally:
            if isinstance(self._target, str):
                await self._channel.close()
