"""The values of the option `store`: the path of a file, the URL of a server, or a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from robotgate.errors import OptionError
from robotgate.stores.base import PATIENCE, SERVERS, Store, without_secrets
from robotgate.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from robotgate.clock import Clock
    from robotgate.stores.base import OwnStore

StoreOption: TypeAlias = Store | str | os.PathLike[str] | None


def open_store(store: StoreOption, *, clock: Clock, patience: float = PATIENCE) -> OwnStore | None:
    """Make the store for a path or a URL; return None for other values. Nothing is read or written before its `open`.

    Args:
        clock: the gate's clock.
        patience: seconds for which a server that cannot be reached is tried again.

    Raises:
        OptionError: the value is neither the path of a file nor the URL of a server, or redis-py is missing.
    """
    if not isinstance(store, str | os.PathLike):
        return None
    try:
        if isinstance(store, str) and SERVERS.match(store):
            # Installed only with the extra.
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415

            return RedisStore(store, clock=clock, patience=patience)
        return SQLiteStore(store, clock=clock)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise OptionError(
            f"store={without_secrets(str(store))!r}: a store in Redis or Valkey needs redis-py: "
            'pip install "robotgate[redis]"'
        ) from error
    except OptionError as error:
        # The error names the option of the store's class; the user has given `store`.
        raise OptionError(f"store={str(error).partition('=')[2]}") from error


def given_store(store: StoreOption) -> Store | None:
    """Check that a value is a store or None, and return it.

    Raises:
        OptionError: it is neither.
    """
    if store is None or (isinstance(store, Store) and not isinstance(store, type)):
        return store
    raise OptionError(f"store={store!r}: give a Store, or the path of a file for a SQLiteStore")
