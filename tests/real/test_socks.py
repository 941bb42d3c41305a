"""microsocks as the way of a crawl, by aiohttp-socks: who is reached through it, and what it says of itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp_socks import ProxyConnector
from tests.daemons import free_port, running
from tests.gate.servers import DELAY, RULES

from robotgate import DisallowedError, ProxyUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

pytestmark = pytest.mark.real("microsocks")


@contextmanager
def microsocks(folder: Path, port: int) -> Iterator[None]:
    """A SOCKS proxy at a port of loopback, for a user with a password."""
    options = ("-i", "127.0.0.1", "-p", str(port), "-u", "user", "-P", "secret")
    with running("microsocks", *options, port=port, output=folder / "microsocks.log"):
        yield


async def test_proxy_that_wants_credentials_and_ends(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """Robots.txt and pages go through it, in turn. While it refuses, or is down, nothing is recorded of the site."""
    port, site = free_port(), f"http://localhost:{web.port}"
    web.serve(f"{site}/robots.txt", RULES)
    wrong, right = [f"socks5://user:{word}@127.0.0.1:{port}" for word in ("wrong", "secret")]
    async with (
        aiohttp.ClientSession(connector=ProxyConnector.from_url(wrong)) as stranger,
        aiohttp.ClientSession(connector=ProxyConnector.from_url(right, rdns=True)) as user,
    ):
        refused, gate = await open_gate(session=stranger), await open_gate(session=user)
        with microsocks(tmp_path, port):
            for _ in range(2):
                with pytest.raises(ProxyUnavailableError, match=f"127.0.0.1:{port}"):
                    await refused.fetch(f"{site}/page")
            assert web.urls == []
            for page in ("one", "two"):
                assert (await gate.fetch(f"{site}/{page}")).status == 200
            with pytest.raises(DisallowedError):
                await gate.fetch(f"{site}/private")
            log = (tmp_path / "microsocks.log").read_text(encoding="utf-8")
            assert f"connected to localhost:{web.port}" in log
        # Connections that were kept have ended with it.
        for _ in range(2):
            with pytest.raises(ProxyUnavailableError, match=f"127.0.0.1:{port}"):
                await gate.fetch(f"{site}/three")
        view = gate.host(site)
        assert (view.unreachable_until_at, view.blocked_until_at, view.failures) == (None, None, 0)
        with microsocks(tmp_path, port):
            assert (await gate.fetch(f"{site}/three")).status == 200
    assert web.urls == [f"{site}/{path}" for path in ("robots.txt", "one", "two", "three")]
    assert min(web.gaps("localhost")) >= DELAY
