"""What every `Catalogue` has to do besides: list what it keeps, and let go of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate._check_tools import (
    BARE_RECORD,
    KEY,
    ORIGIN,
    OTHER_KEYS,
    OTHER_ORIGINS,
    STATE,
    expect,
    is_alike,
)

if TYPE_CHECKING:
    from robotgate._pacing import HostState
    from robotgate._ports import Catalogue
    from robotgate._urls import Origin

_WAIT: Final = 3600.0
_UNKNOWN: Final = "unknown.example"


async def check_lists(store: Catalogue) -> None:
    """All that is kept is listed, each once and in order."""
    expect(await _origins(store) == [], "records: an empty store has some")
    expect(await _states(store) == [], "hosts: an empty store has some")
    states = await _fill(store)
    origins = sorted((ORIGIN, *OTHER_ORIGINS), key=_place)
    listed = await _origins(store)
    expect(listed == origins, f"records: not each origin once, by host, port and scheme, but {listed}")
    found = await _states(store)
    expect(_are_alike(found, states), f"hosts: not each host once, by pace key, but {found}")
    for pace_key, state in states.items():
        written = await store.host(pace_key)
        expect(
            written is not None and is_alike(written, state),
            f"host: the state of {pace_key!r} became {written!r}",
        )
    expect(await store.host(_UNKNOWN) is None, "host: one that nobody met has a state")
    of_host = await store.origins_of(KEY)
    expect(
        of_host == [origin for origin in origins if origin.host == KEY],
        f"origins_of: not the origins of {KEY}, by port and scheme, but {of_host}",
    )
    expect(await store.origins_of(_UNKNOWN) == [], "origins_of: a host that nobody met has some")


async def check_forgets(store: Catalogue) -> None:
    """What is to go goes, and nothing else."""
    states = await _fill(store)
    expect(not await store.forget_record(replace(ORIGIN, host=_UNKNOWN)), "forget_record: there was none")
    expect(await store.forget_record(ORIGIN), "forget_record: there was one")
    expect(await store.load_record(ORIGIN) is None, "forget_record: the record is still there")
    expect(not await store.forget_record(ORIGIN), "forget_record: a second time, there was none")
    expect(await _origins(store) == sorted(OTHER_ORIGINS, key=_place), "forget_record: others went, too")

    expect(not await store.forget_host(_UNKNOWN), "forget_host: there was none")
    expect(await store.forget_host(KEY), "forget_host: there was one, if its wait is unserved")
    expect(await store.load_host(KEY) is None, "forget_host: the state is still there")
    expect(store.recall_host(KEY) is None, "forget_host: the state is still in memory")
    expect(not await store.forget_host(KEY), "forget_host: a second time, there was none")
    del states[KEY]
    expect(_are_alike(await _states(store), states), "forget_host: others went, too")


async def check_prunes(store: Catalogue) -> None:
    """However old, no host goes whose wait is unserved; and what is said to have gone has."""
    states = await _fill(store)
    pruned = await store.prune(now=time.time())
    records, hosts = await _origins(store), await _states(store)
    gone = 1 + len(OTHER_ORIGINS) - len(records)
    expect(pruned.records == gone, f"prune: it tells of {pruned.records} records, and {gone} are gone")
    gone = len(states) - len(hosts)
    expect(pruned.hosts == gone, f"prune: it tells of {pruned.hosts} hosts, and {gone} are gone")
    for pace_key, state in states.items():
        is_unserved = max(state.next_allowed_at, state.blocked_until_at) > time.time() + _WAIT / 2
        kept = any(key == pace_key and is_alike(left, state) for key, left in hosts)
        expect(not is_unserved or kept, f"prune: the wait of {pace_key!r} is lost")


async def _fill(store: Catalogue) -> dict[str, HostState]:
    for origin in (*OTHER_ORIGINS, ORIGIN):
        await store.save_record(replace(BARE_RECORD, origin=origin))
    later = time.time() + _WAIT
    states = dict.fromkeys((KEY, *OTHER_KEYS), STATE)
    states[KEY] = replace(STATE, next_allowed_at=later)
    states[OTHER_KEYS[0]] = replace(STATE, blocked_until_at=later)
    for pace_key, state in reversed(states.items()):
        store.remember_host(pace_key, state)
    return states


async def _origins(store: Catalogue) -> list[Origin]:
    return [record.origin async for record in store.records()]


async def _states(store: Catalogue) -> list[tuple[str, HostState]]:
    return [item async for item in store.hosts()]


def _are_alike(found: list[tuple[str, HostState]], states: dict[str, HostState]) -> bool:
    """Whether these are the hosts that were remembered, each once and in order."""
    return [key for key, _ in found] == sorted(states) and all(
        is_alike(state, states[key]) for key, state in found
    )


def _place(origin: Origin) -> tuple[str, int, str]:
    return origin.host, origin.port, origin.scheme
