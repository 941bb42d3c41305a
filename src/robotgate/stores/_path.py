"""What can be the path of a database's file, and what was meant for something else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from robotgate._errors import OptionError

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://", re.IGNORECASE)
"""Of two letters at least: one is a drive's."""
_SERVERS: Final = frozenset({"redis", "rediss", "valkey", "valkeys", "unix"})
"""The schemes by which clients of Redis and Valkey are told where their server is."""


def file_path(given: object, *, option: str) -> Path:
    """The absolute path of a file, as it is now: the program may go to another directory later. Links stay.

    Args:
        option: by which it was given, for the message.

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
        raise OptionError(f"{option}={without_secrets(path)!r}: {_why_no_url(scheme['scheme'].lower())}")
    return Path(path).absolute()


def names_server(given: object) -> bool:
    """Whether this is the URL of a server, by its scheme."""
    scheme = _SCHEME.match(given) if isinstance(given, str) else None
    return scheme is not None and scheme["scheme"].lower() in _SERVERS


def _why_no_url(scheme: str) -> str:
    if scheme in _SERVERS:
        return "give the path of a file; a RedisStore takes the URL of a server, and so does store= of a gate"
    return "give the path of a file, not a URL"


def without_secrets(url: str) -> str:
    """As the message may show it: a password stands before the last ``@``, or among the parameters."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
