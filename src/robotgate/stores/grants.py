"""The protocol by which sessions share hosts, without I/O and without a clock: every method takes `now`.

A grant is the exclusive right to pace one host. It has two sides. `Grants` is what the shared medium does with one
message: a file keeps its rows, and the Lua of Redis does the same. `Member` is one session's side: it knows what the
session holds and waits for, puts that into messages, and repeats what was not acknowledged.

There is one kind of message. A `Request` is a sign of life and carries asks, withdrawals, hosts that are left, and
claims; its `Reply` carries the session's inbox: hosts that were granted to it, and hosts it holds that others want.
Messages may be lost, doubled and late. Only relative seconds are sent, so transit makes instants later, never earlier.

- A session that was not heard of for `EXPIRY` is ended: its hosts count as visited at that moment. By its own clock its
  grants are valid for `LEASE` after it *sent* the last request that was answered, which always ends sooner.
- Waiting sessions stand in one line for each host, in the order in which their asks arrived.
- A token names one grant. What is said of a token that is not the current one moves instants later and frees nothing.
- A term names one stay of a session in one epoch of the medium. A session that finds another term has lost its grants;
  if the medium lost its memory (another epoch), it may claim them again while its lease is valid. Until `EXPIRY` after
  the loss only claimed hosts are granted. All others count as visited then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

BEAT: Final = 4.0
"""Seconds between two requests of a session that has nothing to say."""
LEASE: Final = 16.0
"""Seconds for which a session's grants are valid, from when it sent the last request that was answered."""
EXPIRY: Final = 20.0
"""Seconds after its last request at which a session is ended."""


class Term(NamedTuple):
    """One stay of one session."""

    epoch: str
    """Changes whenever the medium loses its memory."""
    joined: int
    """Changes whenever the session is entered anew."""


@dataclass(frozen=True, slots=True)
class Leave:
    """A host that is handed on. All seconds count from when it was left."""

    key: str
    visited_ago: float | None = None
    """Seconds from the end of the last visit; None: it was not visited."""
    not_before_in: float = 0.0
    """Seconds until the next visit may start."""
    state: bytes | None = None
    """What the next owner is told, its instants relative as well."""
    token: int = 0
    """Of the grant; 0 where it was lost before."""
    age: float = 0.0
    """Seconds since it was left."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a session says."""

    session: str
    term: Term | None
    """None: it has not joined yet, and is told its term. Only leaves are heeded then."""
    number: int
    """Counts the session's requests. One that comes after a later one is not heeded, but for its leaves."""
    after: int = 0
    """The inbox is acknowledged up to this item."""
    leaves: tuple[Leave, ...] = ()
    withdrawals: tuple[str, ...] = ()
    """Hosts that are not waited for any more."""
    asks: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """Hosts that were granted in the epoch before, by grants that are still valid."""
    is_last: bool = False
    """The session ends: it leaves every line, and its hosts are free with the instants that are known."""


