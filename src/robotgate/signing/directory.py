"""The files of an agent: the directory of its public keys, signed by each key, and its Signature Agent Card."""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from aiohttp import web

from robotgate.errors import OptionError
from robotgate.identity import identify
from robotgate.options import check_kind
from robotgate.signing.signer import DIRECTORY_PATH, AgentForm, Target, origin_of, signature_headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate.signing.keys import SigningKey

MEDIA_TYPE: Final = "application/http-message-signatures-directory+json"
TAG: Final = "http-message-signatures-directory"
CARD_PATH: Final = "/.well-known/signature-agent-card"
"""The drafts name no place: the card is found by its URL, which it has as its `client_id`."""
LIFETIME: Final = 24 * 3600
"""Seconds: the default of a directory's signature."""
_IN_MAILTO: Final = "@!$'*+"
"""What is not escaped in an address, besides letters, digits and ``-._~`` (RFC 6068 §2)."""
MAX_AGE: Final = 3600
"""Seconds for which verifiers may keep a directory, at most: a new key is known after so long."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The public keys of an agent.

    Args:
        keys: both keys, while one replaces another. Repetitions are dropped.
        agent_url: the https origin where it is published.
        form: the drafts after the legacy form cover the body as well as the host.

    Raises:
        OptionError: an argument makes no sense; the message names it.
    """

    keys: tuple[SigningKey, ...]
    agent_url: str
    form: AgentForm = AgentForm.LEGACY

    def __post_init__(self) -> None:
        keys = {key.thumbprint: key for key in self.keys}
        if not keys:
            raise OptionError("keys: give at least one")
        check_kind("form", self.form, AgentForm)
        object.__setattr__(self, "keys", tuple(keys.values()))
        object.__setattr__(self, "agent_url", origin_of(self.agent_url))

    @property
    def body(self) -> bytes:
        """The content of the directory."""
        return directory_body(self.keys)

    def headers(self, now: float, *, lifetime: int = LIFETIME) -> dict[str, str]:
        """The headers of the response that carries the body.

        Each key signs the host's name: a copy of the directory at another host is not valid.

        Args:
            now: seconds since the epoch.
            lifetime: seconds until the signatures expire.
        """
        digest = f"sha-256=:{b64encode(hashlib.sha256(self.body).digest()).decode('ascii')}:"
        covered = [('"@authority";req', Target.of(self.agent_url).authority)]
        if self.form is not AgentForm.LEGACY:
            covered.append(('"content-digest"', digest))
        headers = {
            "Content-Type": MEDIA_TYPE,
            "Cache-Control": f"max-age={min(MAX_AGE, lifetime)}",
            "Content-Digest": digest,
        }
        times: dict[str, str | int] = {"created": int(now), "expires": int(now) + lifetime}
        for number, key in enumerate(self.keys, start=1):
            label = "binding" if number == 1 else f"binding{number}"
            parameters = {**times, "keyid": key.thumbprint, "tag": TAG}
            for name, value in signature_headers(key, label, covered, parameters).items():
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    def card(self, agent: str, *, contact: str, token: str | None = None) -> bytes:
        """The Signature Agent Card: the crawler's name, contact and keys, in JSON.

        It follows draft-meunier-webbotauth-registry-04. Earlier revisions have a list as its ``rfc9309-compliance``.

        Args:
            agent, contact, token: as for `RobotGate`.

        Raises:
            OptionError: one of them cannot be used.
        """
        identity = identify(agent, contact=contact, token=token)
        # A URI, of which an address is a part (RFC 6068 §2).
        reached_at = contact if identity.mail is None else f"mailto:{quote(identity.mail, safe=_IN_MAILTO)}"
        return _as_json(
            {
                "client_id": f"{self.agent_url}{CARD_PATH}",
                "client_name": identity.token,
                "client_uri": self.agent_url,
                "contacts": [reached_at],
                "jwks_uri": f"{self.agent_url}{DIRECTORY_PATH}",
                "web_bot_auth": {
                    "expected-user-agent": identity.user_agent,
                    "rfc9309-product-token": identity.token,
                    "rfc9309-compliance": True,
                    "trigger": "crawler",
                },
            }
        )


def server_of(directory: Directory, card: bytes | None) -> web.Application:
    """A server of a directory, and of a card if there is one.

    It answers only requests for the agent's own host: a signature for any other would let that host claim the keys. A
    proxy in front of it has to pass the Host header on.
    """
    own = Target.of(directory.agent_url).authority

    async def send(request: web.Request) -> web.Response:
        if Target.of(f"https://{request.host}").authority != own:
            raise web.HTTPMisdirectedRequest(text=f"This is the server of {own}.\n")
        if request.path == CARD_PATH:
            return web.Response(body=card, content_type="application/json")
        return web.Response(body=directory.body, headers=directory.headers(time.time()))

    application = web.Application()
    application.router.add_get(DIRECTORY_PATH, send)
    if card is not None:
        application.router.add_get(CARD_PATH, send)
    return application


def directory_body(keys: Iterable[SigningKey]) -> bytes:
    """The JWK set of some keys (RFC 7517 §5)."""
    return _as_json({"keys": [key.jwk for key in keys]})


def _as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
