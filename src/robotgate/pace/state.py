"""The arithmetic of politeness: what is known of a host, how two accounts of it merge, and what an outage means.

Nothing a server sends, and no order of events, makes a visit come sooner than it was due: instants only move later.
`pace.host` has what an answer does to a host.

`Circuit` tells whether one origin can be reached. During an outage no request is sent, until after a pause a single one
tries. Turns wait for it until the origin is given up. A circuit belongs to an origin and not to a host: a refused port
says nothing about another port. It is kept in memory only, because the first request of the next process finds an
outage as cheaply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


CLOCK_GRAIN: Final = 1e-6
"""Seconds; instants closer than this are the same. A double holds today's date no finer than a quarter of it."""
SAME_START: Final = 1e-5
"""Seconds; the same for an instant that went through the clocks of several processes."""
CLOCKS_APART: Final = 0.1
"""Seconds; the same where the clock of a server is among them, for a busy machine reads that some milliseconds late."""
GOOD_BELOW: Final = 400
"""Statuses below this say that the host is well."""
MISSING_STATUSES: Final = frozenset({404, 410})
"""These say so, too: the host took the request, and has no such page."""
FORGIVEN_AFTER: Final = 1800.0
"""Seconds without a block after which the next block is the first again. At a host that does not learn a delay, one
good answer is not enough: a server that answers one request and refuses the next would be asked again every minute."""
MIN_RETRY_AFTER: Final = 1.0
"""Seconds given in `TooSoonError` when it is not known when a turn will be free."""


Starts: TypeAlias = tuple[tuple[float, int], ...]
"""Pairs (instant, how many), ascending. So many requests began by then, each after the pair before it or at the same
instant. `UNKNOWN` stands for those that a process began and did not save before its end."""
UNKNOWN: Final = 0


class Kind(Enum):
    """What a field of a `HostState` holds. Unless it says otherwise, of two values for one host the larger counts."""

    INSTANT = "instant"
    """Seconds since the epoch. It moves with the clock, unless it has its default: what never happened stays so."""
    DURATION = "duration"
    """Seconds."""
    COUNT = "count"
    LEARNED = "learned"
    """Seconds that are learned, up and down: that of the later visit counts, unless it has its default."""
    STARTS = "starts"
    """As `Starts`; `merged_starts` has which of two count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What is kept of a host when it leaves memory. Instants are seconds since the epoch, by the wall clock."""

    # `merged`, `moved`, the codec and the columns in a file are made of these fields. `pace.host.Host` has the same
    # attributes. A new field has `is_added` in its metadata: in a state that an older version wrote it has its default.
    last_visit_at: float | None = field(default=None, metadata={"kind": Kind.INSTANT})
    """When the last request began. With one slot: when the last response ended, if that came later."""
    next_allowed_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT})
    """No request starts earlier."""
    blocked_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT})
    """When the last block began."""
    blocked_until_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT})
    """Until when the server blocks us."""
    failures: int = field(default=0, metadata={"kind": Kind.COUNT})
    """Blocks in a row, each within `FORGIVEN_AFTER` of the one before; with a learned delay, since a good answer."""
    visits: int = field(default=0, metadata={"kind": Kind.COUNT})
    """Requests sent, those for robots.txt included."""
    bytes_read: int = field(default=0, metadata={"kind": Kind.COUNT})
    latency: float | None = field(default=None, metadata={"kind": Kind.DURATION})
    """Seconds a response takes to begin, smoothed; None until one has begun."""
    learned_delay: float = field(default=0.0, metadata={"kind": Kind.LEARNED, "is_added": True})
    """Seconds between visits that the host has taught us to keep; 0.0: none. `pace.learned` has how."""
    limit_delay: float = field(default=0.0, metadata={"kind": Kind.LEARNED, "is_added": True})
    """Seconds between visits that are taken for the host's own limit; 0.0: nothing is known of one."""
    eases_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    """The learned delay is not lowered earlier."""
    budget_began_at: float | None = field(default=None, metadata={"kind": Kind.INSTANT, "is_added": True})
    """When the present period of a budget began; None: none has."""
    budget_ends_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    """When it ends, by the budget that held last; until then a store must not forget it. Infinity: never."""
    budget_pages: int = field(default=0, metadata={"kind": Kind.COUNT, "is_added": True})
    """Requests for pages in it."""
    budget_bytes: int = field(default=0, metadata={"kind": Kind.COUNT, "is_added": True})
    """Bytes read in it, and before it if none was over."""
    turn_time: float = field(default=0.0, metadata={"kind": Kind.LEARNED, "is_added": True})
    """Seconds that a turn takes on average, of those by `try_turn`; 0.0: none has ended."""
    promised_from_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    """When the first task is to come that was promised a turn, and has not come; `pace.promises` has how."""
    promised_until_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    """When the last one is."""
    promised_step: float = field(default=0.0, metadata={"kind": Kind.LEARNED, "is_added": True})
    """Seconds from one of them to the next, at least; 0.0: none was ever promised."""
    admitted_until_at: float = field(default=0.0, metadata={"kind": Kind.INSTANT, "is_added": True})
    """When the next turn may start after those that were admitted by promises, if these take as long as on average."""
    starts: Starts = field(default=(), metadata={"kind": Kind.STARTS, "is_added": True})
    """Where the host has a quota: the starts that count against it; `pace.quota` has how."""