@dataclass(frozen=True, slots=True)
class Item:
    """A host that is granted to the session."""

    number: int
    key: str
    token: int
    is_wanted: bool
    """Whether other sessions are in line for it."""
    state: bytes | None = None
    state_age: float = 0.0
    """Seconds since the state was true."""
    visited_ago: float | None = None
    not_before_in: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What the medium answers."""

    number: int
    """Of the request."""
    term: Term
    items: tuple[Item, ...] = ()


@dataclass(slots=True)
class SessionRow:
    """What is known of a session."""

    joined: int
    seen_at: float
    number: int = 0
    inbox: dict[str, int] = field(default_factory=dict)
    """The number of the item for each host with news, the oldest first."""


@dataclass(slots=True)
class HostRow:
    """What is known of a host, who holds it, and who waits for it."""

    owner: str | None = None
    token: int = 0
    line: tuple[str, ...] = ()
    """The sessions that wait, the first in front."""
    state: bytes | None = None
    saved_at: float = 0.0
    visited_at: float | None = None
    not_before_at: float = 0.0

    def withdraw(self, name: str) -> None:
        """Take a session out of the line."""
        if name in self.line:
            self.line = tuple(other for other in self.line if other != name)

    def move_later(self, visited_at: float | None, not_before_at: float = 0.0) -> None:
        """Take in instants, as far as they are later than those that are known."""
        if visited_at is not None and (self.visited_at is None or self.visited_at < visited_at):
            self.visited_at = visited_at
        self.not_before_at = max(self.not_before_at, not_before_at)


class Grants:
    """What a shared medium knows, by its own clock.

    Args:
        epoch: names what it remembers.
    """

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self._serial = 0
        """The last number given to a token, a stay or an item."""
        self.sessions: dict[str, SessionRow] = {}
        self.hosts: dict[str, HostRow] = {}
        self._lost_until_at: float | None = None
        """Until when only claims are granted."""
        self._assumed_at: float | None = None
        """When every host counts as visited, at least."""

    def lose(self, epoch: str, *, now: float, forgets_hosts: bool) -> None:
        """Go on after memory was lost.

        Args:
            epoch: another than any before.
            forgets_hosts: what is known of hosts is lost too; otherwise only who holds and waits for them.
        """
        self.epoch = epoch
        self.sessions.clear()
        if forgets_hosts:
            self.hosts.clear()
        for host in self.hosts.values():
            host.owner, host.line = None, ()
        self._lost_until_at = self._assumed_at = now + EXPIRY

    def exchange(self, request: Request, *, now: float) -> Reply:
        """Take in a request, and answer it."""
        self.expire(now)
        session = self.sessions.get(request.session)
        if session is None:
            session = self.sessions[request.session] = SessionRow(self.next_number(), now)
        term = Term(self.epoch, session.joined)
        for leave in request.leaves:
            self._leave(request.session, leave, now, is_current=request.term == term)
        if request.term != term:
            return Reply(request.number, term)
        if request.number > session.number:
            session.number, session.seen_at = request.number, now
            for key in request.withdrawals:
                self._withdraw(request.session, key)
            for key in request.asks:
                self._ask(request.session, key)
            for key in request.claims:
                self._claim(request.session, key)
            for key in [key for key, number in session.inbox.items() if number <= request.after]:
                del session.inbox[key]
            if request.is_last:
                self.end(request.session, visited_at=None)
        news = [(key, number) for key, number in session.inbox.items() if number > request.after]
        return Reply(request.number, term, tuple(self._item(key, number, now) for key, number in news))

    def expire(self, now: float) -> None:
        """End sessions that were not heard of for `EXPIRY`, and the time after a loss in which only claims count."""
        ended = sorted((session.seen_at + EXPIRY, name) for name, session in self.sessions.items())
        for ended_at, name in ended:
            if ended_at <= now:
                self.end(name, visited_at=ended_at)
        if self._lost_until_at is not None and now >= self._lost_until_at:
            self._lost_until_at = None
            for key in [key for key, host in self.hosts.items() if host.line and host.owner is None]:
                self._grant_next(key)

    def end(self, name: str, *, visited_at: float | None) -> None:
        """End a session.

        Args:
            visited_at: when its hosts count as visited; None: as is known.
        """
        session = self.sessions.pop(name)
        for key in self.keys_of(name):
            host = self.host(key)
            host.withdraw(name)
            if host.owner == name:
                host.move_later(visited_at)
                self._grant_next(key)
            self._forget_unknown(key)
        session.inbox.clear()

    def host(self, key: str) -> HostRow:
        """What is known of a host."""
        return self.hosts.setdefault(key, HostRow())

    def keys_of(self, name: str) -> list[str]:
        """All hosts that a session holds or waits for, and maybe others."""
        del name
        return list(self.hosts)

    def _leave(self, name: str, leave: Leave, now: float, *, is_current: bool) -> None:
        host = self.host(leave.key)
        left_at = now - leave.age
        visited_at = None if leave.visited_ago is None else left_at - leave.visited_ago
        host.move_later(visited_at, left_at + leave.not_before_in if leave.not_before_in else 0.0)
        if is_current and host.owner == name and host.token == leave.token:
            if leave.state is not None:
                host.state, host.saved_at = leave.state, left_at
            self.sessions[name].inbox.pop(leave.key, None)
            self._grant_next(leave.key)
        self._forget_unknown(leave.key)

    def _withdraw(self, name: str, key: str) -> None:
        self.host(key).withdraw(name)
        self._forget_unknown(key)

    def _ask(self, name: str, key: str) -> None:
        host = self.host(key)
        if host.owner == name:
            self._tell(key)
        elif name not in host.line:
            host.line += (name,)
            if host.owner is None:
                self._grant_next(key)
            elif len(host.line) == 1:
                self._tell(key)

    def _claim(self, name: str, key: str) -> None:
        host = self.host(key)
        if self._lost_until_at is not None and host.owner is None:
            self._grant(name, key)
        self._forget_unknown(key)

    def _grant_next(self, key: str) -> None:
        """Grant a host that is free, or becomes so, to the first in line."""
        host = self.hosts[key]
        host.owner = None
        if host.line and self._lost_until_at is None:
            name, *line = host.line
            host.line = tuple(line)
            host.move_later(self._assumed_at)
            self._grant(name, key)
        self._forget_unknown(key)

    def _grant(self, name: str, key: str) -> None:
        host = self.hosts[key]
        host.owner, host.token = name, self.next_number()
        self._tell(key)

    def _tell(self, key: str) -> None:
        """Put a host into its owner's inbox, behind all else."""
        owner = self.hosts[key].owner
        if owner is not None:
            inbox = self.sessions[owner].inbox
            inbox.pop(key, None)
            inbox[key] = self.next_number()

    def _item(self, key: str, number: int, now: float) -> Item:
        host = self.hosts[key]
        return Item(
            number,
            key,
            host.token,
            bool(host.line),
            host.state,
            now - host.saved_at,
            None if host.visited_at is None else now - host.visited_at,
            max(host.not_before_at - now, 0.0),
        )

    def _forget_unknown(self, key: str) -> None:
        host = self.hosts.get(key)
        if host is not None and host == HostRow(token=host.token, saved_at=host.saved_at):
            del self.hosts[key]

    def next_number(self) -> int:
        """A number greater than all before."""
        self._serial += 1
        return self._serial


