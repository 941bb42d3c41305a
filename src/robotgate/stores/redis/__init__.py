"""The store in a Redis or Valkey server, which a fleet shares."""

from robotgate.stores.redis._settings import Degraded
from robotgate.stores.redis._store import RedisStore

__all__ = ["Degraded", "RedisStore"]
