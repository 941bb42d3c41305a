"""A server that is away: turns wait for it, or go on by each process itself; and once it is back, it hears of all."""

from __future__ import annotations

import asyncio
import gc
import itertools
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.redis_workers import HOST, Worker, fleet_of
from tests.waiting import until

from robotgate import HostState, StoreError
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.stores.redis_workers import Fleet

DELAY: Final = 0.1
GRAIN: Final = 1e-5


async def lose(fleet: Fleet) -> None:
    """Kill the server, and wait until all workers know."""
    fleet.server.kill()
    for worker in fleet.workers:
        worker.store._turns.calls.look(0)
    await until(lambda: all(worker.store._link.lost is not None for worker in fleet.workers))


async def find(fleet: Fleet) -> None:
    """Start it again, and wait until all workers have told it what they have to."""
    fleet.server.start()
    for worker in fleet.workers:
        await until(lambda worker=worker: worker.store._link.lost is None)  # type: ignore[misc]
        await until(lambda worker=worker: not worker.store._turns.publishing.news)  # type: ignore[misc]
        await worker.heard()


async def test_turns_wait(fleet: Fleet) -> None:
    """Who asks while the server is away gets his answer when it is back."""
    one = await fleet.join()
    await one.visit(delay=DELAY)
    await lose(fleet)
    asking = asyncio.create_task(one.get(delay=DELAY))
    await asyncio.wait({asking}, timeout=0.5)
    assert not asking.done()
    fleet.server.start()
    await asking


async def test_turns_fail_once_patience_is_over(fleet: Fleet) -> None:
    """After that, each question fails at once, with a message that names the server."""
    one = await fleet.join(patience=0.3)
    await one.visit(delay=DELAY)
    fleet.server.kill()
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        await one.ask(delay=DELAY)
    for _ in range(3):
        with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
            await asyncio.wait_for(one.ask(delay=DELAY), 0.2)
    assert len(one.store._turns.publishing._unfinished) <= 2, "what was never asked is to be undone"
    one.store.remember_host("b.example", HostState(visits=1))
    fleet.server.start()
    await one.heard() if one.store._link.lost is None else await until(lambda: one.store._link.lost is None)
    await one.get(delay=DELAY)


async def test_news_of_an_outage(fleet: Fleet) -> None:
    """Blocks and ends that nobody could be told of are told afterwards."""
    one = await fleet.join(patience=0.2)
    two = await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    await lose(fleet)
    now = one.clock.now()
    one.store.remember_host("b.example", HostState(blocked_at=now, blocked_until_at=now + 500, failures=2))
    one.end(delay=DELAY)
    assert one.store._turns.publishing.news
    await find(fleet)
    answer = await two.ask("b.example")
    assert answer is not None
    assert answer.again_at == pytest.approx(now + 500, abs=0.1)
    await two.get(delay=DELAY)


async def test_end_that_does_not_arrive_is_kept_wherever_ends_are_kept_by_then(fleet: Fleet) -> None:
    """What is on its way may fail after all that is kept has been sent once more."""
    one = await fleet.join(patience=0.2)
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    publishing = one.store._turns.publishing
    fleet.server.pause()
    one.end(delay=DELAY)
    publishing._finish_all()
    assert publishing.news == 0
    await lose(fleet)
    await until(lambda: publishing.news == 1)


