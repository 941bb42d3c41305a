"""Names of keys, and messages to and from ``grants.lua``, which describes their layouts.

Messages are JSON. All seconds are relative. Numbers over 2^46 are text, since Redis writes 14 digits.
"""

from __future__ import annotations

import json
import math
import string
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import quote, unquote
from zlib import crc32

from robotgate.pace.state import UNKNOWN, HostState, moved, visited
from robotgate.stores.codec import FieldError, encoded, host_fields, host_of, object_of
from robotgate.stores.grants import ROBOTS, BlockNotice, Item, Reply, Request, Term, no_earlier, not_before

_PLAIN: Final = string.punctuation.replace("%", "")
ItemValues: TypeAlias = "tuple[str, str, str, bool, str | bool, float, float | bool, float, float | bool]"
"""An item, as the script writes it; False is nothing."""
FOREVER: Final = 1e15
"""Seconds that stand for an operator block without an end."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet. All keys that one call touches have the same hash tag, and so the same slot of a cluster.

    Args:
        prefix: before all of them; fleets with different ones share nothing.
        tags: how many hash tags: one for a single server, which then gets one call instead of many.
    """

    prefix: str
    tags: int

    def tag_of(self, name: str) -> int:
        """Return the tag of a pace key, or of an origin's text."""
        return crc32(spelled(name).encode()) % self.tags if self.tags > 1 else 0

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


def encoded_request(request: Request, *, now: float) -> bytes:
    """Encode the request of a session. `now` is the time by its clock, as everywhere here."""
    term = (request.term.epoch, str(request.term.joined)) if request.term else (False, False)
    leaves = [
        (spelled(leave.key), str(leave.token), *encoded_state(leave.state, now=now))
        for leave in request.leaves
    ]
    keys = [[spelled(key) for key in keys] for keys in (request.withdrawals, request.asks, request.claims)]
    notices = [
        (spelled(each.pattern), each.until_at > 0 and min(each.until_at - now, FOREVER), each.age)
        for each in request.notices
    ]
    head = "exchange", request.session, *term, request.number, request.after
    return encoded([*head, leaves, *keys, notices, request.is_last])


def read_reply(data: bytes, *, now: float) -> tuple[Reply, list[float | None]]:
    """Read a reply, and for each host of the request's asks its pace in seconds, or None where it is not known."""
    number, epoch, joined, items, notices, paces = json.loads(data)
    notices = tuple(
        BlockNotice(read_name(pattern), _until_at(until_in, now), said_ago, int(count))
        for pattern, until_in, said_ago, count in notices
    )
    granted = tuple(read_item(item, now=now) for item in items)
    # An empty list is written as an empty object.
    return Reply(number, Term(epoch, int(joined)), granted, notices), [pace or None for pace in paces]


def read_item(values: ItemValues, *, now: float) -> Item:
    """Read an item of a reply."""
    number, key, token, is_wanted, text, state_age, visited_ago, not_before_in, lost_ago = values
    state = None
    if isinstance(text, str):
        try:
            state = moved(host_of(object_of(text.encode())), now - state_age)
        except FieldError:
            # It is damaged: the host counts as visited now.
            state = visited(now)
    if (visited_ago is not False or not_before_in) and not key.startswith(ROBOTS):
        visited_at = None if visited_ago is False else now - visited_ago
        due_at = now + not_before_in if not_before_in else 0.0
        starts = () if lost_ago is False else ((now - lost_ago, UNKNOWN),)
        known = HostState(last_visit_at=visited_at, next_allowed_at=due_at, starts=starts)
        state = no_earlier(state or HostState(), known)
    return Item(int(number), read_name(key), int(token), is_wanted, state)


def encoded_state(state: HostState | None, *, now: float) -> tuple[float | bool, float, str | bool]:
    """Return the seconds since the last visit, and until the next may start; and the state, its instants relative."""
    if state is None:
        return False, 0.0, False
    visited_ago = state.last_visit_at is not None and now - state.last_visit_at
    return visited_ago, max(not_before(state) - now, 0.0), encoded(host_fields(moved(state, -now))).decode()


def _until_at(until_in: float | bool, now: float) -> float:  # noqa: FBT001 # False lifts.
    if until_in is False:
        return 0.0
    return math.inf if until_in > FOREVER / 2 else now + until_in
