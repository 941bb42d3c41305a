"""The way to a Redis server while it is well: calls travel together, in order, and nobody's cancelling stops them."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Redis as AsyncRedis
from tests.redis_server import RedisServer
from tests.stores.linked import APPEND, ECHO, KEY, OTHER_KEY, SIZE, Heard, admin, linked, linked_by, listed
from tests.waiting import settle, until

from robotgate import StoreError
from robotgate.stores.redis._calls import MAX_BYTES, MAX_CALLS
from robotgate.stores.redis._line import packed
from robotgate.stores.redis._link import Link
from robotgate.stores.redis._script import Script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.stores.redis._calls import Trip

pytestmark = pytest.mark.usefixtures("server")
WEIRD = bytes(range(256)) + b"\r\n$3\r\n"


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Started once for all tests here."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def server(one_server: RedisServer) -> RedisServer:
    """Empty, and without scripts."""
    async with admin(one_server) as client:
        await client.flushall()
        await client.script_flush()
        await client.config_resetstat()
    return one_server


class Replies:
    """What came of calls for which nobody waits, in its order."""

    def __init__(self) -> None:
        self.heard: list[bytes | None] = []
        self.trips: list[Trip | None] = []

    def __call__(self, reply: bytes | None, trip: Trip | None) -> None:
        """Hear of one."""
        self.heard.append(reply)
        self.trips.append(trip)


async def commands(server: RedisServer, name: str) -> int:
    """How many of a kind the server has run."""
    async with admin(server) as client:
        stats = await client.info("commandstats")
    # Redis 7 counts the parts of a command apart.
    return sum(
        int(found["calls"]) for key, found in stats.items() if key.partition("|")[0] == f"cmdstat_{name}"
    )


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True])
async def test_replies_are_octets(server: RedisServer, protocol: int, decode: bool) -> None:  # noqa: FBT001
    """Whatever protocol the operator's client speaks, and though it decodes what is told to others."""
    client = AsyncRedis.from_url(server.url, protocol=protocol, decode_responses=decode)
    async with linked_by(client) as link:
        assert await link.ask(ECHO, (WEIRD,), WEIRD) == WEIRD
        assert await link.ask(ECHO, (b"",), b"") == b""
        long = b"x" * 70_000
        assert await link.ask(ECHO, (KEY,), long) == long


async def test_what_waits_is_sent_before_anybody_goes_on(server: RedisServer) -> None:
    """The server works on the next batch while replies of the last one are dealt out."""
    async with linked(server.url) as link:
        await link.ask(ECHO, (KEY,), b"")
        waiting: list[int] = []
        server.pause()
        first = link.ask(ECHO, (KEY,), b"1", heard=lambda *_: waiting.append(len(link._waiting)))
        await settle()
        second = link.ask(ECHO, (KEY,), b"2", heard=lambda *_: waiting.append(len(link._waiting)))
        assert len(link._waiting) == 1
        server.resume()
        assert [*await asyncio.gather(first, second)] == [b"1", b"2"]
        assert waiting == [0, 0]


async def test_who_hears_of_a_reply_does_so_before_who_waits(server: RedisServer) -> None:
    """And though who waited has stopped; or where nobody ever did."""
    replies = Replies()
    heard = replies.heard
    async with linked(server.url) as link:
        reply = link.ask(ECHO, (KEY,), b"1", heard=replies)
        reply.add_done_callback(lambda _: heard.append(b"waited"))
        await reply
        await settle()
        assert heard == [b"1", b"waited"]
        link.ask(ECHO, (KEY,), b"2", heard=replies).cancel()
        link.call(ECHO, (KEY,), b"3", replies)
        await link.ask(ECHO, (KEY,), b"")
    assert heard[2:] == [b"2", b"3"]
    link.call(ECHO, (KEY,), b"4", replies)
    assert heard[4:] == [None]