@dataclass(slots=True, eq=False)
class Hold:
    """A grant, as its session knows it."""

    token: int
    is_live: bool = True
    """Whether it was neither left nor lost. It is valid while the session's lease is, too."""


@dataclass(slots=True)
class _Left:
    leave: Leave
    left_at: float
    first: int = 0


class Member:
    """One session's side. `now` is by its lease clock, which must run while the machine is suspended.

    Args:
        session: its name, which no other session ever has.
        lease: seconds for which its grants are valid; shorter than the medium's expiry.
    """

    def __init__(self, session: str, *, lease: float = LEASE) -> None:
        self.session = session
        self.holds: dict[str, Hold] = {}
        self.wants: set[str] = set()
        """The hosts it waits for."""
        self.valid_until_at = -math.inf
        self._lease = lease
        self._term: Term | None = None
        self._number = 0
        self._heard = 0
        """The number of the latest request that was answered."""
        self.after = 0
        """The last item of the inbox that it knows."""
        self._sent: dict[int, tuple[float, Term | None]] = {}
        # What was not acknowledged, each with the number of the first request that said it; 0: none has.
        self._asks: dict[str, int] = {}
        self._withdrawn: dict[str, int] = {}
        self._claims: dict[str, int] = {}
        self._left: dict[str, _Left] = {}

    @property
    def has_to_send(self) -> bool:
        """Whether there is something that was not acknowledged."""
        return self._term is None or bool(self._asks or self._withdrawn or self._claims or self._left)

    def is_valid(self, hold: Hold, *, now: float) -> bool:
        """Whether a request may start under this grant."""
        return hold.is_live and now < self.valid_until_at

    def want(self, key: str) -> None:
        """Ask for a host that is not held."""
        self._withdrawn.pop(key, None)
        if key not in self.wants:
            self.wants.add(key)
            self._asks[key] = 0

    def unwant(self, key: str) -> None:
        """Do not wait for a host any more. If it is granted all the same, it is left at once."""
        if key in self.wants:
            self.wants.remove(key)
            if self._asks.pop(key, 1):
                self._withdrawn[key] = 0

    def leave(self, leave: Leave, *, now: float) -> None:
        """Hand a host on, or tell later instants of one that was lost. Token and age are filled in here."""
        key = leave.key
        hold, unsaid = self.holds.pop(key, None), self._left.get(key)
        self._claims.pop(key, None)
        if hold is not None:
            hold.is_live = False
            leave = replace(leave, token=hold.token)
        elif leave.visited_ago is None and not leave.not_before_in:
            return
        elif unsaid is not None:
            leave = replace(leave, token=unsaid.leave.token)
        self._left[key] = _Left(leave, now)

    def request(self, *, now: float, is_last: bool = False) -> Request:
        """The next request: all that was not acknowledged. It has to be sent at once."""
        if now >= self.valid_until_at:
            self._drop(self._claims)
        self._number += 1
        self._sent[self._number] = now, self._term
        for unsaid in (self._asks, self._withdrawn, self._claims):
            unsaid.update({key: first or self._number for key, first in unsaid.items()})
        for left in self._left.values():
            left.first = left.first or self._number
        return Request(
            self.session,
            self._term,
            self._number,
            self.after,
            tuple(replace(left.leave, age=max(now - left.left_at, 0.0)) for left in self._left.values()),
            tuple(self._withdrawn),
            tuple(self._asks),
            tuple(self._claims),
            is_last,
        )

    def receive(self, reply: Reply) -> list[Item]:
        """Take in a reply. Returns the hosts that are granted, and those held before that are wanted by others."""
        number = reply.number
        if number <= self._heard:
            return []
        sent_at, term = self._sent[number]
        self._heard = number
        self._sent = {sent: what for sent, what in self._sent.items() if sent > number}
        self._left = {key: left for key, left in self._left.items() if not 0 < left.first <= number}
        if reply.term != self._term:
            self._start_anew(reply.term)
            return []
        if term != reply.term:
            # It was sent before the present term was known, and was not heeded.
            return []
        self.valid_until_at = max(self.valid_until_at, sent_at + self._lease)
        self._asks = _unsaid_after(number, self._asks)
        self._withdrawn = _unsaid_after(number, self._withdrawn)
        told = [item for item in reply.items if item.number > self.after and self._take(item)]
        self.after = max([self.after, *(item.number for item in reply.items)])
        unsaid = _unsaid_after(number, self._claims)
        self._drop(self._claims.keys() - unsaid.keys())
        self._claims = unsaid
        return told

    def _take(self, item: Item) -> bool:
        """Take in an item. Returns whether it is news."""
        key, hold, left = item.key, self.holds.get(item.key), self._left.get(item.key)
        if left is not None:
            # The medium has not heard of the end of the last visit. What it grants is left again, with that.
            if left.leave.token != item.token:
                self._left[key] = _Left(replace(left.leave, token=item.token), left.left_at)
            return False
        if hold is not None:
            hold.token = item.token
            self._claims.pop(key, None)
            return item.is_wanted
        if key not in self.wants:
            self._left[key] = _Left(Leave(key, token=item.token), math.inf)
            return False
        self.wants.remove(key)
        self._asks.pop(key, None)
        self.holds[key] = Hold(item.token)
        return True

    def _start_anew(self, term: Term) -> None:
        """Go on in another term: everything is asked for again, and nothing is held but what can be claimed."""
        if self._term is not None and self._term.epoch == term.epoch:
            self._drop(self.holds)
        self._term, self.after = term, 0
        self._asks = dict.fromkeys(self.wants, 0)
        self._claims = dict.fromkeys(self.holds, 0)
        self._withdrawn.clear()

    def _drop(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self.holds.pop(key).is_live = False
            self._claims.pop(key, None)


def _unsaid_after(number: int, unsaid: dict[str, int]) -> dict[str, int]:
    return {key: first for key, first in unsaid.items() if not 0 < first <= number}
