"""Stores of robots.txt records and host states: in memory, in a SQLite file, in Redis."""

from robotgate.pace.host import Lease
from robotgate.stores.base import (
    Catalogue,
    Grant,
    Lost,
    News,
    OperatorBlock,
    OwnStore,
    Pruned,
    Recovered,
    Session,
    SharedStore,
    Store,
    Wanted,
)
from robotgate.stores.memory import MemoryStore
from robotgate.stores.option import StoreOption, given_store, open_store
from robotgate.stores.sqlite import SQLiteStore, WhenLost

__all__ = [
    "Catalogue",
    "Grant",
    "Lease",
    "Lost",
    "MemoryStore",
    "News",
    "OperatorBlock",
    "OwnStore",
    "Pruned",
    "Recovered",
    "SQLiteStore",
    "Session",
    "SharedStore",
    "Store",
    "StoreOption",
    "Wanted",
    "WhenLost",
    "given_store",
    "open_store",
]
