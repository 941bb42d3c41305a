"""The protocol by which sessions share hosts, without I/O and without a clock: every method takes `now`.

A grant is the exclusive right to pace one host. The protocol has two sides. `Grants` is the shared medium: it processes
one message after the other. A file keeps its rows in tables. For Redis, ``grants.lua`` does all that `Grants` does, at
the server. `SessionSide` is one session: it knows the hosts that it holds and waits for, and repeats messages that were
not acknowledged.

There is one kind of message. A `Request` is a sign of life and carries asks, withdrawals, hosts that are left, claims,
and the operator's blocks. Its `Reply` carries hosts that are granted to the session, hosts of the session that others
want, and blocks of other operators. Messages may be lost, doubled and late. Between machines only relative seconds are
sent, so transit makes instants later, never earlier.

- A session without a request for `EXPIRY` is ended, and its hosts count as visited at that moment. By its own clock its
  grants are valid for `LEASE` after it *sent* the last request that was answered, which always ends sooner. What
  users set as `lease` of a `RedisStore` is the expiry; `LEASE` and `BEAT` change with it.
- Waiting sessions stand in one line for each host, in the order in which their asks arrived.
- A token names one grant. A message with another than the current token moves instants later and frees nothing.
- A term names one stay of a session in one epoch of the medium. A session that finds another term has lost its grants;
  if the medium lost its memory (another epoch), it may claim them again while its lease is valid, and repeats the
  operator's blocks. Until `EXPIRY` after the loss only hosts that were claimed are granted, and handed on.
- Of all notices about a pattern (a block, or its end), the last one counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from robotgate.pace.state import SAME_START, HostState, merged, merged_starts, visited

if TYPE_CHECKING:
    from collections.abc import Iterable

BEAT: Final = 4.0
"""Seconds between two requests of a session that has nothing to send."""
LEASE: Final = 16.0
"""Seconds for which a session's grants are valid, from when it sent the last request that was answered."""
EXPIRY: Final = 20.0
"""Seconds after its last request at which a session is ended."""
ROBOTS: Final = "robots|"
"""Before the origin in a key that grants the fetch of a robots.txt. Such a host has no state."""
SAME_BLOCK: Final = 1.0
"""Seconds; blocks that end closer together are the same block, from two processes."""
OLD_BLOCK: Final = 86_400.0
"""Seconds for which a block that is over is kept, so that every session learns of its end."""


class Term(NamedTuple):
    """One stay of one session."""

    epoch: str
    """Changes whenever the medium loses its memory."""
    joined: int
    """Changes whenever the session is entered anew."""


@dataclass(frozen=True, slots=True)
class Leave:
    """A host that is handed on."""

    key: str
    state: HostState | None = None
    """For the next owner; None: the host was not visited."""
    token: int = 0
    """Of the grant; 0 where it was lost before."""


@dataclass(frozen=True, slots=True)
class BlockNotice:
    """A block by an operator, or the end of one."""

    pattern: str
    until_at: float
    """Seconds since the epoch; `math.inf`: until lifted; 0: lifted."""
    age: float
    """Seconds since the operator gave it."""
    number: int = 0
    """In a reply, as `Item.number`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message of a session."""

    session: str
    term: Term | None
    """None: the session has not joined, and the reply has its term. Only leaves are processed then."""
    number: int
    """Counts the session's requests. Of one that arrives after a later one, only the leaves are processed."""
    after: int = 0
    """Items and notices are acknowledged up to this number."""
    leaves: tuple[Leave, ...] = ()
    withdrawals: tuple[str, ...] = ()
    """Hosts for which the session does not wait any more."""
    asks: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """Hosts that were granted in the epoch before, by grants that are still valid."""
    notices: tuple[BlockNotice, ...] = ()
    is_last: bool = False
    """The session ends: it leaves every line, and its hosts are free with the instants that are known."""


