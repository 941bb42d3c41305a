"""Names of keys, and messages to and from ``grants.lua``, which has the same layouts.

Messages are JSON: only relative seconds, and numbers over 2^46 as text, since Redis writes 14 digits.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, unquote
from zlib import crc32

from robotgate.pace.state import HostState, moved
from robotgate.stores.codec import FieldError, pack_host, unpack_host
from robotgate.stores.grants import Item, Reply, Term

if TYPE_CHECKING:
    from robotgate.stores.grants import Leave, Request

ROBOTS: Final = "robots|"
"""Before the origin in a key that grants the fetch of a robots.txt. Such a host has no state."""
_PLAIN: Final = string.punctuation.replace("%", "")
ItemValues: TypeAlias = "tuple[str, str, str, bool, str | bool, float, float | bool, float]"
"""An item, as the script writes it; False is nothing."""
_GRAIN: Final = 1e-3
"""Seconds; instants of a host closer than this are the same."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet. All keys that one call touches have the same hash tag, and so the same slot of a cluster.

    Args:
        prefix: before all of them; fleets with different ones share nothing.
        tags: how many hash tags. One is enough for a single server, which then has one call to answer instead of many.
    """

    prefix: str
    tags: int

    def tag_of(self, name: str) -> int:
        """Return the tag of a pace key, or of an origin's text."""
        return crc32(spelled(name).encode()) % self.tags

    def of_tag(self, tag: int) -> bytes:
        """Return the prefix of a tag's keys."""
        return f"{self.prefix}{{{tag}}}:".encode("utf-8", "surrogatepass")

    def named(self, kind: str, name: str) -> bytes:
        """Return the key of a host or of a record."""
        return self.of_tag(self.tag_of(name)) + f"{kind}:{spelled(name)}".encode()

    def pattern(self, kind: str, *, containing: str = "") -> bytes:
        """Return a pattern for SCAN. It may match other keys: compare with `named`."""
        prefix, part = (
            "".join(f"\\{char}" if char in r"*?[]\^-" else char for char in text)
            for text in (self.prefix, spelled(containing))
        )
        return f"{prefix}{{*}}:{kind}:*{part}*".encode("utf-8", "surrogatepass")

    def name_in(self, kind: str, key: bytes) -> str | None:
        """Return the name in a key; None where it is no key of this kind."""
        rest = key.removeprefix(self.prefix.encode("utf-8", "surrogatepass")).partition(b"}:")[2]
        try:
            name = read_name(rest.removeprefix(f"{kind}:".encode()).decode("ascii"))
        except UnicodeDecodeError:
            return None
        return name if self.named(kind, name) == key else None


def spelled(name: str) -> str:
    """Spell a name in ASCII: a pace key is whatever the operator's function makes of a URL."""
    return quote(name, safe=_PLAIN, errors="surrogatepass")


def read_name(text: str) -> str:
    """Read what `spelled` wrote."""
    return unquote(text, errors="surrogatepass")


def encoded(message: object) -> bytes:
    """Encode a message."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def encoded_request(request: Request) -> bytes:
    """Encode the request of a session."""
    term = request.term
    return encoded(
        [
            "exchange",
            request.session,
            term is not None and term.epoch,
            term is not None and str(term.joined),
            request.number,
            request.after,
            [_leave(leave) for leave in request.leaves],
            [spelled(key) for key in request.withdrawals],
            [spelled(key) for key in request.asks],
            [spelled(key) for key in request.claims],
            request.is_last,
        ]
    )


def read_reply(data: bytes) -> tuple[Reply, list[float | None]]:
    """Read a reply, and for each host that was asked for its pace in seconds, as far as that is known."""
    number, epoch, joined, items, paces = json.loads(data)
    term = Term(epoch, int(joined))
    # An empty list is written as an empty object.
    return Reply(number, term, tuple(read_item(item) for item in items)), [pace or None for pace in paces]


def read_item(values: ItemValues) -> Item:
    """Read an item of a reply."""
    number, key, token, is_wanted, state, state_age, visited_ago, not_before_in = values
    return Item(
        int(number),
        read_name(key),
        int(token),
        is_wanted,
        state.encode() if isinstance(state, str) else None,
        state_age,
        None if visited_ago is False else visited_ago,
        not_before_in,
    )


def encoded_state(state: HostState, *, now: float) -> tuple[float | bool, float, str]:
    """Return the seconds since the last visit, and until the next may start; and the state, its instants relative."""
    visited_ago = state.last_visit_at is not None and now - state.last_visit_at
    not_before_in = max(state.next_allowed_at - now, state.blocked_until_at - now, 0.0)
    return visited_ago, not_before_in, pack_host(moved(state, -now)).decode()


def state_of(item: Item, *, now: float) -> HostState | None:
    """Return all that an item tells of a host, by the clock that says `now`."""
    if item.key.startswith(ROBOTS):
        return None
    state = None
    if item.state is not None:
        try:
            state = moved(unpack_host(item.state), now - item.state_age)
        except FieldError:
            # It is damaged: the host counts as visited now.
            state = HostState(last_visit_at=now)
    if item.visited_ago is not None:
        known, visited_at = state or HostState(), now - item.visited_ago
        if known.last_visit_at is None or known.last_visit_at < visited_at:
            state = replace(known, last_visit_at=visited_at)
    not_before_at = now + item.not_before_in
    if item.not_before_in:
        known = state or HostState()
        if not_before_at > max(known.next_allowed_at, known.blocked_until_at) + _GRAIN:
            state = replace(known, next_allowed_at=not_before_at)
    return state


def _leave(leave: Leave) -> list[object]:
    return [
        spelled(leave.key),
        str(leave.token),
        leave.age,
        leave.visited_ago is not None and leave.visited_ago,
        leave.not_before_in,
        leave.state is not None and leave.state.decode(),
    ]
