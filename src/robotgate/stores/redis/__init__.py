"""The store in a Redis or Valkey server, which a fleet shares."""
