"""One detached task that finds out about an origin, for however many ask.

Nobody awaits the task itself: each caller has a future of his own, which the task's end resolves. A caller who is
cancelled takes nobody with him, a failure is shared instead of repeated, and a caller who would wait for himself can
be told so alone.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from robotgate._errors import GateClosedError, RobotGateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from robotgate._bound import Bound
    from robotgate._lane import Lane
    from robotgate._site import Site


class Flight:
    """A task under way, and those who wait for what it finds.

    Args:
        work: finds out; it is given the flight, to say what it waits for.
        on_landing: called when the work is over, whatever came of it.
    """

    def __init__(
        self,
        work: Callable[[Flight], Coroutine[object, None, Site]],
        *,
        name: str,
        on_landing: Callable[[], object],
    ) -> None:
        self._callers: dict[asyncio.Future[Site], asyncio.Task[object] | None] = {}
        self._waits_for: tuple[Lane, Bound] | None = None
        self.is_asking = False
        """Whether a request is under way."""
        self._on_landing = on_landing
        self._task = asyncio.get_running_loop().create_task(work(self), name=name)
        self._task.add_done_callback(self._land)

    async def join(self) -> Site:
        """What the flight finds.

        Raises:
            GateClosedError: it was cancelled.
            NestedTurnError: it waits for a turn that only this task can end.
            StoreError: the store failed.
        """
        answer: asyncio.Future[Site] = asyncio.get_running_loop().create_future()
        caller = self._callers[answer] = asyncio.current_task()
        self._refuse_holder(answer, caller)
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled():
                # It came too late for a caller who is leaving; asyncio would call an error unheard of.
                answer.exception()
            raise
        finally:
            self._callers.pop(answer, None)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a turn."""
        return self._waits_for is not None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Within this block a request is under way."""
        self.is_asking = True
        try:
            yield
        finally:
            self.is_asking = False

    def cancel(self) -> Awaitable[object]:
        """Break off; callers get `GateClosedError`. Await the result for the end."""
        self._task.cancel()
        return asyncio.gather(self._task, return_exceptions=True)

    @contextmanager
    def waiting_for(self, lane: Lane, bound: Bound) -> Iterator[None]:
        """Within this block the flight waits for a turn of this lane within this bound: who holds the last of either
        waits for himself.
        """
        self._waits_for = lane, bound
        for answer, caller in self._callers.items():
            self._refuse_holder(answer, caller)
        try:
            yield
        finally:
            self._waits_for = None

    def _refuse_holder(self, answer: asyncio.Future[Site], caller: asyncio.Task[object] | None) -> None:
        if self._waits_for is None or answer.done():
            return
        lane, bound = self._waits_for
        if lane.is_held_by(caller):
            answer.set_exception(lane.nested())
        elif bound.is_held_by(caller):
            answer.set_exception(bound.nested())

    def _land(self, task: asyncio.Task[Site]) -> None:
        self._on_landing()
        error = GateClosedError() if task.cancelled() else task.exception()
        if error is not None and not self._callers and not isinstance(error, RobotGateError):
            # A mistake in somebody's program, which he would not hear of.
            context = {
                "message": f"{task.get_name()} could not be asked for",
                "exception": error,
                "task": task,
            }
            task.get_loop().call_exception_handler(context)
        for answer in self._callers:
            if answer.done():
                continue
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())
