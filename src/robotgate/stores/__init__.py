"""Stores of robots.txt records and host states: in memory, in a SQLite file, in Redis.

This has the names for a store of your own; `robotgate` has the stores themselves.
"""

from robotgate.pace.lease import Lease
from robotgate.pace.state import HostState
from robotgate.stores.base import (
    Catalogue,
    Grant,
    Lost,
    News,
    OperatorBlock,
    Pruned,
    Recovered,
    Session,
    SharedStore,
    Store,
    Wanted,
)

__all__ = [
    "Catalogue",
    "Grant",
    "HostState",
    "Lease",
    "Lost",
    "News",
    "OperatorBlock",
    "Pruned",
    "Recovered",
    "Session",
    "SharedStore",
    "Store",
    "Wanted",
]
