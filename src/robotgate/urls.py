"""URLs: origins, patterns that name hosts, pace keys and who of a fleet visits which, and Link headers.

Every URL goes through `yarl.URL`, as in aiohttp's own requests, so that dot segments, escapes and international host
names are resolved once: the path and query that are judged are those that are sent.
"""

from __future__ import annotations

import inspect
import ipaddress
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

from yarl import URL

from robotgate.errors import InvalidURLError, NonPublicAddressError, OptionError

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


PaceKeyFunction: TypeAlias = "Callable[[Origin], str]"
"""The pace key of all requests to an origin."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEMES: Final = {scheme: scheme for scheme in DEFAULT_PORTS}
MAX_HOST_LENGTH: Final = 253
"""Bytes (RFC 1035 §2.3.4), without the final dot."""

_LABELS: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
PLAIN_URL: Final = re.compile(r"https?://[A-Za-z0-9_.-]++(?::[0-9]{1,5})?+(?:/[!-~]*+)?+")
"""Most URLs. They need none of the checks below, which take longer than parsing."""
CONTROL_OR_EDGE_BLANK: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|^\s|\s$")
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
"""A byte that was no UTF-8, as `os.fsdecode` and aiohttp's headers have it ("surrogateescape")."""
DOUBTFUL_AUTHORITY: Final = re.compile(
    r"[^/?#\\]*(?:\\|//[^/?#]*(?:\\|(?<![/@])\[|\[(?![0-9A-Fa-f:.]+(?:%25[\w.~-]+)?\](?::[0-9]*)?(?:[/?#]|\Z))))",
    re.ASCII,
)
"""A backslash before the path, which some parsers read as a slash; brackets without an address or with a suffix."""
is_read_otherwise: Final = re.compile(
    r"[\x00- \x7f\ud800-\udfff]|\A[^?#]*/(?:\.|%2e){1,2}(?![^/?#])", re.IGNORECASE
).search
"""Whether servers read a path and query otherwise than the rules: if it is sent with a blank, a control character, or a
segment ``.`` or ``..``, escaped or not. aiohttp and browsers escape and resolve these before they send."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""What stands before an IPv4 address at the end of an IPv6 address that tunnels to it (RFC 5214 §6.1)."""
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All assigned IPv6 addresses. For Python, the site-local ``fec0::/10`` is global, too."""
_SPECIAL: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("2001::/23"),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Blocks of the IANA special-purpose registries that some supported versions of Python do not know."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A scheme, a host and a port: what one robots.txt binds (RFC 9309 §2.3)."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """Lower-case; A-labels (``xn--``) for international names; IPv6 without brackets; no final dot."""
    port: int
    text: str = field(init=False, repr=False, compare=False)
    """Its URL, without a path."""

    def __post_init__(self) -> None:
        # One string for all origins, instead of one cut from each URL.
        object.__setattr__(self, "scheme", _SCHEMES[self.scheme])
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        # Made once: it is the key of an origin in many tables.
        object.__setattr__(self, "text", f"{self.scheme}://{host}{port}")

    @classmethod
    def of(cls, url: str | URL) -> Origin:
        """The origin of an absolute http or https URL.

        Raises:
            InvalidURLError: its scheme is not http or https, or its host or port is missing or impossible.
        """
        return split_url(url)[0]

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the scheme's own; IPv6 in brackets."""
        return self.text.partition("//")[2]

    @property
    def robots_url(self) -> str:
        """The URL of its robots.txt."""
        return f"{self.text}/robots.txt"

    @property
    def is_public(self) -> bool:
        """Whether the host could be a public site: False for literals of private, loopback and other special
        addresses (IANA special-purpose registries) and for ``localhost`` names (RFC 6761 §6.3).

        A name is not resolved here: `PublicConnector` checks its addresses.
        """
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return False
        return not _is_address(self.host) or is_public_address(ipaddress.ip_address(self.host))

    def __str__(self) -> str:
        return self.text


def parse_url(url: str) -> URL:
    """The URL as aiohttp will send it. Bytes that were no UTF-8 are sent as escapes.

    Raises:
        InvalidURLError: it is no URL, or has blanks or control characters that parsers read differently.
    """
    given: object = url
    if not isinstance(given, str):
        raise InvalidURLError(
            reprlib.repr(given), f"a URL is a str or a yarl.URL, not a {type(given).__name__}"
        )
    if not PLAIN_URL.fullmatch(url):
        url = _UNDECODED.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", url)
        if CONTROL_OR_EDGE_BLANK.search(url):
            raise InvalidURLError(url, "the URL has a control character, or begins or ends with a blank")
        if DOUBTFUL_AUTHORITY.match(url):
            raise InvalidURLError(url, "parsers disagree on where the host of this URL ends")
    try:
        parsed = URL(url)
        # yarl checks the port only here.
        _ = parsed.port
    except ValueError as error:
        raise InvalidURLError(url, f"not a URL ({error})") from error
    return parsed


