"""What can be the path of a database's file, and what is the URL of a server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from robotgate.errors import OptionError

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://", re.IGNORECASE)
"""Of two letters at least: one is a drive's."""
_SERVERS: Final = re.compile(r"(redis|valkey)(s|\+[a-z+]+)?|unix")
"""The schemes by which clients of Redis and Valkey are told where their server is."""


def file_path(given: object, *, option: str) -> Path:
    """The absolute path of a file, as it is now: the program may go to another directory later. Links stay.

    Args:
        option: the name of the option that it was given as.

    Raises:
        OptionError: it can be no path of a file.
    """
    path: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise OptionError(f"{option}={given!r}: give the path of a file, as text")
    if path == ":memory:":
        raise OptionError(
            f"{option}={given!r}: give the path of a file; a MemoryStore remembers without, as a gate does by itself"
        )
    scheme = _SCHEME.match(path)
    if scheme is not None:
        server = "; a RedisStore takes the URL of a server, and so does store= of a gate"
        why = server if names_server(path) else ", not a URL"
        raise OptionError(f"{option}={without_secrets(path)!r}: give the path of a file{why}")
    file = Path(path).absolute()
    if not file.name:
        raise OptionError(f"{option}={given!r}: give the path of a file, not of a directory")
    return file


def names_server(given: object) -> bool:
    """Whether this is the URL of a server, by its scheme."""
    scheme = _SCHEME.match(given) if isinstance(given, str) else None
    return scheme is not None and _SERVERS.fullmatch(scheme["scheme"].lower()) is not None


def without_secrets(url: str) -> str:
    """A URL as a message may show it: a password stands before the last ``@``, or among the parameters."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
