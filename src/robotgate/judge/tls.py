"""Certificates for the sites with https, from an authority that is made for one run, and connections that use them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp import web

AUTHORITY: Final = "judge.test"
DAY: Final = timedelta(days=1)


class Authority:
    """Signs certificates, all with one key. The folder is for its own one, ``ca.pem``, and for those of the sites."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file: Path = folder / "ca.pem"
        self.file.write_bytes(self._certificate(AUTHORITY))
        self.context: Callable[[str, str | None], ssl.SSLContext] = cache(self._context)
        """The TLS context for a host, with what is wrong with its certificate, if anything."""

    def _context(self, host: str, fault: str | None) -> ssl.SSLContext:
        name = "another.test" if fault == "name" else host
        issuer = name if fault == "unknown" else AUTHORITY
        key = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / "site.pem"
        file.write_bytes(key + self._certificate(name, issuer, is_expired=fault == "expired"))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context

    def _certificate(self, name: str, issuer: str = AUTHORITY, *, is_expired: bool = False) -> bytes:
        public, is_authority = self._key.public_key(), name == AUTHORITY
        now = datetime.now(UTC) - (3 * DAY if is_expired else timedelta())
        may = (not is_authority, *(False,) * 4, is_authority, is_authority, False, False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(issuer))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.KeyUsage(*may), critical=True)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
