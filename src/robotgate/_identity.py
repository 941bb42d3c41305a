"""Who we say we are: the product token that rules are looked up by, and the headers every request carries.

The three go together (RFC 9309 §2.2.1): a crawler that obeys one name and sends another tells site owners nothing.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from robotgate._checks import check_text
from robotgate._errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+")
_EMAIL: Final = re.compile(r"[^@\s<>,;:]+@[^@\s<>,;:]+")
_HEADER_SAFE: Final = re.compile(r"[\x20-\x7e]+")


class TokenWarning(UserWarning):
    """The product token is one that some sites cannot address."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The name rules are looked up by, and the headers that carry it."""

    token: str
    """The product token (RFC 9309 §2.2.1)."""
    user_agent: str
    """The User-Agent header."""
    mail: str | None
    """The From header (RFC 9110 §10.1.2); None when the contact is a URL, which stands in the User-Agent."""
    headers: Mapping[str, str] = field(init=False)
    """What every request of ours carries."""
    page_headers: CIMultiDictProxy[str] = field(init=False, repr=False, compare=False)
    """The same as aiohttp has them, which makes them of any other mapping anew for each request."""

    def __post_init__(self) -> None:
        headers = {"User-Agent": self.user_agent}
        if self.mail is not None:
            headers["From"] = self.mail
        object.__setattr__(self, "headers", MappingProxyType(headers))
        object.__setattr__(self, "page_headers", CIMultiDictProxy(CIMultiDict(headers)))

    def is_complete(self, headers: CIMultiDict[str]) -> bool:
        """Whether a request bears our headers already, and no other User-Agent beside ours."""
        return headers.getall("User-Agent", None) == [self.user_agent] and (
            self.mail is None or "From" in headers
        )

    def complete(self, headers: MutableMapping[str, str]) -> None:
        """Add what is missing of our headers to a request's; names are compared without case, in a plain dict too.

        Raises:
            OptionError: there is a User-Agent, and it does not name the token whose rules we obey.
        """
        agents = _values(headers, "User-Agent")
        for given in agents:
            if given != self.user_agent and not _names(given, self.token):
                raise OptionError(
                    f"the User-Agent {given!r} does not name {self.token!r}, the token whose rules are obeyed"
                )
        if not agents:
            headers["User-Agent"] = self.user_agent
        if self.mail is not None and not _values(headers, "From"):
            headers["From"] = self.mail


def identify(agent: str, *, contact: str, token: str | None) -> Identity:
    """Make an identity of the crawler's name and of how to reach who runs it.

    Args:
        agent: the User-Agent, as ``ExampleBot/1.0``.
        contact: an e-mail address, sent as From; or an http(s) URL, added to the User-Agent.
        token: the name in robots.txt; by default the text of `agent` before the first ``/`` or blank.

    Raises:
        OptionError: one of them cannot be used; the message names it.
    """
    check_text("agent", agent)
    check_text("contact", contact)
    check_text("token", token if token is not None else "")
    if not _HEADER_SAFE.fullmatch(agent.strip()):
        raise OptionError(f"agent={agent!r}: give a name in printable ASCII, as 'ExampleBot/1.0'")
    agent = agent.strip()
    mail, page = _contact(contact)
    name = _token(agent, token)
    if page is not None and page not in agent:
        agent = f"{agent} (+{page})"
    return Identity(name, agent, mail)


def _values(headers: Mapping[str, str], name: str) -> Sequence[str]:
    """All values of a header, however its name is written."""
    if isinstance(headers, CIMultiDict):
        return headers.getall(name, ())
    return [value for other, value in headers.items() if other.lower() == name.lower()]


def _contact(contact: str) -> tuple[str | None, str | None]:
    remedy = "give an e-mail address or an http(s) URL where site owners reach you"
    if not _HEADER_SAFE.fullmatch(contact):
        raise OptionError(f"contact={contact!r}: {remedy}")
    if _EMAIL.fullmatch(contact):
        return contact, None
    if contact.lower().startswith(("http://", "https://")):
        try:
            if URL(contact).host and not re.search(r"[\s()]", contact):
                return None, contact
        except ValueError:
            pass
    raise OptionError(f"contact={contact!r}: {remedy}")


def _names(user_agent: str, token: str) -> bool:
    """Whether a word of a User-Agent begins with the token: ``Bot`` is not named in ``Googlebot/2.1``."""
    return re.search(rf"(?<![\w-]){re.escape(token)}", user_agent, re.ASCII | re.IGNORECASE) is not None


def _token(agent: str, token: str | None) -> str:
    name = re.split(r"[/\s]", agent, maxsplit=1)[0] if token is None else token
    if not _TOKEN.fullmatch(name):
        raise OptionError(
            f"token={name!r}: a product token is made of letters, '_' and '-' (RFC 9309 §2.2.1);"
            " give the name sites know you by, as token='ExampleBot'"
        )
    if name.lower() == "mozilla":
        raise OptionError(
            "token='Mozilla' names every browser; give the name sites know you by, as token='ExampleBot'"
        )
    if not _names(agent, name):
        raise OptionError(f"token={name!r} does not appear in agent={agent!r}: site owners could not find it")
    if re.search(r"[0-9]", name):
        warnings.warn(
            f"the product token {name!r} holds digits, which RFC 9309 does not allow:"
            " some sites' tools will not recognise it",
            TokenWarning,
            stacklevel=4,
        )
    return name
