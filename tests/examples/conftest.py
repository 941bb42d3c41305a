"""What the tests of the examples share: the program as a user starts it, and the servers that are its internet."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.gate.servers import Web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT: Final = Path(__file__).parents[2]
INTERNET: Final = Path(__file__).parent / "internet"
CERTIFICATE: Final = INTERNET / "certificate.pem"
"""Of example.org, .com and .net and the names below them, with its key; the programs are told to trust it."""
DELAY: Final = 1 - 0.05
"""Seconds between two visits to a host, less what a server may be late in noting that an answer has ended."""

HTML: Final = {"Content-Type": "text/html; charset=utf-8"}


def links(*targets: str) -> str:
    """A page with links."""
    return "<!doctype html>" + "".join(f"<p><a class=x\n href='{target}'>…</a>" for target in targets)


def usage(name: str) -> str:
    """The command that an example gives, in a paragraph of its own."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    (line,) = re.findall(rf"^(?:# )?((?:python|sh) examples/{name} .+)$", text, re.MULTILINE)
    return str(line)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended."""

    status: int
    lines: list[str]
    """Of standard output."""
    err: str

    def line(self, part: str) -> str:
        """The only line that has this in it."""
        (found,) = (line for line in self.lines if part in line)
        return found


class Program:
    """Starts commands as they are typed, in a folder of the test's."""

    def __init__(self, web: Web, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(INTERNET), os.environ.get("PYTHONPATH", "")]).strip(
                os.pathsep
            ),
            "PYTHONUNBUFFERED": "1",
            # A TLS connection that was broken off may still be closing when the loop ends: aiohttp waits for none.
            "PYTHONWARNINGS": "error,ignore:unclosed transport:ResourceWarning",
            "REQUESTS_CA_BUNDLE": str(CERTIFICATE),
            "SSL_CERT_FILE": str(CERTIFICATE),
            "TEST_PORT": str(web.port),
            "TEST_TLS_PORT": str(web.tls_port),
            "XDG_CACHE_HOME": str(folder),
        }

    async def __call__(self, command: str, *, stdin: str = "") -> Ran:
        """Run one to its end."""
        return await self.end(await self.start(command, stdin=stdin))

    async def ended_well(self, command: str, *, code: str | None = None, stdin: str = "") -> Ran:
        """Run one to a good end, without a traceback; or a program of this code, with the command's arguments."""
        if code is not None:
            program = self._folder / "program.py"
            program.write_text(code)
            command = f"python {program} {command}"
        ran = await self(command, stdin=stdin)
        assert ran.status == 0, ran.err
        assert "Traceback" not in ran.err
        return ran

    async def start(self, command: str, *, stdin: str = "") -> asyncio.subprocess.Process:
        """Start one, and give it all of its standard input."""
        program, example, *arguments = shlex.split(command.partition(" < ")[0])
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            {"python": sys.executable, "sh": "sh"}[program],
            str(ROOT / example),
            *arguments,
            cwd=self._folder,
            env=self._environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        self._stack.push_async_callback(_killed, process)
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        return process

    async def end(self, process: asyncio.subprocess.Process) -> Ran:
        """Wait for its end."""
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Ran(process.returncode, out.decode().splitlines(), err.decode())


async def _killed(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@pytest.fixture
async def internet() -> AsyncIterator[Web]:
    """Every site there is, for a program in a process of its own."""
    web = Web()
    await web.open(CERTIFICATE)
    yield web
    await web.close()


@pytest.fixture
async def run(internet: Web, tmp_path: Path) -> AsyncIterator[Program]:
    """Runs examples against the internet of the test."""
    async with AsyncExitStack() as stack:
        yield Program(internet, tmp_path, stack)
