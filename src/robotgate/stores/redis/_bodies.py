"""What is told of a turn, as octets: instants by the server's clock, never too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.stores.redis._wire import FINISH, NEVER, TURN

if TYPE_CHECKING:
    from robotgate._pacing import HostState
    from robotgate.stores.redis._open_turns import OpenTurn
    from robotgate.stores.redis._server_clock import ServerClock


def open_turn(turn: OpenTurn, server: ServerClock, *, lease: float, next_after: float = NEVER) -> bytes:
    """Of one that is reserved, or under way.

    Args:
        next_after: seconds from its beginning until which it binds, where that is longer than its delay.
    """
    began_at = NEVER if turn.began_at is None else server.there(turn.began_at)
    return TURN.pack(turn.delay, lease, server.there(turn.reserved_at), began_at, next_after)


def unused_turn(turn: OpenTurn) -> bytes:
    """Of one that will not begin."""
    return FINISH.pack(turn.delay, NEVER, NEVER, 0, NEVER)


def ended_turn(
    turn: OpenTurn, server: ServerClock, *, known: HostState | None, state: HostState | None, now: float
) -> bytes:
    """Of one that has ended now.

    Args:
        known: what was known of its host before.
        state: what is known from now on.
    """
    if known is None or state is None:
        return FINISH.pack(turn.delay, server.there(now), after(known, state, now), 0, NEVER)
    # With several slots, the delay counts from the beginning.
    counts = turn.slots == 1 or known.last_visit_at != state.last_visit_at
    return FINISH.pack(
        turn.delay,
        server.there(now) if counts else NEVER,
        after(known, state, now),
        state.bytes_read - known.bytes_read,
        NEVER if state.latency is None else state.latency,
    )


def after(known: HostState | None, state: HostState | None, now: float) -> float:
    """Seconds from now until which a state binds longer than was known; `NEVER` if it does not."""
    if state is None or (known is not None and known.next_allowed_at == state.next_allowed_at):
        return NEVER
    return max(state.next_allowed_at - now, 0.0)
