"""A memory for name look-ups: it shares, it forgets, and it never grows beyond its bound."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from tests.waiting import settle

from robotgate._names import MAX_ADDRESSES, MAX_NAMES, RememberingResolver

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES: Final = 3 * MAX_NAMES


class Names(AbstractResolver):
    """Knows every name, by a new address each time; those of the dead are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = asyncio.Event()
        self.addresses = 1
        self.fails = False
        self.is_closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """As many addresses as are wanted."""
        self.asked.append(host)
        if host.startswith("dead"):
            await self.let_go.wait()
        if self.fails:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            ResolveResult(
                hostname=host,
                host=f"192.0.2.{len(self.asked)}",
                port=port,
                family=family,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ] * self.addresses

    async def close(self) -> None:
        """It is over."""
        self.is_closed = True


class Watch:
    """What time it is."""

    now = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def addresses(results: Iterable[ResolveResult]) -> list[str]:
    """What a connector would connect to."""
    return [result["host"] for result in results]


async def test_answer_is_remembered_for_a_while() -> None:
    """Until its age is over, to the second."""
    names, watch = Names(), Watch()
    resolver = RememberingResolver(names, max_age=30, now=watch)
    assert addresses(await resolver.resolve("site.example", 80)) == ["192.0.2.1"]
    watch.now += 29.9
    assert addresses(await resolver.resolve("site.example", 80)) == ["192.0.2.1"]
    watch.now += 0.1
    assert addresses(await resolver.resolve("site.example", 80)) == ["192.0.2.2"]
    watch.now += 29.9
    assert addresses(await resolver.resolve("site.example", 80)) == ["192.0.2.2"]
    assert names.asked == ["site.example"] * 2


async def test_name_is_the_same_at_every_port() -> None:
    """Schemes ask once; each gets its port, and nobody can spoil what is remembered."""
    names = Names()
    resolver = RememberingResolver(names)
    (first,) = await resolver.resolve("site.example", 80)
    (second,) = await resolver.resolve("site.example", 443)
    assert (first["port"], second["port"], names.asked) == (80, 443, ["site.example"])
    assert {**first, "port": 443} == second
    first["host"] = "spoilt"
    assert addresses(await resolver.resolve("site.example", 80)) == ["192.0.2.1"]


async def test_families_are_apart() -> None:
    """Who asks for IPv6 alone is not served what was found for IPv4."""
    names = Names()
    resolver = RememberingResolver(names)
    await resolver.resolve("site.example", 80, socket.AF_INET)
    (result,) = await resolver.resolve("site.example", 80, socket.AF_INET6)
    assert (result["family"], len(names.asked)) == (socket.AF_INET6, 2)


async def test_memory_is_bounded() -> None:
    """A crawl of thousands of names leaves the latest behind, and no more than the bound."""
    names = Names()
    resolver = RememberingResolver(names)
    for number in range(NAMES):
        await resolver.resolve(f"{number}.example", 80)
    assert len(resolver) == MAX_NAMES
    names.asked.clear()
    await resolver.resolve(f"{NAMES - 1}.example", 80)
    await resolver.resolve(f"{NAMES - MAX_NAMES}.example", 80)
    assert names.asked == []
    await resolver.resolve(f"{NAMES - MAX_NAMES - 1}.example", 80)
    assert len(names.asked) == 1


async def test_name_that_is_looked_up_again_is_not_the_oldest() -> None:
    """What is thrown out is what was found first."""
    names, watch = Names(), Watch()
    resolver = RememberingResolver(names, max_names=2, max_age=30, now=watch)
    await resolver.resolve("one.example")
    await resolver.resolve("two.example")
    watch.now += 31
    await resolver.resolve("one.example")
    await resolver.resolve("three.example")
    names.asked.clear()
    await resolver.resolve("one.example")
    assert (names.asked, len(resolver)) == ([], 2)


async def test_addresses_of_a_name_are_bounded() -> None:
    """Whose name it is decides how many there are."""
    names = Names()
    names.addresses = 4000
    resolver = RememberingResolver(names)
    for _ in range(2):
        assert len(await resolver.resolve("site.example")) == MAX_ADDRESSES


async def test_look_up_under_way_is_shared() -> None:
    """A hundred tasks, one question."""
    names = Names()
    resolver = RememberingResolver(names)
    tasks = [asyncio.create_task(resolver.resolve("dead.example", port)) for port in range(100)]
    await settle()
    names.let_go.set()
    answers = await asyncio.gather(*tasks)
    assert names.asked == ["dead.example"]
    assert [answer[0]["port"] for answer in answers] == list(range(100))


async def test_failure_is_shared_and_not_remembered() -> None:
    """Who comes later asks again."""
    names = Names()
    names.fails = True
    resolver = RememberingResolver(names)
    tasks = [asyncio.create_task(resolver.resolve("dead.example")) for _ in range(10)]
    await settle()
    names.let_go.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in errors} == {socket.gaierror}
    assert names.asked == ["dead.example"]
    names.fails = False
    assert await resolver.resolve("dead.example")
    assert len(names.asked) == 2


async def test_failure_that_nobody_shares_is_no_complaint() -> None:
    """The only one who asked has heard of it."""
    names = Names()
    names.fails = True
    resolver = RememberingResolver(names)
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with pytest.raises(socket.gaierror):
        await resolver.resolve("site.example")
    await settle()
    assert complaints == []


async def test_one_who_is_cancelled_takes_nobody_along() -> None:
    """Neither those he waited with, nor those who waited for him."""
    names = Names()
    resolver = RememberingResolver(names)
    first, second, third = (asyncio.create_task(resolver.resolve("dead.example")) for _ in range(3))
    await settle()
    second.cancel()
    await settle()
    assert names.asked == ["dead.example"]
    first.cancel()
    await settle()
    assert names.asked == ["dead.example"] * 2
    names.let_go.set()
    assert addresses(await third) == ["192.0.2.2"]
    assert first.cancelled()
    assert second.cancelled()


async def test_dead_name_stalls_no_other() -> None:
    """Each name is a look-up of its own."""
    names = Names()
    resolver = RememberingResolver(names)
    dead = [asyncio.create_task(resolver.resolve(f"dead{number}.example")) for number in range(100)]
    await settle()
    assert await resolver.resolve("site.example")
    assert not any(task.done() for task in dead)
    names.let_go.set()
    await asyncio.gather(*dead)


async def test_closing_forgets() -> None:
    """And closes what was asked."""
    names = Names()
    resolver = RememberingResolver(names)
    await resolver.resolve("site.example")
    await resolver.close()
    assert (len(resolver), names.is_closed) == (0, True)
