"""The web of the tests withstands what its clients do to it; what it gets wrong, every test behind it would."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.gate.servers import endless

if TYPE_CHECKING:
    from aiohttp import web as aioweb
    from tests.gate.servers import Web


async def test_endless_body_on_a_broken_tls_connection_ends(web: Web, session: aiohttp.ClientSession) -> None:
    """Such a connection never says that it is gone until the loop is given a turn: no write to it ever waits."""
    firehose = endless(b"x" * 65_536)

    async def broken(request: aioweb.Request) -> aioweb.StreamResponse:
        assert request.transport is not None
        request.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        return await firehose(request)

    web.handle("https://broken.example/", broken)
    async with asyncio.timeout(60):
        with pytest.raises(aiohttp.ClientError):
            await session.get("https://broken.example/")
        async with session.get("https://whole.example/") as response:
            assert response.status == 200
    assert all(visit.ended_at is not None for visit in web.visits)