async def test_replies_that_came_together_have_one_trip(server: RedisServer) -> None:
    """From when they were sent, however long they had waited for that, to when they came."""
    hear = Replies()
    async with linked(server.url) as link:
        await link.ask(ECHO, (KEY,), b"")
        server.pause()
        first = link.ask(ECHO, (KEY,), b"1", heard=hear)
        await settle()
        asked_at = monotonic()
        rest = [link.ask(ECHO, (KEY,), b"2", heard=hear), link.ask(ECHO, (KEY,), b"3", heard=hear)]
        server.resume()
        await first
        first_at = monotonic()
        await asyncio.gather(*rest)
    link.call(ECHO, (KEY,), b"4", hear)
    [alone, together, other, none] = hear.trips
    assert none is None
    assert alone is not None
    assert together is not None
    assert together is other
    assert alone.sent_at < asked_at < alone.came_at <= together.sent_at < together.came_at
    assert alone.came_at < first_at


async def test_calls_of_one_turn_of_the_loop_travel_together(server: RedisServer) -> None:
    """In one command, once the server knows the script; what comes meanwhile, in the next."""
    async with linked(server.url) as link:
        await link.ask(SIZE, (KEY,), b"")
        first = [link.ask(SIZE, (KEY,), b"") for _ in range(100)]
        await settle()
        second = [link.ask(SIZE, (KEY,), b"") for _ in range(50)]
        assert [*await asyncio.gather(*first), *await asyncio.gather(*second)] == [b"100"] * 100 + [
            b"50"
        ] * 50


async def test_scripts_of_one_batch_travel_in_one_go(server: RedisServer) -> None:
    """A command each, one after the other on one connection, and every reply finds its call."""
    async with linked(server.url) as link:
        calls = [
            link.ask(script, (KEY,), b"%d" % number)
            for number in range(30)
            for script in (ECHO, APPEND, SIZE)
        ]
        replies = await asyncio.gather(*calls)
    assert replies[::3] == replies[1::3] == [b"%d" % number for number in range(30)]
    assert replies[2::3] == [b"30"] * 30
    assert await listed(server) == replies[::3]
    # Of each script: once unknown, once known.
    assert await commands(server, "evalsha") == 6


async def test_ten_thousand_calls_at_once_arrive_in_order(server: RedisServer) -> None:
    """In batches that hold the server for a moment each."""
    numbers = [b"%d" % number for number in range(10_000)]
    async with linked(server.url) as link:
        assert await asyncio.gather(*(link.ask(APPEND, (KEY,), number) for number in numbers)) == numbers
        assert await listed(server) == numbers
        assert max(
            int(size) for size in await asyncio.gather(*(link.ask(SIZE, (KEY,), b"") for _ in numbers))
        ) == (MAX_CALLS)


