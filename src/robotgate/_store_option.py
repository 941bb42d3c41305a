"""What may be given as `store`: a path, which the gate makes a store of, or a store."""

from __future__ import annotations

import os
import re
from typing import Final, TypeAlias

from robotgate._errors import OptionError
from robotgate._options import MAX_HOSTS
from robotgate._ports import Clock, Store
from robotgate.stores.memory import MemoryStore
from robotgate.stores.sqlite import SQLiteStore

StoreOption: TypeAlias = "Store | str | os.PathLike[str] | None"

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SERVERS: Final = frozenset({"redis", "rediss", "valkey", "valkeys", "unix"})
"""The schemes by which clients of Redis and Valkey are told where their server is."""


def own_store(store: StoreOption, *, clock: Clock, max_hosts: int = MAX_HOSTS) -> SQLiteStore | None:
    """The store that a path stands for; None where none was given. Nothing is opened yet.

    Args:
        clock: the gate's, by which both then tell the same time.
        max_hosts: how many hosts it keeps in memory.

    Raises:
        OptionError: it can be no path of a file.
    """
    if not isinstance(store, str | os.PathLike):
        return None
    path: object = os.fspath(store)
    if not isinstance(path, str) or not path or "\0" in path:
        raise OptionError(f"store={store!r}: give the path of a file as text")
    if path == ":memory:":
        raise OptionError("store=':memory:': leave the option out to remember in memory")
    scheme = _SCHEME.match(path)
    if scheme is not None:
        raise OptionError(f"store={_without_secrets(path)!r}: {_why_no_url(scheme['scheme'].lower())}")
    return SQLiteStore(path, clock=clock, max_hosts=max_hosts)


def given_store(store: StoreOption, *, max_hosts: int) -> Store:
    """The store that was given, or one in memory.

    Args:
        max_hosts: how many hosts one in memory keeps.

    Raises:
        OptionError: it is none.
    """
    if store is None:
        return MemoryStore(max_hosts=max_hosts)
    if isinstance(store, Store) and not isinstance(store, type):
        return store
    raise OptionError(f"store={store!r}: give a Store, or the path of a file for a SQLiteStore")


def _why_no_url(scheme: str) -> str:
    if scheme in _SERVERS:
        return (
            "this version of robotgate has no store in Redis or Valkey; give the path of a file,"
            " which several processes of one machine may share"
        )
    return "give the path of a file, not a URL"


def _without_secrets(url: str) -> str:
    """As the message may show it: a password stands before the last ``@``."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
