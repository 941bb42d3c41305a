"""The operator's blocks of a fleet: what one process is told to leave alone, all leave alone.

Each word is until when a pattern is blocked, and when that was said, by the server's clock. Of a pattern, the word that
was said last holds, whatever way it took: so a process may tell all it knows as often as it likes, after a flush, or
once it reaches the server again, and undoes nothing that was said meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from robotgate._errors import StoreError
from robotgate.stores.redis._block_words import CHANGES, Word, pack_word, words_in
from robotgate.stores.redis._script import load
from robotgate.stores.redis._server_clock import READINGS
from robotgate.stores.redis._subscribers import Subscribers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link
    from robotgate.stores.redis._server_clock import ServerClock

SCRIPT: Final = load("blocks", keys_per_call=2)

_QUESTION: Final = Struct("<cddd")
"""Operation, seconds to keep it, generation, cursor."""
_SAYING: Final = Struct("<cd")
"""Operation, seconds to keep it; words follow."""
_TIME: Final = Struct("<d")
_AT_ONCE: Final = 200
"""Words in one call."""
_LATER: Final = 1e-6
"""Seconds; what is said of a pattern after something else is this much later, whatever the clocks say."""
PAUSE: Final = 1.0
"""Seconds from one look at what others have said to the next."""
_FAREWELL: Final = 2.0
"""Seconds for which closing waits for the server's time, if there is a word that cannot be told without."""
_MANY: Final = 256

_logger: Final = logging.getLogger("robotgate.stores")


