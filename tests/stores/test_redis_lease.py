"""The sole right to ask for a robots.txt, in a fleet: who dies, sleeps, is cut off or changes his mind harms nobody."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import pytest
from redis.asyncio import Redis
from tests.redis_server import RedisServer
from tests.stores.redis_parts import Member, becomes, fresh_prefix, member
from tests.stores.test_redis_records import ORIGIN, OTHER, RECORD
from tests.waiting import until

from robotgate import StoreError
from robotgate.stores.redis import _client, _lease, _listing, _records, _signals
from robotgate.stores.redis._listing import Listing
from robotgate.stores.redis._records import SCRIPT, places

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import Origin

LONG: Final = 60.0
"""Seconds that no test waits."""
SOON: Final = 5.0
"""Seconds after which what should come at once is taken not to, on a machine that is busy with other things."""


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
def prefix() -> str:
    """Of the fleet."""
    return fresh_prefix()


@pytest.fixture
async def one(server: RedisServer, prefix: str) -> AsyncIterator[Member]:
    """A process of the fleet."""
    async with member(server.url, prefix) as one:
        yield one


@pytest.fixture
async def other(server: RedisServer, prefix: str) -> AsyncIterator[Member]:
    """Another one."""
    async with member(server.url, prefix) as other:
        yield other


async def take(of: Member, origin: Origin = ORIGIN) -> float:
    """Have the lease for no time. Returns its token."""
    async with of.leases.lease(origin):
        return of.leases.token(origin)


async def is_taken(of: Member) -> bool:
    """Whether anybody has it, as far as the server knows."""
    return bool(await of.client.exists(of.keys.lease(ORIGIN)))


async def begin_to_wait(of: Member) -> asyncio.Task[float]:
    """A task that waits for the lease, and has asked for it at least twice: it listens by then."""
    waiting = asyncio.create_task(take(of))
    await until(lambda: of.signals.waiting > 0)
    await becomes(lambda: _subscribers(of))
    assert not waiting.done()
    return waiting


async def test_one_holder_at_a_time_in_the_whole_fleet(server: RedisServer, prefix: str) -> None:
    """However many ask, each has it once, and tokens grow."""
    holders, tokens = 0, []

    async def hold(of: Member, origin: Origin) -> None:
        nonlocal holders
        async with of.leases.lease(origin):
            if origin is ORIGIN:
                assert not holders
                holders += 1
                await asyncio.sleep(0.001)
                tokens.append(of.leases.token(origin))
                holders -= 1

    async with (
        member(server.url, prefix) as a,
        member(server.url, prefix) as b,
        member(server.url, prefix) as c,
        asyncio.timeout(20),
    ):
        await asyncio.gather(
            *(hold(of, origin) for of in (a, b, c) for _ in range(10) for origin in (ORIGIN, OTHER))
        )
        assert len(tokens) == 30
        assert tokens == sorted(set(tokens))
        await asyncio.gather(a.link.aclose(), b.link.aclose(), c.link.aclose())
        assert not await is_taken(a)


async def test_who_waits_is_told_at_once(one: Member, other: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a message: nobody looks for himself within the minute."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    async with one.leases.lease(ORIGIN):
        waiting = await begin_to_wait(other)
    async with asyncio.timeout(SOON):
        await waiting


async def hear(of: Member) -> bool:
    """Have the lease for no time, or news. Returns whether it was the lease."""
    async with of.leases.lease_or_news(ORIGIN) as is_ours:
        assert (of.leases.token(ORIGIN) > 0) is is_ours
        return is_ours


async def begin_to_hear(of: Member) -> asyncio.Task[bool]:
    """As `begin_to_wait`, for news as well."""
    waiting = asyncio.create_task(hear(of))
    await until(lambda: of.signals.waiting > 0)
    await becomes(lambda: _subscribers(of))
    # Asked behind what its listening has it ask.
    await of.records.load(OTHER)
    assert not waiting.done()
    return waiting


async def test_news_is_for_all_who_wait_at_once(
    server: RedisServer, one: Member, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody of them has the right one after the other, or is told again by one of the others."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    async with AsyncExitStack() as stack, asyncio.timeout(SOON):
        others = [await stack.enter_async_context(member(server.url, prefix)) for _ in range(5)]
        async with one.leases.lease_or_news(ORIGIN) as is_ours:
            assert is_ours
            waiting = [await begin_to_hear(other) for other in others]
            assert await one.records.save(RECORD, token=one.leases.token(ORIGIN))
            tokens = await one.client.get(one.keys.tokens(ORIGIN))
        assert await asyncio.gather(*waiting) == [False] * 5
        assert await one.client.get(one.keys.tokens(ORIGIN)) == tokens
        assert not await is_taken(one)


async def questions(of: Member) -> int:
    """How many batches the server has run."""
    told = await of.client.info("commandstats")
    return int(told["cmdstat_evalsha"]["calls"])


async def test_who_is_told_of_news_asks_no_more(
    one: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says which record there is: where messages arrive, a wait is one question."""
    monkeypatch.setattr(_lease, "LAST_POLL", LONG)
    async with asyncio.timeout(SOON):
        async with one.leases.lease(OTHER):
            listening = asyncio.create_task(take(other, OTHER))
            await until(lambda: other.signals.is_heard)
        await listening
        async with one.leases.lease(ORIGIN):
            await one.records.load(OTHER)
            before = await questions(one)
            hearing = asyncio.create_task(hear(other))
            await until(lambda: other.signals.waiting > 0)
            await one.records.save(RECORD, token=one.leases.token(ORIGIN))
        assert not await hearing
        # The question, what was saved, and that the lease is free.
        assert await questions(one) == before + 3


