"""Name look-ups: a thread for each, so that dead names stall no other."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from tests.waiting import settle, until

from robotgate.client.addresses import MAX_ADDRESSES
from robotgate.client.connector import AddressInfo, ThreadPerNameResolver

if TYPE_CHECKING:
    from collections.abc import Iterator


def info(address: str, port: int, family: socket.AddressFamily = socket.AF_INET) -> AddressInfo:
    """One answer, as `getaddrinfo` gives it."""
    rest: tuple[object, ...] = () if family == socket.AF_INET else (0, 0)
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, *rest))


class LookUp:
    """Knows every name but those that are dead: their servers do not answer before the test lets go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []
        self.running = 0
        self.peak = 0
        self._lock = threading.Lock()

    def __call__(self, host: str, port: int, family: socket.AddressFamily) -> list[AddressInfo]:
        """The addresses."""
        with self._lock:
            self.asked.append(host)
            self.running += 1
            self.peak = max(self.peak, self.running)
        try:
            if host.startswith("dead"):
                assert self.let_go.wait(10)
                raise socket.gaierror(socket.EAI_AGAIN, "no answer")
            return [info("192.0.2.1", port, family)]
        finally:
            with self._lock:
                self.running -= 1


@pytest.fixture
def look_up() -> Iterator[LookUp]:
    """Ends all look-ups when the test is over."""
    look_up = LookUp()
    yield look_up
    look_up.let_go.set()


async def test_addresses_of_a_name_are_told_and_bounded() -> None:
    """IPv4 and IPv6, in the system's order; a name may have thousands, and aiohttp would try each."""
    infos = [
        info("2001:db8::1", 443, socket.AF_INET6),
        *(info(f"192.0.2.{at % 256}", 443) for at in range(1000)),
    ]
    resolver = ThreadPerNameResolver(max_threads=1, look_up=lambda *_: infos)
    results = await resolver.resolve("site.example", 443, socket.AF_UNSPEC)
    assert [result["host"] for result in results] == [str(each[4][0]) for each in infos[:MAX_ADDRESSES]]


async def test_threads_are_bounded(look_up: LookUp) -> None:
    """Never more at once than the bound; a later look-up waits for a place."""
    resolver = ThreadPerNameResolver(max_threads=3, look_up=look_up)
    dead = [asyncio.create_task(resolver.resolve(f"dead{number}.example")) for number in range(10)]
    await until(lambda: look_up.running == 3)
    look_up.let_go.set()
    await asyncio.gather(*dead, return_exceptions=True)
    assert look_up.peak == 3
    assert len(look_up.asked) == 10


async def test_cancelled_look_up_keeps_its_place_until_its_thread_ends(
    look_up: LookUp, caplog: pytest.LogCaptureFixture
) -> None:
    """Freeing it sooner would break the bound. A crawler that gives up on a page gets no traceback about it later.

    A caller that is cancelled before its look-up began frees its place.
    """
    resolver = ThreadPerNameResolver(max_threads=1, look_up=look_up)
    dead = asyncio.create_task(resolver.resolve("dead.example"))
    await until(lambda: look_up.asked == ["dead.example"])
    waiting = asyncio.create_task(resolver.resolve("waiting.example"))
    alive = asyncio.create_task(resolver.resolve("site.example"))
    await settle()
    for task in (dead, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await settle()
    assert not alive.done()
    assert look_up.asked == ["dead.example"]
    look_up.let_go.set()
    async with asyncio.timeout(60):
        assert await alive
    assert look_up.asked == ["dead.example", "site.example"]
    gc.collect()
    assert caplog.records == []


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "unknown"),
        OSError("network down"),
        UnicodeError("label too long"),
        ValueError("embedded null byte"),
        OverflowError("port"),
    ],
)
async def test_failure_is_an_os_error_and_frees_the_place(error: Exception) -> None:
    """What aiohttp takes for a failed look-up; the next one is not held up, whatever went wrong."""
    names = iter([error, None])

    def look_up(_: str, port: int, family: socket.AddressFamily) -> list[AddressInfo]:
        failure = next(names)
        if failure is not None:
            raise failure
        return [info("192.0.2.1", port, family)]

    resolver = ThreadPerNameResolver(max_threads=1, look_up=look_up)
    async with asyncio.timeout(60):
        with pytest.raises(OSError, match=r"."):
            await resolver.resolve("site.example")
        assert await resolver.resolve("site.example")


async def test_look_up_that_takes_too_long_fails(look_up: LookUp) -> None:
    """As if no name server answered."""
    resolver = ThreadPerNameResolver(max_threads=1, timeout=0.01, look_up=look_up)
    with pytest.raises(socket.gaierror, match=r"no answer about dead\.example within 0\.01 s"):
        await resolver.resolve("dead.example")


def test_threads_do_not_hold_up_the_end(look_up: LookUp) -> None:
    """They are daemons: a program ends without waiting for a name server. An answer after that is dropped silently."""
    # Of an earlier test's, one may still be about to end.
    earlier = set(threading.enumerate())

    async def ask() -> threading.Thread:
        resolver = ThreadPerNameResolver(max_threads=1, look_up=look_up)
        task = asyncio.create_task(resolver.resolve("dead.example"))
        await until(lambda: look_up.asked == ["dead.example"])
        (thread,) = (each for each in set(threading.enumerate()) - earlier if "dead.example" in each.name)
        task.cancel()
        await resolver.close()
        return thread

    thread = asyncio.run(ask())
    assert thread.daemon
    assert thread.is_alive()
    look_up.let_go.set()
    thread.join(5)
    assert not thread.is_alive()
