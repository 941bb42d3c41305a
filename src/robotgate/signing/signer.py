"""The signer of a gate: what is signed of a request, and how the signature is written.

RFC 9421 defines the signature, the drafts of Web Bot Auth what a crawler signs.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from robotgate.errors import InvalidURLError, OptionError
from robotgate.options import check_kind, check_whole
from robotgate.signing.keys import SigningKey
from robotgate.urls import DEFAULT_PORTS, Origin, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DIRECTORY_PATH: Final = "/.well-known/http-message-signatures-directory"
"""Where verifiers request an agent's public keys."""
_URL: Final = re.compile(r"(?:[^:/?#]+)://(?:[^/?#]*@)?([^/?#]+)([^?#]*)(\?[^#]*)?", re.ASCII)
"""Authority, path and query. Every URL with an authority matches."""
_FIELD: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
"""The name of a header, in lower case (RFC 9110 §5.1), as a component's (RFC 9421 §2.1)."""
_OWN: Final = frozenset({"signature", "signature-input", "signature-agent"})
"""Headers that the signer itself makes."""
_VALUE: Final = re.compile(r"[\t -~]*")
"""What the value of a header can be signed as: a signature is of ASCII, in one line a component."""
_SENT: Final = re.compile(r"[!-~]+")
"""What a URL consists of when it is sent."""


class AgentForm(Enum):
    """How the Signature-Agent header names the agent. Drafts and verifiers differ, so it can be chosen."""

    LEGACY = "legacy"
    """A string: ``"https://bot.example"``. Verifiers in production expect it."""
    IETF_00 = "ietf-00"
    """A dictionary with the agent's origin: ``sig1="https://bot.example"``."""
    IETF_01 = "ietf-01"
    """A dictionary with the URL of the agent's keys, which verifiers request as it is written."""


@dataclass(frozen=True, slots=True)
class Target:
    """The URL of a request, in the parts that a signature can cover (RFC 9421 §2.2)."""

    scheme: str
    authority: str
    """In lower case, without a default port."""
    path: str
    query: str
    """With its question mark; empty if there is none."""

    @classmethod
    def of(cls, url: str) -> Target:
        """Split a URL. Its credentials and its fragment are no part of a request.

        Raises:
            InvalidURLError: it has no authority, or is not as it is sent.
        """
        if not _SENT.fullmatch(url):
            raise InvalidURLError(
                url, "a URL is signed as it is sent: in ASCII, with escapes, without blanks"
            )
        found = _URL.match(url)
        if found is None:
            raise InvalidURLError(url, "it has no host")
        scheme, authority = url.partition(":")[0].lower(), found[1].lower()
        authority = authority.removesuffix(f":{DEFAULT_PORTS.get(scheme)}")
        return cls(scheme, authority, found[2] or "/", found[3] or "")


DERIVED: Final[Mapping[str, Callable[[str, Target], str]]] = {
    "@method": lambda method, _: method,
    "@authority": lambda _, target: target.authority,
    "@scheme": lambda _, target: target.scheme,
    "@path": lambda _, target: target.path,
    "@query": lambda _, target: target.query or "?",
    "@target-uri": lambda _, target: f"{target.scheme}://{target.authority}{target.path}{target.query}",
}
"""The components of a request that can be covered, and their values (RFC 9421 §2.2)."""


def agent_field(form: AgentForm, agent_url: str, key: str) -> tuple[str, str, str]:
    """A Signature-Agent header: its value, and the identifier and the value of the component that covers it.

    Args:
        agent_url: as `origin_of` returns it.
        key: of the dictionary; the drafts require the signature's label.
    """
    value = f'"{agent_url}{DIRECTORY_PATH if form is AgentForm.IETF_01 else ""}"'
    if form is AgentForm.LEGACY:
        return value, '"signature-agent"', value
    # Of a dictionary, one member is signed (RFC 9421 §2.1.2).
    return f"{key}={value}", f'"signature-agent";key="{key}"', value


