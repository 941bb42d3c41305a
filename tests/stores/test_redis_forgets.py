"""A server that has forgotten: flushed, restarted empty or with what it knew a while ago, or short of memory. What is
missing counts as visited now, and a fleet tells again what it has under way.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import pytest
from tests.redis_server import RedisServer
from tests.stores.linked import admin
from tests.stores.redis_workers import HOST, Worker, fleet_of
from tests.waiting import until

from robotgate import HostState, StoreError
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis._keys import bucket_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.stores.redis_workers import Fleet

DELAY: Final = 0.2
AGREEMENT: Final = 2.0
"""Seconds that an established fleet has to tell again what it has under way, as in the script."""
GRAIN: Final = 1e-5


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Look at the server until something is so."""
    async with asyncio.timeout(10):
        while not await is_so():  # noqa: ASYNC110  # As `until`.
            await asyncio.sleep(0.01)


async def flush(server: RedisServer) -> None:
    """Have the server forget everything."""
    async with admin(server) as client:
        await client.flushall()


async def test_new_database_costs_one_delay_once(fleet: Fleet) -> None:
    """Nobody knows what was before: the first hosts wait for a delay, later ones for nothing."""
    one = await fleet.join()
    opened_at = one.clock.now()
    got_at = await one.get(delay=DELAY)
    assert DELAY - 0.1 <= got_at - opened_at <= DELAY + 0.15
    # Its buckets were begun in several calls: the last of them is a moment younger.
    await asyncio.gather(*(one.get(f"last{number}.example", delay=DELAY) for number in range(100)))
    for number in range(300):
        assert await one.ask(f"new{number}.example", delay=DELAY) is None
    two = await fleet.join()
    assert await two.ask("newer.example", delay=DELAY) is None


async def test_flushed_while_a_request_is_under_way(fleet: Fleet) -> None:
    """The request goes on, and so nobody else's begins; the delay counts from its end."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    flushed_at = one.clock.now()
    await flush(fleet.server)
    end = one.clock.now() + AGREEMENT + 1.5
    while two.clock.now() < end:
        answer = await two.ask(delay=DELAY)
        assert answer is not None, "two are under way at once"
        await asyncio.sleep(max(answer.again_at - two.clock.now(), 0.01))
    ended_at = one.end(delay=DELAY)
    got_at = await two.get(delay=DELAY)
    assert got_at - ended_at >= DELAY - GRAIN
    assert got_at - flushed_at >= AGREEMENT


async def test_flushed_with_a_block(fleet: Fleet) -> None:
    """Who knows of a block tells it again, and so does who only heard of it; nobody has to ask for that."""
    one, two, three = [await fleet.join() for _ in range(3)]
    until_at = one.clock.now() + 500
    one.store.remember_host(HOST, HostState(blocked_at=until_at - 500, blocked_until_at=until_at, failures=2))
    await one.heard()
    assert await two.ask() is not None
    await one.store.aclose()
    await flush(fleet.server)

    async def is_known() -> bool:
        answer = await three.ask()
        return answer is not None and answer.again_at > until_at - 1

    await eventually(is_known)
    answer = await three.ask()
    assert answer is not None
    assert answer.state.failures == 2
    assert answer.again_at <= until_at + 0.5, "told again and again, an instant moves"


async def test_idle_workers_see_it(fleet: Fleet) -> None:
    """Signs of life show that the server has forgotten, when nobody asks for anything."""
    one = await fleet.join()
    until_at = one.clock.now() + 500
    one.store.remember_host(
        "b.example", HostState(blocked_at=until_at - 500, blocked_until_at=until_at, failures=2)
    )
    await one.heard()
    async with admin(fleet.server) as client:
        await client.flushall()
        key = one.store._turns.calls._keys.host("b.example")

        async def is_there() -> bool:
            return bool(await client.exists(key))

        await eventually(is_there)


async def test_restarted_empty(fleet: Fleet) -> None:
    """As a flush; the workers find the server again by themselves."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    fleet.server.kill()
    fleet.server.start()
    asking = asyncio.create_task(two.get(delay=DELAY))
    await asyncio.wait({asking}, timeout=AGREEMENT + 1)
    assert not asking.done(), "two are under way at once"
    ended_at = one.end(delay=DELAY)
    assert await asking - ended_at >= DELAY - GRAIN


async def test_restarted_with_old_data(tmp_path: Path) -> None:
    """What has come since the snapshot is lost, and every host waits: no gap is shorter for it."""
    with RedisServer(tmp_path) as server:
        async with fleet_of(server) as fleet:
            one, two = await fleet.join(), await fleet.join()
            await one.visit(delay=DELAY)
            await one.heard()
            async with admin(server) as client:
                await client.save()
            await one.visit(delay=DELAY)
            await one.get("open.example", delay=DELAY)
            one.begin("open.example", delay=DELAY)
            await one.heard()
            server.kill()
            killed_at = one.clock.now()
            server.start()
            open_asked = asyncio.create_task(two.get("open.example", delay=DELAY))
            got_at = await two.get(delay=DELAY)
            assert got_at - killed_at >= DELAY
            await asyncio.wait({open_asked}, timeout=1.0)
            assert not open_asked.done()
            ended_at = one.end("open.example", delay=DELAY)
            assert await open_asked - ended_at >= DELAY - GRAIN


