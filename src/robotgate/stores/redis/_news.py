"""What of a host's state the server has not heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.stores.redis._wire import NEVER, STATE

if TYPE_CHECKING:
    from robotgate._pacing import HostState
    from robotgate.stores.redis._server_clock import ServerClock


def is_mere_latency(known: HostState | None, state: HostState) -> bool:
    """Whether nothing else is news: then it can wait until the request has ended."""
    return known is not None and not _bind_differently(known, state) and known.visits == state.visits


def news(known: HostState | None, state: HostState, server: ServerClock) -> bytes | None:
    """What is told of a state, where the server knows of another; None if there is nothing to tell.

    Only what has changed: to tell the rest again would move instants by what is uncertain about the clocks.
    """
    if known == state:
        return None
    is_new = known is None
    last, due = state.last_visit_at, state.next_allowed_at
    is_last_news = last is not None and (known is None or last != known.last_visit_at)
    is_block_news = known is None or blocks_differ(known, state)
    is_counted = known is None or state.visits != known.visits or state.bytes_read != known.bytes_read
    return STATE.pack(
        server.there(last) if is_last_news and last is not None else NEVER,
        _there(due, server) if is_new or (known is not None and due != known.next_allowed_at) else NEVER,
        _there(state.blocked_at, server) if is_block_news else NEVER,
        _there(state.blocked_until_at, server) if is_block_news else NEVER,
        state.failures if is_block_news else NEVER,
        state.visits if is_counted else NEVER,
        state.bytes_read if is_counted else NEVER,
        NEVER if state.latency is None else state.latency,
    )


def blocks_differ(known: HostState, state: HostState) -> bool:
    """Whether one tells of a block, or of its forgiveness, and the other does not."""
    return (
        known.blocked_until_at != state.blocked_until_at
        or known.failures != state.failures
        or known.blocked_at != state.blocked_at
    )


def _bind_differently(known: HostState, state: HostState) -> bool:
    return (
        known.last_visit_at != state.last_visit_at
        or known.next_allowed_at != state.next_allowed_at
        or blocks_differ(known, state)
    )


def _there(at: float, server: ServerClock) -> float:
    # What never was stays so.
    return at and server.there(at)
