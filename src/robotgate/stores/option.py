"""What may be given as `store`: the path of a file, the URL of a server, or a store."""

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
"""Of two letters at least: one is a drive's."""
_SERVERS: Final = re.compile(r"((redis|valkey)(s|\+[a-z+]+)?|unix)://", re.IGNORECASE)
"""How a URL begins by which clients of Redis and Valkey are told where their server is."""


def open_store(store: StoreOption, *, clock: Clock, patience: float = PATIENCE) -> OwnStore | None:
    """The store that a path or a URL stands for; None where neither was given. Nothing is touched before its `open`.

    Args:
        clock: the gate's, so that both tell the same time.
        patience: seconds for which a server that cannot be reached is tried again.

    Raises:
        OptionError: it can be no path of a file and no URL of a server, or there is no client for the server.
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
        # By the name of the option that it was given as.
        raise OptionError(f"store={str(error).partition('=')[2]}") from error


def given_store(store: StoreOption) -> Store | None:
    """The store that was given; None where there is none.

    Raises:
        OptionError: it is no store.
    """
    if store is None or (isinstance(store, Store) and not isinstance(store, type)):
        return store
    raise OptionError(f"store={store!r}: give a Store, or the path of a file for a SQLiteStore")


def file_path(given: object) -> Path:
    """The absolute path of a file, as it is now: the program may go to another directory later. Links stay.

    Raises:
        OptionError: it can be no path of a file.
    """
    path: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise OptionError(f"path={given!r}: give the path of a file, as text")
    if path == ":memory:":
        raise OptionError(
            f"path={given!r}: give the path of a file; a MemoryStore remembers without, as a gate does by itself"
        )
    if _SCHEME.match(path):
        server = "; a RedisStore takes the URL of a server, and so does store= of a gate"
        why = server if _SERVERS.match(path) else ", not a URL"
        raise OptionError(f"path={without_secrets(path)!r}: give the path of a file{why}")
    file = Path(path).absolute()
    if not file.name:
        raise OptionError(f"path={given!r}: give the path of a file, not of a directory")
    return file


def without_secrets(url: str) -> str:
    """A URL as a message may show it: a password stands before the last ``@``, or among the parameters."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
