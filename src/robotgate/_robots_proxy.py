"""The proxy through which a robots.txt is asked for: that of the page on whose account it is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from multidict import CIMultiDict
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from aiohttp import BasicAuth


@dataclass(frozen=True, slots=True)
class Proxy:
    """What a request goes through."""

    url: URL
    """With credentials, where there are any."""
    headers: CIMultiDict[str]
    """For the proxy itself, when it makes a tunnel."""


def proxy_of_robots() -> Proxy | None:
    """What a robots.txt is to be asked for through, here and now."""
    return _proxy.get()


def robots_proxy(
    url: str | URL | None, *, auth: BasicAuth | None, headers: Mapping[str, str] | None
) -> AbstractContextManager[None]:
    """Within this block a robots.txt is asked for through the proxy that its page goes through; directly, if by none.

    Who crawls through a proxy has reasons, and a robots.txt that is asked for directly would tell who he is.
    """
    if url is None:
        # A task that was begun within such a block goes on in its context.
        return _AS_IT_IS if _proxy.get() is None else _Through(None)
    url = URL(url)
    if auth is not None:
        # Where aiohttp reads them alike in all its versions.
        url = url.with_user(auth.login).with_password(auth.password)
    # aiohttp writes into the headers it is given.
    return _Through(Proxy(url, CIMultiDict(headers or ())))


class _Through(AbstractContextManager[None]):
    """Within it, the proxy is this one, or none."""

    __slots__ = ("_inner", "_token")

    def __init__(self, proxy: Proxy | None) -> None:
        self._inner = proxy

    def __enter__(self) -> None:
        self._token = _proxy.set(self._inner)

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _proxy.reset(self._token)


_AS_IT_IS: Final = nullcontext()
_proxy: ContextVar[Proxy | None] = ContextVar("robotgate_robots_proxy", default=None)
