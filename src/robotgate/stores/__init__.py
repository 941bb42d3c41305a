"""Where records and host state live."""

from typing import TYPE_CHECKING

from robotgate._later import imported_later
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from robotgate.stores._faults import WhenLost
    from robotgate.stores.sqlite import SQLiteStore
else:
    # With them comes SQLite, which a gate that remembers in memory has no use for.
    __getattr__, __dir__ = imported_later(
        __name__, {"WhenLost": "robotgate.stores._faults", "SQLiteStore": "robotgate.stores.sqlite"}
    )

__all__ = ["MemoryStore", "SQLiteStore", "WhenLost"]