def origin_of(agent_url: str) -> str:
    """The origin that an agent's URL names, as it is sent.

    Raises:
        OptionError: it is no https origin.
    """
    check_kind("agent_url", agent_url, str)
    try:
        url = parse_url(agent_url)
        origin = Origin.of(url)
    except InvalidURLError as error:
        raise OptionError(f"agent_url={agent_url!r}: {error.problem}") from error
    if origin.scheme != "https" or url.user is not None or url.raw_path_qs != "/" or url.raw_fragment:
        raise OptionError(f"agent_url={agent_url!r}: give an https origin, such as 'https://bot.example'")
    return origin.text


def value_of_field(name: str, sent: Mapping[str, str]) -> str | None:
    """The value of a header as it is signed: of several lines, all (RFC 9421 §2.1). None if it is not sent.

    Raises:
        OptionError: it is not in ASCII, or has a line break.
    """
    lines = [value.strip(" \t") for key, value in sent.items() if key.lower() == name]
    if not lines:
        return None
    value = ", ".join(lines)
    if not _VALUE.fullmatch(value):
        raise OptionError(f"the header {name}: {value[:_MAX_SHOWN]!r} cannot be signed: it is not in ASCII")
    return value


def signature_headers(
    key: SigningKey, label: str, covered: Sequence[tuple[str, str]], parameters: Mapping[str, str | int]
) -> dict[str, str]:
    """Sign components of a message; return Signature-Input and Signature (RFC 9421 §2.5, §4).

    Args:
        covered: pairs of a component's identifier, as ``"@authority"`` with its quotes, and its value.
        parameters: of the signature, in the order in which they are sent; text is printable ASCII without quotes.
    """
    identifiers = " ".join([identifier for identifier, _ in covered])
    lines = "".join([f"{identifier}: {value}\n" for identifier, value in covered])
    shown = [
        f";{name}={value}" if isinstance(value, int) else f';{name}="{value}"'
        for name, value in parameters.items()
    ]
    signed = f"({identifiers}){''.join(shown)}"
    base = f'{lines}"@signature-params": {signed}'
    signature = b64encode(key.sign(base.encode("ascii"))).decode("ascii")
    return {"Signature-Input": f"{label}={signed}", "Signature": f"{label}=:{signature}:"}


LIFETIME: Final = 60
"""Seconds: the default. An eavesdropper could reuse a signature for so long."""
MAX_LIFETIME: Final = 24 * 3600
"""Seconds: the most that the drafts recommend."""
NONCE_BYTES: Final = 64
TAG: Final = "web-bot-auth"
_MAX_SHOWN: Final = 100
_LABEL: Final = re.compile(r"[a-z*][a-z0-9_.*-]*")
"""A key of a structured field's dictionary (RFC 9651 §3.1.2)."""