def as_url(url: str | URL) -> URL:
    """As `parse_url`, of a text or of what has been parsed."""
    if not isinstance(url, URL):
        return parse_url(url)
    try:
        _ = url.port
    except ValueError as error:
        # yarl makes no text of it, either.
        raise InvalidURLError(f"{url.scheme}://{url.raw_authority}", f"not a URL ({error})") from error
    return url


def split_url(url: str | URL) -> tuple[Origin, str]:
    """The origin, and the path and query as they will be sent (``/`` where there is none).

    Raises:
        InvalidURLError: as `Origin.of`.
    """
    parsed, text = as_url(url), str(url)
    if parsed.scheme not in DEFAULT_PORTS:
        raise InvalidURLError(text, f"not an absolute http or https URL (its scheme is {parsed.scheme!r})")
    if not parsed.port:
        raise InvalidURLError(text, "port 0 cannot be requested")
    origin = Origin(parsed.scheme, _valid_host(parsed.raw_host or "", text), parsed.port)
    target = parsed.raw_path_qs or "/"
    # With `encoded=True`, yarl leaves it as it is.
    if parsed is url and (is_read_otherwise(target) or not target.startswith("/")):
        problem = (
            "a dot segment, a blank, a control character or a missing slash leads servers to another path"
        )
        raise InvalidURLError(text, problem)
    return origin, target


