"""``robotgate cache``: what is done with what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate import RobotGateError
from robotgate._options import Options
from robotgate._site import site_of
from robotgate._status import STATUS_TABLE
from robotgate._verdict import AccessResult
from robotgate.cli._rows import in_our_words, with_our_options
from robotgate.cli._text import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import HostAccess, HostState, Origin, RobotGate, RobotsRecord
    from robotgate._ports import Catalogue
    from robotgate._site import Site
    from robotgate.cli._cache_host import Named

_AS_A_GATE_HAS_IT: Final = Options().host_options()
"""The options of a gate that was told none: by these it is said how far a site lets a crawler in."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list: an origin, or a host without one."""

    name: str
    record: RobotsRecord | None
    access: HostAccess | None
    state: HostState | None


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What came of asking again."""

    origin: Origin
    words: str
    is_failure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was let go of, and what was not."""

    origins: tuple[str, ...]
    paces: tuple[str, ...]
    waits: tuple[tuple[str, float], ...]
    """Pace keys whose wait is unserved, with the instants of its end; they are kept."""


def site_for(record: RobotsRecord, *, token: str, now: float) -> Site:
    """What a record means for a product token."""
    return site_of(record, token=token, options=_AS_A_GATE_HAS_IT, now=now)


def due_at(state: HostState) -> float:
    """When a host's wait is served."""
    return max(state.next_allowed_at, state.blocked_until_at)


class _Hosts:
    """Hosts by pace key, met by origins that come in the order of their hosts."""

    def __init__(self, hosts: AsyncIterator[tuple[str, HostState]]) -> None:
        self._hosts = hosts
        self._head: tuple[str, HostState] | None = None
        self._is_met = True

    async def pass_by(self, host: str | None) -> AsyncIterator[tuple[str, HostState]]:
        """Go on to a host, or with None to the end; what was passed without an origin of its own."""
        if self._head is None and self._is_met:
            await self._advance()
        while self._head is not None and (host is None or self._head[0] < host):
            if not self._is_met:
                yield self._head
            await self._advance()

    def meet(self, host: str) -> HostState | None:
        """The state of the host that was gone on to."""
        if self._head is None or self._head[0] != host:
            return None
        self._is_met = True
        return self._head[1]

    async def _advance(self) -> None:
        self._head = await anext(self._hosts, None)
        self._is_met = False


async def listed(store: Catalogue, *, token: str, now: float) -> AsyncIterator[Listed]:
    """Every origin with its host's pace, and every host without an origin: both come by name, so side by side."""
    hosts = _Hosts(store.hosts())
    async for record in store.records():
        host = record.origin.host
        async for pace_key, state in hosts.pass_by(host):
            yield Listed(pace_key, None, None, state)
        access = site_for(record, token=token, now=now).access
        yield Listed(record.origin.text, record, access, hosts.meet(host))
    async for pace_key, state in hosts.pass_by(None):
        yield Listed(pace_key, None, None, state)


async def refresh(gate: RobotGate, store: Catalogue, named: Named) -> AsyncIterator[Refreshed]:
    """Ask again for every robots.txt that is meant, each in its host's turn; for one that nobody knows, too."""
    records = await named.records(store)
    known = {record.origin: record for record in records}
    for origin in known or [named.first_origin]:
        yield await _refresh(gate, origin, known.get(origin))


async def _refresh(gate: RobotGate, origin: Origin, known: RobotsRecord | None) -> Refreshed:
    try:
        record = await gate.refresh(origin.robots_url)
    except RobotGateError as error:
        return Refreshed(origin, f"not asked: {in_our_words(error)}", is_failure=True)
    return Refreshed(origin, _news(known, record), is_failure=_has_failed(record))


def _has_failed(record: RobotsRecord) -> bool:
    """Whether the last attempt did; what was known may be good enough all the same."""
    return record.failures > 0 or _is_unreachable(record)


def _is_unreachable(record: RobotsRecord) -> bool:
    return STATUS_TABLE[record.outcome].access is AccessResult.UNREACHABLE


def _news(known: RobotsRecord | None, record: RobotsRecord) -> str:
    status = "no answer" if record.status is None else f"status {record.status}"
    if _has_failed(record):
        holds = "" if _is_unreachable(record) else "; what was known still holds"
        return f"failed: {printable(with_our_options(record.cause or status))}{holds}"
    if known is None:
        return f"read, {status}"
    is_same = (known.outcome, known.body) == (record.outcome, record.body)
    return f"{'unchanged' if is_same else 'changed'}, {status}"


async def forget(store: Catalogue, named: Named, *, now: float, even_paces: bool) -> Forgotten:
    """Let go of the records that are meant, and of the pace of a whole host where no wait of it is unserved.

    Args:
        even_paces: let go of the pace, whatever is unserved of it.
    """
    records = await named.records(store)
    states = [item async for item in named.states(store, records)]
    origins = [record.origin.text for record in records if await store.forget_record(record.origin)]
    paces, waits = [], []
    for pace_key, state in states:
        if not even_paces and due_at(state) > now:
            waits.append((pace_key, due_at(state)))
        elif (even_paces or named.is_whole_host) and await store.forget_host(pace_key):
            paces.append(pace_key)
    return Forgotten(origins=tuple(origins), paces=tuple(paces), waits=tuple(waits))