async def test_closing_while_lost_tells_what_nobody_heard(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a turn, which the server takes to be under way until its lease ends, and what was learnt of a host."""
    one = await fleet.join(patience=0.2)
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    await lose(fleet)
    one.store.remember_host("b.example", HostState(visits=1))
    one.end(delay=DELAY)
    await one.store.aclose()
    port = fleet.server.port
    assert f"redis 127.0.0.1:{port}/0: 2 messages are lost, for the store was closed" in caplog.messages


async def test_going_on_alone(fleet: Fleet) -> None:
    """Each worker leaves the delay as often as there are workers: together they keep the mean rate."""
    workers = [await fleet.join(degraded="local") for _ in range(3)]
    await until(lambda: all(worker.store._turns.heartbeat.workers == 3 for worker in workers))
    for worker in workers:
        await worker.visit(delay=DELAY)
    await lose(fleet)
    lost_at = workers[0].clock.now()
    begun: list[float] = []

    async def crawl(worker: Worker) -> None:
        mine = [(await worker.visit(delay=DELAY))[0] for _ in range(4)]
        gaps = [after - before for before, after in itertools.pairwise(mine)]
        assert min(gaps) >= 3 * DELAY - GRAIN
        assert mine[0] - lost_at >= DELAY - 0.05
        begun.extend(mine)

    await asyncio.gather(*(crawl(worker) for worker in workers))
    assert max(begun) - min(begun) >= 9 * DELAY - GRAIN
    await find(fleet)
    ended_at = workers[0].clock.now()
    got_at = await workers[1].get(delay=DELAY)
    assert got_at - ended_at <= 5.0


async def test_alone_in_the_middle_of_a_question(fleet: Fleet) -> None:
    """Who waits for an answer when the server is lost goes on by himself at once, and what was asked is undone."""
    one = await fleet.join(degraded="local", patience=30.0)
    two = await fleet.join()
    await one.visit(delay=DELAY)
    await asyncio.sleep(DELAY)
    fleet.server.pause()
    asking = asyncio.create_task(one.ask(delay=DELAY))
    await asyncio.wait({asking}, timeout=0.05)
    fleet.server.kill()
    answer = await asyncio.wait_for(asking, 5)
    if answer is None:
        one.give_back()
    await find(fleet)
    await two.visit(delay=DELAY)
    await two.visit(delay=DELAY)


async def test_alone_from_the_beginning(server: RedisServer) -> None:
    """A worker that never reached its server goes on by itself, and joins the others once it is there."""
    server.kill()
    async with fleet_of(server) as fleet:
        store = RedisStore(server.url, prefix=fleet.prefix, degraded="local")
        one = Worker(store)
        fleet.workers.append(one)
        await one.get(delay=DELAY)
        one.begin(delay=DELAY)
        await find(fleet)
        two = await fleet.join()
        end = two.clock.now() + 0.5
        while two.clock.now() < end:
            answer = await two.ask(delay=DELAY)
            assert answer is not None, "two are under way at once"
            await asyncio.sleep(max(answer.again_at - two.clock.now(), 0.01))
        ended_at = one.end(delay=DELAY)
        assert await two.get(delay=DELAY) - ended_at >= DELAY - GRAIN


async def test_workers_are_counted(fleet: Fleet) -> None:
    """Who comes is counted, and who goes is not; two gates on one store are one."""
    one, two = await fleet.join(), await fleet.join()
    heartbeat = one.store._turns.heartbeat
    await until(lambda: heartbeat.workers == 2)
    await two.store.aclose()
    await until(lambda: heartbeat.workers == 1)


async def test_dead_workers_are_not_counted(fleet: Fleet) -> None:
    """Who gives no sign of life for some seconds is gone."""
    one, two = await fleet.join(), await fleet.join()
    heartbeat = one.store._turns.heartbeat
    await until(lambda: heartbeat.workers == 2)
    timer = two.store._turns.heartbeat._timer
    assert timer is not None
    timer.cancel()
    stopped_at = one.clock.now()
    await until(lambda: heartbeat.workers == 1)
    assert 3.0 <= one.clock.now() - stopped_at <= 7.5


PROGRAM: Final = """
import asyncio, sys
from robotgate.stores.redis import RedisStore

async def main():
    await RedisStore(sys.argv[1]).open()

asyncio.run(main())
"""


def test_keeps_no_program_alive(server: RedisServer) -> None:
    """Who forgets to close the store is not kept from ending, and hears of no task that was destroyed."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, server.url], timeout=20, capture_output=True, check=True, text=True
    )
    assert "Task" not in ended.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_from_loop_to_loop(server: RedisServer) -> None:
    """A store goes on in the next event loop; what was under way in the one before has ended with it."""
    store = RedisStore(server.url, lease=60.0)
    one = Worker(store)

    async def leave_open() -> None:
        await one.get(delay=DELAY)
        one.begin(delay=DELAY)

    async def go_on() -> None:
        await one.visit(delay=DELAY)
        heartbeat = store._turns.heartbeat
        await until(lambda: heartbeat._beats > 3)
        await store.aclose()

    asyncio.run(leave_open())
    began_at = one.clock.now()
    asyncio.run(go_on())
    assert one.clock.now() - began_at < 10
    # The connection of the first loop can only be dropped, which Python finds worth a warning.
    gc.collect()


async def test_begun_while_the_server_was_away(fleet: Fleet) -> None:
    """Of several at a time, one that began unheard of keeps the others no longer than the server was away."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(slots=2, delay=DELAY)
    await one.heard()
    client = one.store._client
    await client.save()
    await lose(fleet)
    one.begin(delay=DELAY)
    fleet.server.start()
    asked_at = two.clock.now()
    assert await two.get(slots=2, delay=DELAY) - asked_at < 6


async def test_closed_store_is_let_go(fleet: Fleet) -> None:
    """No timer holds on to a store that was closed."""
    await (await fleet.join()).store.aclose()
    store = weakref.ref(fleet.workers.pop().store)
    await asyncio.sleep(0)
    gc.collect()
    assert store() is None


async def test_closing_without_a_server(fleet: Fleet) -> None:
    """Closing takes no longer than a moment when nobody is there to hear of it."""
    one = await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    await lose(fleet)
    async with asyncio.timeout(5):
        await one.store.aclose()
    assert HOST not in one.store._turns.open


@pytest.mark.parametrize("degraded", ["wait", "local"])
async def test_closing_a_store_that_never_met_its_server(server: RedisServer, degraded: str) -> None:
    """What it would tell is lost, but nobody waits for that as long as for a turn."""
    server.kill()
    store = RedisStore(server.url, patience=30.0, degraded=degraded)
    if degraded == "local":
        # Who goes on by himself knows by now that it is lost.
        assert await store.load_host(HOST) is None
    store.remember_host(HOST, HostState(visits=1))
    async with asyncio.timeout(5):
        await store.aclose()
