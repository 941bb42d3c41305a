"""What the tests of the command line share: the program in a process of its own, and a site for it to visit."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pytest
from aiohttp import web
from platformdirs import user_cache_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CONTACT: Final = "bot@example.org"
ROBOTS: Final = "User-agent: *\nDisallow: /private/\n"


@dataclass(frozen=True, slots=True)
class Result:
    """How a run of the program ended."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        """Standard output as rows of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Program(Protocol):
    """Runs ``python -m robotgate.cli``."""

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run it to its end."""
        ...

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """Start it."""
        ...


@dataclass(slots=True)
class LocalSite:
    """A site on 127.0.0.1 whose ``/hang`` never answers."""

    base: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by path."""
    asked_at: list[float] = field(default_factory=list)
    """When each came (monotonic clock)."""
    robots: str = ROBOTS
    robots_status: int = 200

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        self.asked[request.path] += 1
        self.asked_at.append(time.monotonic())
        match request.path:
            case "/robots.txt":
                return web.Response(text=self.robots, status=self.robots_status)
            case "/hang":
                await asyncio.Event().wait()
            case "/trap":
                return web.Response(status=302, headers={"Location": "/private/trap"})
            case "/gone":
                return web.Response(status=410)
        return web.Response(text="hello")


class _Module:
    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "robotgate.cli", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            env={
                name: value
                for name, value in os.environ.items()
                if name not in {"ROBOTGATE_CONTACT", "COLUMNS"}
            },
        )

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        process = await self.start(*arguments)
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands take the user's cache directory to be: never the real one, here or in another process."""
    directory = tmp_path / "user-cache"
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(directory))
    if not user_cache_path().is_relative_to(directory):
        pytest.skip("this system's cache directory cannot be moved")
    return user_cache_path("robotgate", appauthor=False)


@pytest.fixture
def program() -> Program:
    """The program under test."""
    return _Module()


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    """A site that forbids ``/private/``."""
    local = LocalSite()
    async with AsyncExitStack() as stack:
        server = web.Server(local.answer)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        stack.push_async_callback(server.shutdown, 0.1)
        stack.callback(listener.close)
        local.base = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield local
