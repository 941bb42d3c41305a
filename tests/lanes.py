"""Lanes without a gate, for the tests of the queue itself."""

from __future__ import annotations

from typing import Final

from robotgate._bound import Bound, Places
from robotgate._eviction import Eviction
from robotgate._lanes import Lanes
from robotgate._listeners import Listeners
from robotgate._losses import Losses
from robotgate._overrides import HostOptions, Overrides
from robotgate._pace_key import PaceKey, pace_key_function
from robotgate._spacing import Asked
from robotgate._status import StatusPolicy
from robotgate._urls import Origin
from robotgate._virtual import VirtualClock
from robotgate.stores.memory import MemoryStore

ORIGIN: Final = Origin("http", "a.example", 80)


def make_lanes(
    *,
    delay: float = 1.0,
    slots: int = 1,
    max_block: float = 300.0,
    max_hosts: int = 1000,
    store: MemoryStore | None = None,
) -> Lanes:
    """Lanes on virtual time."""
    options = HostOptions(
        delay=delay,
        rate=None,
        concurrency=slots,
        max_delay=60.0,
        max_block=max_block,
        latency_factor=0.0,
        obey_crawl_delay=True,
        obey_visit_time=False,
        status_policy=StatusPolicy.DEFAULT,
        ignore_robots=False,
    )
    clock, listeners = VirtualClock(), Listeners()
    return Lanes(
        overrides=Overrides(options, {}),
        pace_key=pace_key_function(PaceKey.HOST),
        parts_paths=False,
        max_slots=None,
        clock=clock,
        store=store or MemoryStore(),
        listeners=listeners,
        losses=Losses(clock=clock, listeners=listeners),
        eviction=Eviction(max_hosts),
    )


def make_bound(places: int) -> Bound:
    """A bound without rates."""
    return Bound(Places(places), clock=VirtualClock())


def crawl_delay(seconds: float) -> Asked:
    """What a site asks whose only wish is a Crawl-delay."""
    return Asked(crawl_delay=seconds)
