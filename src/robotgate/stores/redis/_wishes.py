"""Replies that somebody waits for: he may stop, or be told that it is in vain; the call goes its way all the same."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._errors import StoreError

T = TypeVar("T")


class Wishes:
    """Who waits for the server now."""

    def __init__(self) -> None:
        self._refusals: set[Callable[[StoreError], None]] = set()

    async def get(self, reply: asyncio.Future[T]) -> T:
        """The reply.

        Raises:
            StoreError: there is none, or `fail` said so.
        """
        wish: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(partial(_grant, wish))
        refuse = partial(_refuse, wish)
        self._refusals.add(refuse)
        try:
            return await wish
        finally:
            self._refusals.discard(refuse)

    def fail(self, error: StoreError) -> None:
        """Tell all who wait now not to."""
        for refuse in list(self._refusals):
            refuse(error)


def _refuse(wish: asyncio.Future[T], error: StoreError) -> None:
    if not wish.done():
        wish.set_exception(error)


def _grant(wish: asyncio.Future[T], reply: asyncio.Future[T]) -> None:
    if wish.done():
        return
    if reply.cancelled():
        wish.cancel()
        return
    error = reply.exception()
    if error is None:
        wish.set_result(reply.result())
    else:
        wish.set_exception(error)