def is_public_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address belongs to the public internet; an IPv4 address within an IPv6 address counts as itself."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = embedded_ipv4(address) or address.sixtofour
        if inner is not None:
            return is_public_address(inner)
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP and not is_public_address(_last_four(address)):
            return False
        if address not in _GLOBAL_UNICAST:
            return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def embedded_ipv4(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for (RFC 4291 §2.5.5.2, RFC 6052 §2.1); None for all others."""
    if address.version == 4:
        return None
    return _last_four(address) if address in _NAT64 else address.ipv4_mapped


def _last_four(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_address(host: str) -> bool:
    """Whether a host in the spelling of `Origin.host` is an address: no name has a number as its last label."""
    return ":" in host or host.rpartition(".")[2].isdecimal()


def _valid_host(raw_host: str, url: str) -> str:
    if ":" in raw_host:
        # A zone has a meaning on one machine only.
        if "%" in raw_host:
            raise InvalidURLError(url, "the host is an IPv6 address with a zone")
        try:
            return str(ipaddress.IPv6Address(raw_host))
        except ValueError as error:
            raise InvalidURLError(url, f"{raw_host[:80]!r} is not an IPv6 address") from error
    host = raw_host.lower().removesuffix(".")
    if len(host) > MAX_HOST_LENGTH:
        raise InvalidURLError(url, f"the host is longer than {MAX_HOST_LENGTH} bytes")
    if _LABELS.fullmatch(host) is None:
        raise InvalidURLError(url, f"{raw_host[:80]!r} is not a host name")
    if not _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        return host
    # A host whose last label is a number is an address (WHATWG URL §3.5). Clients read most spellings differently, so
    # only the one that all read alike is accepted.
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError as error:
        # In octal, in hex, or with parts left out, it may be a private one for some client.
        problem = f"{host[:80]!r} is not an IPv4 address in dotted decimals"
        raise NonPublicAddressError(url, problem) from error


@dataclass(frozen=True, slots=True)
class HostPattern:
    """Names one host, every host below a domain, or every host."""

    key: str
    """A host in the spelling of `Origin.host`; a domain after a dot, for the hosts below it; empty for every host.

    The hosts that a pattern names end with its key, so that `keys` finds all patterns of a host.
    """

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read ``example.org`` (that host alone), ``*.example.org`` (every host below it, not itself) or ``*``.

        Case, international names, a final dot and the spelling of addresses are normalised as in URLs.

        Raises:
            OptionError: it is none of these; the message says what to give.
        """
        if not isinstance(text, str):
            raise OptionError(f"pattern={text!r}: give a str")
        if text == "*":
            return cls("")
        domain = text.removeprefix("*.")
        is_ipv6 = domain.startswith("[") and domain.endswith("]") and ":" in domain
        bare = domain[1:-1] if is_ipv6 else domain.lower()
        try:
            # yarl takes whatever follows a "%" for the zone of an address.
            raw_host = None if "%" in bare else URL.build(scheme="http", host=bare).raw_host
            host = _valid_host(raw_host or "", text)
        except ValueError as error:
            raise OptionError(
                f"pattern={text!r}: give a host without scheme, port and path, such as 'example.org',"
                f" '*.example.org' for the hosts below it, or '*' for all ({error})"
            ) from error
        if domain == text:
            return cls(host)
        if _is_address(host):
            raise OptionError(f"pattern={text!r}: no host is below an address")
        return cls(f".{host}")

    def matches(self, host: str) -> bool:
        """Whether it names a host, given in the spelling of `Origin.host`, or all hosts that another key names."""
        return self.key in keys(host)

    def __str__(self) -> str:
        return f"*{self.key}" if self.key[:1] in {"", "."} else self.key


def keys(key: str) -> Iterator[str]:
    """The keys of all patterns that name a host, or all hosts of another pattern; the most specific first."""
    yield key
    dot = key.find(".", 1)
    while dot > 0:
        yield key[dot:]
        dot = key.find(".", dot + 1)
    if key:
        yield ""


class PaceKey(Enum):
    """Which requests are paced together."""

    HOST = "host"
    """Those to one host, whatever the port."""
    ORIGIN = "origin"
    """Those to one scheme, host and port."""
    REGISTRABLE_DOMAIN = "registrable domain"
    """Those to all hosts below a registered name, by the public suffix list. Its private section counts: two blogs of
    one hoster are two sites. Needs the extra ``psl``."""


PaceKeyPolicy: TypeAlias = PaceKey | Callable[[str], str]
"""A function is called with the URL of an origin, such as ``https://example.org`` or ``http://example.org:8080``, and
returns a name: origins of one name are paced together."""


def pace_key_function(policy: PaceKeyPolicy) -> PaceKeyFunction:
    """The pace key as a function of the origin.

    Raises:
        OptionError: the policy makes no sense, or its package is not installed. The function raises it, too, when a
            caller's function returns no name.
    """
    if policy is PaceKey.HOST:
        return lambda origin: origin.host
    if policy is PaceKey.ORIGIN:
        return lambda origin: origin.text
    if policy is PaceKey.REGISTRABLE_DOMAIN:
        _public_suffixes()
        return lambda origin: registrable_domain(origin.host)
    given: object = policy
    if not callable(given) or isinstance(given, type) or inspect.iscoroutinefunction(given):
        raise OptionError(
            f"pace_key={policy!r}: give one of {', '.join(map(str, PaceKey))}, or a function that names an origin"
        )

    def of_origin(origin: Origin) -> str:
        key: object = policy(origin.text)
        if not isinstance(key, str) or not key:
            raise OptionError(
                f"pace_key={policy!r} returned {key!r} for {origin.text!r}: it has to return a name"
            )
        return key

    return of_origin


def owner(url: str | URL, members: Iterable[str], *, pace_key: PaceKeyPolicy = PaceKey.HOST) -> str:
    """The member of a fleet that visits a URL: the same one for all URLs that are paced together.

    The result depends on the arguments only, so that all processes, machines and versions agree. It is rendezvous
    hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): each of n members owns
    about an n-th of all hosts. When a member leaves, its hosts are spread over the others; when one is added, it takes
    its share from all others; no other host moves.

    Args:
        url: absolute, http or https. No request is made.
        members: names of the processes or machines of the fleet. Their order and repetitions do not matter.
        pace_key: the option that the gates of the fleet have.

    Raises:
        InvalidURLError: the URL is invalid.
        OptionError: there are no members, a name is empty, or `pace_key` makes no sense.
    """
    # A string is an iterable of strings, and an empty setting that was split has one empty name.
    given: list[object] = [] if isinstance(members, str) else list(members)
    names = [name for name in given if isinstance(name, str) and name]
    if not names or len(names) < len(given):
        raise OptionError(f"members={members!r}: give a list of names, at least one and none empty")
    key = pace_key_function(pace_key)(Origin.of(url)).encode("utf-8", "surrogatepass")
    return max(names, key=lambda name: (_weight(name, key), name))


def _weight(name: str, key: bytes) -> bytes:
    # Hashed first, names of any length are keys of one.
    name_hash = blake2b(name.encode("utf-8", "surrogatepass")).digest()
    return blake2b(key, digest_size=16, key=name_hash).digest()


def registrable_domain(host: str) -> str:
    """The registered name that a host is or is below; an address, a public suffix or a single label itself.

    Raises:
        OptionError: the package with the list is not installed.
    """
    # The list has no addresses, and would take the last two numbers of one as a domain.
    if _is_address(host):
        return host
    return _public_suffixes().privatesuffix(host) or host


@cache
def _public_suffixes() -> PublicSuffixList:
    """The list in the package, read once per process."""
    try:
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 # Installed only with the extra.
    except ImportError as error:
        raise OptionError(
            f'pace_key={PaceKey.REGISTRABLE_DOMAIN}: needs the public suffix list: pip install "robotgate[psl]"'
        ) from error
    return PublicSuffixList()


# Possessive, so that a line takes linear time.
LINK: Final = re.compile(r'<([^<>]*+)>((?:[^",<]++|"(?:[^"\\]++|\\.)*+")*+)')
_PARAMETER: Final = re.compile(
    r';[ \t]*+([^ \t;,="]++)[ \t]*+=[ \t]*+(?:"((?:[^"\\]++|\\.)*+)"|([^ \t;,"]*+))'
)
_ESCAPED: Final = re.compile(r"\\(.)")


def read_links(line: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The links of one line of a Link header (RFC 8288 §3): each target as written, and its parameters.

    Their names are in lower case. What is no link is left out. Whatever a server wrote, nothing raises.
    """
    for link in LINK.finditer(line):
        found = _PARAMETER.findall(link[2])
        parameters = [(name.lower(), bare or _ESCAPED.sub(r"\1", quoted)) for name, quoted, bare in found]
        yield link[1].strip(), parameters
