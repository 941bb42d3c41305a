"""What `gate.fetch` returns: a page read to its end, and how it came."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from multidict import CIMultiDictProxy

    from robotgate._verdict import Verdict


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A page whose body has been read; its host's turn is over."""

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
    explain: Callable[[], Verdict] = field(repr=False, compare=False)
    """Works the verdict out; few ask, and it takes as long as judging again."""

    @property
    def verdict(self) -> Verdict:
        """Why the last hop was allowed."""
        return self.explain()

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
