"""The store in a Redis or Valkey server, which the processes of a fleet share."""

from __future__ import annotations

import asyncio
import json
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from robotgate.clock import SystemClock
from robotgate.errors import InvalidURLError, OptionError
from robotgate.options import check_patience, check_seconds, check_text
from robotgate.pace.state import merged
from robotgate.stores.base import OwnStore, Pruned
from robotgate.stores.grants import EXPIRY
from robotgate.stores.option import PATIENCE
from robotgate.stores.redis.client import client_of, given_client
from robotgate.stores.redis.faults import explained
from robotgate.stores.redis.link import GRANTS, Link
from robotgate.stores.redis.messages import (
    ROBOTS,
    Keys,
    binds_for,
    encoded,
    encoded_state,
    read_item,
    spelled,
    state_of,
)
from robotgate.stores.redis.records import Records
from robotgate.stores.redis.session import RedisSession, Timing
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from redis.asyncio import Redis

    from robotgate.clock import Clock
    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord

LEAST_LEASE: Final = 1.0
MAX_AGE: Final = 31 * 24 * 3600.0
LEAST_MAX_AGE: Final = 3600.0
TAGS: Final = 16
"""Hash tags in a cluster, over whose nodes they spread."""
_PAGE: Final = 100
"""Records or hosts that are asked for at once where all are listed."""
_SAVED: Final = 200
"""Hosts that are saved in one call."""
_SCANNED: Final = 1000
"""Keys that the server examines before it serves other clients."""


