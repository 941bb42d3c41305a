"""The values of the option `store`: the path of a file, the URL of a server, or a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.errors import OptionError
from robotgate.stores.base import OwnStore, Store

if TYPE_CHECKING:
    from robotgate.clock import Clock

StoreOption: TypeAlias = "Store | str | os.PathLike[str] | None"

PATIENCE: Final = 30.0
"""Seconds for which a server that cannot be reached is tried again."""
_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://", re.IGNORECASE)
"""Two letters at least: one letter is a drive."""
_SERVERS: Final = re.compile(r"((redis|valkey)(s|\+[a-z+]+)?|unix)://", re.IGNORECASE)
"""The beginning of a URL of Redis or Valkey."""


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
        if isinstance(store, str) and _SERVERS.match(store):
            # Installed only with the extra.
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415

            return RedisStore(store, clock=clock, patience=patience)
        # `sqlite.store` imports this module.
        from robotgate.stores.sqlite import SQLiteStore  # noqa: PLC0415

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


def file_path(given: object) -> Path:
    """Return the absolute path of a file: the program may change its directory later. Symbolic links are kept.

    Raises:
        OptionError: it is not the path of a file.
    """
    path: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise OptionError(f"path={given!r}: give the path of a file, as text")
    if path == ":memory:":
        raise OptionError(f"path={given!r}: give the path of a file, or use a MemoryStore")
    if _SCHEME.match(path):
        server = "; a RedisStore takes the URL of a server, and so does store= of a gate"
        why = server if _SERVERS.match(path) else ", not a URL"
        raise OptionError(f"path={without_secrets(path)!r}: give the path of a file{why}")
    file = Path(path).absolute()
    if not file.name:
        raise OptionError(f"path={given!r}: give the path of a file, not of a directory")
    return file


def without_secrets(url: str) -> str:
    """Return a URL without its credentials and parameters, for a message."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
