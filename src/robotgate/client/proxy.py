"""Proxies: what a request goes through, and what a proxy says or fails at in the site's place.

Nothing of that is recorded as the site's. An answer is a proxy's if it says so: 407 (RFC 9110 §15.5.8), an answer to
CONNECT, or, through a proxy, an error page of Squid's, such as that of a denied access. Any other 502, 503 and 504 to a
request for a plain http URL may be the site's own, and counts as that. An error is a proxy's if it names one, or if the
connection to a proxy is not made, or lost before any answer and before the request has been sent through TLS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

import aiohttp
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from robotgate.pace.state import GOOD_BELOW
from robotgate.sites.status_table import PROXY_ASKS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    Ssl: TypeAlias = ssl.SSLContext | bool | aiohttp.Fingerprint

WAY_STATUSES: Final = frozenset({PROXY_ASKS, 502, 503, 504})
"""Those that may be a proxy's though it does not say so."""
MAX_FAULT: Final = 300
"""Characters of what went wrong: aiohttp quotes what it cannot read."""
_OF_PROXIES: Final = re.compile(r"proxy|socks", re.IGNORECASE)
"""In the names of errors: the libraries have errors of their own, which aiohttp may wrap."""
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/?#]*@")


class RouteOptions(TypedDict, total=False):
    """Those options of `aiohttp.ClientSession.request` that say how a host is reached."""

    proxy: str | URL | None
    proxy_auth: aiohttp.BasicAuth | None
    proxy_headers: Mapping[str, str] | None
    ssl: Ssl
    server_hostname: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """The proxy of a request and its TLS, by which the robots.txt of its origin is requested as well.

    A robots.txt that is requested directly would show the site the address behind the proxy; with another TLS, it may
    not be had at all.
    """

    proxy: URL | None
    """With credentials, where there are any; None for a direct request."""
    proxy_headers: CIMultiDict[str]
    """For the proxy itself."""
    ssl: Ssl
    server_hostname: str | None

    @classmethod
    def of(cls, options: RouteOptions) -> Route | None:
        """What these options stand for; None for a request like most."""
        proxy, tls, name = options.get("proxy"), options.get("ssl", True), options.get("server_hostname")
        if proxy is None and tls is True and name is None:
            return None
        url, auth = None if proxy is None else URL(proxy), options.get("proxy_auth")
        if url is not None and auth is not None:
            url = url.with_user(auth.login).with_password(auth.password)
        return cls(url, CIMultiDict(options.get("proxy_headers") or ()), tls, name)

    @classmethod
    def of_request(cls, request: aiohttp.ClientRequest) -> Route | None:
        """As `of`, for a request that aiohttp has made."""
        if request.proxy is None and request.ssl is True and request.server_hostname is None:
            return None
        return cls.of(
            {
                "proxy": request.proxy,
                "proxy_auth": request.proxy_auth,
                "proxy_headers": request.proxy_headers,
                "ssl": request.ssl,
                "server_hostname": request.server_hostname,
            }
        )


def proxy_of(route: Route | None) -> str | None:
    """The proxy of a route; None without one."""
    if route is None or route.proxy is None:
        return None
    return str(route.proxy)


def fault_of_answer(
    status: int, headers: MultiMapping[str] | Mapping[str, str] | None, proxy: str | None
) -> str | None:
    """What a proxy says in an answer, in words that name it; None for an answer of the site's.

    Args:
        headers: names in any case.
        proxy: what the request went through; None: nothing that is known.
    """
    if status == PROXY_ASKS:
        return f"{named(proxy)} asks for credentials (HTTP status {PROXY_ASKS})"
    if proxy is None or status < GOOD_BELOW or headers is None:
        return None
    squid = headers.get("X-Squid-Error")
    # A site that Squid stands before has another Via, and one that asks for a pause gets it.
    via = headers.getall("Via", ()) if isinstance(headers, MultiMapping) else (headers.get("Via", ""),)
    if squid is None or "," in ",".join(via) or "Retry-After" in headers:
        return None
    return f"{named(proxy)} answers {status} in the site's place ({squid})"[:MAX_FAULT]


def fault_of_error(
    error: BaseException,
    *,
    host: str | None,
    proxy: str | None = None,
    connector: aiohttp.BaseConnector | None = None,
) -> str | None:
    """How a proxy failed, in words that name it; None for an error that is not about a proxy.

    Args:
        error: what a request raised: aiohttp's, a proxy library's, or a plain one.
        host: the host that was requested. An error that names another host is about a proxy.
        proxy: what the request went through; None: nothing that is known.
        connector: that of the request. One for SOCKS has a proxy of its own.
    """
    if proxy is None and (name := getattr(connector, "_proxy_host", None)) is not None:
        # aiohttp-socks has no public name for it.
        proxy = f"{name}:{getattr(connector, '_proxy_port', '')}"
    kinds = (*type(error).__mro__, *type(error.__cause__).__mro__)
    # A library for SOCKS raises a plain EOFError where the proxy closes the connection. aiohttp never does.
    is_named = isinstance(error, EOFError) or any(_OF_PROXIES.search(kind.__name__) for kind in kinds)
    if isinstance(error, aiohttp.ClientConnectorError) and host is not None:
        is_named = is_named or _plain(error.host) != _plain(host)
    elif isinstance(error, aiohttp.ClientConnectionError) and proxy is not None:
        # Any timeout but that of the connection means that no answer came, perhaps from the site.
        is_named = not isinstance(error, TimeoutError) or isinstance(error, aiohttp.ConnectionTimeoutError)
    if not is_named:
        return None
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{named(proxy)} answers {error.status} {error.message} in the site's place"[:MAX_FAULT]
    return failed(proxy, error)


def failed(proxy: str | None, error: BaseException) -> str:
    """How a proxy failed, in words that name it."""
    return f"{named(proxy)} fails: {type(error).__name__}: {error}"[:MAX_FAULT]


def named(proxy: str | None) -> str:
    """What messages call a proxy, without its credentials; None: one that is not known."""
    return "a proxy on the way" if proxy is None else f"the proxy {_CREDENTIALS.sub('', proxy)}"


def _plain(host: str) -> str:
    return host.lower().strip("[]").removesuffix(".")