@dataclass(frozen=True, slots=True)
class Item:
    """A host that is granted to the session, or one that it holds and others want."""

    number: int
    key: str
    token: int
    is_wanted: bool
    """Whether other sessions are in line for it."""
    state: HostState | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of the medium."""

    number: int
    """Of the request."""
    term: Term
    items: tuple[Item, ...] = ()
    notices: tuple[BlockNotice, ...] = ()


@dataclass(slots=True)
class SessionRow:
    """A session, as the medium knows it."""

    joined: int
    seen_at: float
    number: int = 0
    inbox: dict[str, int] = field(default_factory=dict)
    """The number of the item for each host with news, the oldest first."""


@dataclass(slots=True)
class HostRow:
    """The owner of a host, and the sessions that wait for it."""

    owner: str | None = None
    token: int = 0
    """Of the last grant that is known; 0: none."""
    line: list[str] = field(default_factory=list)
    """The sessions that wait, the first in front."""

    def withdraw(self, name: str) -> None:
        """Take a session out of the line."""
        if name in self.line:
            self.line.remove(name)


class BlockRow(NamedTuple):
    """The last notice on a pattern."""

    until_at: float
    said_at: float
    number: int


def not_before(state: HostState) -> float:
    """Before when no request may start."""
    return max(state.next_allowed_at, state.blocked_until_at)


def no_earlier(state: HostState, known: HostState | None) -> HostState:
    """A state whose instants are moved to those that are known, where these are later."""
    if known is None:
        return state
    visited_at, due_at = known.last_visit_at, not_before(known)
    if visited_at is not None and (state.last_visit_at is None or state.last_visit_at < visited_at):
        state = replace(state, last_visit_at=visited_at)
    if known.starts:
        state = replace(state, starts=merged_starts(state.starts, known.starts))
    return replace(state, next_allowed_at=due_at) if due_at > not_before(state) + SAME_START else state


class Grants:
    """The state of a shared medium, by its own clock.

    Args:
        epoch: names the memory of the medium.
    """

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self._serial = 0
        """The last number given to a token, a stay, an item or a notice."""
        self.sessions: dict[str, SessionRow] = {}
        self.hosts: dict[str, HostRow] = {}
        self.states: dict[str, HostState] = {}
        self.blocks: dict[str, BlockRow] = {}
        self.is_lost: bool = False
        """Whether sessions may hold hosts by grants of an earlier epoch."""

    def exchange(self, request: Request, *, now: float) -> Reply:
        """Process a request, and return the reply."""
        self.expire(now)
        session = self.sessions.get(request.session)
        if session is None:
            session = self.sessions[request.session] = SessionRow(self.next_number(), now)
        term = Term(self.epoch, session.joined)
        for leave in request.leaves:
            self._leave(request.session, leave, is_current=request.term == term)
        if request.term != term:
            return Reply(request.number, term)
        if request.number > session.number:
            session.number, session.seen_at = request.number, now
            self._heed(request, session, now)
        items = [
            Item(number, key, self.hosts[key].token, bool(self.hosts[key].line), self.known(key))
            for key, number in session.inbox.items()
            if number > request.after
        ]
        return Reply(request.number, term, tuple(items), self._notices_after(request.after, now))

    def expire(self, now: float) -> None:
        """End sessions without a request for `EXPIRY`."""
        ended = sorted((session.seen_at + EXPIRY, name) for name, session in self.sessions.items())
        for ended_at, name in ended:
            if ended_at <= now:
                self.end(name, visited_at=ended_at)

    def settle(self, keys: Iterable[str]) -> None:
        """Grant what was asked for since memory was lost: no session holds a host any more that it has not claimed.

        Args:
            keys: all hosts for which sessions wait, and maybe others.
        """
        self.is_lost = False
        for key in keys:
            if self.host(key).owner is None:
                self._grant_next(key)
                self._forget_free(key)

    def end(self, name: str, *, visited_at: float | None) -> None:
        """End a session.

        Args:
            visited_at: when its hosts count as visited; None: their states say it.
        """
        session = self.sessions.pop(name)
        for key in self.keys_of(name):
            host = self.host(key)
            host.withdraw(name)
            if host.owner == name:
                if visited_at is not None:
                    self._move_later(key, visited(visited_at))
                self._grant_next(key)
            self._forget_free(key)
        session.inbox.clear()

    def host(self, key: str) -> HostRow:
        """Return a host's row, and make one if there is none."""
        return self.hosts.setdefault(key, HostRow())

    def known(self, key: str) -> HostState | None:
        """Return the state of a host."""
        return self.states.get(key)

    def keep(self, key: str, state: HostState) -> None:
        """Keep the state of a host, as the last of all."""
        self.states.pop(key, None)
        self.states[key] = state

    def keys_of(self, name: str) -> list[str]:
        """Return all hosts that a session holds or waits for, and maybe others."""
        return list(self.hosts)

    def _heed(self, request: Request, session: SessionRow, now: float) -> None:
        for key in request.withdrawals:
            self.host(key).withdraw(request.session)
            self._forget_free(key)
        for key in request.asks:
            self._ask(request.session, key)
        for key in request.claims:
            self._claim(request.session, key)
        for notice in request.notices:
            self._process_notice(notice, now)
        for key in [key for key, number in session.inbox.items() if number <= request.after]:
            del session.inbox[key]
        if request.is_last:
            self.end(request.session, visited_at=None)

    def _leave(self, name: str, leave: Leave, *, is_current: bool) -> None:
        host = self.host(leave.key)
        is_owner = is_current and host.owner == name and host.token == leave.token
        if leave.state is not None and is_owner:
            self.keep(leave.key, no_earlier(leave.state, self.known(leave.key)))
        elif leave.state is not None:
            self._move_later(leave.key, leave.state)
        if is_owner:
            self.sessions[name].inbox.pop(leave.key, None)
            self._grant_next(leave.key)
        self._forget_free(leave.key)

    def _move_later(self, key: str, told: HostState) -> None:
        """Move the instants of a host to those of a message, where these are later."""
        known = self.known(key)
        state = merged(known or HostState(), told)
        if state != (known or HostState()) and not key.startswith(ROBOTS):
            self.keep(key, state)

    def _ask(self, name: str, key: str) -> None:
        host = self.host(key)
        if host.owner == name:
            self._tell(key)
        elif name not in host.line:
            host.line.append(name)
            if host.owner is None:
                self._grant_next(key)
            elif len(host.line) == 1:
                self._tell(key)

    def _claim(self, name: str, key: str) -> None:
        """Grant a host to a session that held it before the loss, unless another session holds it."""
        if self.host(key).owner in {None, name}:
            self._grant(name, key)

    def _process_notice(self, notice: BlockNotice, now: float) -> None:
        known, row = self.blocks.get(notice.pattern), BlockRow(notice.until_at, now - notice.age, 0)
        if known is None or not _is_same_block(known.until_at, notice.until_at):
            # Sessions that sent the other notice may not know the last one: it is sent again.
            number = self.next_number()
        else:
            number = known.number
        last = row if known is None or known.said_at <= row.said_at else known
        self.blocks[notice.pattern] = last._replace(number=number)
        for pattern, block in list(self.blocks.items()):
            if max(block.until_at, block.said_at) + OLD_BLOCK < now:
                del self.blocks[pattern]

    def _notices_after(self, after: int, now: float) -> tuple[BlockNotice, ...]:
        return tuple(
            BlockNotice(pattern, until_at if until_at > now else 0.0, now - said_at, number)
            for pattern, (until_at, said_at, number) in self.blocks.items()
            if number > after
        )

    def _grant_next(self, key: str) -> None:
        """Grant a host that is free, or becomes so, to the first in line.

        After a loss only that is known to be free which was granted since, to the session that has claimed it.
        """
        host = self.host(key)
        host.owner = None
        if host.line and (host.token or not self.is_lost):
            self._grant(host.line.pop(0), key)

    def _grant(self, name: str, key: str) -> None:
        host = self.host(key)
        host.owner, host.token = name, self.next_number()
        self._tell(key)

    def _tell(self, key: str) -> None:
        """Put a host into its owner's inbox, behind all else."""
        owner = self.hosts[key].owner
        if owner is not None:
            inbox = self.sessions[owner].inbox
            inbox.pop(key, None)
            inbox[key] = self.next_number()

    def _forget_free(self, key: str) -> None:
        host = self.hosts.get(key)
        if host is not None and host.owner is None and not host.line and not (self.is_lost and host.token):
            del self.hosts[key]

    def next_number(self) -> int:
        """Return a number greater than all before."""
        self._serial += 1
        return self._serial


