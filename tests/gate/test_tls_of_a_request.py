"""The TLS options of one request hold for the robots.txt of its site as well, where the certificate is self-signed."""

from __future__ import annotations

import hashlib
import ssl
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import SELF_SIGNED

from robotgate import HostUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

CERTIFICATE: Final = SELF_SIGNED[SELF_SIGNED.index("-----BEGIN CERTIFICATE") :]


@pytest.fixture
async def gate(open_gate: OpenGate) -> RobotGate:
    """A gate with its own session, which trusts what the system trusts."""
    return await open_gate(session=None, allow_private_addresses=True)


def trusting() -> ssl.SSLContext:
    """A context that trusts the certificate, which has no name in it."""
    context = ssl.create_default_context(cadata=CERTIFICATE)
    context.check_hostname = False
    return context


WAYS: Final[dict[str, Callable[[], ssl.SSLContext | bool | aiohttp.Fingerprint]]] = {
    "context": trusting,
    "fingerprint": lambda: aiohttp.Fingerprint(
        hashlib.sha256(ssl.PEM_cert_to_DER_cert(CERTIFICATE)).digest()
    ),
    "unchecked": lambda: False,
}


@pytest.fixture
def site(web: Web) -> str:
    """A site that no client trusts by itself; each request for a robots.txt has a connection of its own."""
    site = f"https://127.0.0.1:{web.tls_port}"
    web.serve(f"{site}/robots.txt", headers={"Connection": "close"})
    return site


async def test_without_it_the_site_cannot_be_reached(web: Web, site: str, gate: RobotGate) -> None:
    """Whoever does not trust the certificate asks for nothing."""
    with pytest.raises(HostUnavailableError):
        await gate.fetch(f"{site}/page")
    assert web.visits == []


@pytest.mark.parametrize("way", WAYS)
async def test_ssl_of_a_fetch_serves_its_robots_txt(
    web: Web, site: str, open_gate: OpenGate, way: str
) -> None:
    """And its tdmrep.json."""
    gate = await open_gate(session=None, allow_private_addresses=True, tdmrep=True)
    assert (await gate.fetch(f"{site}/page", ssl=WAYS[way]())).status == 200
    assert web.urls == [f"{site}/robots.txt", f"{site}/.well-known/tdmrep.json", f"{site}/page"]


async def test_ssl_of_a_fetch_serves_the_site_of_a_redirect(web: Web, site: str, gate: RobotGate) -> None:
    """The robots.txt of each hop's site is had as the hop is."""
    other = site.replace("127.0.0.1", "localhost")
    web.redirect(f"{site}/moved", f"{other}/page")
    assert (await gate.fetch(f"{site}/moved", ssl=False)).status == 200
    assert web.urls == [f"{site}/robots.txt", f"{site}/moved", f"{other}/robots.txt", f"{other}/page"]


async def test_ssl_of_a_request_serves_its_robots_txt(web: Web, site: str, gate: RobotGate) -> None:
    """Through the middleware: the session's own requests tell how their site is reached."""
    async with (
        aiohttp.ClientSession(middlewares=[gate.middleware]) as session,
        session.get(f"{site}/page", ssl=trusting()) as response,
    ):
        assert response.status == 200
    assert web.urls == [f"{site}/robots.txt", f"{site}/page"]


async def test_name_of_a_fetch_is_asked_for_with_its_robots_txt(web: Web, site: str, gate: RobotGate) -> None:
    """`server_hostname`, for a site that is reached by an address."""
    await gate.fetch(f"{site}/page", ssl=trusting(), server_hostname="site.example")
    assert web.names == ["site.example"] * 2
