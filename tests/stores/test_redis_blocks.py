"""Operator blocks of a fleet, in a real server: what is said last holds, whichever way it took."""

from __future__ import annotations

import asyncio
import logging
import math
import struct
import time
from typing import TYPE_CHECKING, Final

import pytest
from redis.asyncio import Redis
from tests.redis_server import RedisServer

from robotgate.stores.redis._block_words import LIFTED_FOR
from robotgate.stores.redis._blocks import SCRIPT, Blocks
from robotgate.stores.redis._keys import Keys
from robotgate.stores.redis._link import Link
from robotgate.stores.redis._server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KEYS: Final = Keys("test:")
WORDS: Final = KEYS.fleet("blocks")
ORDER: Final = KEYS.fleet("block-order")
KEEP: Final = 1000.0
HOST: Final = "shop.example"


class Worker:
    """One process of a fleet, with a clock that may be wrong."""

    def __init__(self, server: RedisServer, *, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.client = Redis.from_url(server.url)
        self.link = Link(self.client, patience=0.2)
        self.blocks = Blocks(self.link, KEYS, clock=ServerClock(), now=self.now, keep=KEEP)
        self.heard: dict[str, float] = {}
        """What it was told last of each pattern."""
        self.times: dict[str, int] = {}
        self.unsubscribe = self.blocks.subscribe(self._hear)

    def now(self) -> float:
        """By its own clock."""
        return time.time() + self.ahead

    async def look(self) -> None:
        """Look until all that there is has come; what was asked before may be older news."""
        await self._hear_all()
        self.blocks.look()
        await self._hear_all()

    async def say(self, pattern: str, until_at: float) -> None:
        """Publish, and wait until the server has it."""
        self.blocks.publish(pattern, until_at)
        await asyncio.sleep(0)
        await self.look()

    async def aclose(self) -> None:
        """Leave the fleet."""
        await self.blocks.aclose()
        await self.link.aclose()
        await self.client.aclose()

    async def _hear_all(self) -> None:
        while self.blocks._asked:
            await asyncio.wait(set(self.blocks._asked))
            await asyncio.sleep(0)

    def _hear(self, pattern: str, until_at: float) -> None:
        self.heard[pattern] = until_at
        self.times[pattern] = self.times.get(pattern, 0) + 1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for all tests of this module."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def client(running: RedisServer) -> AsyncIterator[Redis]:
    """The empty server."""
    async with Redis.from_url(running.url) as client:
        await client.flushall()
        yield client


@pytest.fixture
async def server(running: RedisServer, client: Redis) -> RedisServer:
    """The same, where nobody looks into it."""
    assert await client.dbsize() == 0
    return running


@pytest.fixture
async def workers(server: RedisServer) -> AsyncIterator[list[Worker]]:
    """Two of them, one of which is ten minutes ahead."""
    found = [Worker(server), Worker(server, ahead=600.0)]
    for worker in found:
        await worker.look()
    yield found
    for worker in found:
        await worker.aclose()


async def test_word_reaches_the_others_by_their_clock(workers: list[Worker]) -> None:
    """With the next look; until further notice is that by any clock."""
    one, two = workers
    until_at = one.now() + 100.0
    await one.say(HOST, until_at)
    await one.say("*.shop.example", math.inf)
    await two.look()
    assert two.heard == {HOST: pytest.approx(until_at + 600.0, abs=1.0), "*.shop.example": math.inf}
    assert two.heard[HOST] >= until_at + 600.0
    await two.say(HOST, 0.0)
    await one.look()
    assert one.heard[HOST] == 0.0


async def test_word_is_told_once(workers: list[Worker]) -> None:
    """However often it is looked for, and though both say the same."""
    one, two = workers
    await one.say(HOST, math.inf)
    for _ in range(3):
        await one.look()
        await two.look()
    await two.say(HOST, math.inf)
    await one.look()
    assert (one.times, two.times) == ({HOST: 1}, {HOST: 2})


async def test_process_that_comes_later_hears_what_stands(workers: list[Worker], server: RedisServer) -> None:
    """Of all that is in force, and of nothing else; more than one reply holds."""
    one, _ = workers
    for number in range(1201):
        one.blocks.publish(f"{number}.example", math.inf)
    one.blocks.publish("7.example", 0.0)
    await one.say("8.example", one.now() - 1.0)
    late = Worker(server)
    await late.look()
    assert set(late.heard) == {f"{number}.example" for number in range(1201)} - {"7.example"}
    await late.aclose()


async def test_gate_of_the_same_process_hears_at_once(workers: list[Worker]) -> None:
    """One that comes later hears what stands; one that has gone hears nothing."""
    one, _ = workers
    one.blocks.publish(HOST, math.inf)
    assert one.heard == {HOST: math.inf}
    late: dict[str, float] = {}
    unsubscribe = one.blocks.subscribe(late.__setitem__)
    assert late == {HOST: math.inf}
    unsubscribe()
    unsubscribe()
    one.blocks.publish("other.example", math.inf)
    assert late == {HOST: math.inf}
    await one.look()


async def test_what_is_said_last_holds(workers: list[Worker]) -> None:
    """Whichever clock is ahead, and however soon after the other it is said."""
    one, two = workers
    for worker, other in [(one, two), (two, one)] * 5:
        await worker.say(HOST, math.inf)
        await other.look()
        await other.say(HOST, 0.0)
        await worker.look()
        assert (worker.heard[HOST], other.heard[HOST]) == (0.0, 0.0)


async def test_block_is_lifted_in_the_same_moment(workers: list[Worker]) -> None:
    """The clock may stand still between the two."""
    one, two = workers
    one.blocks.publish(HOST, math.inf)
    one.blocks.publish(HOST, 0.0)
    await one.look()
    await two.look()
    assert two.heard.get(HOST, 0.0) == 0.0


async def test_flush_loses_nothing(workers: list[Worker], client: Redis) -> None:
    """Whoever knows tells it again, and nobody is told twice; what was lifted stays so."""
    one, two = workers
    await one.say(HOST, math.inf)
    await one.say("lifted.example", math.inf)
    await two.say("lifted.example", 0.0)
    await two.say("two.example", math.inf)
    await one.look()
    await client.flushall()
    await one.look()
    await two.look()
    await one.look()
    found = await client.hgetall(WORDS)
    assert set(found) == {b"", HOST.encode(), b"lifted.example", b"two.example"}
    assert (one.times, two.times) == (
        {HOST: 1, "lifted.example": 2, "two.example": 1},
        {HOST: 1, "lifted.example": 1, "two.example": 1},
    )


@pytest.mark.parametrize("lost", [WORDS, ORDER])
async def test_half_of_it_is_as_good_as_nothing(workers: list[Worker], client: Redis, lost: bytes) -> None:
    """One of the two keys was thrown out for lack of memory."""
    one, two = workers
    await one.say(HOST, math.inf)
    await client.delete(lost)
    await two.say("two.example", math.inf)
    for worker in (one, two, one):
        await worker.look()
    assert set(await client.hgetall(WORDS)) == {b"", HOST.encode(), b"two.example"}
    assert await client.zcard(ORDER) == 2
    assert one.heard == {HOST: math.inf, "two.example": math.inf}
    assert two.heard == one.heard


async def test_all_of_it_is_kept_for_long_and_not_for_ever(workers: list[Worker], client: Redis) -> None:
    """As long as the store says, from the last sign of life on."""
    one, two = workers
    await one.say(HOST, math.inf)
    for key in (WORDS, ORDER):
        await client.pexpire(key, 1000)
    await two.look()
    for key in (WORDS, ORDER):
        assert KEEP - 60 < await client.ttl(key) <= KEEP


async def test_nothing_is_left_where_nobody_says_anything(workers: list[Worker], client: Redis) -> None:
    """Looking writes nothing."""
    for worker in workers:
        await worker.look()
    assert await client.dbsize() == 0


async def test_what_is_over_goes(workers: list[Worker], client: Redis) -> None:
    """Not at once, as an older word may be on its way; but there are never many."""
    one, _ = workers
    await one.say(HOST, 0.0)
    assert await client.hexists(WORDS, HOST)
    past = struct.pack("<dd", 0.0, time.time() - LIFTED_FOR - 60.0)
    for number in range(200):
        await client.hset(WORDS, f"{number}.example", past)
        await client.zadd(ORDER, {f"{number}.example": 1.0 + number})
    for number in range(300):
        await one.say("busy.example", one.now() + number)
    assert await client.hlen(WORDS) < 20
    assert await client.hlen(WORDS) == await client.zcard(ORDER) + 1
    assert await client.hexists(WORDS, HOST)


async def test_what_is_no_pattern_is_passed_over(
    workers: list[Worker], client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else wrote it, or a later version; the rest is heeded, and the log tells."""
    one, two = workers
    await one.say("a.example", math.inf)
    said = struct.pack("<dd", math.inf, time.time())
    no_instant = struct.pack("<dd", math.nan, time.time())
    for place, (name, word) in enumerate(
        [
            (b"no:pattern", said),
            (b"\xff\xfe", said),
            (b"never.example", no_instant),
            (b"short.example", b"short"),
        ]
    ):
        await client.hset(WORDS, name, word)
        await client.zadd(ORDER, {name: 1e15 + place})
    await one.say("b.example", math.inf)
    with caplog.at_level(logging.WARNING, "robotgate.stores"):
        await two.look()
    assert two.heard == {"a.example": math.inf, "b.example": math.inf}
    assert all("is passed over" in record.message for record in caplog.records)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("key", [WORDS, ORDER])
async def test_key_of_another_type_is_not_ours(workers: list[Worker], client: Redis, key: bytes) -> None:
    """Nobody is kept from anything by it."""
    one, two = workers
    await client.set(key, "a stranger's")
    await two.look()
    await one.say(HOST, math.inf)
    await two.look()
    assert two.heard == {HOST: math.inf}


async def test_last_word_is_told_at_closing(workers: list[Worker], server: RedisServer) -> None:
    """Though the server's time was not known yet; a word of a process that came and went."""
    brief = Worker(server)
    brief.blocks.publish(HOST, math.inf)
    await brief.aclose()
    one, _ = workers
    await one.look()
    assert one.heard == {HOST: math.inf}


async def test_script_and_module_agree() -> None:
    """On what both have to know."""
    assert f"local LIFTED_FOR = {LIFTED_FOR:.0f} ".encode() in SCRIPT.source


async def test_master_that_lacks_the_last_words(workers: list[Worker], client: Redis) -> None:
    """After a failover, on a machine whose clock is behind: what is missing is told again, what comes is heard."""
    one, two = workers
    await one.say("a.example", math.inf)
    await one.say("b.example", math.inf)
    await client.hdel(WORDS, "b.example")
    await client.zrem(ORDER, "b.example")
    await client.hset(WORDS, "c.example", struct.pack("<dd", math.inf, 1e9))
    await client.zadd(ORDER, {"a.example": 1.0, "c.example": 2.0})
    for worker in (one, two):
        await worker.look()
    assert one.heard == dict.fromkeys(("a.example", "b.example", "c.example"), math.inf)
    assert two.heard == one.heard


async def test_words_come_in_any_order(workers: list[Worker]) -> None:
    """What was said before another word, and comes behind it, is passed over; the same again changes nothing."""
    one, two = workers
    said_at = time.time() - 10.0
    for until_at, at in (
        (math.inf, said_at),
        (0.0, said_at + 2),
        (math.inf, said_at + 1),
        (0.0, said_at + 2),
    ):
        word = struct.pack("<cdddH", b"W", KEEP, until_at, at, len(HOST)) + HOST.encode()
        await one.link.ask(SCRIPT, (WORDS, ORDER), word)
    await two.look()
    assert two.heard.get(HOST, 0.0) == 0.0
    await one.say(HOST, math.inf)
    await two.look()
    assert two.heard[HOST] == math.inf