@pytest.mark.parametrize("said", [b"", b"nonsense, as it is", b"1" * 400, b"\xff" * 16])
async def test_a_message_that_is_nobodys_is_no_news(one: Member, other: Member, said: bytes) -> None:
    """Whoever may publish can wake us, and no more."""
    async with asyncio.timeout(SOON):
        async with one.leases.lease_or_news(ORIGIN):
            hearing = await begin_to_hear(other)
            await one.client.publish(one.keys.fleet("signals"), said + one.keys.lease(ORIGIN))
            await other.records.load(OTHER)
            assert not hearing.done()
        assert await hearing


async def test_who_hears_of_nothing_has_the_right(one: Member, other: Member) -> None:
    """The holder saved nothing; what was saved before he had the lease is no news."""
    await one.records.save(RECORD)
    async with asyncio.timeout(SOON):
        async with one.leases.lease_or_news(ORIGIN):
            waiting = await begin_to_hear(other)
        assert await waiting
        assert await hear(one)


async def test_news_need_not_come_by_the_lease(one: Member, other: Member) -> None:
    """What a process knows without asking is news as well, while another asks."""
    async with one.leases.lease_or_news(ORIGIN), asyncio.timeout(SOON):
        waiting = await begin_to_hear(other)
        await other.records.save(RECORD)
        assert not await waiting
        assert await is_taken(one)


async def test_news_leaves_the_lease_to_who_waits_for_nothing_else(
    server: RedisServer, one: Member, other: Member, prefix: str
) -> None:
    """Both are woken by one message, and the right goes to him who needs it."""
    async with member(server.url, prefix) as third, asyncio.timeout(SOON):
        async with one.leases.lease(ORIGIN):
            hearing, waiting = await begin_to_hear(other), await begin_to_wait(third)
            await one.records.save(RECORD, token=one.leases.token(ORIGIN))
        assert not await hearing
        assert await waiting


async def test_a_lease_that_was_had_before_the_news_is_kept(one: Member) -> None:
    """The batch comes twice, for its answer was lost; meanwhile somebody has saved."""
    ask = b"N" + b"i" * 16 + struct.pack("<ddd", 0.0, 1000.0, 0.0)
    first = await one.link.ask(SCRIPT, places(one.keys, ORIGIN), ask)
    await one.records.save(RECORD)
    assert first[:1] == b"1"
    assert await one.link.ask(SCRIPT, places(one.keys, ORIGIN), ask) == first


