"""What the tests of the command line share: the program, in this process or in its own, and a site for it to visit."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from click.testing import CliRunner
from multidict import CIMultiDict
from platformdirs import user_cache_path

from robotgate.cli.app import robotgate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTACT: Final = "bot@example.org"
FETCH: Final = ("fetch", "--contact", CONTACT, "--allow-private-addresses", "--no-store", "--delay", "0")
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


def run(*arguments: str, stdin: bytes = b"") -> Result:
    """Run a command in this process. What reads URLs or lines from standard input needs `Program`."""
    ended = CliRunner(env={"ROBOTGATE_CONTACT": None}).invoke(robotgate, arguments, input=stdin)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return Result(ended.exit_code, ended.stdout, ended.stderr)


REDIRECTS: Final = {
    "/moved": "/a",
    "/trap": "/private/trap",
    "/endless": "/endless",
    "/elsewhere": "ftp://a.example/",
}


@dataclass(slots=True)
class LocalSite:
    """A site on 127.0.0.1, in a thread of its own. Its ``/hang`` never answers."""

    base: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by path."""
    asked_at: list[float] = field(default_factory=list)
    """When each came (monotonic clock)."""
    headers: list[tuple[str, CIMultiDict[str]]] = field(default_factory=list)
    """Path and query of each request, and its headers."""
    pages: dict[str, str] = field(default_factory=dict)
    """What some paths answer, in place of a greeting."""
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """What some paths answer first, one after the other."""
    robots: str = ROBOTS
    robots_status: int = 200
    robots_headers: dict[str, str] = field(default_factory=dict)
    answers_hang: bool = False
    """Whether ``/hang`` answers after all."""
    _hanging: threading.Event = field(default_factory=threading.Event)

    async def hanging(self) -> None:
        """Wait until ``/hang`` has been asked for."""
        await asyncio.to_thread(self._hanging.wait)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        self.asked[request.path] += 1
        self.asked_at.append(time.monotonic())
        self.headers.append((request.raw_path, CIMultiDict(request.headers)))
        if first := self.statuses.get(request.path):
            return web.Response(status=first.pop(0))
        if target := REDIRECTS.get(request.path):
            return web.Response(status=302, headers={"Location": target})
        match request.path:
            case "/robots.txt":
                return web.Response(text=self.robots, status=self.robots_status, headers=self.robots_headers)
            case "/hang" if not self.answers_hang:
                self._hanging.set()
                await asyncio.Event().wait()
            case "/garbled":
                return web.Response(text="hello", headers={"Content-Encoding": "gzip"})
            case "/cut":
                cut = web.StreamResponse(headers={"Content-Length": "9"})
                await cut.prepare(request)
                await cut.write(b"hello")
                assert request.transport is not None
                request.transport.close()
                return cut
            case "/gone":
                return web.Response(status=410)
            case "/paid":
                return web.Response(status=402, headers={"crawler-price": "USD 0.01"})
        return web.Response(text=self.pages.get(request.path, "hello"))


class Program:
    """Runs ``python -m robotgate.cli`` in a process of its own."""

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """Start it."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "robotgate", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in os.environ.keys() - {"ROBOTGATE_CONTACT", "COLUMNS"}},
        )

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run it to its end."""
        process = await self.start(*arguments)
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory as the commands see it, in this process and in others: never the real one."""
    directory = tmp_path / "user-cache"
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(directory))
    if not user_cache_path().is_relative_to(directory):
        pytest.skip("this system's cache directory cannot be moved")
    return user_cache_path("robotgate", appauthor=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a store that does not exist yet."""
    return tmp_path / "cache.db"


@pytest.fixture
def program() -> Program:
    """The program under test."""
    return Program()


@pytest.fixture
def site() -> Iterator[LocalSite]:
    """A site that forbids ``/private/``."""
    local = LocalSite()
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        server = web.Server(local.answer)
        listener = await loop.create_server(server, "127.0.0.1", 0)
        local.base = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        ready.set()
        await end.wait()
        listener.close()
        await server.shutdown(0.1)

    def serve_in_thread() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=serve_in_thread)
    thread.start()
    ready.wait()
    yield local
    loop.call_soon_threadsafe(end.set)
    thread.join()
