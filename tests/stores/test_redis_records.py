"""Robots.txt records in a real server: what is kept comes back, and what was never kept by us harms nobody."""

from __future__ import annotations

import asyncio
import logging
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.redis_parts import DAY, Member, fresh_prefix, member

from robotgate import HostState, Origin, Outcome, RobotsRecord
from robotgate._jsonl import HostEntry, host_line, record_line
from robotgate._jsonl_fields import MAX_LINE_BYTES
from robotgate._lines import MAX_BYTES
from robotgate.stores.redis._keys import Keys
from robotgate.stores.redis._listing import Listing
from robotgate.stores.redis._records import SCRIPT, packed, places, useful_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer

ORIGIN: Final = Origin("https", "a.example", 443)
OTHER: Final = Origin("http", "a.example", 8080)
NOW: Final = 1_795_000_000.0
RECORD: Final = RobotsRecord(
    origin=ORIGIN,
    outcome=Outcome.SUCCESS,
    status=200,
    checked_at=NOW,
    fresh_until_at=NOW + DAY,
    body=b"User-agent: *\nDisallow: /private\n",
    fetched_at=NOW,
    robots_url="https://a.example/robots.txt",
    etag='"1"',
)


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
async def one(server: RedisServer) -> AsyncIterator[Member]:
    """The only process of its fleet."""
    async with member(server.url, fresh_prefix()) as one:
        yield one


