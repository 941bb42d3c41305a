"""The web application: the page, a stream of server-sent events for each reader, and what its buttons do.

Each reader has a message of its own every second, so one that is slow misses some and delays no other. All origins are
counted and sorted in passes that serve all readers, some hundred origins at a time between other tasks. The last
answers and refusals are kept from the gate's events, bounded, from when the application starts.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from heapq import nlargest
from importlib import resources
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from aiohttp import web

from robotgate.dashboard.guard import Guard, add_headers
from robotgate.errors import GateClosedError, RobotGateError
from robotgate.events import Event, RobotsFetched, TurnEnded, TurnRefused, VerdictRefused, one_line
from robotgate.observe.tally import REFUSALS, REQUESTS, STORE_UP, Tally
from robotgate.observe.views import GateStats, OriginView, count_hosts, count_origins
from robotgate.rules.grammar import readable
from robotgate.sites.packed import sites_of
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping

    from robotgate.client.turns import Turns
    from robotgate.gate import RobotGate
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import Site

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"
T = TypeVar("T")

PERIOD: Final = 1.0
"""Seconds between two messages."""
MAX_STREAMS: Final = 16
WRITE_TIMEOUT: Final = 30.0
"""Seconds without progress of a write after which the connection of a reader is closed."""
REFRESH_PATIENCE: Final = 2.0
"""Seconds for which the page waits for a request for robots.txt, which goes on afterwards."""
MAX_LINES: Final = 5000
"""Lines of a robots.txt that are shown."""
MAX_SEARCH: Final = 253
NEVER: Final = 1e11
"""The instant `math.inf` in JSON, which has no infinity."""
FILES: Final = {
    "": ("index.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
PAGE: Final = 50
MAX_PAGES: Final = 20
"""Later pages are not shown: search instead."""
SLICE: Final = 100
"""Hosts between two turns of other tasks: a millisecond or two where they are idle."""
MAX_READ: Final = 500
"""Rules that nothing else uses which are kept."""
MAX_SHARE: Final = 0.01
"""The share of the event loop's time that passes over all origins take. With more, there are fewer passes."""
READ_AGE: Final = 60.0
"""Seconds after which such rules are read again: a stale copy may have ended."""
MAX_NOTED: Final = 2000
"""Origins whose answers and refusals are kept: those with the latest events."""
MAX_ANSWERS: Final = 12
"""Answers that are kept of an origin."""
MAX_RULES: Final = 32
"""Rules of an origin whose refusals are counted."""
MAX_TEXT: Final = 300
"""Characters of a URL or a reason that are shown."""
EVENTS: Final = (TurnEnded, RobotsFetched, VerdictRefused, TurnRefused)
"""The events that are kept of a host."""


def _blocked(site: Site, now: float) -> float:
    until_at = max(site.host.blocked_until_at, site.operator_until_at, site.circuit.retry_at)
    return until_at if until_at > now else 0


def failures(site: Site) -> int:
    """Return how often in a row the host blocked us, was not reached, or gave no robots.txt."""
    record = site.record
    return site.host.failures + site.circuit.outages + (0 if record is None else record.failures)


ORDERS: Final[Mapping[str, Callable[[Site, float], float]]] = {
    "waiting": lambda site, _: site.host.waiting if site.host.waiting_origins else 0,
    "blocked": _blocked,
    "slow": lambda site, _: site.host.latency or 0,
    "failing": lambda site, _: failures(site),
    "visits": lambda site, _: site.host.visits,
    "refused": lambda site, _: site.refused,
}
"""By what origins may be sorted, the largest first; the value at an instant."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which origins a page shows."""

    order: str
    """Of `ORDERS`."""
    search: str = ""
    """A part of the origin."""
    page: int = 0


