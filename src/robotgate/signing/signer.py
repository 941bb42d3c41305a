"""The signer of a gate: Ed25519 signatures as the drafts of Web Bot Auth want them."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final, Self

from robotgate.errors import OptionError
from robotgate.options import check_kind, check_whole
from robotgate.signing.keys import SigningKey
from robotgate.signing.message import (
    DERIVED,
    AgentForm,
    Target,
    agent_field,
    origin_of,
    signature_headers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LIFETIME: Final = 60
"""Seconds: the default. An eavesdropper could reuse a signature for so long."""
MAX_LIFETIME: Final = 24 * 3600
"""Seconds: the most that the drafts recommend."""
NONCE_BYTES: Final = 64
TAG: Final = "web-bot-auth"
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
            any of ``@method``, ``@scheme``, ``@path`` and ``@query``. More of them bind a signature to one request; a
            proxy that rewrites URLs then breaks it.
        lifetime: seconds from `created` to `expires`, a whole number up to 86,400. Both clocks may differ by less.
        label: the name of the signature in its headers, and the key of Signature-Agent's dictionary.

    Raises:
        OptionError: an argument makes no sense; the message names it.
    """

    __slots__ = ("_agent", "_agent_line", "_components", "_key", "_label", "_lifetime", "agent_url")

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
        named = set(given).intersection(DERIVED)
        if not named & {"@authority", "@target-uri"} or len(named) != len(given):
            raise OptionError(
                f"components={components!r}: give each once, '@authority' or '@target-uri' among them;"
                f" known are {', '.join(DERIVED)}"
            )
        self._key = key
        self._label = label
        self._lifetime = lifetime
        self._components = [(f'"{name}"', DERIVED[name]) for name in components]
        self.agent_url = None if agent_url is None else origin_of(agent_url)
        """The origin that requests name; None if they name none."""
        self._agent: dict[str, str] = {}
        self._agent_line: list[tuple[str, str]] = []
        if self.agent_url is not None:
            header, identifier, value = agent_field(form, self.agent_url, label)
            self._agent = {"Signature-Agent": header}
            self._agent_line = [(identifier, value)]

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

    def headers(self, method: str, url: str, now: float) -> dict[str, str]:
        """As `Signer.headers`, with a nonce of its own."""
        created = int(now)
        nonce = b64encode(os.urandom(NONCE_BYTES)).decode("ascii")
        return self.signed(method, url, created=created, expires=created + self._lifetime, nonce=nonce)

    def signed(self, method: str, url: str, *, created: int, expires: int, nonce: str) -> dict[str, str]:
        """The headers of a request for given instants (seconds since the epoch) and a given nonce (base64).

        Raises:
            InvalidURLError: the URL has no host, or is not as it is sent.
        """
        target = Target.of(url)
        covered = [(identifier, value_of(method, target)) for identifier, value_of in self._components]
        parameters: dict[str, str | int] = {
            "created": created,
            "keyid": self._key.thumbprint,
            "alg": "ed25519",
            "expires": expires,
            "nonce": nonce,
            "tag": TAG,
        }
        return self._agent | signature_headers(self._key, self._label, covered + self._agent_line, parameters)

    def __repr__(self) -> str:
        return f"<Ed25519Signer {self.key_id} of {self.agent_url}>"
