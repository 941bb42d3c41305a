"""A server that is every host, and notes when it was asked and when it answered."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.heads import Heads
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from benchmarks.limits_model import Limit

ROBOTS_PATH: Final = "/robots.txt"
ROBOTS_TXT: Final = b"User-agent: *\nDisallow: /private/\n"
BACKLOG: Final = 4096
GRAIN: Final = 1e-6
"""Seconds; the readings of a clock are no closer."""
ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(ROBOTS_TXT)
    + ROBOTS_TXT
)
TOLD_OFF: Final = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
_REQUEST_LINE: Final = re.compile(r"GET (\S+)")
_HOST: Final = re.compile(r"^Host: ([^\r:]+)", re.MULTILINE | re.IGNORECASE)
_WORKER: Final = re.compile(r"^User-Agent: ExampleBot/1\.(\d+)", re.MULTILINE | re.IGNORECASE)


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
    is_good: bool = True
    """Whether the answer was no 429."""


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
        limit: the pages that it allows; others get a 429.
    """

    def __init__(
        self, *, takes: float = 0.0, longer: Mapping[str, float] | None = None, limit: Limit | None = None
    ) -> None:
        self.port = 0
        self.visits: list[Visit] = []
        """In the order in which they were answered."""
        self.under_way: Counter[int] = Counter()
        """Requests that wait for their answers, by who asked."""
        self._takes = takes
        self._longer = longer if longer is not None else {}
        self._limit = limit
        self._asked: set[str] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=BACKLOG)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

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
        await until(lambda: max(self.under_way.values(), default=0) >= count)
        return self.under_way.most_common(1)[0][0]

    async def arrival(self, path: str) -> None:
        """Wait until somebody has asked for a path."""
        await until(lambda: path in self._asked)

    def gaps(self, scope: Callable[[str], str] = str) -> list[Gap]:
        """Before each request but a host's first, from the end of whatever the host answered last.

        Args:
            scope: of a host, the name of what is looked at together.
        """
        by_scope: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in sorted(self.visits, key=lambda visit: visit.came_at):
            by_scope[scope(visit.host)].append(visit)
        gaps: list[Gap] = []
        for visits in by_scope.values():
            last = visits[0]
            for visit in visits[1:]:
                gaps.append(Gap(visit, last, visit.came_at - last.sent_at))
                last = max(last, visit, key=lambda each: each.sent_at)
        return gaps

    def short_gaps(self, delay: float, scope: Callable[[str], str] = str) -> list[Gap]:
        """Those that the law forbids."""
        return [gap for gap in self.gaps(scope) if gap.seconds < delay - GRAIN]

    def asked(self, path: str, worker: int) -> float:
        """Take in a request. Returns for how many seconds its answer is to be waited for."""
        self.under_way[worker] += 1
        self._asked.add(path)
        return self._longer.get(path, self._takes)

    def allows(self, path: str, came_at: float) -> bool:
        """Whether a request gets what it asks for."""
        return self._limit is None or path == ROBOTS_PATH or self._limit.takes(came_at)

    def answered(self, visit: Visit) -> None:
        """Note a request whose answer is sent now, though nobody may be there any more to whom it can be sent."""
        self.under_way[visit.worker] -= 1
        self.visits.append(visit)


class _Connection(Heads):
    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site
        self._came_at = 0.0

    def data_received(self, data: bytes) -> None:
        self._came_at = time.monotonic()
        super().data_received(data)

    def asked(self, head: bytes) -> None:
        path, host, worker = _read(head.decode("latin-1"))
        seconds = self._site.asked(path, worker)
        is_good = self._site.allows(path, self._came_at)
        end = partial(self._end, host, path, worker, self._came_at, is_good)
        if seconds:
            asyncio.get_running_loop().call_later(seconds, end)
        else:
            end()

    def _end(self, host: str, path: str, worker: int, came_at: float, is_good: bool) -> None:  # noqa: FBT001  # For `partial`.
        self._site.answered(Visit(host, path, worker, came_at, time.monotonic(), is_good))
        self.answer(ANSWER if is_good else TOLD_OFF)


def _read(head: str) -> tuple[str, str, int]:
    """The path and the host that a request names, and whose it is."""
    path, host, worker = _REQUEST_LINE.match(head), _HOST.search(head), _WORKER.search(head)
    assert path is not None
    assert host is not None
    return path[1], host[1], int(worker[1]) if worker else -1
