"""A memory for name look-ups, which forgets: bounded in time and in size, whatever aiohttp's own does.

aiohttp's cache has no bound before version 3.14, and a crawl of a million hosts fills it with names that nobody asks
for again. What is remembered here is no promise that an address is public: `_public` looks at that at each connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Name: TypeAlias = tuple[str, socket.AddressFamily]

MAX_NAMES: Final = 4096
MAX_AGE: Final = 30.0
"""Seconds: a few pages of a host. The system does not tell the lifetime (TTL) of what it knows, and caches itself."""
MAX_ADDRESSES: Final = 16
"""Of one name. An answer can hold thousands, and aiohttp tries them over and over."""


class RememberingResolver(AbstractResolver):
    """Asks another resolver, for one name once however many want it, and remembers what it found.

    What it did not find is not remembered. Who waits for another's look-up does it himself if that one is cancelled.
    """

    def __init__(
        self,
        resolver: AbstractResolver,
        *,
        max_names: int = MAX_NAMES,
        max_age: float = MAX_AGE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._max_names = max_names
        self._max_age = max_age
        self._now = now
        self._known: OrderedDict[Name, tuple[float, Sequence[ResolveResult]]] = OrderedDict()
        """Until when, and the addresses; the oldest first, as all are kept for equally long."""
        self._under_way: dict[Name, asyncio.Future[Sequence[ResolveResult]]] = {}

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._known)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host, at most so many.

        Raises:
            OSError: it has none.
        """
        name = host, family
        while True:
            found = self._remembered(name)
            if found is not None:
                return _at_port(port, found)
            under_way = self._under_way.get(name)
            if under_way is None:
                return _at_port(port, await self._look_up(name, port))
            # Unlike awaiting it, this cancels nobody's look-up.
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return _at_port(port, under_way.result())

    async def close(self) -> None:
        """Forget everything."""
        self._known.clear()
        await self._resolver.close()

    async def _look_up(self, name: Name, port: int) -> Sequence[ResolveResult]:
        answer: asyncio.Future[Sequence[ResolveResult]] = asyncio.get_running_loop().create_future()
        self._under_way[name] = answer
        host, family = name
        try:
            found = (await self._resolver.resolve(host, port, family))[:MAX_ADDRESSES]
        except OSError as error:
            answer.set_exception(error)
            # There may be nobody else to hear of it.
            answer.exception()
            raise
        else:
            self._remember(name, found)
            answer.set_result(found)
            return found
        finally:
            del self._under_way[name]
            answer.cancel()

    def _remembered(self, name: Name) -> Sequence[ResolveResult] | None:
        until_at, found = self._known.get(name, (0.0, ()))
        return found if found and self._now() < until_at else None

    def _remember(self, name: Name, found: Sequence[ResolveResult]) -> None:
        self._known.pop(name, None)
        self._known[name] = self._now() + self._max_age, found
        if len(self._known) > self._max_names:
            self._known.popitem(last=False)


def _at_port(port: int, found: Sequence[ResolveResult]) -> list[ResolveResult]:
    """The same addresses for another port: http and https are one name."""
    return [
        ResolveResult(
            hostname=one["hostname"],
            host=one["host"],
            port=port,
            family=one["family"],
            proto=one["proto"],
            flags=one["flags"],
        )
        for one in found
    ]