class RedisStore(OwnStore):
    """Keeps records and host states in a Redis or Valkey server, and hands out grants to all that use the same prefix.

    It belongs to the event loop that first uses it.

    Args:
        client_or_url: of the server or cluster; or a client of redis-py, which stays open when the store is closed.
        prefix: before all keys; fleets with different ones share nothing.
        lease: seconds after which a process that gives no sign of life is taken to have ended; 1 at least, and the
            same for all processes. Hosts that it held are free then.
        patience: seconds for which calls wait once the server cannot be reached.
        max_age: seconds for which the server keeps what is not asked for; an hour at least.
        clock: tells the time, as the gate's own does.

    Raises:
        OptionError: an option makes no sense.
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
        check_text("prefix", prefix)
        _check_at_least("lease", lease, LEAST_LEASE)
        check_patience("patience", patience)
        _check_at_least("max_age", max_age, LEAST_MAX_AGE)
        self._owns_client = isinstance(client_or_url, str)
        self._client = (
            client_of(client_or_url, option="client_or_url")
            if isinstance(client_or_url, str)
            else given_client(client_or_url, option="client_or_url")
        )
        is_cluster = isinstance(self._client, RedisCluster)
        self._keys = Keys(prefix, TAGS if is_cluster else 1)
        self._now = (clock if clock is not None else SystemClock()).now
        self._timing = Timing(lease=lease, now=self._now)
        self._link = Link(
            self._client,
            settings=encoded([lease, max_age]),
            probe=lambda tag: (self._keys.of_tag(tag), encoded(["save", []])),
            patience=patience,
        )
        self._records = Records(self._link, self._keys, max_age=max_age, now=self._now)
        self._sessions: list[RedisSession] = []
        self._is_closed = False

    async def open(self) -> None:
        """Reach the server now rather than at the first use.

        Raises:
            StoreError: it cannot be reached, or the store was closed.
        """
        await self._call(0, "save", [])

    async def session(self) -> RedisSession:
        """Join the fleet.

        Raises:
            StoreError: the server cannot be reached.
        """
        session = RedisSession(self._link, self._keys, self._timing)
        await session.join()
        self._sessions.append(session)
        return session

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Return the origin's record, fresh or not.

        Raises:
            StoreError: the server was away for longer than `patience`, or refuses. So with all other methods.
        """
        return await self._records.load(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Keep a record in place of the origin's earlier one, unless that was checked later."""
        await self._records.save(record)

    async def load_host(self, pace_key: str) -> HostState | None:
        """Return what the server knows of a host."""
        return (await self._load([pace_key]))[0]

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """Keep the states of hosts. Where another session may know a host better, instants only move later."""
        self._sessions = [session for session in self._sessions if not session.is_closed]
        held = {key: grant for key in states if (grant := self._grant_of(key)) is not None}
        kept = dict(states)
        if self._sessions:
            # With two gates on this store, either of them may say it.
            others = [key for key in states if key not in held or len(self._sessions) > 1]
            for key, known in zip(others, await self._load(others), strict=True):
                kept[key] = states[key] if known is None else merged(known, states[key])
        for session in self._sessions:
            session.look()
        by_tag: dict[int, list[str]] = {}
        for key in states:
            by_tag.setdefault(self._keys.tag_of(key), []).append(key)
        await asyncio.gather(
            *(
                self._save(tag, keys[start : start + _SAVED], kept, held)
                for tag, keys in by_tag.items()
                for start in range(0, len(keys), _SAVED)
            )
        )

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """Iterate over all records, by host, then port, then scheme."""
        origins = await self._origins("")
        for start in range(0, len(origins), _PAGE):
            for record in await asyncio.gather(*map(self.load_record, origins[start : start + _PAGE])):
                if record is not None:
                    yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """Iterate over all hosts with their states, by pace key."""
        names = [name async for name in self._names("host", "")]
        pace_keys = sorted(name for name in names if not name.startswith(ROBOTS))
        for start in range(0, len(pace_keys), _PAGE):
            page = pace_keys[start : start + _PAGE]
            for pace_key, state in zip(page, await self._load(page), strict=True):
                if state is not None:
                    yield pace_key, state

    async def origins_of(self, host: str) -> list[Origin]:
        """Return the origins of one host that have a record, by port and scheme."""
        return [origin for origin in await self._origins(host) if origin.host == host]

    async def host(self, pace_key: str) -> HostState | None:
        """Return what the server knows of a host."""
        return await self.load_host(pace_key)

    async def forget_record(self, origin: Origin) -> bool:
        """Remove an origin's record. Returns whether there was one."""
        return await self._records.forget(origin)

    async def forget_host(self, pace_key: str) -> bool:
        """Remove a host's state, even if its wait is not over. Returns whether there was any."""
        return await self._call(self._keys.tag_of(pace_key), "forget", spelled(pace_key)) is True

    async def prune(self, *, now: float) -> Pruned:
        """Remove nothing: each key expires by itself."""
        return Pruned(records=0, hosts=0)

    async def aclose(self) -> None:
        """End all sessions, and close the connections. Closing twice is closing once."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.gather(*(session.aclose() for session in self._sessions))
        await self._link.aclose()
        if self._owns_client:
            await self._client.aclose()

    def _grant_of(self, key: str) -> tuple[str, int] | None:
        for session in self._sessions:
            grant = session.grant_of(key)
            if grant is not None:
                return grant
        return None

    async def _save(
        self,
        tag: int,
        keys: Iterable[str],
        states: Mapping[str, HostState],
        held: Mapping[str, tuple[str, int]],
    ) -> None:
        def encode() -> bytes:
            now = self._now()
            messages = []
            for key in keys:
                state, (session, token) = states[key], held.get(key, (False, 0))
                visited_ago, not_before_in = binds_for(state, now=now)
                messages.append(
                    [
                        spelled(key),
                        session,
                        str(token),
                        False if visited_ago is None else visited_ago,
                        not_before_in,
                        encoded_state(state, now=now).decode(),
                    ]
                )
            return encoded(["save", messages])

        await self._link.call(GRANTS, tag, self._keys.of_tag(tag), encode)

    async def _load(self, pace_keys: Iterable[str]) -> list[HostState | None]:
        async def load(pace_key: str) -> HostState | None:
            found = await self._call(self._keys.tag_of(pace_key), "load", [spelled(pace_key)])
            if not isinstance(found, list) or not isinstance(found[0], list):
                return None
            return state_of(read_item(found[0]), now=self._now())

        return await asyncio.gather(*map(load, pace_keys))

    async def _call(self, tag: int, operation: str, argument: object) -> object:
        message = encoded([operation, argument])
        reply: object = json.loads(
            await self._link.call(GRANTS, tag, self._keys.of_tag(tag), lambda: message)
        )
        return reply

    async def _origins(self, containing: str) -> list[Origin]:
        found = set()
        async for name in self._names("robots", containing):
            try:
                found.add(Origin.of(name))
            except InvalidURLError:
                continue
        return sorted(found, key=attrgetter("host", "port", "scheme"))

    async def _names(self, kind: str, containing: str) -> AsyncIterator[str]:
        """Yield the names in the keys of one kind; the server knows no order, and walks through all its keys."""
        self._link.check()
        pattern = self._keys.pattern(kind, containing=containing)
        seen: set[str] = set()
        try:
            async for key in self._client.scan_iter(match=pattern, count=_SCANNED):
                name = self._keys.name_in(kind, key if isinstance(key, bytes) else str(key).encode())
                if name is not None and name not in seen:
                    seen.add(name)
                    yield name
        except (RedisError, OSError) as error:
            raise explained(self._link.server, error).error from error


def _check_at_least(name: str, value: float, least: float) -> None:
    check_seconds(name, value)
    if value < least:
        raise OptionError(f"{name}={value!r}: give {least:g} seconds or more")
