"""Which errors mean that a host cannot be reached. Only these open its circuit.

Errors of a server that was reached do not: it closed the connection, or sent half a body. Neither do errors nearer to
us than the host: of a proxy, or of this machine when it runs out of descriptors or ports.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import Final

import aiohttp

from robotgate.errors import RobotGateError

OWN_ERRNOS: Final = frozenset(
    {
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)
"""This machine has run out of something."""
OWN_LOOK_UP_ERRNOS: Final = frozenset({socket.EAI_MEMORY, getattr(socket, "EAI_SYSTEM", None)})
"""The same for `socket.gaierror`, which has numbers of its own; not every system has both."""
UNREACHABLE_ERRNOS: Final = frozenset(
    {
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)
"""An outage whichever exception carries them. A reset means one only while a connection is being made."""


def outage_of(error: BaseException, *, host: str | None = None) -> str | None:
    """Why a host cannot be reached, in words that follow its name; None when the error means something else.

    Args:
        error: what a request raised; aiohttp's exceptions and plain ones.
        host: the host that was requested. An error that names another host, such as that of a proxy, is no outage of
            this one.
    """
    if isinstance(error, RobotGateError) or _is_about_proxy(error, host):
        return None
    if isinstance(error, TimeoutError):
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return "it takes no connection in time"
        return "it does not answer in time"
    if isinstance(error, aiohttp.ClientSSLError):
        return _failed_handshake(error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return _failed_look_up(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _failed_connection(error.os_error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its TLS handshake fails ({error.verify_message})"
    if isinstance(error, socket.gaierror):
        return _failed_look_up(error)
    if isinstance(error, ConnectionRefusedError) or (
        isinstance(error, OSError) and error.errno in UNREACHABLE_ERRNOS
    ):
        return _failed_connection(error)
    return None


def _is_about_proxy(error: BaseException, host: str | None) -> bool:
    # Proxy libraries have exceptions of their own, which aiohttp may wrap. Only their names are known here.
    kinds = (*type(error).__mro__, *type(error.__cause__).__mro__)
    if any("Proxy" in kind.__name__ for kind in kinds):
        return True
    if host is None or not isinstance(error, aiohttp.ClientConnectorError):
        return False
    return _plain(error.host) != _plain(host)


def _plain(host: str) -> str:
    return host.lower().strip("[]").removesuffix(".")


def _failed_handshake(error: aiohttp.ClientSSLError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its TLS handshake fails ({cause.verify_message})"
        return "its TLS handshake fails (the certificate does not hold)"
    reason = error.os_error.reason if isinstance(error.os_error, ssl.SSLError) else None
    return f"its TLS handshake fails ({reason})" if reason else "its TLS handshake fails"


def _failed_connection(error: OSError) -> str | None:
    if isinstance(error, TimeoutError):
        return "it takes no connection in time"
    if error.errno in OWN_ERRNOS:
        return None
    if isinstance(error, ConnectionRefusedError) or error.errno == errno.ECONNREFUSED:
        return "it refuses connections"
    return f"it takes no connection ({os.strerror(error.errno)})" if error.errno else "it takes no connection"


def _failed_look_up(error: OSError) -> str | None:
    own = OWN_LOOK_UP_ERRNOS if isinstance(error, socket.gaierror) else OWN_ERRNOS
    return None if error.errno in own else "its name cannot be resolved"
