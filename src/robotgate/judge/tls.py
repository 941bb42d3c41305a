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
_END_OF_HEAD: Final = b"\r\n\r\n"


class Authority:
    """Signs certificates. The folder is for its own one, ``ca.pem``, and for those of the sites."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._site_key = ec.generate_private_key(ec.SECP256R1())
        self.file: Path = folder / "ca.pem"
        self.file.write_bytes(self._certificate(AUTHORITY, self._key, self._key, is_authority=True))
        self.context: Callable[[str, str | None], ssl.SSLContext] = cache(self._context)
        """The TLS context for a host, with what is wrong with its certificate, if anything."""

    def _context(self, host: str, fault: str | None) -> ssl.SSLContext:
        signer = self._site_key if fault == "unknown" else self._key
        certificate = self._certificate(
            "another.test" if fault == "name" else host,
            self._site_key,
            signer,
            is_expired=fault == "expired",
        )
        key = self._site_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / "site.pem"
        file.write_bytes(key + certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context

    def _certificate(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        signer: ec.EllipticCurvePrivateKey,
        *,
        is_authority: bool = False,
        is_expired: bool = False,
    ) -> bytes:
        now = datetime.now(UTC) - (3 * DAY if is_expired else timedelta())
        may = (not is_authority, *(False,) * 4, is_authority, is_authority, False, False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(AUTHORITY if signer is self._key else name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.KeyUsage(*may), critical=True)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
        )
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Door(asyncio.Protocol):
    """The beginning of a connection to a proxy: a CONNECT asks for a tunnel, mostly with TLS, and the rest is HTTP.

    Args:
        http: makes a protocol for HTTP.
        context: the TLS context for what a CONNECT names; None for a site without TLS. It raises `LookupError` if there
            is no such site.
    """

    def __init__(self, http: web.Server, context: Callable[[str], ssl.SSLContext | None]) -> None:
        self._http = http
        self._context = context
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """Read on until it is known what the connection is for."""
        self._head += data
        connect = b"CONNECT "
        if self._transport is None or not self._head:
            # The first bytes within TLS may come before its transport.
            return
        if not self._head.startswith(connect[: len(self._head)]):
            protocol = self._http()
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)
            protocol.data_received(self._head)
        elif self._head.endswith(_END_OF_HEAD):
            target, self._head = self._head.split()[1].decode("latin-1"), b""
            try:
                context = self._context(target)
            except LookupError:
                self._transport.write(b"HTTP/1.1 502 No such site\r\nContent-Length: 0\r\n\r\n")
                self._transport.close()
                return
            self._transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if context is not None:
                self._task = asyncio.create_task(self._secure(self._transport, context))

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        inner = Door(self._http, self._context)
        # The client may refuse the certificate.
        with suppress(OSError):
            secure = await asyncio.get_running_loop().start_tls(transport, inner, context, server_side=True)
            if secure is not None:
                inner.connection_made(secure)
