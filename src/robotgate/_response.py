"""What `gate.fetch` returns: a page read to its end, and how it came."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Generic, TypeVar, overload

from multidict import CIMultiDict, CIMultiDictProxy

from robotgate._verdict import Verdict  # noqa: TC001  # The docs' type hints are worked out by it.

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never


_Value = TypeVar("_Value")

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


class _WorkedOut(Generic[_Value]):
    """A field that is given a value, or what works it out when somebody looks: few do, and it takes longer than all
    else of making a response.
    """

    def __set_name__(self, owner: type[Response], name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    @overload
    def __get__(self, response: None, owner: type[Response]) -> Never: ...
    @overload
    def __get__(self, response: Response, owner: type[Response]) -> _Value: ...
    def __get__(self, response: Response | None, owner: type[Response]) -> _Value:
        if response is None:
            # Whoever asks the class, as `dataclass` does, learns that there is no default.
            raise AttributeError(f"{owner.__name__}.{self._name} is a field of its instances")
        given: _Value | Callable[[], _Value] = getattr(response, self._slot)
        if not callable(given):
            return given
        value: _Value = given()
        object.__setattr__(response, self._slot, value)
        return value

    def __set__(self, response: Response, given: _Value | Callable[[], _Value]) -> None:
        object.__setattr__(response, self._slot, given)


@dataclass(frozen=True, kw_only=True)
class Response:
    """A page whose body has been read; its host's turn is over."""

    # By hand: `dataclass` would put slots in the place of what is worked out.
    __slots__ = ("_url", "_verdict", "body", "elapsed", "headers", "history", "status", "waited")

    status: int
    headers: CIMultiDictProxy[str]
    url: _WorkedOut[str] = _WorkedOut()
    """Where the page was read from in the end, after redirects."""
    history: tuple[Hop, ...]
    """The answers that redirected here, first to last."""
    body: bytes
    """Decoded as Content-Encoding says."""
    waited: float
    """Seconds spent waiting for the hosts' turns, over all hops."""
    elapsed: float
    """Seconds from the moment the last hop was sent until its body was read."""
    verdict: _WorkedOut[Verdict] = _WorkedOut()
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
