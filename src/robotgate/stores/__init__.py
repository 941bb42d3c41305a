"""Where records and host state live."""

from robotgate.stores._faults import WhenLost
from robotgate.stores.memory import MemoryStore
from robotgate.stores.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "WhenLost"]
