"""Host states in memory: who may leave when there are too many."""

from __future__ import annotations

from itertools import product

import pytest
from tests.stores.files import NOW

from robotgate import HostState
from robotgate.stores import _hosts
from robotgate.stores._hosts import HostMemory

SERVED = HostState(next_allowed_at=NOW, blocked_until_at=NOW)
WAITING = HostState(next_allowed_at=NOW + 1)
BLOCKED = HostState(blocked_until_at=NOW + 1)


@pytest.fixture
def memory() -> HostMemory:
    """As many hosts as may stay, the oldest of each kind, and one too many of each kind."""
    memory = HostMemory(max_hosts=3)
    for kind, state in (("served", SERVED), ("waiting", WAITING), ("blocked", BLOCKED)):
        for place in ("written", "writing", "pending"):
            memory.remember(f"{kind}-{place}", state)
            if place != "pending":
                del memory.pending[f"{kind}-{place}"]
    return memory


KINDS = {
    f"{kind}-{place}"
    for kind, place in product(("served", "waiting", "blocked"), ("written", "writing", "pending"))
}
WRITING = frozenset({"served-writing", "waiting-writing", "blocked-writing"})


def test_only_those_leave_that_nobody_needs(memory: HostMemory) -> None:
    """Neither whose wait is unserved, nor what the file does not have yet: even if too many are left."""
    memory.evict(now=NOW, keep=WRITING)
    assert memory.states.keys() == KINDS - {"served-written"}
    memory.evict(now=NOW, keep=WRITING)
    assert memory.states.keys() == KINDS - {"served-written"}


def test_without_a_file_unwritten_ones_leave_too(memory: HostMemory) -> None:
    """But nobody whose wait is unserved."""
    memory.evict(now=NOW, keep=WRITING, pending_too=True)
    assert memory.states.keys() == KINDS - {"served-written", "served-pending"}
    assert "served-pending" not in memory.pending


def test_no_more_leave_than_are_too_many(memory: HostMemory) -> None:
    """The oldest go first."""
    memory.max_hosts = len(KINDS)
    memory.evict(now=NOW + 1)
    assert memory.states.keys() == KINDS
    memory.max_hosts = len(KINDS) - 2
    memory.pending.clear()
    memory.evict(now=NOW + 1)
    assert memory.states.keys() == KINDS - {"served-written", "served-writing"}


def test_those_that_stay_do_not_stand_in_the_way(memory: HostMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are looked at at a time, and each time others."""
    monkeypatch.setattr(_hosts, "_LOOKED_AT", 2)
    memory.states = {**{f"{number}": WAITING for number in range(9)}, **memory.states}
    for _ in range(9):
        memory.evict(now=NOW, keep=WRITING)
    assert "served-written" not in memory.states
