"""The store in a Redis or Valkey server or cluster, which a fleet shares."""

from robotgate.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
