"""A bound on the sockets that are kept open for a next request.

The gate bounds what is under way, and so its own connector has no limit. But aiohttp keeps every connection for some
seconds after its response, and a crawl of a hundred thousand hosts runs out of descriptors on those. Whether one is
kept is decided when its response is over: with too many idle ones it is closed. Open sockets are therefore never more
than `SocketBudget.limit` and the requests under way, whatever a server says of keeping connections.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, ref

from robotgate._errors import PERMITS
from robotgate._public import PublicConnector

try:
    import resource
except ImportError:  # pragma: no cover - Windows knows no such limit.
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType
    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MIN_IDLE: Final = 16
MAX_IDLE: Final = 4096
"""More would be kept for seconds only, and for hosts that are not due within seconds."""
USUAL_DESCRIPTORS: Final = 1024
"""Where the system does not say how many a process may have."""


def idle_limit() -> int:
    """How many idle sockets this process can afford: a quarter of its descriptors, within bounds."""
    allowed = USUAL_DESCRIPTORS
    if resource is not None:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed == resource.RLIM_INFINITY:
            return MAX_IDLE
    return min(max(allowed // 4, MIN_IDLE), MAX_IDLE)


class SocketBudget:
    """Counts the sockets of a connector.

    Args:
        limit: how many may be open that no request uses.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: WeakSet[socket.socket] = WeakSet()
        self._held: WeakSet[Connection] = WeakSet()

    @property
    def open_sockets(self) -> int:
        """How many there are, those of connections still being made included."""
        return len(self._open)

    @property
    def is_spent(self) -> bool:
        """Whether there are more than may be kept. One that is being connected counts as idle, to be safe."""
        return len(self._open) - len(self._held) > self.limit

    def make(self, address: AddrInfoType) -> socket.socket:
        """A new socket; the `socket_factory` of `aiohttp.TCPConnector`."""
        family, kind, proto, _, _ = address
        made = _CountedSocket(family, kind, proto)
        made.counted_in = self._open
        self._open.add(made)
        return made

    def hold(self, connection: Connection) -> None:
        """A request has this connection from now on; at its end the connection is closed if the budget is spent."""
        self._held.add(connection)
        # A plain reference would be a circle, and a response that nobody closes would be noticed late.
        connection.add_callback(partial(self._let_go, ref(connection)))

    def _let_go(self, reference: ref[Connection]) -> None:
        connection = reference()
        if connection is None:
            return
        self._held.discard(connection)
        if self.is_spent and connection.protocol is not None:
            connection.protocol.force_close()


class BudgetedConnector(PublicConnector):
    """A connector without a limit to what is under way, and with one to what is kept open after it."""

    # That of the gate, whose own it is.
    _permits = PERMITS

    def __init__(
        self, budget: SocketBudget, *, resolver: AbstractResolver, allow_private_addresses: bool = False
    ) -> None:
        super().__init__(
            allow_private_addresses=allow_private_addresses,
            socket_factory=budget.make,
            resolver=resolver,
            # aiohttp's own forgets nothing before version 3.14: the resolver remembers what is worth it.
            use_dns_cache=False,
            limit=0,
        )
        self.budget = budget

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """A connection for one request, kept or new.

        Raises:
            as `PublicConnector.connect`.
        """
        if self.budget.is_spent:
            # What was closed a moment ago has its socket until the loop comes round.
            await asyncio.sleep(0)
        connection = await super().connect(req, traces, timeout)
        self.budget.hold(connection)
        return connection


class _CountedSocket(socket.socket):
    """Says when it is gone; one that is collected leaves the weak set by itself."""

    counted_in: WeakSet[socket.socket] | None = None

    def close(self) -> None:
        """As ever; asyncio's way."""
        self._leave()
        super().close()

    def detach(self) -> int:
        """As ever; uvloop's way, which closes the descriptor itself."""
        self._leave()
        return super().detach()

    def _leave(self) -> None:
        if self.counted_in is not None:
            self.counted_in.discard(self)
