"""The way to the server: calls made in the same turn of the event loop travel together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from redis.exceptions import NoScriptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis

    from robotgate.stores.redis._script import Script


class Link:
    """Has the server run scripts. While one batch is on its way, the next gathers: calls arrive in the order in which
    they were made, and none overtakes another.

    Args:
        client: asked for nothing but EVALSHA, and SCRIPT LOAD or EVAL where the server does not know a script.
        patience: how long a call is tried again, in seconds from when the server was lost.
    """

    def __init__(self, client: Redis, *, patience: float) -> None:
        self._client = client
        self._patience = patience
        self._calls: list[tuple[Script, Sequence[bytes], bytes, asyncio.Future[bytes]]] = []
        self._sending: asyncio.Task[None] | None = None

    def ask(self, script: Script, keys: Sequence[bytes], argument: bytes) -> asyncio.Future[bytes]:
        """Have a call made, and its reply.

        Who stops waiting stops no call: once it is on its way, its reply may be an offer that has to be turned down.

        Raises:
            StoreError: (the future) the server was away for too long, or refused it.
        """
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls.append((script, keys, argument, reply))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return reply

    async def aclose(self) -> None:
        """Send what is left, and let go of the connection."""
        if self._sending is not None:
            await asyncio.wait({self._sending})

    async def _send(self) -> None:
        try:
            while self._calls:
                calls, self._calls = self._calls, []
                for script in dict.fromkeys(call[0] for call in calls):
                    mine = [call for call in calls if call[0] is script]
                    keys = [key for call in mine for key in call[1]]
                    arguments = [call[2] for call in mine]
                    try:
                        replies = await self._client.evalsha(script.sha, len(keys), *keys, *arguments)
                    except NoScriptError:
                        replies = await self._client.eval(script.source.decode(), len(keys), *keys, *arguments)
                    for call, reply in zip(mine, replies, strict=True):
                        if not call[3].done():
                            call[3].set_result(reply)
        finally:
            self._sending = None