async def test_batches_are_bounded_in_octets_too(server: RedisServer) -> None:
    """And a call that is longer than that goes alone."""
    half = b"x" * (MAX_BYTES // 2 - len(KEY))
    async with linked(server.url) as link:
        sizes = [link.ask(SIZE, (KEY,), octets) for octets in (half, half, half, half * 5, b"", b"")]
        assert await asyncio.gather(*sizes) == [b"2", b"2", b"1", b"1", b"2", b"2"]


async def test_flushed_scripts_are_loaded_again(server: RedisServer) -> None:
    """Nobody notices."""
    async with linked(server.url) as link, admin(server) as client:
        heard = Heard(link)
        for number in range(3):
            assert await link.ask(APPEND, (KEY,), b"%d" % number) == b"%d" % number
            await client.script_flush()
    assert await listed(server) == [b"0", b"1", b"2"]
    assert heard.news == []
    assert await commands(server, "script") == 6


async def test_who_is_cancelled_stops_no_call(server: RedisServer) -> None:
    """Not his own, and nobody else's."""
    async with linked(server.url) as link:

        async def wait(number: int) -> bytes:
            return await link.ask(APPEND, (KEY,), b"%d" % number)

        tasks = [asyncio.create_task(wait(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        tasks[2].cancel()
        assert [await tasks[1], await tasks[3]] == [b"1", b"3"]
        assert [task.cancelled() for task in tasks] == [True, False, True, False]
    assert await listed(server) == [b"0", b"1", b"2", b"3"]


async def test_a_call_that_fails_fails_alone(server: RedisServer) -> None:
    """A key that holds something else: one error for who asked, which names the server and no site."""
    async with linked(server.url) as link, admin(server) as client:
        heard = Heard(link)
        await client.set(OTHER_KEY, "somebody else's")
        calls = [
            link.ask(APPEND, (OTHER_KEY if number == 3 else KEY,), b"%d" % number) for number in range(6)
        ]
        replies = await asyncio.gather(*calls, return_exceptions=True)
        (error,) = [reply for reply in replies if isinstance(reply, BaseException)]
        assert isinstance(error, StoreError)
        assert str(error).startswith(f"redis 127.0.0.1:{server.port}/0: a key of ours holds something else (")
        assert "give a prefix" in str(error)
        assert [reply for reply in replies if reply is not error] == [b"0", b"1", b"2", b"4", b"5"]
        assert (link.lost, heard.news) == (None, [])
    # What had been run before the script failed is run again: calls bear that.
    assert list(dict.fromkeys(await listed(server))) == [b"0", b"1", b"2", b"4", b"5"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"return nil .. KEYS[1]", "attempt to concatenate"),
        (b"return nil ..", "unexpected symbol"),
        (b"return 'one'", "one"),
        (b"return {'one', 'two'}", "two"),
        (b"return {1}", "1"),
        (b"return {}", r"\[\]"),
        (b"return {redis.error_reply('ERR no such luck')}", "no such luck"),
        (b"error('a\\027[2J\\nb')", "a.*b"),
    ],
)
async def test_mistakes_in_scripts_are_told(server: RedisServer, source: bytes, said: str) -> None:
    """To those who asked, on one line that steers no terminal; others are served."""
    script = Script(source, keys_per_call=1)
    async with linked(server.url) as link:
        good, bad = link.ask(ECHO, (KEY,), b"good"), link.ask(script, (KEY,), b"bad")
        with pytest.raises(StoreError, match=f"our script .*{said}.*report this") as caught:
            await bad
        assert str(caught.value).isprintable()
        assert await good == b"good"
        assert link.lost is None


async def test_messages_arrive_in_their_place(server: RedisServer) -> None:
    """Among calls whose reply somebody waits for, and before the link is closed."""
    heard = Replies()
    async with linked(server.url) as link:
        for number in range(50):
            if number % 2:
                link.call(APPEND, (KEY,), b"%d" % number, heard)
            else:
                link.ask(APPEND, (KEY,), b"%d" % number)
    assert await listed(server) == [b"%d" % number for number in range(50)]
    assert heard.heard == [b"%d" % number for number in range(1, 50, 2)]


async def test_one_connection_and_no_task_when_idle(server: RedisServer) -> None:
    """Of the link's own: the client's pool is not touched."""
    client = AsyncRedis.from_url(server.url, max_connections=1)
    tasks = asyncio.all_tasks()
    async with linked_by(client) as link, client.pubsub() as elsewhere, admin(server) as other:
        await elsewhere.subscribe("the only connection of the pool")
        for _ in range(3):
            await asyncio.gather(*(link.ask(ECHO, (KEY,), b"") for _ in range(100)))
            assert asyncio.all_tasks() == tasks
        assert len(await other.client_list()) == 3


async def test_closing_leaves_nothing(server: RedisServer) -> None:
    """No connection and no task; then nothing more is asked, and a client that was passed in goes on."""
    async with linked(server.url) as link, admin(server) as other:
        waiting = [link.ask(APPEND, (KEY,), b"%d" % number) for number in range(3)]
        await asyncio.gather(link.aclose(), link.aclose())
        assert [reply.result() for reply in waiting] == [b"0", b"1", b"2"]
        with pytest.raises(StoreError, match="the store was closed"):
            await link.ask(ECHO, (KEY,), b"")
        heard = Replies()
        link.call(APPEND, (KEY,), b"too late", heard)
        assert heard.heard == [None]
        await link.aclose()
        assert len(await other.client_list()) == 1
    assert len(await listed(server)) == 3


async def test_closing_what_was_never_used_connects_nowhere(server: RedisServer) -> None:
    """Nor does making it."""
    await Link(Redis(port=1), patience=1).aclose()
    assert await commands(server, "evalsha") == 0


async def test_whose_closing_is_cancelled_closes_all_the_same(server: RedisServer) -> None:
    """He ends nothing but his own waiting."""
    async with linked(server.url) as link, admin(server) as other:
        await link.ask(ECHO, (KEY,), b"")
        closing = asyncio.create_task(link.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await link.aclose()
        assert len(await other.client_list()) == 1


def test_another_loop_takes_over_once_the_first_is_closed(server: RedisServer) -> None:
    """Whoever waited in the first one is gone with it, and what he asked for is not done."""
    client = Redis.from_url(server.url)
    link = Link(client, patience=1)

    async def leave() -> None:
        await link.ask(ECHO, (KEY,), b"")
        link.ask(APPEND, (KEY,), b"asked")

    async def meet() -> None:
        with pytest.raises(StoreError, match="another event loop uses this store"):
            await link.ask(ECHO, (KEY,), b"")
        with pytest.raises(StoreError, match="another event loop"):
            link.call(ECHO, (KEY,), b"", Replies())
        with pytest.raises(StoreError, match="another event loop"):
            await link.aclose()

    with asyncio.Runner() as runner:
        runner.run(leave())
        asyncio.run(meet())

    async def go_on() -> None:
        assert await link.ask(ECHO, (KEY,), b"again") == b"again"
        await link.aclose()
        await client.aclose()

    asyncio.run(go_on())
    assert asyncio.run(listed(server)) == []


async def test_a_cancelled_task_of_ours_fails_nobody_for_ever(server: RedisServer) -> None:
    """Who cancels every task that he finds: callers are told, and the next call is served."""
    async with linked(server.url) as link:
        await link.ask(ECHO, (KEY,), b"")
        mine = asyncio.all_tasks()
        reply = link.ask(ECHO, (KEY,), b"")
        heard = Replies()
        link.call(APPEND, (KEY,), b"told", heard)
        for task in asyncio.all_tasks() - mine:
            task.cancel()
        with pytest.raises(StoreError, match="was cancelled"):
            await reply
        assert heard.heard == [None]
        assert await link.ask(ECHO, (KEY,), b"next") == b"next"
    assert await listed(server) == []


async def test_replies_that_nobody_read_answer_nobody_else(server: RedisServer) -> None:
    """Whoever was stopped between the reply of one script and that of another."""
    async with linked(server.url) as link:
        await link.ask(ECHO, (KEY,), b"")
        line = link._carrier._line
        commands = [(b"PING", b"read"), (b"BLPOP", OTHER_KEY, b"0"), (b"PING", b"left")]
        replies = asyncio.create_task(line.run([packed(parts) for parts in commands]))
        async with admin(server) as client:
            async with asyncio.timeout(10):
                while (await client.info("clients"))["blocked_clients"] == 0:
                    pass
        replies.cancel()
        await asyncio.wait({replies})
        assert replies.cancelled()
        assert await line.run([packed((b"PING", b"mine"))]) == [b"mine"]
        assert await link.ask(ECHO, (KEY,), b"mine too") == b"mine too"


async def test_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for ever for a mistake of ours."""

    def fail(error: StoreError | None) -> None:
        raise ValueError(error)

    async with linked("redis://127.0.0.1:1", patience=10) as link:
        link.subscribe(fail)
        with pytest.raises(StoreError, match=r"the store failed \(ValueError.*report this"):
            await link.ask(ECHO, (KEY,), b"")
        await until(lambda: "failed" in caplog.text)