async def put(one: Member, value: bytes) -> None:
    """Keep something else where the record is."""
    await one.client.hset(one.keys.record(ORIGIN), mapping={"r": value})


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        replace(RECORD, body=b"", etag=None, fetched_at=None, outcome=Outcome.MISSING, status=404),
        replace(RECORD, body=bytes(range(256)) * (MAX_BYTES // 256), cause="naïve “quotes” \U0001f577\0"),
        replace(RECORD, body=b"Disallow: /%d\n" * (MAX_BYTES // 14)),
    ],
    ids=["ordinary", "none", "octets", "long"],
)
async def test_what_is_saved_is_loaded(one: Member, record: RobotsRecord) -> None:
    """All of it, whatever the site has put into its file."""
    assert await one.records.load(ORIGIN) is None
    assert await one.records.save(record)
    assert await one.records.load(ORIGIN) == record
    assert await one.records.load(OTHER) is None


async def test_of_a_body_beyond_the_bounds_what_counts_is_kept(one: Member) -> None:
    """An operator may teach a gate any number of octets; the rules are those of the first 500 KiB."""
    line = b"Disallow: /a\n"
    await one.records.save(replace(RECORD, body=line * 100_000))
    loaded = await one.records.load(ORIGIN)
    assert loaded == replace(RECORD, body=line * (MAX_BYTES // len(line)))


async def test_a_record_takes_little_room(one: Member) -> None:
    """It is text, of which one line is like the other."""
    record = replace(RECORD, body=b"".join(b"Disallow: /directory/%d/\n" % number for number in range(1000)))
    await one.records.save(record)
    octets = await one.client.memory_usage(one.keys.record(ORIGIN))
    assert octets is not None
    assert octets < len(record.body) / 3


UNREADABLE: Final = {
    "octets": b"\x80garbage",
    "octets of our version": b"\x01garbage",
    "another version": b"\x02" + packed(RECORD)[1:],
    "cut off": packed(RECORD)[:-5],
    "a bomb": b"\x01" + zlib.compress(b" " * (MAX_LINE_BYTES + 1)),
    "no JSON": b"\x01" + zlib.compress(b"{"),
    "a field too many": b"\x01" + zlib.compress(record_line(RECORD).replace("{", '{"new": 1, ', 1).encode()),
    "a host": b"\x01" + zlib.compress(host_line(HostEntry("a.example", HostState())).encode()),
    "another origin's": packed(replace(RECORD, origin=OTHER)),
}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_what_cannot_be_read_counts_as_nothing_and_is_replaced(
    one: Member, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Damaged, planted or newer: nobody is stopped by it, the log tells of it, and the next answer takes its place."""
    await put(one, value)
    with caplog.at_level(logging.WARNING, "robotgate.stores"):
        assert await one.records.load(ORIGIN) is None
    (told,) = caplog.messages
    assert told.startswith("the record of https://a.example cannot be read (")
    assert await one.records.save(RECORD)
    assert await one.records.load(ORIGIN) == RECORD


@pytest.mark.parametrize("kind", ["string", "list", "hash"])
async def test_a_key_of_another_kind_harms_nobody(one: Member, kind: str) -> None:
    """Nor those whose calls travel with it."""
    await one.records.save(replace(RECORD, origin=OTHER))
    for key in places(one.keys, ORIGIN):
        if kind == "string":
            await one.client.set(key, b"somebody else's")
        elif kind == "list":
            await one.client.rpush(key, b"somebody else's")
        else:
            await one.client.hset(key, mapping={"field": b"somebody else's"})
    loaded, other = await asyncio.gather(one.records.load(ORIGIN), one.records.load(OTHER))
    assert loaded is None
    assert other is not None
    async with asyncio.timeout(5), one.leases.lease(ORIGIN):
        assert await one.records.save(RECORD, token=one.leases.token(ORIGIN))
    assert await one.records.load(ORIGIN) == RECORD


@pytest.mark.parametrize(
    "token", [b"", b"abc", struct.pack("<d", float("inf")), struct.pack("<d", float("nan"))]
)
async def test_a_damaged_token_keeps_nobody_from_saving(one: Member, token: bytes) -> None:
    """It counts as none."""
    await one.records.save(RECORD)
    await one.client.hset(one.keys.record(ORIGIN), mapping={"f": token})
    await one.client.set(one.keys.tokens(ORIGIN), token)
    async with one.leases.lease(ORIGIN):
        given = one.leases.token(ORIGIN)
        assert 10**15 < given < 2**53
        assert await one.records.save(replace(RECORD, failures=1), token=given)


async def test_an_older_token_saves_nothing(one: Member) -> None:
    """Whoever was asleep while another has asked has old news."""
    assert await one.records.save(RECORD, token=7.0)
    assert not await one.records.save(replace(RECORD, status=503), token=6.0)
    assert await one.records.load(ORIGIN) == RECORD
    renewed = replace(RECORD, checked_at=NOW + 1)
    assert await one.records.save(renewed, token=7.0)
    assert await one.records.load(ORIGIN) == renewed


async def test_what_is_known_without_asking_counts_always_and_as_the_latest(one: Member) -> None:
    """An operator who teaches a gate knows better than an answer that was asked for before; the next may tell more."""
    async with one.leases.lease(ORIGIN):
        token = one.leases.token(ORIGIN)
        taught = replace(RECORD, body=b"")
        assert await one.records.save(taught)
        assert not await one.records.save(RECORD, token=token)
        assert await one.records.load(ORIGIN) == taught
    assert await one.records.save(taught)
    async with one.leases.lease(ORIGIN):
        assert await one.records.save(RECORD, token=one.leases.token(ORIGIN))


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        (RECORD, 30 * DAY),
        (replace(RECORD, fetched_at=NOW - 20 * DAY), 10 * DAY),
        (replace(RECORD, fetched_at=NOW - 40 * DAY), 2 * DAY),
        (replace(RECORD, fetched_at=None, fresh_until_at=NOW + 60), DAY + 60),
        (replace(RECORD, fetched_at=None, fresh_until_at=0.0), DAY),
    ],
    ids=["copy", "older copy", "copy of no use", "failure", "expired"],
)
def test_a_record_is_useful_as_long_as_it_can_serve(record: RobotsRecord, seconds: float) -> None:
    """As a stale copy, or to know when to try again."""
    assert useful_for(record) == seconds


async def test_everything_goes_by_itself(server: RedisServer) -> None:
    """Nothing is kept for ever, and no record for longer than it was said."""
    prefix = fresh_prefix()
    async with member(server.url, prefix, max_age=100.0) as one:
        await one.records.save(RECORD)
        async with one.leases.lease(OTHER):
            await one.records.save(replace(RECORD, origin=OTHER), token=one.leases.token(OTHER))
            keys = await one.client.keys(f"{prefix}*")
            assert len(keys) == 5
            ttls = {key: await one.client.pttl(key) for key in keys}
    assert all(ttl > 0 for ttl in ttls.values())
    assert 90_000 < ttls[one.keys.record(ORIGIN)] <= 100_000
    assert ttls[one.keys.lease(OTHER)] <= 30_000


async def test_what_is_forgotten_is_gone(one: Member) -> None:
    """Once; a second time there is none."""
    await one.records.save(RECORD)
    await one.records.save(replace(RECORD, origin=OTHER))
    assert await one.records.forget(ORIGIN)
    assert not await one.records.forget(ORIGIN)
    assert await one.records.load(ORIGIN) is None
    assert await one.records.load(OTHER) is not None


async def test_a_script_that_the_server_has_lost_is_there_again(one: Member) -> None:
    """After a flush of its scripts, or a failover."""
    await one.records.save(RECORD)
    await one.client.script_flush()
    assert await one.records.load(ORIGIN) == RECORD


async def test_calls_that_travel_together_are_made_in_their_order(one: Member) -> None:
    """And one that is made twice, for its reply was lost, does no more than once."""
    record, lease, tokens = places(one.keys, ORIGIN)
    take = b"T" + b"i" * 16 + struct.pack("<dd", 0.0, 30_000.0)
    save = b"S" + struct.pack("<dd", 0.0, 1000.0) + packed(RECORD)
    release = b"R" + b"i" * 16 + b"channel"
    calls = [take, take, save, save, release, release, b"L", b"F", b"F"]
    replies = await asyncio.gather(*(one.link.ask(SCRIPT, (record, lease, tokens), call) for call in calls))
    assert replies[0] == replies[1]
    assert replies[2:6] == [b"1", b"1", b"1", b"0"]
    assert replies[6:] == [packed(RECORD), b"1", b"0"]


ODD_PREFIXES: Final = ("", "*", "a[b]?\\^-", "{7}:", "ü\ud800:", "x{1}:robots:")
ODD_KEYS: Final = (
    "a.example",
    "*",
    "a}:host:b",
    "{1}:host:c",
    "a:b:c",
    "https://a.example",
    "\ud800",
    "ü ",
    "[x]",
    "1}:robots:https://planted.example",
)


@pytest.mark.parametrize("prefix", ODD_PREFIXES)
async def test_names_are_listed_whole_whatever_they_are_made_of(server: RedisServer, prefix: str) -> None:
    """A pace key is what the operator's own function makes of a URL; a prefix is any text, and others have theirs."""
    async with member(server.url, prefix) as one:
        await one.client.flushall()
        origins = [
            Origin("http", "a.example", 80),
            Origin("https", "a.example", 443),
            Origin("https", "a.example", 8443),
            Origin("https", "2001:db8::1", 443),
            Origin("https", "www.a.example", 443),
        ]
        for origin in origins:
            await one.records.save(replace(RECORD, origin=origin))
        for name in ODD_KEYS:
            await one.client.hset(one.keys.host(name), mapping={"s": b""})
        for other in {*ODD_PREFIXES, "test", f"{prefix}x", "a"} - {prefix}:
            await one.client.hset(Keys(other).host("foreign.example"), mapping={"s": b""})
            await one.client.hset(
                Keys(other).record(Origin("http", "foreign.example", 80)), mapping={"r": b""}
            )
        # In no bucket of ours.
        planted = one.keys.record(origins[0]).replace(b"{", b"{9", 1)
        await one.client.hset(planted.replace(b"a.example", b"planted.example"), mapping={"r": b""})
        await one.client.set(one.keys.pattern("host").replace(b"*", b"1"), b"\xff\xfe not a name of ours")
        listing = Listing(one.client, one.keys)
        assert await listing.pace_keys() == sorted(ODD_KEYS)
        assert await listing.origins() == sorted(origins, key=lambda o: (o.host, o.port, o.scheme))
        assert [str(origin) for origin in await listing.origins(host="a.example")] == [
            "http://a.example",
            "https://a.example",
            "https://a.example:8443",
        ]
        assert await listing.origins(host="2001:db8::1") == [origins[3]]
        assert await listing.origins(host="*") == []
