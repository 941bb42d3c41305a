"""The web application: the page, a stream of server-sent events for each reader, and what its buttons do.

Each reader has a message of its own every second, so one that is slow misses some and delays no other.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import web

from robotgate.dashboard.guard import Guard, add_headers
from robotgate.dashboard.notes import EVENTS, Notes, bounded
from robotgate.dashboard.survey import MAX_PAGES, ORDERS, PAGE, Query, Survey, failures
from robotgate.errors import GateClosedError, RobotGateError
from robotgate.events import RobotsFetched, one_line
from robotgate.observe.tally import REFUSALS, REQUESTS, STORE_UP
from robotgate.rules.grammar import readable
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from robotgate.client.turns import Turns
    from robotgate.events import TurnEnded
    from robotgate.gate import RobotGate
    from robotgate.observe.views import OriginView
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import Site

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"

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


class Dashboard:
    """The dashboard of one gate."""

    def __init__(self, gate: RobotGate, guard: Guard) -> None:
        self._gate = gate
        self._guard = guard
        self._notes = Notes(gate)
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
        self._notes.tally.start()
        try:
            yield
        finally:
            unsubscribe()
            self._notes.tally.close()

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
        if turns.pages is None:
            raise GateClosedError
        stats = await self._survey.update(turns, self._queries, query)
        values = self._notes.tally.values(stats)
        message: dict[str, Json] = {
            "now": turns.scheduler.now(),
            "agent": self._gate._headers["User-Agent"],
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
                if turns.sites.get(site.key) is site:
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
        site = turns.sites.get(origin)
        if site is None:
            return {"origin": origin, "is_known": False}
        notes, record = self._notes.of_origin(origin), site.record
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
        site = self._gate._turns.sites.get(request.query.get("host", ""))
        if site is None or site.record is None:
            raise web.HTTPNotFound(text="No robots.txt of this origin is in memory.")
        lines = readable(site.record.body).splitlines()
        shown: list[Json] = [line.decode("utf-8", "replace") for line in lines[:MAX_LINES]]
        return web.json_response({"lines": shown, "left_out": len(lines) - len(shown)})

    # What the buttons do.

    async def _change(self, request: web.Request) -> web.Response:
        turns = self._gate._turns
        if turns.pages is None:
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
                case _ if origin.text in turns.sites:
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
    shown = {name: getattr(record, name) for name in ("status", "cause", "checked_at")}
    return {"url": record.robots_url, "bytes": len(record.body), **shown}


def _answer(event: TurnEnded | RobotsFetched) -> Json:
    url, cause = (event.robots_url, event.cause) if isinstance(event, RobotsFetched) else (event.url, None)
    shown = {name: getattr(event, name) for name in ("at", "status", "bytes_read", "elapsed")}
    return {"url": bounded(url), "cause": None if cause is None else bounded(cause), **shown}
