"""A verifier of Web Bot Auth that shares no code with the signer.

`http_message_signatures` reads the headers and rebuilds what was signed, PyNaCl verifies, and `http_sf` reads
Signature-Agent. The signer does all of this itself, and signs with `cryptography`.
"""

from __future__ import annotations

import base64
import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import http_sf
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    HTTPSignatureKeyResolver,
    InvalidSignature,
)
from multidict import CIMultiDict
from nacl.signing import VerifyKey

from robotgate.signing import AgentForm, SigningKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.gate.servers import Visit

TAG: Final = "web-bot-auth"
DIRECTORY: Final = "/.well-known/http-message-signatures-directory"
SIGNED_BY: Final = ("Signature", "Signature-Input", "Signature-Agent")
RFC_PRIVATE: Final = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
RFC_PUBLIC: Final = base64.urlsafe_b64decode("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs=")
"""The test key of RFC 9421 B.1.4."""
RFC_THUMBPRINT: Final = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


class Ed25519ByNaCl(HTTPSignatureAlgorithm):
    """Verifies by another library than the one that signs."""

    algorithm_id = "ed25519"

    def __init__(self, public_key: bytes | None = None, private_key: None = None) -> None:
        assert public_key is not None
        self._key = VerifyKey(public_key)

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise if the signature is not that of the message."""
        self._key.verify(message, signature)


class Keys(HTTPSignatureKeyResolver):
    """The public keys that a verifier knows, by thumbprint."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = keys

    def resolve_public_key(self, key_id: str) -> bytes:
        """The key of this thumbprint."""
        return self._keys[key_id]


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as `http_message_signatures` reads it."""

    method: str
    url: str
    headers: CIMultiDict[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as `http_message_signatures` reads it."""

    request: Request
    status_code: int
    headers: CIMultiDict[str]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verifier has learnt of a request."""

    key_id: str
    agent: str
    lifetime: int
    components: frozenset[str]


def public_half(key: SigningKey) -> tuple[str, bytes]:
    """The thumbprint and the public bytes of a key."""
    return key.thumbprint, base64.urlsafe_b64decode(key.x + "=")


@dataclass(slots=True)
class Verifier:
    """Verifies requests as a site does, and refuses a nonce that comes twice."""

    keys: Mapping[str, bytes]
    form: AgentForm = AgentForm.LEGACY
    nonces: set[str | None] = field(default_factory=set)

    def check(self, request: Request) -> Verified:
        """The verified request.

        Raises:
            InvalidSignature: it is not signed as the drafts require.
        """
        for name in SIGNED_BY:
            if len(request.headers.getall(name, ())) != 1:
                raise InvalidSignature(f"there is not one {name}")
        verifier = HTTPMessageVerifier(signature_algorithm=Ed25519ByNaCl, key_resolver=Keys(self.keys))
        (found,) = verifier.verify(request, expect_tag=TAG, max_age=dt.timedelta(days=1))
        covered = frozenset(found.covered_components)
        if not covered & {'"@authority"', '"@target-uri"'}:
            raise InvalidSignature("nothing says where the request goes to")
        agent = self._agent(request.headers["Signature-Agent"], found.label, covered)
        values = found.parameters
        if found.nonce in self.nonces:
            raise InvalidSignature("the nonce was used before")
        self.nonces.add(found.nonce)
        return Verified(str(values["keyid"]), agent, int(values["expires"]) - int(values["created"]), covered)

    def check_visits(self, visits: Iterable[Visit]) -> list[Verified]:
        """Check all requests that a web has had; the URLs are what its servers saw."""
        return [self.check(Request(each.method, each.url, CIMultiDict(each.headers))) for each in visits]

    def _agent(self, header: str, label: str, covered: frozenset[str]) -> str:
        """The URL that a signature names as its agent's."""
        is_string = self.form is AgentForm.LEGACY
        component = '"signature-agent"' if is_string else f'"signature-agent";key="{label}"'
        if component not in covered:
            raise InvalidSignature("Signature-Agent is not covered")
        read = http_sf.parse(header.encode(), tltype="item" if is_string else "dictionary")
        member = read[label] if isinstance(read, dict) else read
        value, parameters = member if isinstance(member, tuple) else (None, {})
        if not isinstance(value, str) or parameters:
            raise InvalidSignature("Signature-Agent is no string")
        return value
