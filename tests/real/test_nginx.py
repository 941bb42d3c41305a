"""Sites that nginx serves: TLS, connections that it closes, compressed files, limits, slow upstreams."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.daemons import free_port, gaps, nginx, program
from tests.gate.servers import DELAY, RULES

from robotgate import DisallowedError, HostUnavailableError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    import trustme
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

pytestmark = pytest.mark.real("nginx")
BROTLI: Final = "ngx_http_brotli_filter_module.so"
GRAIN: Final = 0.003
"""Seconds: nginx logs in milliseconds."""
SITE: Final = """
    server {
        listen 127.0.0.1:PORT;
        root FOLDER;
        error_page 405 =200 /page.html;
        location / { try_files $uri /page.html; }
    }
"""
SECURE: Final = """
    ssl_certificate FOLDER/site.pem;
    ssl_certificate_key FOLDER/site.pem;
    server {
        listen 127.0.0.1:PORT ssl;
        root FOLDER;
        location / { try_files $uri /page.html; }
    }
"""
IN_FRONT: Final = """
    server {
        listen 127.0.0.1:PORT;
        proxy_read_timeout 400ms;
        location / { proxy_pass UPSTREAM; }
    }
"""
LIMITED: Final = """
    limit_req_zone $binary_remote_addr zone=pages:1m rate=5r/s;
    limit_req_status 429;
    server {
        listen 127.0.0.1:PORT;
        root FOLDER;
        error_page 429 = @later;
        location = /robots.txt { }
        location / { limit_req zone=pages; try_files $uri /page.html; }
        location @later { add_header Retry-After 1 always; return 429; }
    }
"""


def certify(site: Path, authority: trustme.CA, name: str = "localhost", *, days_left: int = 1) -> None:
    """Give a site a key, and a certificate for a name."""
    ends_at = datetime.now(UTC) + timedelta(days=days_left)
    certificate = authority.issue_cert(name, not_before=ends_at - timedelta(days=9), not_after=ends_at)
    certificate.private_key_and_cert_chain_pem.write_to_path(site / "site.pem")


@pytest.mark.parametrize(
    ("name", "days_left", "is_trusted", "said"),
    [
        ("other.example", 1, True, "mismatch"),
        ("localhost", -1, True, "expired"),
        ("localhost", 1, False, "unable to get local issuer"),
    ],
    ids=["name", "time", "authority"],
)
async def test_site_with_a_wrong_certificate_is_told_nothing(  # noqa: PLR0917  # Fixtures and columns.
    site: Path,
    authority: trustme.CA,
    trusting: ssl.SSLContext,
    open_gate: OpenGate,
    name: str,
    days_left: int,
    is_trusted: bool,  # noqa: FBT001  # A column.
    said: str,
) -> None:
    """It is not asked for its robots.txt nor for the page, and the error says what is wrong."""
    certify(site, authority, name, days_left=days_left)
    gate = await open_gate()
    with nginx(site, SECURE) as server:
        with pytest.raises(HostUnavailableError, match=said):
            await gate.fetch(f"https://localhost:{server.port}/page", ssl=trusting if is_trusted else True)
        assert server.served() == []


async def test_site_that_has_moved_to_https(
    site: Path, authority: trustme.CA, trusting: ssl.SSLContext, open_gate: OpenGate
) -> None:
    """Each origin's robots.txt is read, with the TLS of its pages, and one pace holds at both ports of the host."""
    certify(site, authority)
    gate, port = await open_gate(), free_port()
    moved = f"server {{ listen 127.0.0.1:{port}; return 301 https://localhost:PORT$request_uri; }}"
    with nginx(site, SECURE + moved) as server:
        old, new = f"http://localhost:{port}", f"https://localhost:{server.port}"
        for page in ("one", "two"):
            response = await gate.fetch(f"{old}/{page}", ssl=trusting)
            assert (response.text, response.url) == ("A page", f"{new}/{page}")
        for origin in (old, new):
            with pytest.raises(DisallowedError):
                await gate.fetch(f"{origin}/private", ssl=trusting)
        served = await server.all_served(7)
    files = [f"{old}/robots.txt", f"{new}/robots.txt"]
    pages = [f"{old}/one", f"{new}/robots.txt", f"{new}/one", f"{old}/two", f"{new}/two"]
    assert [each.url for each in served] == [*files, *pages]
    assert min(gaps(served)) >= DELAY - GRAIN


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_connection_that_is_closed_as_the_next_request_leaves(
    site: Path, open_gate: OpenGate, method: str
) -> None:
    """No request is lost and none is sent twice; one that may not be sent again fails, and was not served."""
    delay = 0.005
    gate, read = await open_gate(delay=delay), []
    with nginx(site, f"keepalive_timeout 6ms; {SITE}") as server:
        for number in range(150):
            url = f"{server.url}/{number}"
            try:
                assert (await gate.fetch(url, method=method)).status == 200
                read.append(url)
            except aiohttp.ClientError:
                assert method == "POST"
            await gate.refresh(url)
        served = await server.all_served(len(read) + 151)
    counts = Counter(each.url for each in served)
    assert counts.pop(f"{server.url}/robots.txt") == 151
    assert counts == Counter(read)
    assert len({each.more.split()[0] for each in served}) > 1
    assert min(gaps(served)) >= delay - GRAIN


