"""Origins, and what of a URL is judged: exactly the path and query that aiohttp will send.

Everything here goes through `yarl.URL`, as aiohttp's own requests do, so that dot segments, escapes and
international host names are resolved once and alike: what is judged is what is sent.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from robotgate._errors import InvalidURLError, NonPublicAddressError

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEMES: Final = {scheme: scheme for scheme in DEFAULT_PORTS}
ROBOTS_PATH: Final = "/robots.txt"
MAX_HOST_OCTETS: Final = 253
"""RFC 1035 §2.3.4, without the root's dot."""

_LABELS: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
PLAIN_URL: Final = re.compile(r"https?://[A-Za-z0-9_.-]++(?::[0-9]{1,5})?+(?:/[!-~]*+)?+")
"""What most URLs are. Nothing below can be true of them, and looking for it takes longer than reading them."""
CONTROL_OR_EDGE_BLANK: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|^\s|\s$")
DOUBTFUL_AUTHORITY: Final = re.compile(
    r"[^/?#\\]*(?:\\|//[^/?#]*(?:\\|(?<![/@])\[|\[(?![0-9A-Fa-f:.]+(?:%25[\w.~-]+)?\](?::[0-9]*)?(?:[/?#]|\Z))))",
    re.ASCII,
)
"""A backslash before the path, which some take for a slash; brackets that hold no address, or have more behind them."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that has been given out of IPv6; the site-local ``fec0::/10``, for one, is global to Python."""
_SPECIAL: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("2001::/23"),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Of the IANA special-purpose registries, what not every Python that we run on knows, or not all of it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What one robots.txt binds: a scheme, a host and a port (RFC 9309 §2.3)."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """Lower-case; A-labels (``xn--``) for international names; IPv6 without brackets; no final dot."""
    port: int
    text: str = field(init=False, repr=False, compare=False)
    """As its URLs begin."""

    def __post_init__(self) -> None:
        # Of a URL it was cut from it, a text of its own for each; of one that was built, it is whatever was given.
        object.__setattr__(self, "scheme", _SCHEMES[self.scheme])
        # Asked for again and again: as text it names what is kept of an origin.
        object.__setattr__(self, "text", f"{self.scheme}://{self.authority}")

    @classmethod
    def of(cls, url: str | URL) -> Origin:
        """The origin of an absolute http or https URL.

        Raises:
            InvalidURLError: it has no scheme of ours, no host, or a host or port that cannot exist.
        """
        return cls._of_parsed(url if isinstance(url, URL) else parse_url(url))

    @classmethod
    def _of_parsed(cls, url: URL) -> Origin:
        text = str(url)
        if url.scheme not in DEFAULT_PORTS:
            raise InvalidURLError(
                text,
                f"the scheme {url.scheme!r} is neither http nor https"
                if url.scheme
                else "not an absolute URL (it has no scheme)",
            )
        if not url.raw_host:
            raise InvalidURLError(text, "the URL has no host")
        if not url.port:
            raise InvalidURLError(text, "port 0 cannot be asked for anything")
        return cls(url.scheme, _valid_host(url.raw_host, text), url.port)

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the scheme's own; IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def robots_url(self) -> str:
        """Where this origin keeps its rules."""
        return f"{self}{ROBOTS_PATH}"

    @property
    def is_public(self) -> bool:
        """Whether the host could be a public site: False for literals of private, loopback and other special
        addresses (IANA special-purpose registries) and for ``localhost`` names (RFC 6761 §6.3).

        A name is not resolved here: `PublicConnector` looks at what it resolves to.
        """
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return False
        if ":" not in self.host and not self.host[-1].isdigit():
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return True
        return is_public_address(address)

    def __str__(self) -> str:
        return self.text


def parse_url(url: str) -> URL:
    """The URL as aiohttp will send it.

    Raises:
        InvalidURLError: it cannot be read as a URL at all, or holds blanks or controls that parsers disagree on.
    """
    if not PLAIN_URL.fullmatch(url):
        if CONTROL_OR_EDGE_BLANK.search(url):
            raise InvalidURLError(url, "the URL holds a control character, or begins or ends with a blank")
        if DOUBTFUL_AUTHORITY.match(url):
            raise InvalidURLError(url, "parsers disagree on where the host of this URL ends")
    try:
        parsed = URL(url)
        # yarl checks the port no sooner than it is asked for.
        _ = parsed.port
    except ValueError as error:
        raise InvalidURLError(url, f"not a URL ({error})") from error
    return parsed


def split_url(url: str | URL) -> tuple[Origin, str]:
    """The origin, and the path and query as they will be sent (``/`` where there is none).

    Raises:
        InvalidURLError: as `Origin.of`.
    """
    parsed = url if isinstance(url, URL) else parse_url(url)
    return Origin.of(parsed), parsed.raw_path_qs or "/"


def is_public_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether packets for this address leave for the public internet, also when it is wrapped in IPv6."""
    inner = _embedded_ipv4(address)
    if inner is not None:
        return is_public_address(inner)
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _embedded_ipv4(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _valid_host(raw_host: str, url: str) -> str:
    if ":" in raw_host:
        return _valid_ipv6(raw_host, url)
    host = raw_host.lower().removesuffix(".")
    if len(host) > MAX_HOST_OCTETS:
        raise InvalidURLError(url, f"the host is longer than {MAX_HOST_OCTETS} octets")
    if _LABELS.fullmatch(host) is None:
        raise InvalidURLError(url, f"{raw_host[:80]!r} is no host name")
    if _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        return _valid_ipv4(host, url)
    return host


def _valid_ipv4(host: str, url: str) -> str:
    # A host whose last label is a number is an address (WHATWG URL §3.5), which clients spell out differently:
    # only the spelling on which all agree is taken.
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError as error:
        problem = f"{host[:80]!r} is no IPv4 address in dotted decimals"
        if _may_hide_private_address(host):
            raise NonPublicAddressError(url, problem) from error
        raise InvalidURLError(url, problem) from error


def _may_hide_private_address(host: str) -> bool:
    """Whether some client would read a host as a private address: in octal, in hex, or with parts left out."""
    try:
        return not is_public_address(ipaddress.IPv4Address(socket.inet_aton(host)))
    except OSError:
        return False


def _valid_ipv6(raw_host: str, url: str) -> str:
    if "%" in raw_host:
        raise InvalidURLError(url, "an IPv6 zone means something on one machine only")
    try:
        return str(ipaddress.IPv6Address(raw_host))
    except ValueError as error:
        raise InvalidURLError(url, f"{raw_host[:80]!r} is no IPv6 address") from error
