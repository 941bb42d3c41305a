"""The web that documents speak of, on this machine: the sites of ``robotgate demo --serve``, https included."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web
from tests.gate.servers import LOOPBACK, SELF_SIGNED
from tests.offline import DOORS

from robotgate.cli.demo import DEFAULT_PORT, request_line
from robotgate.judge.servers import SiteServer
from robotgate.judge.sites import draw_plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Web:
    """The sites of ``robotgate demo --serve``, as sites and as a proxy."""

    environment: dict[str, str]
    told: list[str]
    """What the command would have printed of each request."""

    async def run(self, *arguments: str | Path, cwd: Path, stdin: str = "") -> tuple[int | None, str]:
        """The exit status of a program, and all it has printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.offline", *arguments),
            cwd=cwd,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate(stdin.encode())
        return process.returncode, printed.decode()


@asynccontextmanager
async def offline_web(folder: Path) -> AsyncIterator[Web]:
    """Serve until the end of the block; the folder is for a file of ours."""
    key_file = folder / "examples.pem"
    key_file.write_text(SELF_SIGNED, encoding="ascii")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(key_file)
    told: list[str] = []
    began_at = time.monotonic()
    sites = SiteServer(
        draw_plan(1, 500), lambda request, visit: told.append(request_line(request, visit, began_at))
    )
    runner = web.ServerRunner(web.Server(sites.answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        for tls in (None, context):
            await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
        http, https = (address[1] for address in runner.addresses)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            "SSL_CERT_FILE": str(key_file),
            "XDG_CACHE_HOME": str(folder),
            DOORS: json.dumps({80: http, 443: https, DEFAULT_PORT: http}),
        }
        yield Web(environment, told)
    finally:
        await runner.cleanup()