class Ranking:
    """The first origins of one query, of those added so far."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.matches: int = 0
        """Origins that the search finds, on all pages."""
        self._limit = (query.page + 1) * PAGE
        self._best: list[tuple[float, Site]] = []

    def add(self, sites: list[Site], now: float) -> None:
        """Look at some more origins."""
        value, search, best = ORDERS[self.query.order], self.query.search, self._best
        if search:
            sites = [site for site in sites if search in site.key]
        self.matches += len(sites)
        # Among equal values, the origins that came earlier stay.
        floor = best[-1][0] if len(best) == self._limit else -1.0
        found = [(at, site) for site in sites if (at := value(site, now)) > floor]
        if found:
            self._best = nlargest(self._limit, best + found, key=itemgetter(0))

    @property
    def sites(self) -> list[Site]:
        """The origins of the page."""
        return [site for _, site in self._best[self.query.page * PAGE :]]


class Survey:
    """Counts the hosts and origins of one gate, and finds the origins of each query."""

    def __init__(self, gate: RobotGate) -> None:
        self._ruling = lru_cache(maxsize=MAX_READ)(
            lambda site, _record, _minute: gate._cache.ruling(site, gate._scheduler.now())
        )
        self._counts: Counter[str] = Counter()
        self.pages: dict[Query, Ranking] = {}
        """The origins of each query of the last pass."""
        self._lock = asyncio.Lock()
        self._due_at = 0.0
        self._busy = 0.0
        """Seconds of processor time that the last pass over all took."""

    async def update(self, turns: Turns, queries: Collection[Query | None], query: Query | None) -> GateStats:
        """Count hosts and origins, and find the origins of a query.

        The last result is used again until another is due, or the query is new.

        Args:
            queries: those of all readers: one pass serves them all.
        """
        loop = asyncio.get_running_loop()
        async with self._lock:
            is_new = query is not None and query not in self.pages
            if is_new or loop.time() >= self._due_at:
                await self._pass(turns, {each for each in queries if each is not None})
                self._due_at = loop.time() + self._busy / MAX_SHARE
                # Queries that are new each time take a fifth of the time at most.
                await asyncio.sleep(4 * self._busy)
        return GateStats.of(turns, self._counts)

    async def _pass(self, turns: Turns, queries: Collection[Query]) -> None:
        now, self._busy = turns.scheduler.now(), 0.0
        rankings = {query: Ranking(query) for query in queries}
        counts: Counter[str] = Counter()
        # Copies: hosts come and go between two slices.
        async for hosts in self._sliced(chain(list(turns.scheduler.hosts.values()), turns.idle.copies())):
            counts += count_hosts(hosts, now)
            sites = [site for host in hosts for site in sites_of(host)]
            counts += count_origins(sites, now)
            # Those whose rules are in memory.
            known = [
                site
                for site in sites
                if site.ruling is not None or (site.record is not None and not site.options["ignore_robots"])
            ]
            for ranking in rankings.values():
                ranking.add(known, now)
        self._counts, self.pages = counts, rankings

    async def _sliced(self, values: Iterable[T]) -> AsyncIterator[list[T]]:
        """Yield values, a part at a time; the event loop goes on in between."""
        began, left = time.thread_time(), iter(values)
        while part := list(islice(left, SLICE)):
            yield part
            self._busy += time.thread_time() - began
            await asyncio.sleep(0)
            began = time.thread_time()

    def view(self, turns: Turns, site: Site) -> OriginView:
        """As `RobotGate.host`; rules that nothing else uses are read from their file once a minute at most."""
        now = turns.scheduler.now()
        ruling = site.ruling or self._ruling(site, site.record, now // READ_AGE)
        due_at = now + turns.scheduler.wait_time(site)
        return OriginView.of_site(site, ruling, now=now, next_allowed_at=due_at)


@dataclass(slots=True)
class HostNotes:
    """What is kept of one origin."""

    answers: deque[TurnEnded | RobotsFetched] = field(default_factory=lambda: deque(maxlen=MAX_ANSWERS))
    rules: Counter[tuple[int | None, str]] = field(default_factory=Counter)
    """Refusals by the line and the text of the rule; by the reason where no rule decided."""
    turned_away: str | None = None
    """Why a turn was refused the last time for another reason."""


class Notes:
    """The last answers and refusals of the origins of one gate."""

    def __init__(self) -> None:
        self._of_origin = lru_cache(maxsize=MAX_NOTED)(lambda _origin: HostNotes())

    def add(self, event: Event) -> None:
        """Add an event."""
        match event:
            case TurnEnded():
                self.of(event.url).answers.appendleft(event)
            case RobotsFetched():
                self.of(event.origin.text).answers.appendleft(event)
            case VerdictRefused(verdict=verdict):
                rules, rule = self.of(verdict.url).rules, verdict.rule
                line, text = (None, verdict.reason.value) if rule is None else (rule.line, str(rule))
                rules[line, bounded(text)] += 1
                if len(rules) > MAX_RULES:
                    # Not the one that was counted just now, which is the last.
                    del rules[min(list(rules)[:-1], key=rules.__getitem__)]
            case TurnRefused():
                self.of(event.url).turned_away = bounded(str(event.error))

    def of(self, url: str) -> HostNotes:
        """Return what is kept of the origin of a URL."""
        return self._of_origin("/".join(url.split("/", 3)[:3]))


def bounded(text: str) -> str:
    """A text as it is shown."""
    text = one_line(text)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


class Dashboard:
    """The dashboard of one gate."""

    def __init__(self, gate: RobotGate, guard: Guard) -> None:
        self._gate = gate
        self._guard = guard
        self._notes = Notes()
        self._tally = Tally(gate)
        self._survey = Survey(gate)
        self._queries: list[Query | None] = []
        """What each reader asks for; None: the page of one host."""
        self._is_due = asyncio.Event()
        """Set when readers need not wait for their next message; the next wait is for another event."""
        self._is_over = False
        folder = resources.files(__package__) / "page"
        self._files = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}

    def application(self) -> web.Application:
        """Make the application."""
        app = web.Application(middlewares=[self._checked], client_max_size=10_000)
        app.on_response_prepare.append(add_headers)
        app.cleanup_ctx.append(self._running)
        app.on_shutdown.append(self._end)
        for path in self._files:
            app.router.add_get(f"/{path}", self._file)
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_get("/robots", self._robots)
        for name in ("block", "unblock", "refresh"):
            app.router.add_post(f"/{name}", self._change)
        return app

    @web.middleware
    async def _checked(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        # The page's own files have no data.
        self._guard.check(request, has_data=request.match_info.handler != self._file)
        return await handler(request)

    async def _running(self, _: web.Application) -> AsyncIterator[None]:
        unsubscribe = self._gate.subscribe(self._notes.add, *EVENTS, at_once=True)
        self._tally.start()
        try:
            yield
        finally:
            unsubscribe()
            self._tally.close()

    async def _end(self, _: web.Application) -> None:
        self._is_over = True
        self._is_due.set()

    async def _file(self, request: web.Request) -> web.Response:
        body, kind = self._files[request.path.rpartition("/")[2]]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    # Messages.

    async def _message(self, query: Query | None, host: str) -> dict[str, Json]:
        """The next message for a reader.

        Args:
            query: which origins; None for the page of one.
            host: that one.

        Raises:
            GateClosedError: the gate is not open.
        """
        turns = self._gate._turns
        if not turns.is_open:
            raise GateClosedError
        stats = await self._survey.update(turns, self._queries, query)
        values = self._tally.values(stats)
        message: dict[str, Json] = {
            "now": turns.scheduler.now(),
            "agent": self._gate._identity.user_agent,
            "controls": self._guard.controls,
            "stats": asdict(stats),
            "answers": {" ".join(labels): number for labels, number in values[REQUESTS].items()},
            "refusals": {reason: number for (reason,), number in values[REFUSALS].items()},
            "store_up": bool(values[STORE_UP][()]),
        }
        if query is None:
            message["host"] = self._host(turns, host)
        else:
            page, rows = self._survey.pages[query], list[Json]()
            for site in page.sites:
                # It may have been evicted since they were sorted.
                if turns.sites.get(site.key) is site or site.host.key in turns.idle.hosts:
                    rows.append(_row(site, self._survey.view(turns, site)))
                    await asyncio.sleep(0)
            message["origins"] = {
                "matches": page.matches,
                "page": query.page,
                "pages": min(max(math.ceil(page.matches / PAGE), 1), MAX_PAGES),
                "rows": rows,
            }
        return message

    def _host(self, turns: Turns, origin: str) -> Json:
        site = turns.find(origin)
        if site is None:
            return {"origin": origin, "is_known": False}
        notes, record = self._notes.of(origin), site.record
        return {
            **_row(site, self._survey.view(turns, site)),
            "is_known": True,
            "robots": None if record is None else _robots_row(record),
            "rules": [
                {"line": line, "text": text, "count": count}
                for (line, text), count in notes.rules.most_common(5)
            ],
            "turned_away": notes.turned_away,
            "answers": [_answer(event) for event in notes.answers],
        }

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if len(self._queries) >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text="Too many readers have the dashboard open.")
        host = request.query.get("host", "")
        query = None if host else _query(request)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        self._queries.append(query)
        try:
            await response.prepare(request)
            while not self._is_over:
                try:
                    message = await self._message(query, host)
                except GateClosedError:
                    message = {"closed": True}
                async with asyncio.timeout(WRITE_TIMEOUT):
                    await response.write(f"data: {json.dumps(message, allow_nan=False)}\n\n".encode())
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD):
                        await self._is_due.wait()
        except (ConnectionResetError, TimeoutError):
            # The reader has gone, or takes nothing.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._queries.remove(query)
        return response

    async def _robots(self, request: web.Request) -> web.Response:
        site = self._gate._turns.find(request.query.get("host", ""))
        if site is None or site.record is None:
            raise web.HTTPNotFound(text="No robots.txt of this origin is in memory.")
        lines = readable(site.record.body).splitlines()
        shown: list[Json] = [line.decode("utf-8", "replace") for line in lines[:MAX_LINES]]
        return web.json_response({"lines": shown, "left_out": len(lines) - len(shown)})

    # What the buttons do.

    async def _change(self, request: web.Request) -> web.Response:
        turns = self._gate._turns
        if not turns.is_open:
            raise web.HTTPConflict(text="The gate is not open.")
        try:
            asked = json.loads(await request.read())
            origin, seconds = Origin.of(str(asked["host"])), asked.get("seconds")
            until_at = math.inf if seconds is None else turns.scheduler.now() + float(seconds)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise web.HTTPBadRequest(text="Name the origin, and seconds by a number.") from error
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        try:
            match request.path.rpartition("/")[2]:
                case "block":
                    self._gate.block(host, until_at)
                    answer = f"{host} is blocked."
                case "unblock":
                    self._gate.unblock(host)
                    answer = f"{host} is no longer blocked."
                    if self._gate.host(origin.text).blocked_by_operator_until_at is not None:
                        answer = f"{host} is still blocked, by a pattern that names more hosts."
                case _ if turns.find(origin.text) is not None:
                    answer = await self._refresh(origin)
                case _:
                    # The page causes no request to a host that the crawl does not visit.
                    raise web.HTTPNotFound(text=f"{origin} is not in the gate's memory.")
        except RobotGateError as error:
            raise web.HTTPConflict(text=one_line(str(error))) from error
        # All readers get their next message now.
        self._is_due.set()
        self._is_due = asyncio.Event()
        return web.Response(text=answer)

    async def _refresh(self, origin: Origin) -> str:
        try:
            async with asyncio.timeout(REFRESH_PATIENCE):
                record = await self._gate.refresh(origin.text)
        except TimeoutError:
            return f"The request for robots.txt of {origin} waits for the host's turn."
        return f"robots.txt of {origin} was requested: {record.cause or f'HTTP status {record.status}'}."


def _query(request: web.Request) -> Query:
    order, page = request.query.get("order", "waiting"), request.query.get("page", "0")
    if order not in ORDERS or not (page.isascii() and page.isdigit() and int(page[:4]) < MAX_PAGES):
        raise web.HTTPBadRequest(text=f"order: one of {', '.join(ORDERS)}; page: below {MAX_PAGES}.")
    return Query(order, request.query.get("search", "").strip().lower()[:MAX_SEARCH], int(page[:4]))


def _row(site: Site, view: OriginView) -> dict[str, Json]:
    row: dict[str, Json] = {
        name: min(value, NEVER) if isinstance(value, float) else value for name, value in asdict(view).items()
    }
    del row["origins"]
    row["access"] = None if view.access is None else view.access.value
    row["failing"] = failures(site)
    row["outage"] = site.outage if site.circuit.outages else None
    return row


def _robots_row(record: RobotsRecord) -> Json:
    shown = _attributes(record, "status", "cause", "checked_at")
    return {"url": record.robots_url, "bytes": len(record.body), **shown}


def _answer(event: TurnEnded | RobotsFetched) -> Json:
    url, cause = (event.robots_url, event.cause) if isinstance(event, RobotsFetched) else (event.url, None)
    shown = _attributes(event, "at", "status", "bytes_read", "elapsed")
    return {"url": bounded(url), "cause": cause and bounded(cause), **shown}


def _attributes(value: object, *names: str) -> dict[str, Json]:
    return {name: getattr(value, name) for name in names}