FIELDS: Final = tuple(each.name for each in fields(HostState))
"""The names of what a `HostState` holds."""
_VALUES: Final = attrgetter(*FIELDS)
# The types of the arguments are those of the fields.
_make: Final[Callable[..., HostState]] = HostState
_LEARNED: Final = tuple(each.name for each in fields(HostState) if each.metadata["kind"] is Kind.LEARNED)
_SPENT: Final = tuple(name for name in FIELDS if name.startswith("budget_"))
_spent_of: Final = attrgetter(*_SPENT)
_INSTANTS: Final = tuple(
    (each.name, each.default) for each in fields(HostState) if each.metadata["kind"] is Kind.INSTANT
)


def is_served(state: HostState, now: float) -> bool:
    """Whether nothing in the state makes the next visit come later, or the next block longer.

    Such a state may be forgotten, unless the host's last visit was so recent that a delay not yet known may count.
    """
    if (
        max(state.next_allowed_at, state.blocked_until_at, state.budget_ends_at, state.promised_until_at)
        > now
    ):
        return False
    if state.learned_delay and not is_forgiven(state.last_visit_at or 0.0, now):
        return False
    return not state.failures or is_forgiven(state.blocked_until_at, now)


def merged(one: HostState, other: HostState) -> HostState:
    """Two states of one host as one: the later of each instant, the larger of each count, what was learned last."""
    values = dict(zip(FIELDS, map(_larger, _VALUES(one), _VALUES(other)), strict=True))
    one_at, other_at = one.last_visit_at or 0.0, other.last_visit_at or 0.0
    if one_at != other_at:
        last, before = (one, other) if one_at > other_at else (other, one)
        values |= {name: getattr(last, name) or getattr(before, name) for name in _LEARNED}
    before, last = sorted((one, other), key=_period)
    if _is_next_period(last, before):
        # What was used in it; of one period, the larger counts.
        values |= zip(_SPENT, _spent_of(last), strict=True)
    if one.starts and other.starts:
        fewer, more = sorted((one, other), key=_known_starts)
        return _make(**values | {"starts": merged_starts(fewer.starts, more.starts, CLOCKS_APART)})
    return _make(**values)


def _known_starts(state: HostState) -> tuple[int, float, int]:
    return state.visits, *_last_start(state.starts)


def _period(state: HostState) -> float:
    return -math.inf if state.budget_began_at is None else state.budget_began_at


def _is_next_period(last: HostState, before: HostState) -> bool:
    """Whether the budget's period of one state is another than that of the other, which began before it.

    A period begins when the one before it is over. So half of one tells them apart, whatever the clocks of processes
    and servers make of the same instant.
    """
    if before.budget_began_at is None:
        return last.budget_began_at is not None
    length = before.budget_ends_at - before.budget_began_at
    return _period(last) - before.budget_began_at > length / 2


def merged_starts(one: Starts, other: Starts, apart: float = 0.0) -> Starts:
    """The starts of the account whose last start came later, and what is unknown of the time since.

    One process at a time paces a host. It begins with all that was known, so the last one knows all.

    Args:
        apart: seconds; the other account counts where its last start is earlier by less.
    """
    (one_at, one_count), other_last = _last_start(one), _last_start(other)
    if not (one_count or other_last[1]):
        # Processes have died one after the other, and the store knows of no start of theirs.
        both = sorted({*one, *other})
        pairs = pairwise([*both, (math.inf, UNKNOWN)])
        return tuple([pair for pair, (next_at, _) in pairs if next_at - pair[0] > SAME_START])
    last, before = (one, other) if (one_at - apart, one_count) > other_last else (other, one)
    until_at = last[-1][0]
    unknown = (pair for pair in before if pair[1] == UNKNOWN and pair[0] - until_at > SAME_START)
    return (*last, *unknown)