class Ed25519Signer:
    """Signs requests (RFC 9421) as the agent that publishes its public key at an https origin. It is a `Signer`.

    Args:
        key: the private key.
        agent_url: the origin where the key's directory is, such as ``https://bot.example``. None sends no
            Signature-Agent, for verifiers that were given the key.
        form: how Signature-Agent is written.
        components: what of each request is covered, besides Signature-Agent: ``@authority`` or ``@target-uri``, and
            any of ``@method``, ``@scheme``, ``@path`` and ``@query``. ``("@method", "@target-uri")`` binds a signature
            to one request; a proxy that rewrites URLs then breaks it. Some verifiers read ``@query`` wrongly where a
            URL has no query. Headers too, in lower case, as ``crawler-exact-price``: each is covered by the signatures
            of the requests that have it, and left out of the others, as no absent header can be covered (RFC 9421
            §2.5).
        lifetime: seconds from `created` to `expires`, a whole number up to 86,400. Both clocks may differ by less.
        label: the name of the signature in its headers, and the key of Signature-Agent's dictionary.

    Raises:
        OptionError: an argument makes no sense; the message names it.
    """

    __slots__ = ("_agent", "_covered", "_fields", "_key", "_label", "_lifetime", "agent_url")

    def __init__(
        self,
        key: SigningKey,
        *,
        agent_url: str | None,
        form: AgentForm = AgentForm.LEGACY,
        components: Sequence[str] = ("@authority",),
        lifetime: int = LIFETIME,
        label: str = "sig1",
    ) -> None:
        if not isinstance(key, SigningKey):
            # Not its repr, which may have the text of a key.
            raise OptionError(f"key: give a SigningKey, not a {type(key).__name__}")
        check_kind("form", form, AgentForm)
        check_kind("label", label, str)
        if not _LABEL.fullmatch(label):
            raise OptionError(
                f"label={label!r}: give a lower-case letter, then letters, digits, '_', '-', '.', '*'"
            )
        check_whole("lifetime", lifetime, least=1)
        if lifetime > MAX_LIFETIME:
            raise OptionError(f"lifetime={lifetime!r}: give at most {MAX_LIFETIME} seconds")
        given = components if isinstance(components, list | tuple) else ()
        named = {name for name in given if name in DERIVED or _is_field(name)}
        if not named & {"@authority", "@target-uri"} or len(named) != len(given):
            raise OptionError(
                f"components={components!r}: give each once, '@authority' or '@target-uri' among them;"
                f" known are {', '.join(DERIVED)}, and names of headers in lower case, but for those of signatures"
            )
        self._key = key
        self._label = label
        self._lifetime = lifetime
        self.agent_url: str | None = None if agent_url is None else origin_of(agent_url)
        """The origin that requests name; None if they name none."""
        self._agent: dict[str, str] = {}
        self._covered = [(f'"{name}"', DERIVED[name]) for name in components if name in DERIVED]
        self._fields = [name for name in components if name not in DERIVED]
        if self.agent_url is not None:
            self._agent["Signature-Agent"], identifier, value = agent_field(form, self.agent_url, label)
            self._covered.append((identifier, lambda *_: value))

    @classmethod
    def from_pem(
        cls,
        path: str | os.PathLike[str],
        *,
        agent_url: str | None,
        form: AgentForm = AgentForm.LEGACY,
        components: Sequence[str] = ("@authority",),
        lifetime: int = LIFETIME,
        label: str = "sig1",
    ) -> Self:
        """A signer whose key is in a file, as `SigningKey.from_pem` reads it.

        Raises:
            OptionError: the file cannot be used, or an argument makes no sense.
        """
        key = SigningKey.from_pem(path)
        return cls(key, agent_url=agent_url, form=form, components=components, lifetime=lifetime, label=label)

    @property
    def key_id(self) -> str:
        """The thumbprint of the key (RFC 7638)."""
        return self._key.thumbprint

    def headers(
        self, method: str, url: str, now: float, sent: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """As `Signer.headers`, with a nonce of its own.

        Raises:
            OptionError: a header that is covered is not in ASCII.
        """
        created = int(now)
        nonce = b64encode(os.urandom(NONCE_BYTES)).decode("ascii")
        expires = created + self._lifetime
        return self.signed(method, url, sent, created=created, expires=expires, nonce=nonce)

    def signed(
        self,
        method: str,
        url: str,
        sent: Mapping[str, str] | None = None,
        *,
        created: int,
        expires: int,
        nonce: str,
    ) -> dict[str, str]:
        """The headers of a request for given instants (seconds since the epoch) and a given nonce (base64).

        Raises:
            OptionError: as `headers`.
            InvalidURLError: the URL has no host, or is not as it is sent.
        """
        target = Target.of(url)
        covered = [(identifier, value_of(method, target)) for identifier, value_of in self._covered]
        values = [(name, value_of_field(name, sent or {})) for name in self._fields]
        covered += [(f'"{name}"', value) for name, value in values if value is not None]
        parameters: dict[str, str | int] = {
            "created": created,
            "keyid": self._key.thumbprint,
            "alg": "ed25519",
            "expires": expires,
            "nonce": nonce,
            "tag": TAG,
        }
        return self._agent | signature_headers(self._key, self._label, covered, parameters)

    def __repr__(self) -> str:
        return f"<Ed25519Signer {self.key_id} of {self.agent_url}>"


def _is_field(name: object) -> bool:
    """Whether a component is the name of a header that may be covered."""
    return isinstance(name, str) and name not in _OWN and _FIELD.fullmatch(name) is not None
