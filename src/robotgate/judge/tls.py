"""Certificates for the sites with https, from an authority that is made for one run, and connections that use them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from trustme import CA

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web


class Authority(CA):
    """Signs the certificates of the sites."""

    def __init__(self) -> None:
        super().__init__()
        self.context: Callable[[str, str | None], ssl.SSLContext] = cache(self._context)
        """The TLS context for a host, with what is wrong with its certificate, if anything."""

    def _context(self, host: str, fault: str | None) -> ssl.SSLContext:
        issuer = CA() if fault == "unknown" else self
        name = "another.test" if fault == "name" else host
        # Some systems take no certificate that is valid for years.
        now, day = datetime.now(UTC), timedelta(days=1)
        expires_at = now - day if fault == "expired" else now + day
        certificate = issuer.issue_cert(name, not_before=now - 2 * day, not_after=expires_at)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
        return context


async def serve_tunnel(request: web.BaseRequest, http: web.Server, context: ssl.SSLContext | None) -> None:
    """Accept a CONNECT, and serve what comes through its tunnel: HTTP, mostly within TLS."""
    transport, protocol = request.transport, request.protocol
    if transport is None:
        return
    transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    # For the protocol that has read the CONNECT, the connection ends here.
    protocol.transport = None
    protocol.connection_lost(None)
    inner = http()
    if context is None:
        transport.set_protocol(inner)
        inner.connection_made(transport)
        return
    # The client may refuse the certificate.
    with suppress(OSError):
        secure = await asyncio.get_running_loop().start_tls(transport, inner, context, server_side=True)
        if secure is not None:
            inner.connection_made(secure)
