"""One robots.txt request for a whole fleet: gates with stores of their own, and sites that count.

Each gate and its store stand for a process: they share nothing but the server and the sites.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web as aiohttp_web
from redis.asyncio import Redis
from tests.stores.redis_parts import becomes, fresh_prefix
from tests.waiting import until

from robotgate import Origin, RobotGate
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis._keys import Keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

    from robotgate._robots import RobotsKeeper

HOST: Final = "a.example"
PAGE: Final = f"http://{HOST}/page"
ROBOTS: Final = f"http://{HOST}/robots.txt"
RULES: Final = "User-agent: *\nDisallow: /private\n"
ORIGIN: Final = Origin("http", HOST, 80)


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


class Fleet:
    """Opens gates whose stores are one fleet's."""

    def __init__(self, server: RedisServer, session: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        self.keys = Keys(fresh_prefix())
        self._server = server
        self._session = session
        self._stack = stack

    async def gate(
        self, agent: str = "ExampleBot/1.0", *, lease: float = 60.0, client: Redis | None = None
    ) -> RobotGate:
        """One more process; with a client that was passed in, that is left open."""
        store = RedisStore(client or self._server.url, prefix=self.keys.prefix, lease=lease)
        self._stack.push_async_callback(store.aclose)
        return await self._stack.enter_async_context(
            RobotGate(agent, contact="bot@example.org", session=self._session, store=store, delay=0.0)
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Redis]:
        """A client of our own, to see what is kept."""
        async with Redis.from_url(self._server.url) as client:
            yield client


@pytest.fixture
async def fleet(server: RedisServer, session: aiohttp.ClientSession) -> AsyncIterator[Fleet]:
    """A fleet without processes yet."""
    async with AsyncExitStack() as stack:
        yield Fleet(server, session, stack)


async def test_one_request_in_all_however_many_ask_at_once(web: Web, fleet: Fleet) -> None:
    """Eight processes, fifty tasks in each, twenty sites that nobody knows: twenty requests."""
    hosts = [f"s{number}.example" for number in range(20)]
    for host in hosts:
        web.serve(f"http://{host}/robots.txt", RULES, takes=0.05)
    gates = [await fleet.gate() for _ in range(8)]
    urls = [f"http://{hosts[number % len(hosts)]}/private/{number}" for number in range(50)]

    async def ask(gate: RobotGate, shift: int) -> None:
        answers = await asyncio.gather(*(gate.allowed(url) for url in urls[shift:] + urls[:shift]))
        assert not any(answers)

    async with asyncio.timeout(60):
        await asyncio.gather(*(ask(gate, 3 * number) for number, gate in enumerate(gates)))
    assert web.counts() == {f"http://{host}/robots.txt": 1 for host in hosts}


async def test_agents_of_other_names_share_the_file_and_read_it_by_their_own(web: Web, fleet: Fleet) -> None:
    """What is kept is octets; nothing in it depends on who asked."""
    web.serve(ROBOTS, "User-agent: OneBot\nDisallow: /\n\nUser-agent: TwoBot\nDisallow:\n", takes=0.05)
    one, two = await fleet.gate("OneBot/1.0"), await fleet.gate("TwoBot/2.0")
    is_one_allowed, is_two_allowed = await asyncio.gather(one.allowed(PAGE), two.allowed(PAGE))
    assert not is_one_allowed
    assert is_two_allowed
    assert web.urls == [ROBOTS]


async def test_a_failure_is_shared_as_well(web: Web, fleet: Fleet) -> None:
    """A site that is down is not asked by each worker in turn."""
    web.serve(ROBOTS, status=503, takes=0.05)
    gates = [await fleet.gate() for _ in range(4)]
    assert await asyncio.gather(*(gate.allowed(PAGE) for gate in gates)) == [False] * 4
    assert web.urls == [ROBOTS]


async def test_a_renewal_is_one_request_that_may_say_unchanged(web: Web, fleet: Fleet) -> None:
    """By the validators that another process has read; who comes after has the copy, as fresh as it is."""
    web.serve(ROBOTS, RULES, headers={"ETag": '"1"'})
    one, two = await fleet.gate(), await fleet.gate()
    assert await one.allowed(PAGE)
    web.serve(ROBOTS, status=304, headers={"ETag": '"1"'})
    record = await two.refresh(PAGE)
    assert record.body == RULES.encode()
    assert web.visits[1].headers["If-None-Match"] == '"1"'
    three = await fleet.gate()
    assert not await three.allowed(f"http://{HOST}/private")
    assert web.urls == [ROBOTS, ROBOTS]


async def test_who_is_told_to_ask_asks_though_another_has_news(web: Web, fleet: Fleet) -> None:
    """What the other saved meanwhile does not do; but each asks by the lease, one after the other."""
    under_way = most = 0

    async def answer(_: object) -> aiohttp_web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        return aiohttp_web.Response(text=RULES)

    web.handle(ROBOTS, answer)
    gates = [await fleet.gate() for _ in range(4)]
    await asyncio.gather(*(gate.refresh(PAGE) for gate in gates))
    assert web.urls == [ROBOTS] * 4
    assert most == 1


async def test_what_one_is_taught_all_know(web: Web, fleet: Fleet) -> None:
    """And nobody asks the site."""
    one, two = await fleet.gate(), await fleet.gate()
    one.learn(PAGE, b"User-agent: *\nDisallow: /page\n")
    async with fleet.watching() as client:
        await becomes(lambda: client.exists(fleet.keys.record(ORIGIN)))
    assert not await two.allowed(PAGE)
    assert web.urls == []


async def test_a_worker_that_dies_while_it_asks_delays_the_others_by_the_lease(
    web: Web, fleet: Fleet, server: RedisServer
) -> None:
    """No word leaves it any more, as from a process that was killed; then one of the others asks."""
    never = asyncio.Event()
    asked = asyncio.Event()

    async def hang(_: object) -> aiohttp_web.StreamResponse:
        asked.set()
        await never.wait()
        raise AssertionError

    web.handle(ROBOTS, hang)
    lease = 1.0
    async with Redis.from_url(server.url) as client:
        doomed = await fleet.gate(lease=lease, client=client)
        dying = asyncio.create_task(doomed.allowed(PAGE))
        await asked.wait()
        store = doomed._store
        assert isinstance(store, RedisStore)
        assert store._leases._renewing is not None
        store._leases._renewing.cancel()
        store._link._is_closed = True
        web.serve(ROBOTS, RULES)
        began_at = monotonic()
        gates = [await fleet.gate(lease=lease) for _ in range(3)]
        async with asyncio.timeout(10):
            assert await asyncio.gather(*(gate.allowed(PAGE) for gate in gates)) == [True] * 3
        assert lease / 2 < monotonic() - began_at < lease + 1.5
        assert web.urls == [ROBOTS, ROBOTS]
        never.set()
        dying.cancel()
        await asyncio.wait({dying})


async def test_an_answer_that_comes_too_late_is_not_saved_over_a_later_one(web: Web, fleet: Fleet) -> None:
    """Its worker was frozen while it asked; by the time it wakes, another has asked and told."""
    late, asked = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> aiohttp_web.StreamResponse:
        asked.set()
        await late.wait()
        return aiohttp_web.Response(text="User-agent: *\nDisallow: /\n")

    web.handle(ROBOTS, slow)
    frozen, other = await fleet.gate(), await fleet.gate()
    asking = asyncio.create_task(frozen.allowed(PAGE))
    await asked.wait()
    async with fleet.watching() as client:
        # As if it had slept for longer than its lease, and its turn.
        await client.delete(fleet.keys.lease(ORIGIN), fleet.keys.host(HOST))
    web.serve(ROBOTS, RULES)
    assert await other.allowed(PAGE)
    late.set()
    # It goes by what it has been told itself; nobody else does.
    assert not await asking
    third = await fleet.gate()
    assert await third.allowed(PAGE)
    assert web.urls == [ROBOTS, ROBOTS]


async def test_messages_that_are_lost_cost_no_second_request(web: Web, fleet: Fleet) -> None:
    """The connections by which they come are cut all the time; whoever waits looks for himself."""
    hosts = [f"m{number}.example" for number in range(5)]
    for host in hosts:
        web.serve(f"http://{host}/robots.txt", RULES, takes=0.1)
    gates = [await fleet.gate() for _ in range(4)]

    async def cut() -> None:
        async with fleet.watching() as client:
            while True:
                await client.client_kill_filter(_type="pubsub")
                await asyncio.sleep(0.01)

    cutting = asyncio.create_task(cut())
    async with asyncio.timeout(20):
        await asyncio.gather(*(gate.allowed(f"http://{host}/") for gate in gates for host in hosts))
    cutting.cancel()
    await asyncio.wait({cutting})
    assert web.counts() == {f"http://{host}/robots.txt": 1 for host in hosts}


@pytest.mark.parametrize(
    "value", [b"\x02a newer version's", b"garbage", None], ids=["newer", "garbage", "string"]
)
async def test_a_record_that_cannot_be_read_is_asked_for_again_once(
    web: Web, fleet: Fleet, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """By the whole fleet, which goes on: nobody lets a page through meanwhile, and nobody stops."""
    web.serve(ROBOTS, RULES, takes=0.05)
    async with fleet.watching() as client:
        if value is None:
            await client.set(fleet.keys.record(ORIGIN), b"a string")
        else:
            await client.hset(fleet.keys.record(ORIGIN), mapping={"r": value})
    gates = [await fleet.gate() for _ in range(4)]
    with caplog.at_level(logging.WARNING, "robotgate.stores"):
        asked = (gate.allowed(f"http://{HOST}/private") for gate in gates)
        assert await asyncio.gather(*asked) == [False] * 4
    assert any("cannot be read" in message for message in caplog.messages)
    assert web.urls == [ROBOTS]


async def test_a_stale_copy_answers_while_one_worker_asks(web: Web, fleet: Fleet) -> None:
    """Others ask for it in the background, too: once for all, and one task in each process."""
    web.serve(ROBOTS, RULES)
    gates = [await fleet.gate() for _ in range(3)]
    assert await asyncio.gather(*(gate.allowed(PAGE) for gate in gates)) == [True] * 3
    web.serve(ROBOTS, RULES, takes=0.3)
    keepers = [_keeper_of(gate) for gate in gates]
    for keeper in keepers:
        # Due to be asked for again, though it holds for hours: as with `Recheck`.
        keeper._put_off(keeper.sites[ORIGIN.text], 0.0)
    began_at = monotonic()
    for _ in range(20):
        assert await asyncio.gather(*(gate.allowed(PAGE) for gate in gates)) == [True] * 3
    assert monotonic() - began_at < 0.25
    assert all(len(keeper._flights) == 1 for keeper in keepers)
    await until(lambda: not any(keeper._flights for keeper in keepers))
    assert web.urls == [ROBOTS, ROBOTS]


def _keeper_of(gate: RobotGate) -> RobotsKeeper:
    assert gate._engine is not None
    return gate._engine.keeper
