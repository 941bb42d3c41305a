"""Several processes on one file: while there are others, turns and leases are booked in it, and nothing is put off.

A process that is alone asks nobody. One that comes waits until all who were there know of it, which takes them a second
at most: with their word they write all that only they knew.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from robotgate import _pacing
from robotgate._errors import StoreError
from robotgate._pacing import CLOCK_GRAIN, HostState
from robotgate._ports import Postponed
from robotgate.stores import _booking
from robotgate.stores._booking import Question
from robotgate.stores._ledger import Ledger, News

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeAlias, TypeVar

    from robotgate._ports import Clock
    from robotgate.stores._booking import Answer, Turn
    from robotgate.stores._database import Database
    from robotgate.stores._processes import Census, Presence
    from robotgate.stores._write_behind import WriteBehind

    T = TypeVar("T")
    Asked: TypeAlias = tuple[Question, asyncio.Future[Answer | None]]

STALE: Final = 5.0
"""Seconds after our last sign of life from which on we may be taken for gone soon: we ask before we go on."""
POLL: Final = 0.05
"""Seconds between two looks whether everybody knows of us, or whether a lease is free."""


class Sharing:
    """What of a store concerns other processes.

    Args:
        attend: gives a sign of life, in a transaction.
        assumed_visit_at: when every host is taken to have been visited, since something may have been lost then.
    """

    def __init__(
        self,
        *,
        database: Database,
        behind: WriteBehind,
        presence: Presence,
        attend: Callable[[sqlite3.Connection], Census],
        assumed_visit_at: Callable[[], float | None],
        clock: Clock,
    ) -> None:
        self._database = database
        self._behind = behind
        self._presence = presence
        self._attend = attend
        self._assumed_visit_at = assumed_visit_at
        self._clock = clock
        self._ledger = Ledger()
        self._leases: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settling = asyncio.Lock()
        self._is_alone = False
        """Whether we know that nobody else is there."""
        self._is_settled = False
        self._heard_at = 0.0
        """Our last sign of life of which the event loop has heard who was there then (monotonic)."""
        self._is_returning = False
        self._under_way = 0
        """Transactions of which we do not know yet what came of them."""
        self._is_sending = False
        self._is_writing = False
        self._questions: list[Asked] = []

    @property
    def is_shared(self) -> bool:
        """Whether there are others, or may be."""
        return not self._is_alone or monotonic() - self._heard_at > STALE

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on in an event loop; in the one before, nothing is under way any more."""
        if self._loop is not None:
            self._ledger.abandon(self._behind.memory.states)
            for origin in self._leases:
                self._ledger.news.leases.add(origin)
            self._leases = set()
        self._loop = loop
        self._settling = asyncio.Lock()
        self._under_way, self._questions = 0, []
        self._is_sending = self._is_writing = self._is_returning = False

    def tell(self, census: Census) -> None:
        """Tell the event loop who was there; on the database's thread."""
        if self._loop is not None:
            # A loop that was closed meanwhile has nobody to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._take_in, census)

    def remember(self, pace_key: str, state: HostState) -> None:
        """Take in a host's state.

        Raises:
            StoreError: as `WriteBehind.remember`.
        """
        if self._behind.has_company and pace_key in self._behind.memory.states:
            self._publish(pace_key, state)
        else:
            # With company too, where it comes from elsewhere, as by an import: what it counts is news as a whole, and
            # is put together with what the file knows.
            self._behind.remember(pace_key, state)

    def begin(self, pace_key: str, state: HostState) -> None:
        """Take in that a request is sent.

        Raises:
            StoreError: as `WriteBehind.remember`; it must not be sent.
        """
        serial = self._ledger.begin(pace_key, state)
        try:
            if not self._behind.has_company:
                self._behind.remember(pace_key, state)
                return
            turn = self._ledger.begun(pace_key, serial)
            self._publish(pace_key, state, turns={turn.serial: turn}, visits=1 if serial is None else 0)
        except StoreError:
            booked = self._ledger.end(pace_key, is_unused=False)
            if booked is not None:
                self._ledger.note(pace_key, state, turns={booked: None})
            raise

    def end(self, pace_key: str, state: HostState) -> None:
        """Take in that a request has ended, or will not be sent.

        Raises:
            StoreError: as `WriteBehind.remember`.
        """
        known = self._behind.memory.states.get(pace_key)
        is_unused = known is not None and state.visits < known.visits
        booked = self._ledger.end(pace_key, is_unused=is_unused)
        if self._behind.has_company:
            turns: dict[int, Turn | None] = {} if booked is None else {booked: None}
            self._publish(pace_key, state, turns=turns, visits=-1 if is_unused else 0)
            return
        if booked is not None:
            self._ledger.note(pace_key, state, turns={booked: None})
            self._send_soon()
        self._behind.remember(pace_key, state)

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """As `SharedStore.reserve`."""
        ahead = now - monotonic()
        while True:
            turn = self._ledger.turn(pace_key, at=ahead + monotonic(), delay=delay)
            question = Question(turn, state, slots)
            if self._behind.lost is not None:
                self._behind.check()
                return self._by_ourselves(turn, slots)
            try:
                await self._settled()
                answer = await self._ask(question)
            except StoreError as error:
                self._lose(error)
                return self._by_ourselves(turn, slots)
            if answer is None:
                continue
            known = self._behind.memory.learn(pace_key, answer.state)
            if answer.again_at is not None:
                return Postponed(known, answer.again_at)
            if monotonic() + ahead - turn.reserved_at < STALE:
                self._ledger.reserve(turn, is_booked=True)
                return None
            # We may have been taken for gone since.
            self._undo(turn)

    async def take_lease(self, origin: str) -> None:
        """Wait for an origin's lease among all processes; among our own tasks it is ours.

        Raises:
            StoreError: nobody knows, and memory is not enough.
        """
        try:
            while self.is_shared:
                await self._settled()
                if await self._try_lease(origin):
                    break
                await asyncio.sleep(POLL)
        except StoreError as error:
            self._lose(error)
        self._leases.add(origin)

    def leave_lease(self, origin: str) -> None:
        """Give an origin's lease back."""
        self._leases.discard(origin)
        self._ledger.news.leases.add(origin)
        self._send_soon()

    def close(self) -> News:
        """What is to be written last; whoever still asks is told."""
        questions, self._questions = self._questions, []
        _fail(questions, self._database.closed())
        return self._ledger.take_news()

    def write(self, connection: sqlite3.Connection, news: News) -> None:
        """Write what others are to hear of."""
        shift, process = self._presence.shift or 0.0, self._presence.id
        _booking.write_changes(
            connection, news.hosts, process=process, now=self._clock.now() - shift, shift=shift
        )
        for origin in news.leases:
            _booking.leave_lease(connection, origin, process=process)

    def _take_in(self, census: Census) -> None:
        if self._database.is_ended:
            return
        self._behind.notice()
        self._heard_at = census.beat_at
        if self._behind.lost is None:
            # Once it is lost nobody can give a sign of life, and all look gone.
            self._behind.neighbours = len(census.others)
        if census.strangers:
            self._is_alone, self._behind.has_company = False, True
            self._greet(census.strangers)
        self._is_settled = census.is_settled
        if not census.others and not self._is_alone:
            self._return()
        if self._ledger.news:
            self._send_soon()

    def _greet(self, strangers: Collection[str]) -> None:
        """Let them know all that only we know; from here on we ask, as they do."""
        turns = {turn.serial: turn for turn in self._ledger.book_all()}
        states, leases = dict(self._behind.memory.pending), list(self._leases)

        def greet(connection: sqlite3.Connection) -> Census:
            shift, process = self._presence.shift or 0.0, self._presence.id
            moved = {key: _pacing.moved(state, -shift) for key, state in states.items()}
            _booking.write_merged(connection, moved, now=self._clock.now() - shift)
            _booking.write_turns(connection, turns, process=process, shift=shift)
            for origin in leases:
                _booking.take_lease(connection, origin, process=process)
            _booking.acquaint(connection, strangers, process=process)
            return self._attend(connection)

        self._run(greet, then=self._take_in)

    def _return(self) -> None:
        """Nobody else is there any more: once we know all that they have written, we ask nobody."""
        if not self._behind.has_company:
            self._is_alone = True
            return
        if self._is_returning or self._ledger.news or self._under_way:
            # There will be another sign of life.
            return
        pace_keys = list(self._behind.memory.states)

        def look(connection: sqlite3.Connection) -> tuple[Census, Mapping[str, HostState]]:
            return self._attend(connection), _booking.read(connection, pace_keys, now=self._clock.now())

        self._is_returning = True
        looked = self._run(look, then=self._looked)
        looked.add_done_callback(self._has_returned)

    def _looked(self, found: tuple[Census, Mapping[str, HostState]]) -> None:
        census, states = found
        if census.others or self._ledger.news or self._under_way:
            return
        # Somebody may have been found dead just now, in the same look.
        self._behind.notice()
        for pace_key, state in states.items():
            self._behind.memory.learn(pace_key, state)
        self._is_alone, self._behind.has_company = True, False

    def _has_returned(self, _: object) -> None:
        self._is_returning = False

    async def _settled(self) -> None:
        """Wait until everybody knows of everybody."""
        async with self._settling:
            while not self._is_settled:
                census = await self._run(self._attend)
                self._take_in(census)
                if not census.is_settled:
                    await asyncio.sleep(POLL)

    async def _ask(self, question: Question) -> Answer | None:
        """What all know of a host; None when somebody has come of whom we do not know all."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._questions.append((question, answer))
        self._send_soon()
        try:
            return await answer
        except asyncio.CancelledError:
            question.is_abandoned = True
            self._undo(question.turn)
            raise

    def _undo(self, turn: Turn) -> None:
        if self._database.is_ended:
            return

        def undo(connection: sqlite3.Connection) -> None:
            now = self._clock.now() - (self._presence.shift or 0.0)
            _booking.undo(connection, turn, process=self._presence.id, now=now)

        self._run(undo)

    async def _try_lease(self, origin: str) -> bool:
        # Given back and wanted again, before the file heard of it.
        self._ledger.news.leases.discard(origin)

        def take(connection: sqlite3.Connection) -> bool:
            self._attend(connection)
            return _booking.take_lease(connection, origin, process=self._presence.id)

        try:
            return await asyncio.shield(self._run(take))
        except asyncio.CancelledError:
            self.leave_lease(origin)
            raise

    def _by_ourselves(self, turn: Turn, slots: int) -> Postponed | None:
        """The answer while the file is lost and memory is enough."""
        known = self._behind.memory.states.get(turn.pace_key, HostState())
        if self._ledger.under_way(turn.pace_key) >= slots:
            again_at = turn.reserved_at + max(turn.delay, POLL)
            return Postponed(known, again_at)
        due_at = self._due_by_ourselves(known, turn.delay)
        if due_at - turn.reserved_at > CLOCK_GRAIN:
            return Postponed(known, due_at)
        self._ledger.reserve(turn, is_booked=False)
        return None

    def _due_by_ourselves(self, known: HostState, delay: float) -> float:
        """From when on a host may be visited by us, who know nothing of what the others do there meanwhile.

        Each leaves the delay as often as there are processes: so they keep the mean rate, if not every gap.
        """
        if known.last_visit_at is None or not delay:
            return known.next_allowed_at
        return max(known.next_allowed_at, known.last_visit_at + delay * (self._behind.neighbours + 1))

    def _publish(
        self, pace_key: str, state: HostState, *, turns: dict[int, Turn | None] | None = None, visits: int = 0
    ) -> None:
        states = self._behind.memory.states
        before = states.get(pace_key)
        states[pace_key] = state
        bytes_read = 0 if before is None else state.bytes_read - before.bytes_read
        self._ledger.note(pace_key, state, visits=visits, bytes_read=bytes_read, turns=turns)
        self._send_soon()
        self._behind.check()

    def _send_soon(self) -> None:
        if not self._is_sending and self._loop is not None:
            self._is_sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        """Write the news and ask the questions that there are: all in one transaction, and one after the other."""
        self._is_sending = False
        if self._is_writing or not (self._ledger.news or self._questions):
            return
        questions, self._questions = self._questions, []
        if self._database.is_ended:
            _fail(questions, self._database.closed())
            return
        news = self._ledger.take_news()
        asked = [question for question, _ in questions]

        def write(connection: sqlite3.Connection) -> tuple[Census, list[Answer | None]]:
            self.write(connection, news)
            census = self._attend(connection)
            return census, self._answers(connection, asked) if census.is_settled else [None] * len(asked)

        self._is_writing = True
        written = self._run(write, then=self._wrote, news=news)
        written.add_done_callback(partial(self._has_written, questions))

    def _answers(self, connection: sqlite3.Connection, questions: list[Question]) -> list[Answer | None]:
        shift, process = self._presence.shift or 0.0, self._presence.id
        now, assumed_at = self._clock.now() - shift, self._assumed_visit_at()
        if assumed_at is not None:
            assumed_at -= shift
        return [
            _booking.reserve(
                connection, question, process=process, now=now, shift=shift, assumed_visit_at=assumed_at
            )
            for question in questions
        ]

    def _wrote(self, found: tuple[Census, list[Answer | None]]) -> None:
        census, _ = found
        if not census.is_settled:
            self._take_in(census)
        self._behind.evict()

    def _has_written(
        self, questions: list[Asked], written: asyncio.Future[tuple[Census, list[Answer | None]]]
    ) -> None:
        self._is_writing = False
        error = written.exception()
        if error is not None:
            _fail(questions, error)
            return
        _, answers = written.result()
        for (_, waiting), answer in zip(questions, answers, strict=True):
            # Whoever was cancelled does not wait any more.
            if not waiting.done():
                waiting.set_result(answer)
        if self._ledger.news or self._questions:
            self._send_soon()

    def _run(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        then: Callable[[T], None] | None = None,
        news: News | None = None,
    ) -> asyncio.Future[T]:
        """Do this on the database's thread; what news it fails to write is written later."""
        self._under_way += 1
        future = self._database.submit(work)
        future.add_done_callback(partial(self._ran, then, news))
        return future

    def _ran(self, then: Callable[[T], None] | None, news: News | None, future: asyncio.Future[T]) -> None:
        self._under_way -= 1
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, StoreError):
            if news:
                news.leases -= self._leases
                self._ledger.news.put_back(news)
            self._behind.lose(error)
        elif error is not None:
            raise error
        elif then is not None:
            then(future.result())

    def _lose(self, error: StoreError) -> None:
        self._behind.lose(error)
        self._behind.check()


def _fail(questions: list[Asked], error: BaseException) -> None:
    for _, waiting in questions:
        if not waiting.done():
            waiting.set_exception(error)
