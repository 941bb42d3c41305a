"""Stores of robots.txt records and host states: in memory, in a SQLite file, in Redis.

This has the names for a store of your own; `robotgate` has `Store` and the stores themselves.
"""

from robotgate.pace.host import Lease
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
    Wanted,
)

__all__ = [
    "Catalogue",
    "Grant",
    "Lease",
    "Lost",
    "News",
    "OperatorBlock",
    "Pruned",
    "Recovered",
    "Session",
    "SharedStore",
    "Wanted",
]
