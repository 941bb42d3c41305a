"""What `gate.fetch` returns: a page read to its end, and how it came."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, overload

from multidict import CIMultiDict, CIMultiDictProxy

from robotgate._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never


_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_NOT_FOR_PAGES: Final = frozenset(
    {"unicode-escape", "raw-unicode-escape", "unicode_escape", "raw_unicode_escape"}
)
"""Codecs of Python source code, which warn of what is none."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One answer that redirected."""

    url: str
    status: int


class _WorkedOut:
    """A field that is given a verdict, or what works it out when somebody looks: few do, and it takes as long as
    judging again.
    """

    def __init__(self, slot: str) -> None:
        self._slot = slot

    @overload
    def __get__(self, response: None, owner: type[Response]) -> Never: ...
    @overload
    def __get__(self, response: Response, owner: type[Response]) -> Verdict: ...
    def __get__(self, response: Response | None, owner: type[Response]) -> Verdict:
        if response is None:
            # Whoever asks the class, as `dataclass` does, learns that there is no default.
            raise AttributeError(f"{owner.__name__} objects have a verdict")
        given: Verdict | Callable[[], Verdict] = getattr(response, self._slot)
        if isinstance(given, Verdict):
            return given
        verdict = given()
        object.__setattr__(response, self._slot, verdict)
        return verdict

    def __set__(self, response: Response, given: Verdict | Callable[[], Verdict]) -> None:
        object.__setattr__(response, self._slot, given)


@dataclass(frozen=True, kw_only=True)
class Response:
    """A page whose body has been read; its host's turn is over."""

    # By hand: `dataclass` would put a slot in the place of `verdict`.
    __slots__ = ("_verdict", "body", "elapsed", "headers", "history", "status", "url", "waited")

    status: int
    headers: CIMultiDictProxy[str]
    url: str
    """Where the page was read from in the end, after redirects."""
    history: tuple[Hop, ...]
    """The answers that redirected here, first to last."""
    body: bytes
    """Decoded as Content-Encoding says."""
    waited: float
    """Seconds spent waiting for the hosts' turns, over all hops."""
    elapsed: float
    """Seconds from the moment the last hop was sent until its body was read."""
    verdict: _WorkedOut = _WorkedOut("_verdict")
    """Why the last hop was allowed: a `Verdict`, the same at each look."""

    def __getstate__(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # A view of what can be copied, which cannot itself.
        values["headers"] = CIMultiDict(self.headers)
        return values

    def __setstate__(self, values: dict[str, object]) -> None:
        for name, value in values.items():
            kept = CIMultiDictProxy(value) if isinstance(value, CIMultiDict) else value
            object.__setattr__(self, name, kept)

    @property
    def encoding(self) -> str:
        """The charset that Content-Type names, if Python knows it as one of text; else ``utf-8``."""
        named = _CHARSET.search(self.headers.get("Content-Type", ""))
        try:
            charset = codecs.lookup(named[1] if named else "utf-8").name
            # Only an attempt tells codecs of text from the others, and those that cannot replace.
            b"\xff".decode(charset, errors="replace")
        except (LookupError, ValueError):
            return "utf-8"
        return "utf-8" if charset in _NOT_FOR_PAGES else charset

    @property
    def text(self) -> str:
        """The body as text; octets that do not fit the charset become U+FFFD."""
        return self.body.decode(self.encoding, errors="replace")

    def json(self) -> object:
        """The body read as JSON.

        Raises:
            ValueError: it is not JSON.
        """
        return json.loads(self.body)