class Blocks:
    """Passes the operator's word on, and hears of others'.

    From the first subscription on it looks again and again, by the loop's own timer: it keeps no program alive, and
    ends with its loop.

    Args:
        clock: hears of the server's time, and tells by it.
        now: our time, in seconds since the epoch.
        keep: seconds for which what stands outlives the last process of the fleet.
    """

    def __init__(
        self, link: Link, keys: Keys, *, clock: ServerClock, now: Callable[[], float], keep: float
    ) -> None:
        self._link = link
        self._keys = (keys.fleet("blocks"), keys.fleet("block-order"))
        self._clock = clock
        self._now = now
        self._keep = keep
        self._subscribers: Subscribers[[str, float]] = Subscribers()
        self._words: dict[str, Word] = {}
        self._early: dict[str, tuple[float, float]] = {}
        """Until and said, by our clock: what came before the server's time was known."""
        self._unsent: dict[str, None] = {}
        """Patterns of whose word the server may not know, in order."""
        self._generation = self._cursor = 0.0
        self._readings = 0
        self._asked: set[asyncio.Future[bytes]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_looking = self._is_sending = self._is_refused = self._is_closed = False
        self._sweep_at = _MANY

    def subscribe(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """As `SharedBlocks.subscribe_blocks`."""
        self._bind(asyncio.get_running_loop())
        unsubscribe = self._subscribers.add(callback)
        for pattern, until_here in self._standing():
            callback(pattern, until_here)
        if self._timer is None and not self._is_closed:
            self._look_again()
        return unsubscribe

    def publish(self, pattern: str, until_here: float) -> None:
        """As `SharedBlocks.publish_block`. The other gates of this process hear of it at once."""
        now = self._now()
        if self._readings >= READINGS:
            self._say(pattern, until_here, now)
        else:
            self._early[pattern] = (until_here, now)
        self._tell([(pattern, until_here)])
        if self._loop is not None and not self._is_sending:
            # Soon, since whoever blocks one host may go on to block a thousand.
            self._is_sending = True
            self._loop.call_soon(self._send)

    def publish_again(self) -> None:
        """Tell all that is known here: the server may have lost it."""
        self._unsent.update(dict.fromkeys(self._words))

    def look(self) -> None:
        """Ask what others have said, and tell what they could not hear of so far."""
        if self._is_looking:
            return
        self._is_looking = True
        question = _QUESTION.pack(b"C", self._keep, self._generation, self._cursor)
        self._ask(question, partial(self._looked, self._now()))

    async def aclose(self) -> None:
        """Have what was not told yet be told by the link, when that is closed."""
        self._is_closed = True
        self._subscribers.clear()
        if self._timer is not None:
            self._timer.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                while self._early and self._asked:
                    await asyncio.wait(self._asked)
                    # What was heard is taken in before anything is asked again.
                    await asyncio.sleep(0)
        if self._unsent:
            self._send()

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop:
            return
        # What was on its way in a loop that is closed, never comes back.
        self._is_looking = self._is_sending = False
        self._timer = None
        self._asked.clear()
        self.publish_again()
        self._loop = loop

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PAUSE, self._look_again)
        self.look()

    def _say(self, pattern: str, until_here: float, said_here: float) -> None:
        said_at, known = self._clock.there(said_here), self._words.get(pattern)
        if known is not None:
            said_at = max(said_at, known.said_at + _LATER)
        until_at = self._clock.there(until_here) if until_here else 0.0
        self._words[pattern] = Word(until_at, said_at, until_here)
        self._unsent[pattern] = None

    def _send(self) -> None:
        self._is_sending = False
        if self._early:
            # The time is not known well enough; they follow.
            self.look()
        patterns, self._unsent = self._unsent, {}
        now = self._clock.there(self._now())
        standing = [name for name in patterns if name in self._words and not self._words[name].is_over(now)]
        for start in range(0, len(standing), _AT_ONCE):
            some = standing[start : start + _AT_ONCE]
            words = b"".join(pack_word(name, self._words[name]) for name in some)
            self._ask(_SAYING.pack(b"W", self._keep) + words, partial(self._sent, self._now(), some))

    def _ask(self, argument: bytes, heard: Callable[[asyncio.Future[bytes]], object]) -> None:
        try:
            reply = self._link.ask(SCRIPT, self._keys, argument)
        except StoreError as error:
            # Who comes for a turn hears of it.
            reply = asyncio.get_running_loop().create_future()
            reply.set_exception(error)
        self._asked.add(reply)
        reply.add_done_callback(self._asked.discard)
        reply.add_done_callback(heard)

    def _sent(self, asked_at: float, patterns: list[str], reply: asyncio.Future[bytes]) -> None:
        error = _error_of(reply)
        if error is not None:
            # They go with the next look that comes to something.
            self._unsent.update(dict.fromkeys(patterns))
            self._tell_refused(error)
            return
        self._is_refused = False
        (told_at,) = _TIME.unpack(reply.result())
        self._clock.note(asked_at=asked_at, told_at=told_at, heard_at=self._now())

    def _tell_refused(self, error: BaseException) -> None:
        if self._is_refused:
            return
        self._is_refused = True
        if self._is_closed:
            _logger.warning("%s; the last blocks by the operator have reached no other process", error)
        else:
            _logger.warning("%s; blocks by the operator reach other processes once that is over", error)

    def _looked(self, asked_at: float, reply: asyncio.Future[bytes]) -> None:
        self._is_looking = False
        if _error_of(reply) is not None:
            return
        now, octets = self._now(), reply.result()
        told_at, generation, cursor, more = CHANGES.unpack_from(octets)
        self._clock.note(asked_at=asked_at, told_at=told_at, heard_at=now)
        self._readings += 1
        if self._readings < READINGS:
            self.look()
            return
        self._say_early()
        if generation != self._generation or cursor < self._cursor:
            # The server has lost something; what, nobody knows.
            self.publish_again()
        self._generation, self._cursor = generation, cursor
        news = list(self._take(octets))
        self._sweep(told_at)
        if self._unsent:
            self._send()
        if more:
            self.look()
        self._tell(news)

    def _say_early(self) -> None:
        early, self._early = self._early, {}
        for pattern, (until_here, said_here) in early.items():
            self._say(pattern, until_here, said_here)

    def _take(self, octets: bytes) -> Iterator[tuple[str, float]]:
        """Take others' words in; those that are news, by our clock."""
        for pattern, until_at, said_at in words_in(octets):
            known = self._words.get(pattern)
            if known is not None and said_at <= known.said_at:
                continue
            is_news = (until_at > 0) if known is None else until_at != known.until_at
            until_here = self._clock.here(until_at) if until_at else 0.0
            self._words[pattern] = Word(until_at, said_at, until_here)
            self._unsent.pop(pattern, None)
            if is_news:
                yield pattern, until_here

    def _tell(self, words: list[tuple[str, float]]) -> None:
        for word in words:
            self._subscribers.tell(*word)

    def _standing(self) -> list[tuple[str, float]]:
        now = self._now()
        said = {name: word.until_here for name, word in self._words.items()}
        said |= {name: until_here for name, (until_here, _) in self._early.items()}
        return [(name, until_here) for name, until_here in said.items() if until_here > now]

    def _sweep(self, now: float) -> None:
        if len(self._words) < self._sweep_at:
            return
        self._words = {name: word for name, word in self._words.items() if not word.is_over(now)}
        self._sweep_at = max(_MANY, 2 * len(self._words))


def _error_of(reply: asyncio.Future[bytes]) -> BaseException | None:
    return asyncio.CancelledError() if reply.cancelled() else reply.exception()
