"""How a host is doing: what its answers, and the lack of them, mean for whoever waits; and who is told of it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate import _circuit, _pacing
from robotgate._events import BlockCause, HostBlocked, HostRecovered

if TYPE_CHECKING:
    from robotgate._admission import Admission
    from robotgate._listeners import Listeners
    from robotgate._pacer import Pacer
    from robotgate._ports import Clock

NEWS: Final = 1.0
"""Seconds by which a known block has to grow to be told of again."""


class Health:
    """Takes in what came of the requests of one lane.

    Args:
        blocked_by: why pace keys are blocked whose recovery is yet to be told of; it outlives the lane.
    """

    __slots__ = (
        "_blocked_by",
        "_clock",
        "_listeners",
        "_pace_key",
        "_pacer",
    )

    def __init__(
        self,
        pace_key: str,
        *,
        pacer: Pacer,
        blocked_by: dict[str, BlockCause],
        clock: Clock,
        listeners: Listeners,
    ) -> None:
        self._pace_key = pace_key
        self._pacer = pacer
        self._clock = clock
        self._listeners = listeners
        self._blocked_by = blocked_by

    def answered(self, admission: Admission, status: int, retry_after: float | None) -> bool:
        """A host has answered. Returns whether that changes when, or whether, others may start.

        Raises:
            StoreError: the store did not take it; all else has been done.
        """
        self._pacer.recall_if_possible()
        now, before = self._clock.now(), self._pacer.state
        state = _pacing.answered(
            before,
            status=status,
            retry_after=retry_after,
            began_at=admission.began_at,
            now=now,
            jitter=random.random(),
        )
        if admission.status is not None:
            # It was heard before how long this one took.
            state = replace(state, latency=before.latency)
        is_reached_again = admission.member.circuit is not _circuit.CLOSED
        admission.member.circuit = _circuit.CLOSED
        if is_reached_again:
            self._tell_recovered(str(admission.member.origin), BlockCause.UNREACHABLE)
        if status in _pacing.BLOCKING_STATUSES:
            is_new = before.blocked_until_at <= now < state.blocked_until_at
            if is_new or state.blocked_until_at - max(before.blocked_until_at, now) > NEWS:
                cause = BlockCause.OVERLOADED if retry_after is None else BlockCause.ASKED
                self._blocked_by[self._pace_key] = cause
                self._tell_blocked(self._pace_key, state.blocked_until_at, cause)
        elif self._pace_key in self._blocked_by and now >= before.blocked_until_at:
            self._tell_recovered(self._pace_key, self._blocked_by.pop(self._pace_key))
        self._pacer.remember(state)
        return is_reached_again or state.blocked_until_at != before.blocked_until_at

    def is_as_ever(self, admission: Admission, status: int) -> bool:
        """Whether the first answer of a host that is well says that it still is: all there is to know is how long it
        took, and nothing hangs on knowing that before the end.
        """
        return (
            admission.status is None
            and _pacing.is_good(status)
            and admission.member.circuit is _circuit.CLOSED
            and not self._pacer.state.failures
            and not self._pacer.heeds_latency
            and self._pace_key not in self._blocked_by
        )

    def failed(self, admission: Admission, outage: str) -> None:
        """A request has found nobody at its origin.

        Raises:
            StoreError: as `answered`.
        """
        self._pacer.recall_if_possible()
        now, member = self._clock.now(), admission.member
        circuit = _circuit.failed(
            member.circuit, began_at=admission.began_at, now=now, jitter=random.random()
        )
        if circuit != member.circuit:
            member.circuit, member.outage = circuit, outage
            self._tell_blocked(str(member.origin), circuit.retry_at, BlockCause.UNREACHABLE, outage)
        self._pacer.remember(_pacing.timed_out(self._pacer.state, began_at=admission.began_at, now=now))

    def _tell_blocked(self, host: str, until_at: float, cause: BlockCause, detail: str | None = None) -> None:
        if self._listeners.is_heard(HostBlocked):
            now = self._clock.now()
            self._listeners.emit(
                HostBlocked(at=now, host=host, until_at=until_at, cause=cause, detail=detail)
            )

    def _tell_recovered(self, host: str, cause: BlockCause) -> None:
        if self._listeners.is_heard(HostRecovered):
            self._listeners.emit(HostRecovered(at=self._clock.now(), host=host, cause=cause))