@pytest.mark.parametrize("coding", ["gzip", pytest.param("br", marks=pytest.mark.real(BROTLI))])
async def test_compressed_files_are_read_as_they_were_written(
    site: Path, open_gate: OpenGate, coding: str
) -> None:
    """Brotli is for pages only: a robots.txt is asked for as gzip."""
    pytest.importorskip("brotli", reason="no brotli: pip install brotli")
    codings, modules = "gzip on; gzip_types text/plain; gzip_min_length 0;", ""
    if coding == "br":
        codings += "brotli on; brotli_types text/plain; brotli_min_length 0;"
        modules = f"load_module {program(BROTLI)};"
    gate = await open_gate()
    with nginx(site, codings + SITE, modules=modules) as server:
        assert (await gate.fetch(f"{server.url}/page")).text == "A page"
        with pytest.raises(DisallowedError):
            await gate.fetch(f"{server.url}/private")
        served = await server.all_served(2)
    assert [each.more.split()[1] for each in served] == ["gzip", coding]


async def test_slow_upstream_answers_one_request_at_a_time(
    web: Web, tmp_path: Path, open_gate: OpenGate
) -> None:
    """However many tasks ask, and also where the crawler has given up waiting."""
    upstream = f"http://127.0.0.1:{web.port}"
    for page in range(4):
        web.serve(f"{upstream}/{page}", takes=0.1)
    web.serve(f"{upstream}/late", takes=0.3)
    gate = await open_gate()
    with nginx(tmp_path, IN_FRONT.replace("UPSTREAM", upstream)) as server:
        await asyncio.gather(*[gate.fetch(f"{server.url}/{page}") for page in range(4)])
        with pytest.raises(TimeoutError):
            await gate.fetch(f"{server.url}/late", timeout=aiohttp.ClientTimeout(total=0.1))
        await gate.fetch(f"{server.url}/next")
        served = await server.all_served(7)
    assert [each.status for each in served] == [404, *[200] * 4, 499, 200]
    # When nginx has noticed that nobody waits any more is up to it.
    assert min(gaps(served)[:-1]) >= DELAY - GRAIN
    assert gaps(served)[-1] > 0


async def test_upstream_that_is_too_slow_for_nginx(web: Web, tmp_path: Path, open_gate: OpenGate) -> None:
    """A 504 for robots.txt opens nothing; when the file is there, its rules hold."""
    upstream = f"http://127.0.0.1:{web.port}"
    web.serve(f"{upstream}/robots.txt", RULES, takes=1.0)
    gate = await open_gate()
    with nginx(tmp_path, IN_FRONT.replace("UPSTREAM", upstream)) as server:
        for _ in range(2):
            with pytest.raises(HostUnavailableError, match="504"):
                await gate.fetch(f"{server.url}/page")
        web.serve(f"{upstream}/robots.txt", RULES)
        await gate.refresh(server.url)
        assert (await gate.fetch(f"{server.url}/page")).status == 200
        with pytest.raises(DisallowedError):
            await gate.fetch(f"{server.url}/private")
        served = await server.all_served(3)
    assert [each.status for each in served] == [504, 200, 200]


@pytest.mark.slow
async def test_limit_that_says_when_to_come_back(site: Path, open_gate: OpenGate) -> None:
    """After each 429 the host is left alone for as long as it says; with `retries`, every page comes in the end."""
    gate = await open_gate(delay=0.02, adaptive=True)
    with nginx(site, LIMITED) as server:
        pages = [f"{server.url}/{number}" for number in range(8)]
        fetched = await asyncio.gather(*[gate.fetch(page, retries=5) for page in pages])
        assert [response.status for response in fetched] == [200] * 8
        served = await server.all_served(gate.host(server.url).visits)
    assert Counter(each.url for each in served if each.status == 200 and "robots" not in each.url) == Counter(
        pages
    )
    pauses = [gap for each, gap in zip(served, gaps(served), strict=False) if each.status == 429]
    assert pauses
    assert min(pauses) >= 1
