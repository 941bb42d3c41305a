"""The store in a Redis or Valkey server, which the processes of a fleet share, and its sessions."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from random import sample
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Literal

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import RedisError

from robotgate.clock import DAY, Clock, SystemClock
from robotgate.errors import InvalidURLError, OptionError, StoreError
from robotgate.options import check_kind, check_patience, check_seconds
from robotgate.pace.scope import TOTAL
from robotgate.sites.status_table import MAX_STALE_AGE
from robotgate.stores.base import PATIENCE, PLACE, Grant, OwnStore, Pruned, logger
from robotgate.stores.codec import encoded, moved_record, pack_record, unpack_record
from robotgate.stores.grants import BEAT, EXPIRY, LEASE, ROBOTS, SessionSide
from robotgate.stores.redis import messages
from robotgate.stores.redis.client import client_of
from robotgate.stores.redis.faults import client_errors, explained
from robotgate.stores.redis.link import POLICY, PROBE, Answer, Link
from robotgate.stores.session import BaseSession, NewsQueue, uptime
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord

LEAST_LEASE: Final = 1.0
MAX_AGE: Final = 31.0 * DAY
LEAST_MAX_AGE: Final = 3600.0
TAGS: Final = 16
"""Hash tags in a cluster, over whose nodes they spread."""
_SAVED: Final = 200
"""Hosts that one call saves."""
_SCANNED: Final = 1000
"""Keys that one SCAN examines; the server serves other clients between two."""
_AGE_BYTES: Final = 24
_LARGE: Final = 64 * 1024
"""Bytes of a body that is packed in a thread: it would block the event loop for too long."""
_SAME_CLOCK: Final = 1.0
"""Seconds by which the clocks of two machines may differ before a record's instants are moved."""
MIN_POLL: Final = 0.025
MAX_POLL: Final = 1.0
POLLS: Final = 4
"""How often the inbox is read for each delay of a host for which a task waits."""
MIN_ASKS: Final = 16
MAX_ASKS: Final = 500
"""Hosts that one request asks for; see `TagSession._next_asks`."""
PAUSE: Final = 1.0
"""Seconds until a request is tried again that raised an error."""
CLOSING: Final = 2.0
"""Seconds for the last requests of a session."""


