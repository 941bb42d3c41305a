"""What may be given as `store`: a path or a URL, which the gate makes a store of, or a store."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from robotgate._errors import OptionError
from robotgate._options import MAX_HOSTS
from robotgate._ports import Catalogue, Clock, SharedStore, Store
from robotgate.stores._path import file_path, names_server, without_secrets
from robotgate.stores.memory import MemoryStore

StoreOption: TypeAlias = "Store | str | os.PathLike[str] | None"


class OwnStore(Catalogue, SharedStore, AbstractAsyncContextManager["OwnStore"], Protocol):
    """A store that whoever makes it opens and closes."""

    async def open(self) -> None:
        """Reach what it remembers in now rather than at the first use.

        Raises:
            StoreError: that cannot be done.
        """
        ...


def own_store(
    store: StoreOption, *, clock: Clock, max_hosts: int = MAX_HOSTS, patience: float | None = None
) -> OwnStore | None:
    """The store that a path or a URL stands for; None where neither was given. Nothing is opened yet.

    Args:
        clock: the gate's, by which both then tell the same time.
        max_hosts: how many hosts it keeps in memory.
        patience: seconds for which a server that cannot be reached is tried again; by default, as a `RedisStore` does.

    Raises:
        OptionError: it can be no path of a file and no URL of a server, or there is no client for the server.
    """
    if not isinstance(store, str | os.PathLike):
        return None
    if isinstance(store, str) and names_server(store):
        return _redis_store(store, clock=clock, max_hosts=max_hosts, patience=patience)
    # Not before there is a file: SQLite takes memory, and time to import.
    from robotgate.stores.sqlite import SQLiteStore  # noqa: PLC0415

    return SQLiteStore(file_path(store, option="store"), clock=clock, max_hosts=max_hosts)


def _redis_store(url: str, *, clock: Clock, max_hosts: int, patience: float | None) -> OwnStore:
    try:
        # Installed only with the extra.
        from robotgate.stores.redis import RedisStore  # noqa: PLC0415
        from robotgate.stores.redis._client import client_of  # noqa: PLC0415
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise OptionError(
            f'store={without_secrets(url)!r}: a store in Redis or Valkey needs redis-py: pip install "robotgate[redis]"'
        ) from error
    # Refused by the name of the option that it was given as.
    client_of(url, option="store")
    if patience is None:
        return RedisStore(url, clock=clock, max_hosts=max_hosts)
    return RedisStore(url, clock=clock, max_hosts=max_hosts, patience=patience)


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
