"""What `gate.fetch` returns: a page read to its end, and how it came."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

from aiohttp import ClientResponseError, RequestInfo, hdrs
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy
from yarl import URL

from robotgate.pace.state import GOOD_BELOW
from robotgate.prices import Price, parse_price
from robotgate.rules.verdict import Verdict  # The docs resolve type hints by it.
from robotgate.statements import Preferences
from robotgate.urls import read_links

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from robotgate.client.turns import PageTurn
    from robotgate.preferences.tdmrep import TdmRep


_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_LONGEST_SHOWN: Final = 200
"""Characters of a URL."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One answer that redirected."""

    url: str
    status: int


class Text(str):
    """A page's text, which may be called and awaited, as the method of aiohttp. It is pickled as plain text."""

    __slots__ = ("_body", "_encoding")

    _body: bytes
    _encoding: str

    def __new__(cls, body: bytes, encoding: str) -> Self:
        """Decode a body."""
        text = super().__new__(cls, body, encoding, "replace")
        text._body, text._encoding = body, encoding
        return text

    async def __call__(self, encoding: str | None = None, errors: str = "replace") -> str:
        """Return plain text, by default the same.

        Raises:
            LookupError, UnicodeDecodeError: as `bytes.decode`.
        """
        return self._body.decode(encoding or self._encoding, errors)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class JsonObject(dict[str, object]):
    """An object of JSON, which may be awaited, as what aiohttp returns. It is pickled as a plain `dict`."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, object]:
        yield from ()
        return dict(self)

    def __reduce__(self) -> tuple[type[dict[str, object]], tuple[dict[str, object]]]:
        return dict, (dict(self),)


class JsonArray(list[object]):
    """An array of JSON, as `JsonObject`."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, object]:
        yield from ()
        return list(self)

    def __reduce__(self) -> tuple[type[list[object]], tuple[list[object]]]:
        return list, (list(self),)


