"""A server that is every host, and notes when it was asked and when it answered."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

ROBOTS_PATH: Final = "/robots.txt"
ROBOTS_TXT: Final = b"User-agent: *\nDisallow: /private/\n"
BACKLOG: Final = 4096
PATIENCE: Final = 60.0
GRAIN: Final = 1e-6
"""Seconds; the readings of a clock are no closer."""
_WORKER: Final = re.compile(r"ExampleBot/1\.(\d+)")


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, as the server saw it: seconds on its monotonic clock."""

    host: str
    path: str
    worker: int
    came_at: float
    """When its octets were read from the socket, before they were looked at."""
    sent_at: float
    """When the answer was about to be handed to the socket: whoever asked cannot have had it earlier."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What lay between a request and the last answer of its host before it."""

    visit: Visit
    before: Visit
    seconds: float
    """Less than nothing when that answer was not sent yet."""


class Site:
    """Answers for every host name.

    Args:
        takes: seconds that an answer takes.
        longer: those of certain paths that take longer.
    """

    def __init__(self, *, takes: float = 0.0, longer: Mapping[str, float] | None = None) -> None:
        self.port = 0
        self.visits: list[Visit] = []
        """In the order in which they were answered."""
        self.under_way: Counter[int] = Counter()
        """Requests that wait for their answers, by who asked."""
        self._takes = takes
        self._longer = longer if longer is not None else {}
        self._asked: set[str] = set()
        self._arrival = asyncio.Event()
        self._runner = web.ServerRunner(_Server(self._answer), shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=BACKLOG).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    @property
    def robots_requests(self) -> Counter[str]:
        """How often each host's robots.txt was asked for."""
        return Counter(visit.host for visit in self.visits if visit.path == ROBOTS_PATH)

    @property
    def makespan(self) -> float:
        """Seconds from the first request to the last answer."""
        return max(visit.sent_at for visit in self.visits) - min(visit.came_at for visit in self.visits)

    async def busy_with(self, count: int) -> int:
        """Wait until somebody has so many requests under way. Returns who."""
        await self._until(lambda: max(self.under_way.values(), default=0) >= count)
        return self.under_way.most_common(1)[0][0]

    async def arrival(self, path: str) -> None:
        """Wait until somebody has asked for a path."""
        await self._until(lambda: path in self._asked)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._arrival.clear()
                await self._arrival.wait()

    def gaps(self) -> list[Gap]:
        """Before each request but a host's first, from the end of whatever the host answered last."""
        by_host: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in sorted(self.visits, key=lambda visit: visit.came_at):
            by_host[visit.host].append(visit)
        gaps: list[Gap] = []
        for visits in by_host.values():
            last = visits[0]
            for visit in visits[1:]:
                gaps.append(Gap(visit, last, visit.came_at - last.sent_at))
                last = max(last, visit, key=lambda each: each.sent_at)
        return gaps

    def short_gaps(self, delay: float) -> list[Gap]:
        """Those that the law forbids."""
        return [gap for gap in self.gaps() if gap.seconds < delay - GRAIN]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        came_at = connection.came_at if isinstance(connection, _Connection) else time.monotonic()
        found = _WORKER.match(request.headers.get("User-Agent", ""))
        worker = int(found[1]) if found else -1
        self.under_way[worker] += 1
        self._asked.add(request.path)
        self._arrival.set()
        await asyncio.sleep(self._longer.get(request.path, self._takes))
        self.under_way[worker] -= 1
        # Noted though nobody may be there any more to whom it can be sent.
        self.visits.append(Visit(request.host, request.path, worker, came_at, time.monotonic()))
        return web.Response(body=ROBOTS_TXT)


class _Connection(web.RequestHandler):
    """Notes when octets arrive: a handler runs only when all that arrived together has been parsed."""

    __slots__ = ("came_at",)

    def data_received(self, data: bytes) -> None:
        self.came_at = time.monotonic()
        super().data_received(data)


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop())
