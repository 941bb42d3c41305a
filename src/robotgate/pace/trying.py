"""Turns that do not wait in line, as `RobotGate.try_turn` makes them: admitted when their place has come, else refused.

A turn needs a place with its host and with each of its scopes. Each of them promises places for itself, by the rules of
`pace.promises`, and a turn that one of them refuses is told the latest of the instants that all have promised it. What
is not known here, as another process paces it, is asked when it is: `Scheduler.own`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.errors import TooSoonError
from robotgate.pace.host import Host, Trial
from robotgate.pace.promises import is_due, is_free, next_place, period, promise, redeem
from robotgate.pace.state import CLOCK_GRAIN

if TYPE_CHECKING:
    from robotgate.pace.host import PacedTurn
    from robotgate.pace.scope import Scope


def refusal(turn: PacedTurn, trial: Trial, now: float) -> TooSoonError | None:
    """Return the error for a turn whose place has not come; None if it may stand in line, as far as is known."""
    paced, max_wait = turn.paced, max(turn.deadline_at - now, 0.0)
    found: list[tuple[Host | Scope, float, float, bool]] = []
    for each in needed(turn):
        if each in trial.admitted:
            continue
        if not each.is_ours():
            break
        at, seconds = due_at(each, turn, now), period(each, turn_time(paced.host))
        expected = is_due(each, at, now, period=seconds, max_wait=trial.max_wait)
        if expected:
            redeem(each)
            trial.is_expected = trial.is_expected or each is paced.host
        # Those whose host has promised them a place were promised one by its scopes.
        found.append((each, max(at, now), seconds, expected or trial.is_expected))
    if not (trial.admitted or any(expected for _, _, _, expected in found)):
        max_wait = 0.0
    for each, at, seconds, expected in found:
        if at - now - max_wait > CLOCK_GRAIN or not (expected or is_free(each, at, period=seconds)):
            return promised(turn, trial, now)
    for each, at, seconds, _ in found:
        trial.admitted[each] = each.admitted_until_at = at + seconds
    return None


def note_end(trial: Trial, turn: PacedTurn, now: float) -> None:
    """A turn that was admitted has ended: those behind it are due by as much earlier or later as it has."""
    for each, until_at in trial.admitted.items():
        due_at = (
            now + each.delay if each.slots == 1 else turn.began_at + period(each, turn_time(turn.paced.host))
        )
        each.admitted_until_at += due_at - until_at
    trial.admitted.clear()


def promised(turn: PacedTurn, trial: Trial, now: float) -> TooSoonError:
    """Promise a turn new places; return the error that tells when to come.

    Each scope promises its next place, and the host the latest of all: its turns do not come sooner one after the
    other, whatever the scopes promise.
    """
    paced, at = turn.paced, now
    for each in trial.admitted:
        each.admitted_until_at -= period(each, turn_time(paced.host))
    turn.trial = Trial(trial.max_wait)
    for each in reversed(needed(turn)):
        seconds, first_at = period(each, turn_time(paced.host)), each.promised_from_at
        # Where another process has it, a turn of that may be open.
        soonest_at = now if each.is_ours() else now + seconds
        place_at = next_place(each, max(due_at(each, turn, now), soonest_at), now, period=seconds)
        at = max(at, place_at)
        promise(each, at if each is paced.host else place_at, period=seconds)
        if not each.is_ours():
            # What another process has promised since is known when the states are merged.
            each.promised_from_at = min(first_at, each.promised_from_at)
    return TooSoonError(paced.host.key, at - now)


def needed(turn: PacedTurn) -> list[Host | Scope]:
    """Return its host, and its scopes."""
    return [turn.paced.host, *turn.paced.scopes]


def turn_time(host: Host) -> float:
    """Return how long its turns take on average; until that is known, how long its answers take to begin.

    The first request of a host, for its robots.txt, has opened a connection as well, which is half of the time.
    """
    return host.turn_time or (host.latency or 0.0) / (2 if host.visits <= 1 else 1)


def due_at(each: Host | Scope, turn: PacedTurn, now: float) -> float:
    """Return when a turn would start if it stood in line, and those before it took as long as on average."""
    at, seconds = each.start_behind(turn, now), turn_time(turn.paced.host)
    if isinstance(each, Host):
        before = sum(other.ahead_of(turn) for other in each.waiting_origins)
        at += before * (period(each, seconds) - each.delay)
        if len(each.in_slots) >= each.slots:
            # The first of them ends then. One that has taken longer than the average may take a while yet.
            ends_at = min(place.began_at or now for place in each.in_slots) + seconds
            at += max(ends_at - now, seconds / 8)
    elif len(each.held) >= each.slots:
        at += seconds / 2
    return max(at, each.admitted_until_at)
