"""What may be given as `store`: a path, the URL of a server, or a store."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from robotgate.errors import OptionError
from robotgate.stores.base import Catalogue, SharedStore, Store
from robotgate.stores.path import file_path, names_server, without_secrets

if TYPE_CHECKING:
    from robotgate.clock import Clock

StoreOption: TypeAlias = "Store | str | os.PathLike[str] | None"


class OwnStore(Catalogue, SharedStore, AbstractAsyncContextManager["OwnStore"], Protocol):
    """A store that its maker opens and closes."""

    async def open(self) -> None:
        """Reach the medium now rather than at the first use.

        Raises:
            StoreError: it cannot be reached.
        """
        ...


def open_store(store: StoreOption, *, clock: Clock, patience: float | None = None) -> OwnStore | None:
    """The store that a path or a URL stands for; None where neither was given. Nothing is touched before its `open`.

    Args:
        clock: the gate's, so that both tell the same time.
        patience: seconds for which a server that cannot be reached is tried again; by default, as a `RedisStore` does.

    Raises:
        OptionError: it can be no path of a file and no URL of a server, or there is no client for the server.
    """
    if not isinstance(store, str | os.PathLike):
        return None
    if isinstance(store, str) and names_server(store):
        return _redis_store(store, clock=clock, patience=patience)
    # SQLite takes memory, and time to import.
    from robotgate.stores.sqlite import SQLiteStore  # noqa: PLC0415

    return SQLiteStore(file_path(store, option="store"), clock=clock)


def given_store(store: StoreOption) -> Store | None:
    """The store that was given; None where there is none.

    Raises:
        OptionError: it is no store.
    """
    if store is None or (isinstance(store, Store) and not isinstance(store, type)):
        return store
    raise OptionError(f"store={store!r}: give a Store, or the path of a file for a SQLiteStore")


def _redis_store(url: str, *, clock: Clock, patience: float | None) -> OwnStore:
    try:
        # Installed only with the extra.
        from robotgate.stores.redis import RedisStore  # noqa: PLC0415
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise OptionError(
            f'store={without_secrets(url)!r}: a store in Redis or Valkey needs redis-py: pip install "robotgate[redis]"'
        ) from error
    try:
        return (
            RedisStore(url, clock=clock)
            if patience is None
            else RedisStore(url, clock=clock, patience=patience)
        )
    except OptionError as error:
        # By the name of the option that it was given as.
        raise OptionError(f"store={str(error).partition('=')[2]}") from error
