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
from tests.offline import DOORS

from robotgate.cli.demo import DEFAULT_PORT, request_line
from robotgate.demo.servers import SiteServer
from robotgate.demo.sites import draw_plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT: Final = Path(__file__).parents[1]
LOOPBACK: Final = "127.0.0.1"
EXAMPLE_KEY: Final = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXRzdocldHU0PXPm8
/yXOz5DX9ZuZfbbH2A56hG+k2+ihRANCAASwTyAQ9PmqrO1Kb0h4y4QTndB85kIL
XKO7L+a0zOzkhgEc75FGYvWA+/aCaMp/oMolr5mnShqUG2wF0K73Fa0z
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIICGDCCAb6gAwIBAgIUddqQhhFwI7e1PDBcbDrmGxp1pN8wCgYIKoZIzj0EAwIw
KDEmMCQGA1UEAwwdcm9ib3RnYXRlIGRvY3VtZW50YXRpb24gdGVzdHMwIBcNMjYx
MTIyMTAzMDUxWhgPMjEyNjEwMjkxMDMwNTFaMCgxJjAkBgNVBAMMHXJvYm90Z2F0
ZSBkb2N1bWVudGF0aW9uIHRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
sE8gEPT5qqztSm9IeMuEE53QfOZCC1yjuy/mtMzs5IYBHO+RRmL1gPv2gmjKf6DK
Ja+Zp0oalBtsBdCu9xWtM6OBwzCBwDAdBgNVHQ4EFgQUcQxhq4+EEdssLQ9LNEYh
P2O378IwHwYDVR0jBBgwFoAUcQxhq4+EEdssLQ9LNEYhP2O378IwXQYDVR0RBFYw
VIILZXhhbXBsZS5vcmeCDSouZXhhbXBsZS5vcmeCC2V4YW1wbGUuY29tgg0qLmV4
YW1wbGUuY29tggtleGFtcGxlLm5ldIINKi5leGFtcGxlLm5ldDAPBgNVHRMBAf8E
BTADAQH/MA4GA1UdDwEB/wQEAwIChDAKBggqhkjOPQQDAgNIADBFAiAw8LWFW7IT
Ha/C8Z0pD7qH+Bu5iG1uX0oWeeie0SaXWwIhAKHhRwCRFcFF3A3M7ceFNuFufhCF
L+bvuPyJ+2AxTH9z
-----END CERTIFICATE-----
"""
"""A key made for these tests, with a certificate for the names of examples, which the programs are made to trust."""


@dataclass(frozen=True, slots=True)
class Web:
    """The sites of ``robotgate demo --serve``, as sites and as a proxy."""

    environment: dict[str, str]
    told: list[str]
    """What the command would have printed of each request."""

    async def run(self, *arguments: str | Path, cwd: Path) -> tuple[int | None, str]:
        """The exit status of a program, and all it has printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.offline", *arguments),
            cwd=cwd,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        return process.returncode, printed.decode()


@asynccontextmanager
async def offline_web(folder: Path) -> AsyncIterator[Web]:
    """Serve until the end of the block; the folder is for a file of ours."""
    key_file = folder / "examples.pem"
    key_file.write_text(EXAMPLE_KEY, encoding="ascii")
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
