"""The store in a server does all that a store does, for every server there is, by URL and by client."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from tests.redis_proxy import Proxy
from tests.stores.redis_parts import (
    DAY,
    KEY,
    LEASE,
    NOW,
    RECORD,
    admin,
    check_fleets,
    fresh_prefix,
    run,
    visited_at,
)

from robotgate import OptionError, Origin, StoreError
from robotgate.stores import HostState
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis.link import CLOCK_STEP, HALF, ServerClock
from robotgate.stores.redis.messages import Keys
from robotgate.stores.redis.store import useful_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer

    from robotgate.sites import RobotsRecord

ORIGIN: Final = RECORD.origin
OTHER: Final = Origin("http", "a.example", 8080)


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisStore]:
    """The only store of its fleet, on a server that has run for long."""
    prefix = fresh_prefix()
    server.settle(prefix)
    async with RedisStore(server.url, prefix=prefix, lease=LEASE) as store:
        yield store


@pytest.mark.slow
@pytest.mark.parametrize("given", ["url", "client", "client that decodes"])
async def test_it_does_all_that_it_says(server: RedisServer, given: str) -> None:
    """Opened again, and beside another; however the operator's client reads replies, and that stays open."""
    async with Redis.from_url(server.url, decode_responses="decodes" in given) as client:
        what = server.url if given == "url" else client
        await check_fleets(lambda prefix: RedisStore(what, prefix=prefix, lease=LEASE), server.settle)
        assert await client.ping()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"prefix": 3}, "prefix"),
        ({"lease": 0.5}, "lease"),
        ({"patience": -1}, "patience"),
        ({"max_age": 1}, "max_age"),
    ],
)
def test_options_without_sense(options: dict[str, object], named: str) -> None:
    """A wrong option is refused by name before anything is connected to."""
    with pytest.raises(OptionError, match=named):
        RedisStore("redis://127.0.0.1:1", **options)  # type: ignore[arg-type]


async def test_fleets_with_other_prefixes_share_nothing(server: RedisServer) -> None:
    """Neither records, nor hosts, nor grants."""
    prefixes = fresh_prefix(), fresh_prefix()
    for prefix in prefixes:
        server.settle(prefix)
    one, other = (RedisStore(server.url, prefix=prefix, lease=LEASE) for prefix in prefixes)
    async with one, other:
        await one.save_record(RECORD)
        await one.save_hosts({KEY: HostState(visits=1)})
        assert await other.load_record(ORIGIN) is None
        assert await other.load_host(KEY) is None
        assert [record async for record in other.records()] == []
        assert [host async for host in other.hosts()] == []
        for store in (one, other):
            session = await store.session()
            assert (await asyncio.wait_for(session.obtain(KEY), 60)).lease.is_valid()
        assert not await other.forget_record(ORIGIN)
        assert not await other.forget_host("b.example")
        assert [record.origin async for record in one.records()] == [ORIGIN]


async def test_a_store_that_was_closed_says_so(server: RedisServer) -> None:
    """And makes no connection again."""
    store = RedisStore(server.url, prefix=fresh_prefix())
    await store.save_record(RECORD)
    session = await store.session()
    await session.aclose()
    with pytest.raises(StoreError, match="the session was closed"):
        await session.obtain(KEY)
    await store.aclose()
    for use in (
        store.load_record(ORIGIN),
        store.save_hosts({KEY: HostState()}),
        store.session(),
        store.forget_record(ORIGIN),
        anext(store.records()),
        store.origins_of("a.example"),
    ):
        with pytest.raises(StoreError, match="closed"):
            await use


async def test_in_another_event_loop_it_says_so(store: RedisStore) -> None:
    """Connections belong to the loop that made them."""
    with pytest.raises(StoreError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(store.open()))


async def test_thousands_at_once(store: RedisStore, server: RedisServer) -> None:
    """They all arrive, and questions of one tick travel together, in few commands."""
    names = sorted(f"h{number}.example" for number in range(1500))
    now = NOW()
    await store.save_hosts({name: HostState(last_visit_at=now, visits=1) for name in names})
    assert [name async for name, _ in store.hosts()] == names
    async with admin(server) as client:
        await run(client, "CONFIG", "RESETSTAT")
        assert None not in await asyncio.gather(*map(store.load_host, names))
        stats = await client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] <= 12