class RedisStore(OwnStore):
    """Keeps records and host states in a Redis or Valkey server, and grants hosts to processes with the same prefix.

    It belongs to the event loop that first uses it.

    Args:
        client_or_url: of the server or cluster; or a client of redis-py, which stays open when the store is closed.
        prefix: before all keys; fleets with different ones share nothing.
        lease: seconds without a sign of life after which a process counts as ended, and its hosts are free; 1 at
            least, and the same for all processes.
        patience: seconds for which calls wait once the server cannot be reached.
        max_age: seconds for which the server keeps entries that are not used; an hour at least.
        clock: as the gate's.

    Raises:
        OptionError: the value of an option is not valid.
    """

    def __init__(
        self,
        client_or_url: Redis | RedisCluster | str,
        *,
        prefix: str = "robotgate:",
        lease: float = EXPIRY,
        patience: float = PATIENCE,
        max_age: float = MAX_AGE,
        clock: Clock | None = None,
    ) -> None:
        check_kind("prefix", prefix, str)
        check_patience("patience", patience)
        for name, value, least in (("lease", lease, LEAST_LEASE), ("max_age", max_age, LEAST_MAX_AGE)):
            check_seconds(name, value)
            if value < least:
                raise OptionError(f"{name}={value!r}: give {least:g} seconds or more")
        self._owns_client = isinstance(client_or_url, str)
        self._client = client_of(client_or_url)
        self._keys = messages.Keys(prefix, TAGS if isinstance(self._client, RedisCluster) else 1)
        self._now = (clock if clock is not None else SystemClock()).now
        self._expiry = lease
        settings = encoded([lease, max_age])
        self._link = Link(self._client, self._keys, settings=settings, patience=patience)
        self._max_age = max_age
        self._sessions: list[RedisSession] = []
        self._knows_policy = False
        self._is_closed = False

    async def open(self) -> None:
        """Reach the server now rather than at the first use. A server that evicts keys is warned of.

        Raises:
            StoreError: it cannot be reached, or the store was closed.
        """
        await self._link.call(0, lambda: PROBE)
        await self._check_policy()

    async def session(self) -> RedisSession:
        """Join the fleet.

        Raises:
            StoreError: the server cannot be reached.
        """
        await self._check_policy()
        session = RedisSession(self._link, self._keys, self._expiry, self._now)
        await session.join()
        self._sessions.append(session)
        return session

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Return the origin's record, fresh or not.

        A record that cannot be read counts as none, with a warning in the log: robots.txt is fetched again. So
        processes of different versions can share a server.

        Raises:
            StoreError: the server was away for longer than `patience`, or refuses. So with all other methods.
        """
        reply = (await self._call("load_record", origin.text)).data
        if not reply:
            return None
        try:
            checked_at = self._now() - float(reply[:_AGE_BYTES])
            record = unpack_record(origin, reply[_AGE_BYTES:])
        except ValueError as error:
            logger.warning("the record of %s cannot be read (%s); it is fetched again", origin, error)
            return None
        shift = checked_at - record.checked_at
        return record if abs(shift) < _SAME_CLOCK else moved_record(record, shift)

    async def save_record(self, record: RobotsRecord) -> None:
        """Keep a record in place of the origin's earlier one.

        An answer that comes late, by a day at most, does not replace one that was checked later.
        """
        is_large = len(record.body) >= _LARGE
        value = await asyncio.to_thread(pack_record, record) if is_large else pack_record(record)
        ttl = max(min(useful_for(record), self._max_age) * 1000.0, 1.0)
        name = record.origin.text

        def encode() -> bytes:
            message = ["save_record", messages.spelled(name), self._now() - record.checked_at, ttl]
            return encoded(message) + b"\n" + value

        await self._link.call(self._keys.tag_of(name), encode)

    async def load_host(self, pace_key: str) -> HostState | None:
        """Return the state of a host."""
        answer = await self._call("load", pace_key)
        found: messages.ItemValues | Literal[False] = json.loads(answer.data)
        return messages.read_item(found, now=self._now() - answer.age()).state if found else None

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """Keep the states of hosts. Of a host that another session may hold, instants only move later."""
        self._sessions = [session for session in self._sessions if not session.is_closed]
        # With two gates on this store, either of them may be the owner.
        owner = self._sessions[0] if len(self._sessions) == 1 else None
        # What all gates have for themselves is granted to none.
        said_by = {
            key: (owner and owner.grant_of(key)) or (bool(self._sessions) and key != TOTAL, "0")
            for key in states
        }

        def encode(hosts: list[str]) -> bytes:
            now = self._now()
            rows = [
                [messages.spelled(key), *said_by[key], *messages.encoded_state(states[key], now=now)]
                for key in hosts
            ]
            return encoded(["save", rows])

        for session in self._sessions:
            session.look()
        by_tag: dict[int, list[str]] = {}
        for key in states:
            by_tag.setdefault(self._keys.tag_of(key), []).append(key)
        calls = [
            self._link.call(tag, partial(encode, hosts[start : start + _SAVED]))
            for tag, hosts in by_tag.items()
            for start in range(0, len(hosts), _SAVED)
        ]
        await asyncio.gather(*calls)

    async def origins(self, host: str | None = None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, by host, then port, then scheme."""
        found = set()
        async for name in self._names("robots", host or ""):
            with suppress(InvalidURLError):
                found.add(Origin.of(name))
        return sorted((origin for origin in found if host in {None, origin.host}), key=PLACE)

    async def pace_keys(self) -> list[str]:
        """Return the pace keys of all hosts, in order."""
        return sorted({name async for name in self._names("host", "") if not name.startswith(ROBOTS)})

    async def forget_record(self, origin: Origin) -> bool:
        """Remove an origin's record. Returns whether there was one."""
        return (await self._call("forget_record", origin.text)).data == b"true"

    async def forget_host(self, pace_key: str) -> bool:
        """Remove a host's state, even if its wait is not over. Returns whether there was any."""
        return (await self._call("forget", pace_key)).data == b"true"

    async def prune(self, *, now: float) -> Pruned:
        """Remove nothing: each key expires by itself."""
        return Pruned(records=0, hosts=0)

    async def aclose(self) -> None:
        """End all sessions, and close the connections. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await asyncio.gather(*(session.aclose() for session in self._sessions))
        finally:
            await self._link.aclose()
            if self._owns_client:
                with suppress(RedisError, OSError), client_errors():
                    await self._client.aclose()

    async def _check_policy(self) -> None:
        """Log a warning, once, if the server evicts keys when its memory is full."""
        if self._knows_policy:
            return
        policy = (await self._link.call(0, lambda: POLICY)).data.decode()
        self._knows_policy = True
        if policy not in {"noeviction", ""}:
            logger.warning(
                "%s: its maxmemory-policy is %s: it evicts keys when its memory is full, and all hosts then wait for %g"
                " seconds, each time; set maxmemory-policy noeviction",
                *(self._link.server, policy, self._expiry),
            )

    async def _call(self, operation: str, name: str) -> Answer:
        message = encoded([operation, messages.spelled(name)])
        return await self._link.call(self._keys.tag_of(name), lambda: message)

    async def _names(self, kind: str, containing: str) -> AsyncIterator[str]:
        """Yield the names in the keys of one kind, in no order, some twice; the server examines all its keys."""
        self._link.check()
        pattern = self._keys.pattern(kind, containing=containing)
        keys = self._client.scan_iter(match=pattern, count=_SCANNED)
        try:
            while True:
                with client_errors():
                    key = await anext(keys, None)
                if key is None:
                    return
                name = self._keys.name_in(kind, key if isinstance(key, bytes) else str(key).encode())
                if name is not None:
                    yield name
        except (RedisError, OSError) as error:
            raise explained(self._link.server, error).error from error


class TagSession(BaseSession):
    """The part of a session for one hash tag. It has its own lease: in a cluster, nodes fail one by one."""

    def __init__(self, whole: RedisSession, tag: int) -> None:
        super().__init__(SessionSide(token_hex(8), lease=whole.expiry * LEASE / EXPIRY), whole, uptime)
        self._link, self._expiry, self._now = whole.link, whole.expiry, whole.now
        self._tag = tag
        self._unasked: dict[str, None] = {}
        """Hosts that no request has asked for yet."""
        self._asked: tuple[str, ...] = ()
        self._max_asks = MIN_ASKS

    async def exchange(self) -> None:
        """Send a request, and take in the reply.

        Raises:
            StoreError: there is none.
        """
        answer = await self._link.call(self._tag, self._request)
        reply, paces = messages.read_reply(answer.data, now=self._now() - answer.age())
        for key, pace in zip(self._asked, paces, strict=False):
            if key in self.waiting:
                self.waiting[key].pace = pace
        self.receive(reply)
        is_contended = any(key in self.waiting for key in self._asked)
        self._max_asks = MIN_ASKS if is_contended else max(2 * len(self._asked), MIN_ASKS)

    def ask(self, key: str) -> None:
        """As `BaseSession.ask`; `_next_asks` chooses the request."""
        self._unasked[key] = None
        self.send_soon()

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """As `Session.obtain`."""
        error = self._link.given_up(self._tag)
        if error is not None or self._task is None or self._task.done():
            raise error or self._link.stopped()
        return await super().obtain(key, pace=pace)

    async def aclose(self) -> None:
        """Leave every host and every line."""
        await self.stop()
        await self._link.call(self._tag, partial(self._request, is_last=True))

    async def run(self) -> None:
        """Send requests."""
        while True:
            try:
                await self.exchange()
            except StoreError as error:
                self.fail(error)
                await asyncio.sleep(PAUSE)
                continue
            if not (self.side.has_to_send or self._unasked):
                await self._pause()

    def _request(self, *, is_last: bool = False) -> bytes:
        """Return the next request as it is sent: it asks for some of the hosts not asked for yet, and says what the
        session's side has to tell. The link calls this anew for each attempt.
        """
        self._is_due.clear()
        for key in self._next_asks():
            del self._unasked[key]
            self.side.ask(key)
        request = self.side.request(now=self.uptime(), is_last=is_last)
        self._asked = request.asks
        return messages.encoded_request(request, now=self._now())

    def _next_asks(self) -> list[str]:
        """Return some hosts to ask for, at random.

        One request for all hosts would get them all, and the next session would wait for all of them. So a request asks
        for twice as many hosts as the last one only if all of those were granted at once: no other session wants them.
        """
        self._unasked = {key: None for key in self._unasked if key in self.waiting}
        most = max(self._max_asks, len(self._unasked) // MIN_ASKS)
        return sample(list(self._unasked), min(most, MAX_ASKS, len(self._unasked)))

    async def _pause(self) -> None:
        """Wait until there is something to send, or a sign of life or a look into the inbox is due."""
        now, delay = self.uptime(), self._expiry * BEAT / EXPIRY
        unknown = [key for key, waiter in self.waiting.items() if waiter.pace is None]
        for waiter in self.waiting.values():
            pace = now - waiter.since if waiter.pace is None else waiter.pace
            delay = min(delay, max(pace / POLLS, waiter.least_pace / POLLS, MIN_POLL), MAX_POLL)
        try:
            async with asyncio.timeout(delay):
                await self._is_due.wait()
        except TimeoutError:
            # The first visit of a host tells the server its pace. A few hosts are enough: the fastest sets the delay.
            for key in sample(unknown, min(len(unknown), MIN_ASKS)):
                self.side.ask_again(key)


class RedisSession(NewsQueue):
    """One gate's membership in the fleet of a server: a session for each hash tag.

    Args:
        expiry: seconds after which a silent session is ended; its grants are valid for less.
        now: the clock: seconds since the epoch.
    """

    def __init__(self, link: Link, keys: messages.Keys, expiry: float, now: Callable[[], float]) -> None:
        super().__init__(has_parts=keys.tags > 1)
        self.link = link
        self._keys = keys
        self.expiry = expiry
        self.now = now
        self._by_tag: dict[int, TagSession] = {}
        """For each hash tag of which it uses hosts."""
        self.is_closed: bool = False
        link.listeners.append(self.report)

    async def join(self) -> None:
        """Open the session.

        Raises:
            StoreError: the server cannot be reached.
        """
        # The first tag's session also carries the operator's blocks.
        session = self._by_tag[0] = TagSession(self, 0)
        while session.side.has_to_send:
            await session.exchange()
        session.start(session.run(), self.link.stopped)

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """As `Session.obtain`. One task at a time may wait for a host.

        Raises:
            StoreError: the server was away for longer than the store's `patience`, or refuses.
        """
        if self.is_closed:
            raise self.link.error("the session was closed")
        return await self._for_key(key).obtain(key, pace=pace)

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        if not self.is_closed:
            self._for_key(key).leave(key, state)

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`. Other sessions receive it with their next request."""
        self._by_tag[0].publish_block(pattern, until_at)

    def grant_of(self, key: str) -> tuple[str, str] | None:
        """Return the session's name and token, where a host is granted to it."""
        session = self._by_tag.get(self._keys.tag_of(key))
        hold = None if session is None else session.side.holds.get(key)
        return None if session is None or hold is None else (session.side.name, str(hold.token))

    def look(self) -> None:
        """Read the inbox at once: another call is sent to the server in any case."""
        for session in self._by_tag.values():
            if session.side.holds:
                session.send_soon()

    async def aclose(self) -> None:
        """As `Session.aclose`."""
        if self.is_closed:
            return
        self.is_closed = True
        self.link.listeners.remove(self.report)
        closing = [session.aclose() for session in self._by_tag.values()]
        try:
            async with asyncio.timeout(CLOSING):
                results = await asyncio.gather(*closing, return_exceptions=True)
            for error in filter(None, results):
                raise error
        except (StoreError, TimeoutError) as error:
            logger.warning(
                "%s: a session could not be ended (%s); its hosts are free after %g seconds",
                *(self.link.server, str(error) or "no answer", self.expiry),
            )

    def _for_key(self, key: str) -> TagSession:
        tag = self._keys.tag_of(key)
        if tag not in self._by_tag:
            session = self._by_tag[tag] = TagSession(self, tag)
            session.start(session.run(), self.link.stopped)
        return self._by_tag[tag]


def useful_for(record: RobotsRecord) -> float:
    """Return for how many seconds from its last check a record can be used.

    That is as long as its copy may be used stale. The count of failures is needed for some hours after the record has
    expired, to find the next attempt: a day covers them.
    """
    until_at = record.fresh_until_at + DAY
    if record.fetched_at is not None:
        until_at = max(until_at, record.fetched_at + MAX_STALE_AGE)
    return max(until_at - record.checked_at, DAY)