class Response:
    """A page whose body has been read; its host's turn is over."""

    # The order of the constructor's arguments.
    __slots__ = (  # noqa: RUF023
        "status",
        "headers",
        "_url",
        "history",
        "body",
        "waited",
        "elapsed",
        "_verdict",
        "method",
        "reason",
        "tdmrep",
    )

    def __init__(  # noqa: PLR0917  # Keywords take twice as long.
        self,
        status: int,
        headers: CIMultiDictProxy[str] | CIMultiDict[str],
        url: str | URL,
        history: tuple[Hop, ...],
        body: bytes,
        waited: float,
        elapsed: float,
        verdict: Verdict | PageTurn,
        method: str = "GET",
        reason: str = "",
        tdmrep: TdmRep | None = None,
    ) -> None:
        self.status: int = status
        self.headers: CIMultiDictProxy[str] = CIMultiDictProxy(headers)
        self._url = url
        self.history: tuple[Hop, ...] = history
        """The answers that redirected here, first to last."""
        self.body: bytes = body
        """Decoded as Content-Encoding says."""
        self.waited: float = waited
        """Seconds spent waiting for the hosts' turns, over all hops."""
        self.elapsed: float = elapsed
        """Seconds from the moment the last hop was sent until its body was read."""
        self._verdict = verdict
        self.method: str = method
        """Of the last hop."""
        self.reason: str = reason
        """The words behind the status, as ``Not Found``."""
        self.tdmrep: TdmRep | None = tdmrep
        """The origin's tdmrep.json, if the gate reads these."""

    @property
    def url(self) -> str:
        """Where the page was read from in the end, after redirects."""
        return str(self._url)

    @property
    def verdict(self) -> Verdict:
        """Why the last hop was allowed."""
        # Worked out when it is read: few responses are asked for it.
        if not isinstance(self._verdict, Verdict):
            self._verdict = self._verdict.verdict
        return self._verdict

    @property
    def price(self) -> Price | None:
        """What the site asks for the page; None unless the status is 402. Nothing is paid.

        If the headers name no price that can be read, its scheme is ``unknown``.
        """
        return parse_price(self.status, self.headers)

    @property
    def preferences(self) -> Preferences:
        """What robots.txt, the headers and the page say about the use of the page. Sends no request.

        Raises:
            ModuleNotFoundError: the extra ``preferences`` is not installed.
        """
        return self._preferences(has_robots=True)

    def _preferences(self, *, has_robots: bool) -> Preferences:
        """As `preferences`.

        Args:
            has_robots: whether robots.txt is read.
        """
        from robotgate.preferences.read import MAX_HEAD, PAGE_TYPES, parse_preferences  # noqa: PLC0415  # Needs an extra; few ask for it.

        kind = self.headers.get(hdrs.CONTENT_TYPE, PAGE_TYPES[0]).partition(";")[0].strip().lower()
        html = None
        if kind in PAGE_TYPES:
            html = self.body[: 4 * MAX_HEAD].decode(self.encoding, errors="replace")
        verdict = self.verdict
        found = parse_preferences(
            self.headers,
            html,
            tdmrep=self.tdmrep,
            url=verdict.url,
            agent=None if verdict.robots is None else verdict.robots[1],
        )
        if not has_robots:
            return found
        return Preferences.of([*verdict.preferences.statements, *found.statements])

    def __repr__(self) -> str:
        url = self.url if len(self.url) <= _LONGEST_SHOWN else f"{self.url[:_LONGEST_SHOWN]}…"
        return f"<Response {self.status} {url} {len(self.body)} bytes>"

    def __reduce__(self) -> tuple[Callable[..., Response], tuple[object, ...]]:
        status, _, *others = [getattr(self, name.removeprefix("_")) for name in self.__slots__]
        # A view of headers cannot be pickled.
        return Response, (status, CIMultiDict(self.headers), *others)

    # As aiohttp's responses, which `gate.fetch` gives as streams.

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < GOOD_BELOW

    def raise_for_status(self) -> None:
        """Do nothing if the status is below 400.

        Raises:
            aiohttp.ClientResponseError: it is 400 or more. Its `request_info` has the URL and the method, without the
                headers that were sent; its `history` is empty.
        """
        if not self.ok:
            url = URL(self._url)
            sent = RequestInfo(url, self.method, CIMultiDictProxy(CIMultiDict()), url)
            raise ClientResponseError(sent, (), status=self.status, message=self.reason, headers=self.headers)

    @property
    def content_type(self) -> str:
        """The type and subtype of Content-Type; where there is none, ``application/octet-stream``."""
        named = self.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
        return named if named.count("/") == 1 else "application/octet-stream"

    @property
    def charset(self) -> str | None:
        """The charset that Content-Type names, as it is written, or None. `encoding` is one that Python knows."""
        named = _CHARSET.search(self.headers.get(hdrs.CONTENT_TYPE, ""))
        return named[1] if named else None

    @property
    def links(self) -> MultiDictProxy[MultiDictProxy[str | URL]]:
        """The links of the Link headers (RFC 8288), by relation, or by target without one.

        Each has its parameters as text, and its absolute target as ``["url"]``. Targets that are no URL are left out.
        """
        links: MultiDict[MultiDictProxy[str | URL]] = MultiDict()
        base = URL(self._url)
        found = chain.from_iterable(map(read_links, self.headers.getall(hdrs.LINK, ())))
        for target, parameters in found:
            link: MultiDict[str | URL] = MultiDict(parameters)
            try:
                link["url"] = base.join(URL(target))
            except ValueError:
                continue
            links.add(str(link.get("rel") or target), MultiDictProxy(link))
        return MultiDictProxy(links)

    @property
    def encoding(self) -> str:
        """The charset that Content-Type names, if Python knows it as one of text; else ``utf-8``."""
        try:
            charset = codecs.lookup(self.charset or "utf-8").name
            # Only an attempt tells codecs of text from the others, and those that cannot replace.
            b"\xff".decode(charset, errors="replace")
        except (LookupError, ValueError):
            return "utf-8"
        # The codecs of Python's source code, unicode-escape and raw-unicode-escape, warn of what is none.
        return "utf-8" if charset.endswith("escape") else charset

    @property
    def text(self) -> Text:
        """The body as text; bytes that do not fit the charset become U+FFFD.

        ``await response.text()`` is the same, and takes aiohttp's ``encoding`` and ``errors``. For these, the text
        keeps the body in memory; ``str(response.text)`` does not.
        """
        return Text(self.body, self.encoding)

    def json(self) -> JsonObject | JsonArray | Awaitable[object]:
        """The body read as JSON. If it is an object or an array, ``await response.json()`` is the same.

        Any other value is returned as it is, and cannot be awaited, although type checkers let you.

        Raises:
            ValueError: it is not JSON.
        """
        value: Awaitable[object] = json.loads(self.body)
        if isinstance(value, dict):
            return JsonObject(value)
        return JsonArray(value) if isinstance(value, list) else value

    async def read(self) -> bytes:
        """The body, as `body`."""
        return self.body