@pytest.mark.parametrize("skew", [-1e6, 1e6])
async def test_clocks_that_differ(server: RedisServer, skew: float) -> None:
    """Machines need not agree on the time: what one saves, the other loads by its own clock, and never too early."""

    class Skewed:
        def now(self) -> float:
            return NOW() + skew

    prefix, now = fresh_prefix(), NOW()
    state = HostState(last_visit_at=now, next_allowed_at=now + 100, blocked_until_at=now + 50, visits=1)
    record = replace(RECORD, checked_at=now, fresh_until_at=now + DAY, fetched_at=now)
    async with (
        RedisStore(server.url, prefix=prefix) as one,
        RedisStore(server.url, prefix=prefix, clock=Skewed()) as other,
    ):
        await one.save_hosts({KEY: state})
        await one.save_record(record)
        loaded, loaded_record = await other.load_host(KEY), await other.load_record(ORIGIN)
    assert loaded is not None
    assert loaded.next_allowed_at >= state.next_allowed_at + skew
    assert loaded.next_allowed_at == pytest.approx(state.next_allowed_at + skew, abs=1)
    assert loaded.blocked_until_at == pytest.approx(state.blocked_until_at + skew, abs=1)
    assert loaded_record is not None
    assert loaded_record.fresh_until_at == pytest.approx(record.fresh_until_at + skew, abs=1)


async def test_instants_do_not_drift_where_calls_have_become_slow(server: RedisServer) -> None:
    """A host that goes from process to process is not due later each time by what the calls take; nor earlier."""
    prefix, due_at = fresh_prefix(), NOW() + 100
    async with (
        Proxy(server.port) as proxy,
        RedisStore(proxy.url, prefix=prefix) as one,
        RedisStore(proxy.url, prefix=prefix) as other,
    ):
        state: HostState | None = HostState(last_visit_at=NOW(), next_allowed_at=due_at, visits=1)
        for proxy.delay in (0.0, *[0.05] * 10):
            assert state is not None
            await one.save_hosts({KEY: state})
            state = await other.load_host(KEY)
    assert state is not None
    assert due_at <= state.next_allowed_at < due_at + 0.25


@given(st.data())
def test_instants_by_a_servers_clock(data: st.DataObject) -> None:
    """They are right to what the fastest call of late has taken, and never too early, whatever the clock is set to."""
    clock, at, ahead = ServerClock(), 1e6, data.draw(st.floats(-1e9, 1e9))
    assert clock.server_time(at) == math.inf
    slack, calls = CLOCK_STEP + 1e-6, list[tuple[float, float, float]]()
    for is_set in data.draw(st.lists(st.booleans(), min_size=1, max_size=20)):
        there, back, pause = (data.draw(st.floats(0, 0.4)) for _ in range(3))
        if is_set:
            ahead += data.draw(st.sampled_from([-1e6, -10, 10, 1e6]))
            calls.clear()
        clock.learn(at, at + there + ahead, at + there + back)
        at += there + back
        calls.append((at, there, back))
        late = [call for call in calls if at - call[0] <= HALF]
        assert -slack <= clock.server_time(at) - (at + ahead) <= min(there for _, there, _ in late) + slack
        assert -slack <= clock.our_time(at + ahead) - at <= min(back for _, _, back in late) + slack
        at += pause


# Records.


async def test_an_answer_that_comes_late_replaces_no_later_one(store: RedisStore) -> None:
    """A process that was frozen while it asked has old news."""
    now = NOW()
    later, earlier = (replace(RECORD, checked_at=now - age, failures=int(age)) for age in (10.0, 100.0))
    await store.save_record(later)
    await store.save_record(earlier)
    assert await store.load_record(ORIGIN) == later
    newest = replace(later, checked_at=now)
    await store.save_record(newest)
    assert await store.load_record(ORIGIN) == newest