def _last_start(starts: Starts) -> tuple[float, int]:
    known = [pair for pair in starts if pair[1] != UNKNOWN]
    return (known[-1][0], sum(count for _, count in known)) if known else (-math.inf, 0)


def visited(at: float) -> HostState:
    """The state of a host of which it is only known that a process visited it, at this instant at the latest."""
    return HostState(last_visit_at=at, starts=((at, UNKNOWN),))


def moved(state: HostState, seconds: float) -> HostState:
    """Return a state whose instants are moved by some seconds. What never happened stays so."""
    if not seconds:
        return state
    instants = ((name, getattr(state, name), never) for name, never in _INSTANTS)
    values = {name: at + seconds for name, at, never in instants if at != never}
    if state.starts:
        values["starts"] = tuple([(at + seconds, count) for at, count in state.starts])
    return replace(state, **values)


def is_forgiven(blocked_until_at: float, now: float) -> bool:
    """Whether the next block is the first again."""
    return now - blocked_until_at >= FORGIVEN_AFTER


def _larger(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def growing(least: float, times: int) -> float:
    """A pause that begins with `least` seconds, and doubles each time up to the seventeenth."""
    return least * 2.0 ** min(max(times, 1) - 1, 16)


MIN_OUTAGE: Final = 1.0
"""Seconds until the first new try, doubled with each try that fails: a server that restarts is back within a few."""
MAX_OUTAGE: Final = 3600.0
OUTAGE_JITTER: Final = 0.1
MAX_SILENCES: Final = 10
"""Requests in a row without an answer that make an outage, of an origin that has answered before: some pages are slow,
and time out one after the other."""
MAX_FIRST_SILENCES: Final = 3
"""The same of an origin that has never answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is known of an origin's outage."""

    has_answered: bool = False
    """Whether it ever answered."""
    silences: int = 0
    """Requests in a row that were sent and got no answer; fewer than it takes to make an outage."""
    outages: int = 0
    """Tries in a row that failed since the outage began; 0 while there is none."""
    began_at: float = 0.0
    """When the outage was noticed."""
    failed_at: float = 0.0
    """When the last try failed."""
    retry_at: float = 0.0
    """When the next try may be made."""
    is_gone: bool = False
    """Whether the origin is given up: turns are refused until the next try."""


UNTRIED: Final = Circuit()
"""The circuit of an origin of which nothing is known."""
CLOSED: Final = Circuit(has_answered=True)
"""The circuit of an origin that answers. Any answer closes a circuit, whatever its status."""


def is_open(circuit: Circuit, *, now: float) -> bool:
    """Whether no request may be sent yet."""
    return circuit.outages > 0 and now + CLOCK_GRAIN < circuit.retry_at


def is_half_open(circuit: Circuit, *, now: float) -> bool:
    """Whether one request may be sent while all others wait for its result."""
    return circuit.outages > 0 and not is_open(circuit, now=now)


def circuit_failed(
    circuit: Circuit, *, began_at: float, now: float, jitter: float, give_up_after: float
) -> Circuit:
    """The circuit once a request could not be sent.

    Args:
        began_at: when the request began; one that began before the outage was known belongs to that outage.
        jitter: a random number in [0, 1), so that origins that went down together are not all tried together.
        give_up_after: seconds of outage after which a try that fails gives the origin up.
    """
    if circuit.outages and began_at <= circuit.failed_at:
        return circuit
    pause = min(growing(MIN_OUTAGE, circuit.outages + 1), MAX_OUTAGE) * (1 + OUTAGE_JITTER * jitter)
    outage_began_at = circuit.began_at if circuit.outages else now
    return Circuit(
        has_answered=circuit.has_answered,
        outages=circuit.outages + 1,
        began_at=outage_began_at,
        failed_at=max(circuit.failed_at, now),
        retry_at=max(circuit.retry_at, now + pause),
        is_gone=now - outage_began_at >= give_up_after,
    )


def circuit_silent(
    circuit: Circuit, *, began_at: float, now: float, jitter: float, give_up_after: float
) -> Circuit:
    """The circuit once a request was sent and got no answer; the arguments are those of `circuit_failed`.

    A few in a row say that pages are slow. More are an outage, and so is a single one while an outage lasts.
    """
    silences = circuit.silences + 1
    if not circuit.outages and silences < (MAX_SILENCES if circuit.has_answered else MAX_FIRST_SILENCES):
        return Circuit(has_answered=circuit.has_answered, silences=silences)
    return circuit_failed(circuit, began_at=began_at, now=now, jitter=jitter, give_up_after=give_up_after)
