"""What came of a request: how an answer, or an outage, changes its host, what is reported of that, and who waits on.

`Host` has the arithmetic. Here its effects are reported as events, noted for the store, and told to the host's waiters.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate.events import BlockCause, HostBlocked, HostRecovered
from robotgate.pace.signals import NOTHING_HEARD, Heard, heard
from robotgate.pace.state import CLOSED, GOOD_BELOW, MISSING_STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate.pace.host import PacedTurn
    from robotgate.pace.scheduler import Scheduler

REPORTED_GROWTH: Final = 1.0
"""Seconds by which a known block has to grow to be reported again."""


def note_headers(
    scheduler: Scheduler,
    turn: PacedTurn,
    status: int,
    headers: Mapping[str, str] | None,
    now: float,
    *,
    tells_off: bool = False,
) -> None:
    """Take in an answer: what its headers say about our speed is read.

    Args:
        tells_off: whether its body has told us off; its headers were taken in before.
    """
    found = heard(status, headers, now=now, quotas=turn.paced.options["obey_rate_limit_fields"])
    note_answer(
        scheduler, turn, status, replace(found, tells_off=True, malformed=0) if tells_off else found, now
    )


def note_answer(scheduler: Scheduler, turn: PacedTurn, status: int, heard: Heard, now: float) -> None:
    """Take in an answer: its status, and what it says about our speed."""
    paced = turn.paced
    host = paced.host
    is_good = status < GOOD_BELOW
    if turn.status is None:
        # A page that is missing is often told of quickly.
        host.note_latency(turn, now, is_good)
    is_good = is_good or status in MISSING_STATUSES
    turn.status = status
    if (
        is_good
        and heard is NOTHING_HEARD
        and host.learner is None
        and not host.learned_delay
        and not host.failures
        and host.blocked_by is None
        and not paced.circuit.outages
    ):
        # It was not blocked, and is not.
        paced.circuit = CLOSED
        return
    before, due_at = host.blocked_until_at, host.shared_due_at()
    scheduler.totals.malformed += heard.malformed
    scheduler.totals.told_off += heard.tells_off
    host.note_answer(turn, heard, is_good=is_good, now=now, jitter=random.random())
    was_unreachable, paced.circuit = paced.circuit.outages > 0, CLOSED
    if was_unreachable:
        host.come_back(now)
        scheduler.events.emit(HostRecovered(at=now, host=paced.origin.text, cause=BlockCause.UNREACHABLE))
    until_at = host.blocked_until_at
    if until_at > before:
        # A new block, or one that has grown.
        if before <= now < until_at or until_at - max(before, now) > REPORTED_GROWTH:
            host.blocked_by = BlockCause.OVERLOADED if heard.pause is None else BlockCause.ASKED
            scheduler.events.emit(
                HostBlocked(
                    at=now,
                    host=host.key,
                    until_at=until_at,
                    cause=host.blocked_by,
                    detail=heard.field or None,
                )
            )
    elif host.blocked_by is not None and now >= before:
        cause, host.blocked_by = host.blocked_by, None
        scheduler.events.emit(HostRecovered(at=now, host=host.key, cause=cause))
    if until_at != before:
        scheduler.work.is_urgent.set()
    if scheduler.work.has_store:
        scheduler.work.note_change(host)
    if was_unreachable or until_at != before or host.shared_due_at() != due_at:
        # Refuses waiting turns that would wait too long now. With one slot, the others are seen to when this
        # turn has ended.
        scheduler.reconsider(host)


def note_outage(scheduler: Scheduler, turn: PacedTurn, outage: str, *, is_silence: bool = False) -> None:
    """Take in that an origin could not be reached, and why in words.

    Args:
        is_silence: the request was sent, and no answer came. Only several in a row are an outage.
    """
    paced, now = turn.paced, scheduler.now()
    host = paced.host
    if host.note_outage(turn, outage, is_silence=is_silence, now=now, jitter=random.random()):
        name, until_at, cause = str(paced.origin), paced.circuit.retry_at, BlockCause.UNREACHABLE
        scheduler.events.emit(HostBlocked(at=now, host=name, until_at=until_at, cause=cause, detail=outage))
    if scheduler.work.has_store:
        scheduler.work.note_change(host)
    scheduler.reconsider(host)
