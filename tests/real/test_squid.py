"""Squid as the proxy of a crawl: its 407 and 403, its pages for sites that it cannot reach, and files that it kept."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.daemons import free_port, running, user_or
from tests.gate.servers import RULES

from robotgate import DisallowedError, ProxyUnavailableError, StatusPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

pytestmark = pytest.mark.real("squid")
PASSWORDS: Final = next(Path("/usr/lib").glob("squid/basic_ncsa_auth"), None)
CONF: Final = """
http_port 127.0.0.1:PORT
cache_effective_user USER
pid_filename FOLDER/squid.pid
cache_log FOLDER/cache.log
access_log none
coredump_dir FOLDER
netdb_filename none
pinger_enable off
connect_timeout 2 seconds
dns_timeout 1 second
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
"""


@contextmanager
def squid(folder: Path, access: str = "http_access allow all") -> Iterator[str]:
    """A squid with a cache in memory, and its URL."""
    port, conf, user = free_port(), folder / "squid.conf", user_or("proxy")
    text = (CONF + access).replace("PORT", str(port)).replace("FOLDER", str(folder)).replace("USER", user)
    conf.write_text(text, encoding="ascii")
    # What it shares with processes of its own has this name, and stays when it is killed.
    service = f"squid{port}"
    try:
        with running("squid", "-N", "-n", service, "-f", conf, port=port, output=folder / "squid.output"):
            yield f"http://127.0.0.1:{port}"
    finally:
        for left in Path("/dev/shm").glob(f"{service}-*"):
            left.unlink()


async def test_credentials_that_squid_wants(web: Web, open_gate: OpenGate, open_folder: Path) -> None:
    """Its 407 opens no site, for http and for https; with the password the site's rules hold at once."""
    if PASSWORDS is None:
        pytest.skip("squid's basic_ncsa_auth is not installed")
    users = open_folder / "users"
    # "secret", as htpasswd writes it.
    users.write_text("user:$apr1$8H/YOaAe$XQqfzKZQ5R8thAFDlFoob1\n", encoding="ascii")
    users.chmod(0o644)
    access = (
        f"auth_param basic program {PASSWORDS} {users}\n"
        "acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all"
    )
    site = f"http://127.0.0.1:{web.port}"
    web.serve(f"{site}/robots.txt", RULES)
    gate = await open_gate()
    with squid(open_folder, access) as url:
        for each in (f"{site}/private", "https://site.example/private"):
            with pytest.raises(ProxyUnavailableError, match=f"{url} .*407"):
                await gate.fetch(each, proxy=url)
        assert web.urls == []
        known = url.replace("//", "//user:secret@")
        with pytest.raises(DisallowedError):
            await gate.fetch(f"{site}/private", proxy=known)
        with pytest.raises(ProxyUnavailableError, match="407"):
            await gate.fetch(f"{site}/page", proxy=url)
    with pytest.raises(ProxyUnavailableError, match="Connect call failed"):
        await gate.fetch(f"{site}/page", proxy=url)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_site_that_squid_does_not_let_crawlers_reach(
    web: Web, open_gate: OpenGate, open_folder: Path, scheme: str
) -> None:
    """Its 403 is not the site's, which other policies would take for one without rules; by another way they hold."""
    site = f"{scheme}://127.0.0.1:{web.port}"
    web.serve(f"{site}/robots.txt", RULES)
    for policy in StatusPolicy:
        gate = await open_gate(status_policy=policy)
        with squid(open_folder, "http_access deny all") as url:
            for page in ("page", "private"):
                with pytest.raises(ProxyUnavailableError, match=f"{url} answers 403"):
                    await gate.fetch(f"{site}/{page}", proxy=url)
            assert gate.stats().origins_known == 0
    assert web.urls == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_site_that_squid_cannot_reach(open_gate: OpenGate, open_folder: Path, scheme: str) -> None:
    """Its page says nothing of the site: nothing is kept, and the host is not blocked."""
    gate = await open_gate()
    with squid(open_folder) as url:
        for host in (f"127.0.0.1:{free_port()}", "no-such-name.invalid"):
            page = f"{scheme}://{host}/page"
            for learnt in (False, True):
                if learnt:
                    gate.learn(page, b"")
                with pytest.raises(ProxyUnavailableError, match=f"{url} answers 50[0-9]"):
                    await gate.fetch(page, proxy=url)
            view = gate.host(page)
            assert (view.blocked_until_at, view.unreachable_until_at, view.failures) == (None, None, 0)


async def test_503_that_squid_passes_on_is_the_sites(
    web: Web, open_gate: OpenGate, open_folder: Path
) -> None:
    """A host that is overloaded gets its pause through a proxy, too."""
    page = f"http://127.0.0.1:{web.port}/page"
    web.serve(page, status=503)
    gate = await open_gate()
    with squid(open_folder) as url:
        async with aiohttp.ClientSession() as session, session.get(page, proxy=url) as response:
            assert response.headers["Via"].count("squid") == 1
        assert (await gate.fetch(page, proxy=url)).status == 503
    assert gate.host(page).blocked_until_at is not None


async def test_file_that_squid_has_kept_is_confirmed_by_the_site(
    web: Web, open_gate: OpenGate, open_folder: Path
) -> None:
    """Squid gives an old file for days, and tells the site nothing; the crawl reads the rules that hold now."""
    robots = f"http://127.0.0.1:{web.port}/robots.txt"
    old = {"Last-Modified": "Tue, 25 Nov 2025 00:00:00 GMT"}
    web.serve(robots, "User-agent: *\nDisallow: /other", headers=old)
    with squid(open_folder) as url:
        async with aiohttp.ClientSession(proxy=url) as session:
            for said in ("MISS", "HIT"):
                async with session.get(robots) as response:
                    assert response.headers["X-Cache"].startswith(said)
            gate = await open_gate(session=session)
            assert not await gate.allowed(robots.replace("robots.txt", "other"))
            web.serve(robots, RULES)
            await gate.refresh(robots)
            assert await gate.allowed(robots.replace("robots.txt", "other"))
            assert not await gate.allowed(robots.replace("robots.txt", "private"))
    assert web.urls == [robots] * 3
