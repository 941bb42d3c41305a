"""Where records and host state live."""

from robotgate.stores.memory import MemoryStore

__all__ = ["MemoryStore"]
