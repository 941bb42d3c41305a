"""What may be given as `store`: a path, which the gate makes a store of, or a store."""

from __future__ import annotations

import os
from typing import TypeAlias

from robotgate._errors import OptionError
from robotgate._options import MAX_HOSTS
from robotgate._ports import Clock, Store
from robotgate.stores._path import file_path
from robotgate.stores.memory import MemoryStore
from robotgate.stores.sqlite import SQLiteStore

StoreOption: TypeAlias = "Store | str | os.PathLike[str] | None"


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
    return SQLiteStore(file_path(store, option="store"), clock=clock, max_hosts=max_hosts)


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
