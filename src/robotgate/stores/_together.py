"""Questions that are asked in the same turn of the event loop travel together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from robotgate._errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

K = TypeVar("K")
V = TypeVar("V")


class Together(Generic[K, V]):
    """Asks for many at once.

    Args:
        ask: for these keys; answers with those that are known.
    """

    def __init__(self, ask: Callable[[Collection[K]], asyncio.Future[dict[K, V]]]) -> None:
        self._ask = ask
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}

    async def get(self, key: K) -> V | None:
        """What is known of this one.

        Raises:
            StoreError: it could not be asked for.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._set_out)
        answer: asyncio.Future[V | None] = loop.create_future()
        self._waiting.setdefault(key, []).append(answer)
        return await answer

    def _set_out(self) -> None:
        waiting, self._waiting = self._waiting, {}
        try:
            asked = self._ask(waiting.keys())
        except StoreError as error:
            _fail(waiting, error)
            return
        asked.add_done_callback(lambda asked: _answer(waiting, asked))


def _answer(waiting: Mapping[K, list[asyncio.Future[V | None]]], asked: asyncio.Future[dict[K, V]]) -> None:
    error = asked.exception()
    if error is not None:
        _fail(waiting, error)
        return
    found = asked.result()
    for key, answers in waiting.items():
        for answer in answers:
            # Whoever was cancelled does not wait any more.
            if not answer.done():
                answer.set_result(found.get(key))


def _fail(waiting: Mapping[K, list[asyncio.Future[V | None]]], error: BaseException) -> None:
    for answers in waiting.values():
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)
