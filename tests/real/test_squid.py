"""Debian's squid as the proxy of a crawl: its 407, its pages for sites that it cannot reach, and none at all."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import RULES, unused_port

from robotgate import DisallowedError, ProxyUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

SQUID: Final = shutil.which("squid") or "/usr/sbin/squid"
PASSWORDS: Final = next(Path("/usr/lib").glob("squid/basic_ncsa_auth"), None)
START_TIMEOUT: Final = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path(SQUID).exists(), reason="squid is not installed")]


def user_of(folder: Path) -> str:
    """The user that squid runs as, who may write into the folder: it gives up the rights of root."""
    user = pwd.getpwuid(os.getuid()).pw_name
    if user != "root":
        return user
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o111)
    return "proxy"


@asynccontextmanager
async def squid(folder: Path, *, access: str = "http_access allow all") -> AsyncIterator[str]:
    """A squid on loopback, without a cache, and its URL."""
    port = unused_port()
    user = user_of(folder)
    configuration = folder / "squid.conf"
    configuration.write_text(
        f"""
http_port 127.0.0.1:{port}
{access}
cache deny all
cache_effective_user {user}
pid_filename {folder}/squid.pid
cache_log {folder}/cache.log
access_log none
coredump_dir {folder}
netdb_filename none
pinger_enable off
connect_timeout 2 seconds
dns_timeout 2 seconds
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
""",
        encoding="ascii",
    )
    process = await asyncio.create_subprocess_exec(
        SQUID, "-N", "-f", configuration, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None, (folder / "cache.log").read_text(encoding="utf-8")
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_credentials_that_squid_wants(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """Its 407 opens no site, for http and for https; with the password the site's rules hold at once."""
    if PASSWORDS is None:
        pytest.skip("squid's basic_ncsa_auth is not installed")
    users = tmp_path / "users"
    # "secret", as htpasswd writes it.
    users.write_text("user:$apr1$8H/YOaAe$XQqfzKZQ5R8thAFDlFoob1\n", encoding="ascii")
    users.chmod(0o644)
    access = (
        f"auth_param basic program {PASSWORDS} {users}\n"
        "acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all"
    )
    web.serve(f"http://127.0.0.1:{web.port}/robots.txt", RULES)
    page = f"http://127.0.0.1:{web.port}/private"
    gate = await open_gate(delay=0, allow_private_addresses=True, session=None)
    async with squid(tmp_path, access=access) as url:
        for each in (page, "https://site.example/private"):
            with pytest.raises(ProxyUnavailableError, match=f"{url} .*407"):
                await gate.fetch(each, proxy=url)
        known = url.replace("//", "//user:secret@")
        with pytest.raises(DisallowedError):
            await gate.fetch(page, proxy=known)
        with pytest.raises(ProxyUnavailableError, match="407"):
            await gate.fetch(f"http://127.0.0.1:{web.port}/page", proxy=url)
    with pytest.raises(ProxyUnavailableError, match="Connect call failed"):
        await gate.fetch(f"http://127.0.0.1:{web.port}/page", proxy=url)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_site_that_squid_cannot_reach(open_gate: OpenGate, tmp_path: Path, scheme: str) -> None:
    """Its page says nothing of the site: nothing is kept, and the host is not blocked."""
    gate = await open_gate(delay=0, allow_private_addresses=True, session=None)
    async with squid(tmp_path) as url:
        for host in (f"127.0.0.1:{unused_port()}", "no-such-name.invalid"):
            page = f"{scheme}://{host}/page"
            for learnt in (False, True):
                if learnt:
                    gate.learn(page, b"")
                with pytest.raises(ProxyUnavailableError, match=f"{url} answers 50[0-9]"):
                    await gate.fetch(page, proxy=url)
            view = gate.host(page)
            assert (view.blocked_until_at, view.unreachable_until_at, view.failures) == (None, None, 0)


async def test_503_that_squid_passes_on_is_the_sites(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """A host that is overloaded gets its pause through a proxy, too."""
    page = f"http://127.0.0.1:{web.port}/page"
    web.serve(page, status=503)
    gate = await open_gate(delay=0, allow_private_addresses=True, session=None)
    async with squid(tmp_path) as url, aiohttp.ClientSession() as session:
        async with session.get(page, proxy=url) as response:
            assert response.headers["Via"].count("squid") == 1
        assert (await gate.fetch(page, proxy=url)).status == 503
    assert gate.host(page).blocked_until_at is not None
