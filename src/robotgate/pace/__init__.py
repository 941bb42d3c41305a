"""How often a host is visited: no I/O."""