@dataclass(slots=True, eq=False)
class Hold:
    """A grant, on the side of its session."""

    token: int
    is_live: bool = True
    """Whether it was neither left nor lost. The grant is valid while the session's lease is valid, too."""


class SessionSide:
    """One session's side. `now` is by its lease clock, which must run while the machine is suspended.

    Args:
        name: no two sessions have the same.
        lease: seconds for which its grants are valid; shorter than the medium's expiry.
    """

    def __init__(self, name: str, *, lease: float = LEASE) -> None:
        self.name = name
        self.holds: dict[str, Hold] = {}
        self.awaited: set[str] = set()
        """The hosts for which the session waits."""
        self.valid_until_at: float = -math.inf
        self._lease = lease
        self._term: Term | None = None
        self._is_new = True
        """Whether no request of this term was processed."""
        self._number = 0
        self._answered = 0
        """The number of the latest request that was answered."""
        self.after: int = 0
        """The number of the last item or notice that was received."""
        self._sent: dict[int, tuple[float, Term | None]] = {}
        self._notices: dict[str, tuple[float, float]] = {}
        """For each pattern the last notice: the end of the block, and when the notice was given."""
        # All that was not acknowledged, each with the number of the last request that did not carry it.
        self._asks: dict[str, int] = {}
        self._withdrawn: dict[str, int] = {}
        self._claims: dict[str, int] = {}
        self._unsent: dict[str, int] = {}
        self._left: dict[str, tuple[int, Leave]] = {}

    @property
    def has_to_send(self) -> bool:
        """Whether there is something that was not acknowledged."""
        return self._is_new or bool(
            self._asks or self._withdrawn or self._claims or self._unsent or self._left
        )

    def is_valid(self, hold: Hold, *, now: float) -> bool:
        """Whether a request may start under this grant."""
        return hold.is_live and now < self.valid_until_at

    def ask(self, key: str) -> None:
        """Ask for a host that is not held, and wait for it."""
        self._withdrawn.pop(key, None)
        if key not in self.awaited:
            self.awaited.add(key)
            self._asks[key] = self._number

    def ask_again(self, key: str) -> None:
        """Repeat an ask that was answered, if the host is still waited for."""
        if key in self.awaited:
            # One less: a request has carried it before, so `withdraw` has to tell the medium.
            self._asks.setdefault(key, self._number - 1)

    def withdraw(self, key: str) -> None:
        """Do not wait for a host any more. If it is granted nevertheless, it is left at once."""
        if key in self.awaited:
            self.awaited.remove(key)
            if self._asks.pop(key, -1) < self._number:
                self._withdrawn[key] = self._number

    def leave(self, key: str, state: HostState | None) -> None:
        """Hand a host on; of a host that was lost, send its later instants."""
        hold, (_, unsent) = self.holds.pop(key, None), self._left.get(key, (0, Leave(key)))
        self._claims.pop(key, None)
        if hold is not None:
            hold.is_live = False
        elif state is None:
            return
        token = unsent.token if hold is None else hold.token
        self._left[key] = self._number, Leave(key, state, token)

    def publish_block(self, pattern: str, until_at: float, *, now: float) -> None:
        """Block hosts for all sessions until an instant; 0 lifts the block."""
        self._notices[pattern] = until_at, now
        self._unsent[pattern] = self._number

    def request(self, *, now: float, is_last: bool = False) -> Request:
        """Return the next request, with all that was not acknowledged. It has to be sent at once."""
        if now >= self.valid_until_at:
            self._drop(self._claims)
        self._number += 1
        self._sent[self._number] = now, self._term
        notices = ((pattern, *self._notices[pattern]) for pattern in self._unsent)
        return Request(
            self.name,
            self._term,
            self._number,
            self.after,
            tuple(leave for _, leave in self._left.values()),
            tuple(self._withdrawn),
            tuple(self._asks),
            tuple(self._claims),
            tuple(
                BlockNotice(pattern, until_at, max(now - said_at, 0.0))
                for pattern, until_at, said_at in notices
            ),
            is_last,
        )

    def receive(self, reply: Reply) -> tuple[list[Item], list[BlockNotice]]:
        """Process a reply.

        Returns:
            The hosts that are granted, and hosts of the session that others want; and notices of other operators.
        """
        number = reply.number
        if number <= self._answered:
            return [], []
        sent_at, term = self._sent[number]
        self._answered = number
        self._sent = {sent: what for sent, what in self._sent.items() if sent > number}
        self._left = {key: left for key, left in self._left.items() if left[0] >= number}
        if reply.term != self._term:
            self._start_anew(reply.term)
            return [], []
        if term != reply.term:
            # The request was sent in another term, so the medium processed only its leaves.
            return [], []
        self._is_new = False
        self.valid_until_at = max(self.valid_until_at, sent_at + self._lease)
        self._asks = _unacknowledged(number, self._asks)
        self._withdrawn = _unacknowledged(number, self._withdrawn)
        self._unsent = _unacknowledged(number, self._unsent)
        told = [item for item in reply.items if self._take(item)]
        notices = [notice for notice in reply.notices if self._process_notice(notice, sent_at)]
        numbers = [*(item.number for item in reply.items), *(notice.number for notice in reply.notices)]
        self.after = max([self.after, *numbers])
        # These were not granted again.
        self._drop(key for key, before in self._claims.items() if before < number)
        return told, notices

    def _take(self, item: Item) -> bool:
        """Process an item. Returns whether it is news."""
        key, hold, left = item.key, self.holds.get(item.key), self._left.get(item.key)
        if item.number <= self.after:
            return False
        if left is not None:
            # The medium has not received the state of the last visit: the new grant is left again, with that state.
            if left[1].token != item.token:
                self._left[key] = self._number, replace(left[1], token=item.token)
            return False
        if hold is not None:
            hold.token = item.token
            self._claims.pop(key, None)
            return item.is_wanted
        if key not in self.awaited:
            self._left[key] = self._number, Leave(key, token=item.token)
            return False
        self.awaited.remove(key)
        self._asks.pop(key, None)
        self.holds[key] = Hold(item.token)
        return True

    def _process_notice(self, notice: BlockNotice, now: float) -> bool:
        """Process a notice. Returns whether it is news."""
        if notice.number <= self.after or notice.pattern in self._unsent:
            # It is known, or the own notice, which was not sent yet, is the later one.
            return False
        known_until_at = self._notices.get(notice.pattern, (0.0, 0.0))[0]
        self._notices[notice.pattern] = notice.until_at, now - notice.age
        return not _is_same_block(known_until_at, notice.until_at)

    def _start_anew(self, term: Term) -> None:
        """Enter another term: repeat all asks and notices. Only grants that can be claimed are kept."""
        if self._term is not None and self._term.epoch == term.epoch:
            self._drop(self.holds)
        self._term, self._is_new, self.after = term, True, 0
        self._asks = dict.fromkeys(self.awaited, self._number)
        self._claims = dict.fromkeys(self.holds, self._number)
        self._unsent = dict.fromkeys(self._notices, self._number)
        self._withdrawn.clear()

    def _drop(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self.holds.pop(key).is_live = False
            self._claims.pop(key, None)


def _unacknowledged(number: int, unsent: dict[str, int]) -> dict[str, int]:
    return {key: before for key, before in unsent.items() if before >= number}


def _is_same_block(until_at: float, other_until_at: float) -> bool:
    return math.isclose(until_at, other_until_at, rel_tol=0.0, abs_tol=SAME_BLOCK)
