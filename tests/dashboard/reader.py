"""What the tests of the dashboard share: a reader of its events, and a web of sites in every state."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate import RobotGateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.gate.servers import Web

    from robotgate import OriginView, RobotGate

TOKEN: Final = "a token of some length"
HOSTILE: Final = '<img src=x onerror="window.hacked=1">'
HOSTILE_ROBOTS: Final = f"""\
User-agent: *
# {HOSTILE}<script>window.hacked=2</script>
Disallow: /<script>window.hacked=3</script>
Disallow: /private/
"""
MAX_SHOWN: Final = 1e11
"""What an instant that never comes is shown as."""


def paced_as(origin: str) -> str:
    """A pace key that would be markup, for one host."""
    return f"{HOSTILE}{origin}" if "evil" in origin else origin.removeprefix("http://")


async def visit(gate: RobotGate, *urls: str) -> None:
    """Fetch pages, whatever comes of it."""
    for url in urls:
        with suppress(RobotGateError, aiohttp.ClientError):
            await gate.fetch(url)


async def crawl(gate: RobotGate, web: Web) -> None:
    """Some hosts in every state that the page tells apart."""
    for name in ("quiet", "refusing", "busy", "blocked"):
        web.serve(f"http://{name}.example/robots.txt", "User-agent: *\nDisallow: /private/\n")
    web.serve("http://busy.example/page", status=503, headers={"Retry-After": "60"})
    web.serve("http://evil.example/robots.txt", HOSTILE_ROBOTS)
    await visit(gate, "http://quiet.example/", "http://busy.example/page", "http://blocked.example/")
    await visit(gate, *(f"http://refusing.example/private/{number}" for number in range(3)))
    await visit(gate, "http://evil.example/<script>window.hacked=3</script>", "http://evil.example/private/")
    await visit(gate, f"http://evil.example/{HOSTILE}")
    async with gate.turn("http://down.example/") as turn:
        turn.report_unreachable("refused the connection")
    gate.block("blocked.example")


def as_shown(view: OriginView) -> dict[str, object]:
    """The values of a view that do not change by themselves, as the events tell them."""
    names = (
        *("origin", "host", "stale", "visits", "refused", "bytes_read", "waiting", "open_turns", "failures"),
        *("latency", "delay", "last_visit_at", "checked_at", "fresh_until_at"),
        *("blocked_until_at", "unreachable_until_at"),
    )
    until_at = view.blocked_by_operator_until_at
    return {
        **{name: getattr(view, name) for name in names},
        "access": view.access.value if view.access else None,
        "blocked_by_operator_until_at": None if until_at is None else min(until_at, MAX_SHOWN),
    }


class Reader:
    """One reader of the events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict[str, object]:
        """The next message."""
        async with asyncio.timeout(60):
            while not (line := await self.response.content.readline()).startswith(b"data: "):
                assert line, "the events have ended"
        message: dict[str, object] = json.loads(line.removeprefix(b"data: "))
        return message

    async def rows(self) -> list[dict[str, object]]:
        """The hosts of the next message."""
        hosts = (await self.next())["origins"]
        assert isinstance(hosts, dict)
        rows: list[dict[str, object]] = hosts["rows"]
        return rows


@asynccontextmanager
async def reading(url: str, headers: Mapping[str, str] | None = None, **query: str) -> AsyncIterator[Reader]:
    """Read the events until the end of the block."""
    async with (
        aiohttp.ClientSession(read_bufsize=2**20) as session,
        session.get(f"{url}events", params=query, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        yield Reader(response)