@pytest.mark.parametrize("value", [b"\x80garbage", b""])
async def test_what_cannot_be_read_counts_as_nothing_and_is_replaced(
    store: RedisStore, server: RedisServer, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Damaged, planted or newer: the log tells of it, and the next answer takes its place."""
    await store.save_record(RECORD)
    async with admin(server) as client:
        await client.hset(store._keys.named("robots", ORIGIN.text), mapping={"r": value})
    with caplog.at_level(logging.WARNING, "robotgate.stores"):
        assert await store.load_record(ORIGIN) is None
    (told,) = caplog.messages
    assert told.startswith("the record of https://a.example cannot be read (")
    await store.save_record(RECORD)
    assert await store.load_record(ORIGIN) == RECORD


@pytest.mark.parametrize("kind", ["string", "hash"])
async def test_a_key_of_another_kind_harms_nobody(store: RedisStore, server: RedisServer, kind: str) -> None:
    """A record there is replaced, a host there counts as visited now; what travels with it arrives."""
    await store.save_record(replace(RECORD, origin=OTHER))
    keys = [store._keys.named("robots", ORIGIN.text), store._keys.named("host", KEY)]
    async with admin(server) as client:
        for key in keys:
            if kind == "string":
                await client.set(key, b"another program's")
            else:
                await client.hset(key, mapping={"field": b"another program's"})
    loaded, other = await asyncio.gather(store.load_record(ORIGIN), store.load_record(OTHER))
    assert loaded is None
    assert other is not None
    await store.save_record(RECORD)
    assert await store.load_record(ORIGIN) == RECORD
    asked_at = NOW()
    grant = await asyncio.wait_for((await store.session()).obtain(KEY), 60)
    assert visited_at(grant) >= asked_at


@pytest.mark.parametrize("name", ["epoch", "serial", "sessions", "blocks"])
async def test_a_fleets_key_of_another_kind_is_told(
    store: RedisStore, server: RedisServer, name: str
) -> None:
    """Nothing is granted beside it, or it is made anew; and nobody waits without being told."""
    async with admin(server) as client:
        key = f"{store._keys.prefix}{{0}}:{name}"
        await client.delete(key)
        await client.sadd(key, b"another program's")

    async def use() -> None:
        session = await store.session()
        assert (await session.obtain(KEY)).lease.is_valid()

    try:
        async with asyncio.timeout(60):
            await use()
    except StoreError as error:
        assert "a key of ours holds something else" in str(error)  # noqa: PT017 # Either may come.


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        (RECORD, 30 * DAY),
        (replace(RECORD, fetched_at=RECORD.checked_at - 20 * DAY), 10 * DAY),
        (replace(RECORD, fetched_at=RECORD.checked_at - 40 * DAY), 2 * DAY),
        (replace(RECORD, fetched_at=None, fresh_until_at=RECORD.checked_at + 60), DAY + 60),
        (replace(RECORD, fetched_at=None, fresh_until_at=0.0), DAY),
    ],
    ids=["copy", "older copy", "copy of no use", "failure", "expired"],
)
def test_a_record_is_useful_as_long_as_it_can_serve(record: RobotsRecord, seconds: float) -> None:
    """As a stale copy, or to know when to try again."""
    assert useful_for(record) == seconds


async def test_nothing_is_kept_for_ever(server: RedisServer) -> None:
    """Records and hosts expire by themselves, no record later than was said, and no host before its wait is over."""
    prefix = fresh_prefix()
    async with RedisStore(server.url, prefix=prefix, max_age=3600.0) as store, admin(server) as client:
        await store.save_record(RECORD)
        now = NOW()
        await store.save_hosts({KEY: HostState(visits=1), "b.example": HostState(next_allowed_at=now + DAY)})
        ttls = {key: await client.pttl(key) / 1000 for key in await client.keys(f"{prefix}*")}
        assert min(ttls.values()) > 0
        assert 3500 < ttls[store._keys.named("robots", ORIGIN.text)] <= 3600
        assert 3500 < ttls[store._keys.named("host", KEY)] <= 3600
        assert ttls[store._keys.named("host", "b.example")] > DAY


async def test_scripts_that_the_server_has_lost_are_there_again(
    store: RedisStore, server: RedisServer
) -> None:
    """After a flush of its scripts, or a failover."""
    await store.save_record(RECORD)
    async with admin(server) as client:
        await client.script_flush()
    assert await store.load_record(ORIGIN) == RECORD
    async with admin(server) as client:
        await client.script_flush()
    assert await store.load_host(KEY) is None


ODD_PREFIXES: Final = ("", "*", "a[b]?\\^-", "{7}:", "ü\ud800:", "x{1}:robots:")
ODD_KEYS: Final = (
    *("a.example", "*", "a}:host:b", "{1}:host:c", "https://a.example"),
    *("\ud800", "ü ", "[x]", "%41"),
)


@pytest.mark.parametrize("prefix", ODD_PREFIXES)
async def test_names_are_listed_whole_whatever_they_are_made_of(server: RedisServer, prefix: str) -> None:
    """A pace key is what the operator's function makes of a URL; a prefix is any text, and others have theirs."""
    origins = [
        Origin("https", "2001:db8::1", 443),
        Origin("http", "a.example", 80),
        Origin("https", "a.example", 443),
        Origin("https", "www.a.example", 443),
    ]
    states = {name: HostState(visits=number + 1) for number, name in enumerate(ODD_KEYS)}
    async with RedisStore(server.url, prefix=prefix) as store, admin(server) as client:
        await client.flushall()
        await store.save_hosts(states)
        for origin in origins:
            await store.save_record(replace(RECORD, origin=origin))
        for other in {*ODD_PREFIXES, "test", f"{prefix}x", "a"} - {prefix}:
            await client.set(Keys(other, 1).named("host", "foreign.example"), b"")
            await client.set(Keys(other, 1).named("robots", "http://foreign.example"), b"")
        # Of no tag of ours, and no name.
        await client.set(store._keys.named("host", "planted.example").replace(b"{", b"{9", 1), b"")
        await client.set(store._keys.of_tag(0) + b"host:\xff\xfe", b"")
        listed = {name: state.visits async for name, state in store.hosts()}
        assert listed == {name: states[name].visits for name in sorted(ODD_KEYS)}
        assert [record.origin async for record in store.records()] == origins
        assert await store.origins_of("a.example") == origins[1:3]
        assert await store.origins_of("*") == []
