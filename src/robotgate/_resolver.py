"""Name look-ups that a few dead names cannot stall.

The system's resolver blocks a thread for up to half a minute for a name whose servers do not answer, and asyncio's
default executor has a handful of threads for the whole program. Here every look-up has a thread of its own, up to a
bound, and the program's end does not wait for them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    from collections.abc import Callable

    LookUp: TypeAlias = Callable[[str, int, socket.AddressFamily], list["AddressInfo"]]

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def system_look_up(host: str, port: int, family: socket.AddressFamily) -> list[AddressInfo]:
    """Ask the system, hosts file and all; blocks.

    Raises:
        OSError: the name has no address.
    """
    return list(
        socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    )


class ThreadPerNameResolver(AbstractResolver):
    """An aiohttp resolver with a daemon thread for each look-up under way."""

    def __init__(self, *, max_threads: int, look_up: LookUp = system_look_up) -> None:
        self._places = asyncio.Semaphore(max_threads)
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host.

        Raises:
            OSError: it has none.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[AddressInfo]] = loop.create_future()
        thread = threading.Thread(
            target=self._work, args=(loop, answer, host, port, family), name=f"resolve {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._places.release()
            raise OSError(errno.EAGAIN, f"{host} cannot be looked up: {error}") from error
        return [_result(host, info) for info in await answer]

    async def close(self) -> None:
        """Threads under way end by themselves; nobody waits for them."""

    def _work(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[list[AddressInfo]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        infos: list[AddressInfo] = []
        error: OSError | None = None
        try:
            infos = self._look_up(host, port, family)
        except OSError as failed:
            error = failed
        except (ValueError, OverflowError) as failed:
            # Names and ports that the system's resolver does not even look at.
            error = OSError(f"{host} cannot be looked up: {failed}")
        try:
            loop.call_soon_threadsafe(self._deliver, answer, infos, error)
        except RuntimeError:
            return  # The loop is closed: whoever asked is gone.

    def _deliver(
        self, answer: asyncio.Future[list[AddressInfo]], infos: list[AddressInfo], error: OSError | None
    ) -> None:
        # A look-up that nobody waits for any longer still occupies its thread: the place is free only now.
        self._places.release()
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(infos)


def _result(host: str, info: AddressInfo) -> ResolveResult:
    family, _, proto, _, address = info
    return ResolveResult(
        hostname=host,
        host=str(address[0]),
        port=int(str(address[1])),
        family=family,
        proto=proto,
        flags=_NUMERIC,
    )
