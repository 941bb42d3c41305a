"""The store in a file."""

from robotgate.stores.sqlite.database import WhenLost
from robotgate.stores.sqlite.store import MAX_AGE, MAX_BYTES, SQLiteStore

__all__ = ["MAX_AGE", "MAX_BYTES", "SQLiteStore", "WhenLost"]
