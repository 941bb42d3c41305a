"""What is signed of a message, and how the signature is written. No I/O.

RFC 9421 defines the signature, the drafts of Web Bot Auth what a crawler signs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate.errors import InvalidURLError, OptionError
from robotgate.options import check_kind
from robotgate.urls import Origin, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from robotgate.signing.keys import SigningKey

DIRECTORY_PATH: Final = "/.well-known/http-message-signatures-directory"
"""Where verifiers request an agent's public keys."""
DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_URL: Final = re.compile(r"(?:[^:/?#]+)://(?:[^/?#]*@)?([^/?#]+)([^?#]*)(\?[^#]*)?", re.ASCII)
"""Authority, path and query. Every URL with an authority matches."""
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
        return cls(
            scheme, authority.removesuffix(DEFAULT_PORTS.get(scheme, " ")), found[2] or "/", found[3] or ""
        )


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