async def test_who_cannot_be_told_looks_for_himself(server: RedisServer, one: Member, prefix: str) -> None:
    """After no longer than he has waited so far, and a second at most, though no message ever comes."""
    async with member(server.url, prefix, signals_url="redis://127.0.0.1:1/0") as deaf:
        async with one.leases.lease(ORIGIN):
            waiting = asyncio.create_task(take(deaf))
            await until(lambda: deaf.signals.waiting > 0)
            await asyncio.sleep(2 * _lease.POLL)
            assert not waiting.done()
        began_at = monotonic()
        async with asyncio.timeout(SOON):
            await waiting
        assert monotonic() - began_at < 2 * _lease.POLL


@pytest.mark.parametrize(
    ("is_deaf", "expected"), [(True, [0.25, 0.5, 0.5, 1.0, 1.0, 1.0]), (False, [1.0] * 6)]
)
async def test_who_waits_long_looks_less_often(
    server: RedisServer,
    one: Member,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_deaf: bool,
    expected: list[float],
) -> None:
    """Twice as long each time, but never less often than each second; nor more often while messages arrive."""
    signals_url = "redis://127.0.0.1:1/0" if is_deaf else None
    pauses: list[float] = []
    enough = asyncio.Event()

    async def pause(_: object, seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 6:
            enough.set()
        await asyncio.sleep(0)
        # One message among them, of a lease that somebody else was quicker to take.
        return len(pauses) == 2

    async with member(server.url, prefix, signals_url=signals_url) as other, asyncio.timeout(SOON):
        async with one.leases.lease(OTHER):
            before = asyncio.create_task(take(other, OTHER))
            await until(lambda: other.signals.is_heard or (is_deaf and other.signals.waiting > 0))
        await before
        monkeypatch.setattr(_lease, "_set_within", pause)
        async with one.leases.lease(ORIGIN):
            waiting = asyncio.create_task(take(other))
            await enough.wait()
        await waiting
    assert pauses[:6] == expected


async def test_a_connection_for_messages_that_is_cut_costs_no_more_than_a_poll(
    one: Member, other: Member
) -> None:
    """However often, and it is made again."""
    for _ in range(3):
        async with one.leases.lease(ORIGIN):
            waiting = await begin_to_wait(other)
            await one.client.client_kill_filter(_type="pubsub")
        began_at = monotonic()
        async with asyncio.timeout(SOON):
            await waiting
        assert monotonic() - began_at < 2 * _lease.LAST_POLL


async def test_messages_that_may_have_been_lost_wake_whoever_waits(
    one: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the connection is there again, they look."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    monkeypatch.setattr(_signals, "RETRY", 0.1)
    async with one.leases.lease(ORIGIN):
        waiting = await begin_to_wait(other)
        await one.client.client_kill_filter(_type="pubsub")
        # The lease goes without a word.
        await one.client.delete(one.keys.lease(ORIGIN))
        async with asyncio.timeout(SOON):
            await waiting


async def test_who_may_not_publish_still_gives_back(server: RedisServer, one: Member, prefix: str) -> None:
    """An operator may leave that out; the others find out by themselves."""
    await one.client.acl_setuser(
        "mute",
        enabled=True,
        nopass=True,
        keys=["*"],
        reset_channels=True,
        categories=["+@all"],
        commands=["-publish"],
    )
    mute_url = server.url.replace("redis://", "redis://mute:any@")
    async with member(mute_url, prefix) as mute:
        async with mute.leases.lease(ORIGIN):
            waiting = await begin_to_wait(one)
        async with asyncio.timeout(SOON):
            await waiting


async def test_the_commands_that_are_listed_are_enough(
    server: RedisServer, one: Member, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a user who may do nothing else, with keys and channels of this fleet alone."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    commands = {*_client.COMMANDS, *_records.COMMANDS, *_signals.COMMANDS, *_listing.COMMANDS}
    # Not known to every server, and nobody minds if it is refused.
    commands.discard("client|setinfo")
    await one.client.acl_setuser(
        "least",
        enabled=True,
        nopass=True,
        reset=True,
        reset_channels=True,
        keys=[f"{prefix}*"],
        channels=[f"{prefix}*"],
        categories=["-@all"],
        commands=[f"+{command}" for command in sorted(commands)],
    )
    async with member(server.url.replace("redis://", "redis://least:any@"), prefix) as least:
        async with least.leases.lease(ORIGIN):
            waiting = await begin_to_wait(one)
            assert await least.records.save(RECORD, token=least.leases.token(ORIGIN))
            assert await least.records.load(ORIGIN) == RECORD
        async with asyncio.timeout(SOON):
            await waiting
        async with one.leases.lease(ORIGIN):
            waiting = asyncio.create_task(take(least))
            await until(lambda: least.signals._hearing is not None)
            await becomes(lambda: _subscribers(one))
        async with asyncio.timeout(SOON):
            await waiting
        assert await Listing(least.client, least.keys).origins() == [ORIGIN]
        assert await least.records.forget(ORIGIN)


async def _subscribers(of: Member) -> int:
    ((_, subscribers),) = await of.client.pubsub_numsub(of.keys.fleet("signals"))
    return int(subscribers)


async def test_nothing_is_published_where_nobody_waits(
    one: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fleet whose processes do not meet, nobody is bothered."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    async with one.client.pubsub() as pubsub:
        await pubsub.subscribe(one.keys.fleet("signals"))
        assert (await pubsub.get_message(timeout=SOON) or {})["type"] == "subscribe"
        for _ in range(3):
            await take(one)
        async with one.leases.lease(OTHER):
            waiting = asyncio.create_task(take(other, OTHER))
            await until(lambda: other.signals.waiting > 0)
            await other.link.ask(SCRIPT, places(other.keys, OTHER), b"L")
        async with asyncio.timeout(SOON):
            await waiting
        message = await pubsub.get_message(timeout=SOON) or {}
        assert message["data"] == b"%016d" % 0 + one.keys.lease(OTHER)


async def test_a_dead_holder_delays_others_by_the_lease_at_most(
    server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by no less, for he might be alive: who waits is there as it ends, and need not look before."""
    monkeypatch.setattr(_lease, "POLL", LONG)
    async with member(server.url, prefix, lease=1.0) as one:
        gone = b"T" + b"i" * 16 + struct.pack("<dd", 0.0, 1000.0)
        assert (await one.link.ask(SCRIPT, places(one.keys, ORIGIN), gone))[:1] == b"1"
        began_at = monotonic()
        async with asyncio.timeout(SOON):
            await take(one)
        assert 0.9 < monotonic() - began_at < 2.0


async def test_a_holder_whose_connections_are_cut_holds_on(server: RedisServer, prefix: str) -> None:
    """A process that lives renews its leases, over whatever connection."""
    async with member(server.url, prefix, lease=0.6) as one, member(server.url, prefix, lease=0.6) as other:
        async with one.leases.lease(ORIGIN):
            waiting = await begin_to_wait(other)
            for _ in range(10):
                await asyncio.sleep(0.15)
                await other.client.client_kill_filter(_type="normal", skipme=True)
                assert not waiting.done()
        async with asyncio.timeout(SOON):
            await waiting


async def test_a_lease_is_renewed_while_it_is_held(server: RedisServer, prefix: str) -> None:
    """A site may take longer than any lease."""
    async with member(server.url, prefix, lease=0.3) as one, member(server.url, prefix, lease=0.3) as other:
        async with one.leases.lease(ORIGIN):
            waiting = asyncio.create_task(take(other))
            await asyncio.sleep(1.0)
            assert not waiting.done()
        async with asyncio.timeout(SOON):
            await waiting
    assert one.leases._renewing is None


async def test_a_lease_that_was_flushed_is_there_again(server: RedisServer, prefix: str) -> None:
    """With its next renewal, if nobody has come in between."""
    async with member(server.url, prefix, lease=0.3) as one:
        async with one.leases.lease(ORIGIN):
            await one.client.delete(*await one.client.keys(f"{prefix}*"))
            await becomes(lambda: is_taken(one))
            token = one.leases.token(ORIGIN)
            assert await one.records.save(RECORD, token=token)
        assert await take(one) > token


async def test_a_holder_that_was_frozen_goes_on_and_saves_nothing_over_what_came_later(
    one: Member, other: Member
) -> None:
    """It woke up late: another has had the lease and has told what it learnt."""
    async with one.leases.lease(ORIGIN):
        token = one.leases.token(ORIGIN)
        await one.client.delete(one.keys.lease(ORIGIN))
        async with other.leases.lease(ORIGIN):
            assert other.leases.token(ORIGIN) > token
            assert await other.records.save(RECORD, token=other.leases.token(ORIGIN))
            assert not await one.records.save(RECORD, token=token)
    # What travels behind the words that give it back has its reply after them.
    await asyncio.gather(one.records.load(ORIGIN), other.records.load(ORIGIN))
    assert not await is_taken(one)


async def test_a_late_holder_gives_back_nothing_that_is_anothers(one: Member, other: Member) -> None:
    """It knows its own by an id that nobody else has."""
    async with other.leases.lease(OTHER):
        async with one.leases.lease(ORIGIN):
            await one.client.delete(one.keys.lease(ORIGIN))
            await other.link.ask(
                SCRIPT, places(one.keys, ORIGIN), b"T" + b"o" * 16 + struct.pack("<dd", 0.0, 30_000.0)
            )
        await one.records.load(ORIGIN)
        assert await is_taken(one)


async def test_a_clock_that_was_set_back_gives_later_tokens_all_the_same(one: Member) -> None:
    """The server remembers the last, and so does the record."""
    ahead = 2.0**52
    await one.client.set(one.keys.tokens(ORIGIN), struct.pack("<d", ahead))
    assert await take(one) == ahead + 1
    await one.records.save(RECORD, token=ahead + 10)
    await one.client.delete(one.keys.tokens(ORIGIN))
    assert await take(one) == ahead + 11


async def test_only_the_task_that_holds_a_lease_saves_by_it(one: Member) -> None:
    """What an operator teaches meanwhile, he has not learnt by it."""

    async def elsewhere() -> float:
        return one.leases.token(ORIGIN)

    async with one.leases.lease(ORIGIN):
        assert one.leases.token(ORIGIN) > 0
        assert await asyncio.create_task(elsewhere()) == 0
    assert one.leases.token(ORIGIN) == 0


@pytest.mark.parametrize("is_free", [True, False])
async def test_whoever_is_cancelled_leaves_nothing_taken(
    one: Member, other: Member, *, is_free: bool
) -> None:
    """At whatever step: had, asked for, or given while nobody looked."""
    for turns in [*range(12), *range(12, 200, 20)]:
        blocking = asyncio.create_task(asyncio.sleep(0) if is_free else _held_for(one, 0.002))
        await until(lambda: is_free or ORIGIN in one.leases._held)
        taking = asyncio.create_task(_held_for(other, LONG))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking
        assert taking.cancelled()
        assert not other.leases._held
        assert not other.leases._locks
        await blocking
        async with asyncio.timeout(SOON):
            await take(one)


async def _held_for(of: Member, seconds: float) -> None:
    async with of.leases.lease(ORIGIN):
        await asyncio.sleep(seconds)


async def test_a_holder_that_fails_gives_back(one: Member, other: Member) -> None:
    """Its error comes through."""
    with pytest.raises(ZeroDivisionError):
        async with one.leases.lease(ORIGIN):
            raise ZeroDivisionError
    async with asyncio.timeout(SOON):
        await take(other)


async def test_what_is_held_when_a_process_ends_is_given_back(
    server: RedisServer, prefix: str, one: Member
) -> None:
    """In good order, others need not wait."""
    async with member(server.url, prefix) as leaving:
        holding = asyncio.create_task(_held_for(leaving, LONG))
        await until(lambda: ORIGIN in leaving.leases._held)
    async with asyncio.timeout(SOON):
        await take(one)
    holding.cancel()
    await asyncio.wait({holding})


async def test_the_connection_for_messages_is_one_and_goes_when_nobody_waits(
    one: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait in one process; and it stays for a moment, for the next."""
    monkeypatch.setattr(_signals, "LINGER", 0.2)
    monkeypatch.setattr(_signals, "RETRY", 0.1)

    async def listening() -> int:
        return len(await one.client.client_list(_type="pubsub"))

    async with one.leases.lease(ORIGIN), one.leases.lease(OTHER):
        waiting = [await begin_to_wait(other), asyncio.create_task(take(other, OTHER))]
        await until(lambda: other.signals.waiting == 2)
        assert await listening() == 1
    async with asyncio.timeout(SOON):
        await asyncio.gather(*waiting)
        assert await listening() == 1

    async def nobody_listens() -> bool:
        return not await listening()

    await becomes(nobody_listens)
    assert other.signals._hearing is None
    async with one.leases.lease(ORIGIN):
        waiting = [await begin_to_wait(other)]
    async with asyncio.timeout(SOON):
        await asyncio.gather(*waiting)


async def test_of_very_many_that_wait_each_looks_less_often(
    one: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that finds all its sites with others does not drown the server in questions."""
    monkeypatch.setattr(_lease, "MANY", 1)
    monkeypatch.setattr(other.signals, "_is_closed", True)
    origins = [ORIGIN, OTHER]
    holding = [asyncio.create_task(_held(one, origin)) for origin in origins]
    await until(lambda: len(one.leases._held) == 2)
    waiting = [asyncio.create_task(take(other, origin)) for origin in origins]
    await until(lambda: other.signals.waiting == 2)
    asked = 0
    ask = other.link.ask

    def counted(*args: object) -> asyncio.Future[bytes]:
        nonlocal asked
        asked += 1
        return ask(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(other.link, "ask", counted)
    await asyncio.sleep(4 * _lease.POLL + 0.1)
    assert asked <= 2 + 4
    for task in (*waiting, *holding):
        task.cancel()
    await asyncio.wait({*waiting, *holding})


async def _held(of: Member, origin: Origin) -> None:
    async with of.leases.lease(origin):
        await asyncio.sleep(LONG)


async def test_without_a_server_it_is_an_error_or_ours_alone(
    tmp_path_factory: pytest.TempPathFactory, prefix: str
) -> None:
    """As the operator has it; and nothing stays taken."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        url = server.url
    async with (
        member(url, prefix, patience=0.1) as strict,
        member(url, prefix, patience=0.1, goes_on_alone=True) as alone,
    ):
        async with asyncio.timeout(SOON):
            with pytest.raises(StoreError):
                await take(strict)
        assert not strict.leases._locks
        order = []

        async def hold(number: int) -> None:
            async with alone.leases.lease(ORIGIN):
                order.append(number)
                await asyncio.sleep(0.01)
                order.append(number)

        async with asyncio.timeout(SOON):
            await asyncio.gather(*map(hold, range(3)))
        assert order == [0, 0, 1, 1, 2, 2]


async def test_waiting_for_leases_leaves_no_connection_behind(server: RedisServer, prefix: str) -> None:
    """Once all are closed, the server has none of theirs."""
    async with Redis.from_url(server.url) as watching:
        before = len(await watching.client_list())
        async with member(server.url, prefix) as one, member(server.url, prefix) as other:
            async with one.leases.lease(ORIGIN):
                waiting = await begin_to_wait(other)
            await waiting

        async def all_are_gone() -> bool:
            return len(await watching.client_list()) <= before

        await becomes(all_are_gone)