async def test_turn_that_ended_while_the_server_was_away(tmp_path: Path) -> None:
    """Its end is told once there is somebody to tell, and a server that never forgot frees the slot."""
    with RedisServer(tmp_path) as server:
        async with fleet_of(server) as fleet:
            one, two = await fleet.join(), await fleet.join()
            await one.get(delay=DELAY)
            one.begin(delay=DELAY)
            await one.heard()
            async with admin(server) as client:
                await client.save()
            server.kill()
            asking = asyncio.create_task(two.ask(delay=DELAY))
            await until(lambda: one.store._link.lost is not None or _poke(one))
            one.end(delay=DELAY)
            server.start()
            await asking
            await two.get(delay=DELAY)


async def test_host_that_was_thrown_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where keys may be thrown out, it is said once; and a host that is missing counts as visited now."""
    options = {"maxmemory": "50mb", "maxmemory-policy": "allkeys-lru"}
    with RedisServer(tmp_path, options=options) as server, caplog.at_level(logging.WARNING):
        async with fleet_of(server) as fleet:
            one, two = await fleet.join(), await fleet.join()
            await until(lambda: one.store._turns.calls.may_evict)
            await one.visit(delay=DELAY)
            await asyncio.sleep(DELAY)
            async with admin(server) as client:
                await client.delete(one.store._turns.calls._keys.host(HOST))
            asked_at = two.clock.now()
            assert await two.get(delay=DELAY) - asked_at >= DELAY - GRAIN
    told = [record for record in caplog.records if "noeviction" in record.message]
    assert len(told) == 2, "once by each"
    assert "127.0.0.1" in told[0].message


@pytest.mark.parametrize(
    "options", [{}, {"maxmemory": "50mb"}, {"maxmemory-policy": "allkeys-lru"}], ids=repr
)
async def test_nothing_is_thrown_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str]
) -> None:
    """Without a bound, or where writes fail before anything goes, nothing is said."""
    with RedisServer(tmp_path, options=options) as server:
        async with fleet_of(server) as fleet:
            one = await fleet.join()
            await until(lambda: one.store._turns.heartbeat._reply is None)
            assert not one.store._turns.calls.may_evict
    assert not caplog.records


async def test_server_that_does_not_tell(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Whose user may not ask for INFO is told so; what is missing counts as visited now, and all goes on."""
    async with admin(server) as client:
        await client.acl_setuser(
            "blind", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"], commands=["-info"]
        )
    async with fleet_of(server) as fleet:
        store = RedisStore(server.url.replace("//", "//blind:secret@"), prefix=fleet.prefix)
        one = Worker(store)
        fleet.workers.append(one)
        await store.open()
        await until(lambda: store._turns.calls.may_evict)
        asked_at = one.clock.now()
        assert await one.get(delay=DELAY) - asked_at >= DELAY - GRAIN
        one.begin(delay=DELAY)
        ended_at = one.end(delay=DELAY)
        assert await one.get(delay=DELAY) - ended_at >= DELAY - GRAIN
    assert "secret" not in caplog.text
    assert "INFO" in caplog.text


async def test_wrong_kind_of_key(fleet: Fleet) -> None:
    """One thing that stands where a host should breaks that host's turns, with a message, and no other's."""
    one = await fleet.join()
    async with admin(fleet.server) as client:
        await client.lpush(one.store._turns.calls._keys.host("host7.example"), b"nonsense")
    hosts = [f"host{number}.example" for number in range(20)]
    # All at once: they travel in one batch.
    answers = await asyncio.gather(*(one.ask(host, delay=0.0) for host in hosts), return_exceptions=True)
    broken = {host: answer for host, answer in zip(hosts, answers, strict=True) if answer is not None}
    assert list(broken) == ["host7.example"]
    assert isinstance(broken["host7.example"], StoreError)
    assert "something else" in str(broken["host7.example"])


@pytest.mark.parametrize("damage", ["", "nonsense", "longer", "another layout"])
async def test_host_that_is_nonsense(fleet: Fleet, damage: str) -> None:
    """It counts as visited now, and is written anew."""
    one = await fleet.join()
    await one.get(delay=DELAY)
    one.give_back()
    await one.heard()
    key = one.store._turns.calls._keys.host(HOST)
    async with admin(fleet.server) as client:
        written = await client.get(key)
        assert isinstance(written, bytes)
        damaged = {"longer": written + b"?", "another layout": b"\xff" + written[1:]}.get(
            damage, damage.encode()
        )
        await client.set(key, damaged)
    asked_at = one.clock.now()
    assert await one.get(delay=DELAY) - asked_at >= DELAY - 0.05


async def test_epoch_that_is_nonsense(fleet: Fleet) -> None:
    """It is begun anew, as if it had been lost."""
    one = await fleet.join()
    bucket = bucket_of(HOST)
    async with admin(fleet.server) as client:
        await client.set(one.store._turns.calls._keys.epoch(bucket), b"nonsense")
    asked_at = one.clock.now()
    assert await one.get(delay=DELAY) - asked_at >= AGREEMENT + DELAY - 0.1


def _poke(worker: Worker) -> bool:
    worker.store._turns.calls.look(0)
    return False
