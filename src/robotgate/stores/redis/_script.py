"""Scripts that the server runs: each does one call, or many that were made at once, one after the other.

A call is a few keys, the same number for each, and one argument of octets, whose first names what is to be done.
What a site or an operator says is only ever a key or an argument, never a part of a script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files
from typing import Final

_FOLDER: Final = files("robotgate.stores.redis") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name that a server knows it by."""

    source: bytes
    keys_per_call: int
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        # The name by which EVALSHA finds it; no secret hangs on it.
        object.__setattr__(self, "sha", sha1(self.source, usedforsecurity=False).hexdigest())


def load(*names: str, keys_per_call: int) -> Script:
    """A script made of several files of the folder ``lua``, put one behind the other."""
    return Script(b"\n".join((_FOLDER / f"{name}.lua").read_bytes() for name in names), keys_per_call)
