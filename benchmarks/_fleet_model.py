"""A model of the Redis of a fleet on virtual time: the law of grants, the way there and back, the server's own time.

The sessions are the store's own, and so is the law: `robotgate.stores.grants.Grants`, which the server's script
follows. Each worker has one batch on its way, and what it calls meanwhile goes with the next; the server does one batch
after the other. Records of robots.txt files are shared at no cost.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate import MemoryStore
from robotgate.stores.codec import encoded, moved, pack_host, unpack_host
from robotgate.stores.grants import EXPIRY, Grants, Leave, Request, Term
from robotgate.stores.redis.client import client_of
from robotgate.stores.redis.link import Link
from robotgate.stores.redis.messages import Keys, read_name, spelled
from robotgate.stores.redis.session import RedisSession, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from robotgate import Clock, HostState, Origin, RobotsRecord
    from robotgate.stores.grants import Reply

    Batch: TypeAlias = list[tuple[Callable[[], bytes], asyncio.Future[bytes]]]

KEYS: Final = Keys("robotgate:", 1)
PATIENCE: Final = 30.0


class Server:
    """One Redis.

    Args:
        per_call: seconds that it works for each call, and `per_batch` besides for each batch.
        way: seconds there, and as many back.
        delay: seconds between two visits of a host, which the server tells sessions that wait for one.
    """

    def __init__(self, *, per_call: float, per_batch: float, way: float, delay: float) -> None:
        self.grants = Grants("model")
        self.records = MemoryStore()
        self.way = way
        self.calls = 0
        self.busy = 0.0
        """Seconds that it has worked."""
        self._delay = delay
        self._per_call = per_call
        self._per_batch = per_batch
        self._free_at = 0.0

    async def work(self, calls: int) -> None:
        """Come back when so many calls, of one batch, have been done."""
        now = asyncio.get_running_loop().time()
        cost = self._per_batch + calls * self._per_call
        self.calls += calls
        self.busy += cost
        self._free_at = max(self._free_at, now) + cost
        await asyncio.sleep(self._free_at - now)

    def answer(self, message: bytes, *, now: float) -> bytes:
        """What the script replies."""
        operation, *values = json.loads(message)
        if operation == "exchange":
            request = read_request(values, now=now)
            reply = self.grants.exchange(request, now=now)
            # How long an asker has to wait is known to within a delay, from which the session derives its next look.
            granted = {item.key for item in reply.items}
            paces = [None if key in granted else self._delay for key in request.asks]
            return encoded_reply(reply, paces, now=now)
        # Hosts are only saved for a crash, which is not modelled.
        return encoded(1)


class ModelLink(Link):
    """One worker's way to the server."""

    def __init__(self, server: Server) -> None:
        client = client_of("redis://model")
        super().__init__(client, KEYS, settings=b"", patience=PATIENCE)
        self._model = server
        self._batch: Batch = []
        self._sending: asyncio.Task[None] | None = None

    async def call(self, tag: int, encode: Callable[[], bytes]) -> bytes:
        """Travel with whatever else is called meanwhile."""
        del tag
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._batch.append((encode, reply))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return await reply

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._batch:
            batch, self._batch = self._batch, []
            messages = [encode() for encode, _ in batch]
            await asyncio.sleep(self._model.way)
            await self._model.work(len(messages))
            answers = [self._model.answer(message, now=loop.time()) for message in messages]
            await asyncio.sleep(self._model.way)
            for (_, reply), answer in zip(batch, answers, strict=True):
                if not reply.done():
                    reply.set_result(answer)
        self._sending = None


class ModelStore:
    """One worker's store."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._link = ModelLink(server)
        self._now = clock.now
        self._session: RedisSession | None = None

    async def session(self) -> RedisSession:
        """Join the fleet."""
        timing = Timing(lease=EXPIRY, now=self._now, uptime=asyncio.get_running_loop().time)
        session = self._session = RedisSession(self._link, KEYS, timing)
        await session.join()
        return session

    async def load_host(self, pace_key: str) -> HostState | None:
        """Return nothing: grants tell all that is known of a host."""
        del pace_key
        return None

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """One call, and a look at the inbox, as `RedisStore.save_hosts` makes of hosts that the session holds."""
        if self._session is not None:
            self._session.look()
        await self._link.call(0, lambda: encoded(["save", list(states)]))

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """What all know."""
        return await self._server.records.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """All know it."""
        await self._server.records.save_record(record)

    async def aclose(self) -> None:
        """The server goes on; only the way to it is closed."""
        await self._link.aclose()


def read_request(values: list[object], *, now: float) -> Request:
    """Read what `encoded_request` wrote, as the script does."""
    session, epoch, joined, number, after, leaves, withdrawals, asks, claims, _, is_last = values
    return Request(
        str(session),
        Term(str(epoch), int(str(joined))) if epoch else None,
        int(str(number)),
        int(str(after)),
        tuple(_read_leave(leave, now) for leave in _list(leaves)),
        _read_names(withdrawals),
        _read_names(asks),
        _read_names(claims),
        # Nobody blocks a host.
        (),
        bool(is_last),
    )


def encoded_reply(reply: Reply, paces: Sequence[float | None], *, now: float) -> bytes:
    """Encode a reply, as the script does."""
    items = [
        [
            item.number,
            spelled(item.key),
            str(item.token),
            item.is_wanted,
            item.state is not None and pack_host(moved(item.state, -now)).decode(),
            0.0,
            False,
            0.0,
        ]
        for item in reply.items
    ]
    return encoded([reply.number, reply.term.epoch, str(reply.term.joined), items, [], paces])


def _read_leave(value: object, now: float) -> Leave:
    key, token, _, _, state = _list(value)
    told = moved(unpack_host(str(state).encode()), now) if state else None
    return Leave(read_name(str(key)), told, int(str(token)))


def _read_names(value: object) -> tuple[str, ...]:
    return tuple(read_name(str(name)) for name in _list(value))


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return value
