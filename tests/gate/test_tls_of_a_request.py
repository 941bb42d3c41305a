"""The TLS options of one request hold for the robots.txt of its site as well, where the certificate is self-signed."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import SELF_SIGNED

from robotgate import HostUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.conftest import OpenGate

    from robotgate import RobotGate

CERTIFICATE: Final = SELF_SIGNED[SELF_SIGNED.index("-----BEGIN CERTIFICATE") :]


@dataclass(slots=True)
class Secure:
    """A site with TLS alone. Each answer closes its connection."""

    base: str = ""
    names: list[str | None] = field(default_factory=list)
    """The names that were asked for in each handshake (RFC 6066 §3)."""
    paths: list[str] = field(default_factory=list)

    def note(self, _socket: object, name: str | None, _context: ssl.SSLContext) -> None:
        """Called by each handshake."""
        self.names.append(name)

    async def answer(self, request: aioweb.BaseRequest) -> aioweb.StreamResponse:
        """Answer a request."""
        self.paths.append(request.path)
        if request.path == "/moved":
            return aioweb.Response(
                status=302, headers={"Location": f"{self.base}/page", "Connection": "close"}
            )
        return aioweb.Response(
            text="[]" if "tdmrep" in request.path else "User-agent: *", headers={"Connection": "close"}
        )


@pytest.fixture
async def secure(key_file: Path) -> AsyncIterator[Secure]:
    """A site that no client trusts by itself."""
    site, context = Secure(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_file)
    context.sni_callback = site.note
    runner = aioweb.ServerRunner(aioweb.Server(site.answer), shutdown_timeout=0.1)
    await runner.setup()
    await aioweb.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    site.base = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


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


async def test_without_it_the_site_cannot_be_reached(secure: Secure, gate: RobotGate) -> None:
    """Whoever does not trust the certificate asks for nothing."""
    with pytest.raises(HostUnavailableError):
        await gate.fetch(f"{secure.base}/page")
    assert secure.paths == []


@pytest.mark.parametrize("way", WAYS)
async def test_ssl_of_a_fetch_serves_its_robots_txt(secure: Secure, open_gate: OpenGate, way: str) -> None:
    """And its tdmrep.json."""
    gate = await open_gate(session=None, allow_private_addresses=True, tdmrep=True)
    assert (await gate.fetch(f"{secure.base}/page", ssl=WAYS[way]())).status == 200
    assert secure.paths == ["/robots.txt", "/.well-known/tdmrep.json", "/page"]


async def test_ssl_of_a_fetch_serves_the_site_of_a_redirect(secure: Secure, gate: RobotGate) -> None:
    """The robots.txt of each hop's site is had as the hop is."""
    other = Secure(base=secure.base.replace("127.0.0.1", "localhost"))
    secure.base, start = other.base, f"{secure.base}/moved"
    assert (await gate.fetch(start, ssl=False)).url == f"{other.base}/page"
    assert secure.paths == ["/robots.txt", "/moved", "/robots.txt", "/page"]


async def test_ssl_of_a_request_serves_its_robots_txt(secure: Secure, gate: RobotGate) -> None:
    """Through the middleware: the session's own requests tell how their site is reached."""
    async with (
        aiohttp.ClientSession(middlewares=[gate.middleware]) as session,
        session.get(f"{secure.base}/page", ssl=trusting()) as response,
    ):
        assert response.status == 200
    assert secure.paths == ["/robots.txt", "/page"]


async def test_name_of_a_fetch_is_asked_for_with_its_robots_txt(secure: Secure, gate: RobotGate) -> None:
    """`server_hostname`, for a site that is reached by an address."""
    await gate.fetch(f"{secure.base}/page", ssl=trusting(), server_hostname="site.example")
    assert secure.names == ["site.example"] * 2
