"""The crawler's identity: the product token that rules are looked up by, and the headers of every request.

They belong together (RFC 9309 §2.2.1): site owners must find the name that they see in their logs in robots.txt.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy

from robotgate.errors import OptionError
from robotgate.options import check_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+")
_EMAIL: Final = re.compile(r"[^@\s<>,;:]+@[^@\s<>,;:]+")
_PAGE: Final = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?(?:[/?#][^\s()]*)?", re.ASCII | re.IGNORECASE
)
"""Without blanks and brackets, which would end the comment of the User-Agent."""
_HEADER_SAFE: Final = re.compile(r"[\x20-\x7e]+")


@runtime_checkable
class Signer(Protocol):
    """Signs requests, so that sites can verify whose crawler they see. `robotgate.signing.Ed25519Signer` is one."""

    def headers(self, method: str, url: str, now: float, sent: Mapping[str, str]) -> Mapping[str, str]:
        """The headers that sign one request. They replace headers of the same names.

        It is called for each hop and each attempt, just before it is sent, so it has to be fast. The names are the same
        at each call.

        Args:
            method: the request's method.
            url: what is requested, without fragment and credentials.
            now: seconds since the epoch, by the machine's clock.
            sent: the headers of the request, with those of an earlier signature, if it has one. Names in any case; of a
                multidict, a name may have several lines.
        """


@dataclass(frozen=True, slots=True)
class Identity:
    """The product token, and the headers that name it."""

    token: str
    """The product token (RFC 9309 §2.2.1)."""
    user_agent: str
    """The User-Agent header."""
    mail: str | None
    """The From header (RFC 9110 §10.1.2); None when the contact is a URL, which is part of the User-Agent."""
    signer: Signer | None = field(default=None, repr=False, compare=False)
    """Signs every request; None if requests are not signed."""
    headers: CIMultiDictProxy[str] = field(init=False, repr=False, compare=False)
    """The headers of every request. A multidict: aiohttp would convert another mapping for each request."""

    def __post_init__(self) -> None:
        headers = CIMultiDict({"User-Agent": self.user_agent})
        if self.mail is not None:
            headers["From"] = self.mail
        object.__setattr__(self, "headers", CIMultiDictProxy(headers))

    def is_complete(self, headers: CIMultiDict[str]) -> bool:
        """Whether a request has these headers, and no other User-Agent."""
        return headers.getall(hdrs.USER_AGENT, None) == [self.user_agent] and (
            self.mail is None or hdrs.FROM in headers
        )

    def complete(self, headers: MutableMapping[str, str]) -> None:
        """Add the missing ones of our headers to a request's. Names are compared without case, in a plain dict too.

        Raises:
            OptionError: there is a User-Agent that does not name the token whose rules are obeyed.
        """
        given = CIMultiDict(headers)
        for agent in given.getall("User-Agent", ()):
            if agent != self.user_agent and not _names(agent, self.token):
                raise OptionError(
                    f"the User-Agent {agent!r} does not name {self.token!r}, the token whose rules are obeyed"
                )
        for name, value in self.headers.items():
            if name not in given:
                headers[name] = value

    def signature(self, method: str, url: str, sent: Mapping[str, str]) -> Mapping[str, str]:
        """The headers that sign one request that is sent now; none without a signer.

        Args:
            sent: as for `Signer.headers`.
        """
        if self.signer is None:
            return {}
        # Not by the gate's clock, which stops while the machine is suspended: verifiers compare with the real time.
        return self.signer.headers(method, url, time.time(), sent)


def identify(agent: str, *, contact: str, token: str | None, signer: Signer | None = None) -> Identity:
    """The identity of a crawler.

    Args:
        agent: the User-Agent, such as ``ExampleBot/1.0``.
        contact: where to reach the operator: an e-mail address, sent as From, or an http(s) URL, added to the
            User-Agent.
        token: the name in robots.txt; by default the text of `agent` before the first ``/`` or blank.
        signer: signs every request.

    Raises:
        OptionError: one of them cannot be used; the message names it.
    """
    check_kind("agent", agent, str)
    check_kind("contact", contact, str)
    check_kind("token", token, str | None)
    given: object = signer
    if not isinstance(given, Signer | None) or isinstance(given, type):
        # Without its repr, which may be the text of a key.
        raise OptionError(f"signer: give a Signer, not a {type(signer).__name__}")
    agent = agent.strip()
    if not _HEADER_SAFE.fullmatch(agent):
        raise OptionError(f"agent={agent!r}: give a name in printable ASCII, such as 'ExampleBot/1.0'")
    is_mail = _EMAIL.fullmatch(contact) is not None
    if not _HEADER_SAFE.fullmatch(contact) or not (is_mail or _PAGE.fullmatch(contact)):
        raise OptionError(
            f"contact={contact!r}: give an e-mail address or an http(s) URL where site owners reach you"
        )
    name = re.split(r"[/\s]", agent, maxsplit=1)[0] if token is None else token
    if not _TOKEN.fullmatch(name) or name.lower() == "mozilla":
        raise OptionError(
            f"token={name!r}: a product token is made of letters, '_' and '-' (RFC 9309 §2.2.1), and is not that of"
            " every browser; give the name that sites know you by, such as token='ExampleBot'"
        )
    if not _names(agent, name):
        raise OptionError(f"token={name!r} does not appear in agent={agent!r}: site owners would not find it")
    if is_mail or contact in agent:
        return Identity(name, agent, contact if is_mail else None, signer)
    return Identity(name, f"{agent} (+{contact})", None, signer)


def _names(user_agent: str, token: str) -> bool:
    """Whether a word of a User-Agent begins with the token: ``Bot`` is not named in ``Googlebot/2.1``."""
    return re.search(rf"(?<![\w-]){re.escape(token)}", user_agent, re.ASCII | re.IGNORECASE) is not None
