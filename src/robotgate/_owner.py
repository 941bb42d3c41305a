"""Which member of a fleet visits a host.

Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): each member
draws a number for each pace key, the same wherever it is drawn, and the highest has it. Nobody has to be asked, and who
leaves or comes moves nothing between the others.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from robotgate._errors import OptionError
from robotgate._pace_key import PaceKey, pace_key_function
from robotgate._urls import split_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarl import URL

    from robotgate._pace_key import PaceKeyPolicy

_DRAWN: Final = 16
"""Octets; two members draw the same once in never, and then the later name has it."""


def owner(url: str | URL, members: Iterable[str], *, pace_key: PaceKeyPolicy = PaceKey.HOST) -> str:
    """The member of a fleet that visits a URL: the same one for all that is paced together.

    It is a function of its arguments alone: all processes, machines, and versions of Python and of robotgate agree.
    Of n members each owns about a n-th of all hosts. When one leaves, its hosts are spread over the others; when one
    comes, it takes its share from all of them; no other host moves.

    Args:
        url: absolute, http or https. Nothing is asked of its host.
        members: names, of whatever the fleet is made of. Neither their order nor saying one twice matters.
        pace_key: as the gates of the fleet have it.

    Raises:
        InvalidURLError: the URL cannot be read.
        OptionError: there are no members, one has no name, or `pace_key` makes no sense.
    """
    names = _names(members)
    key = pace_key_function(pace_key)(*split_url(url)).encode("utf-8", "surrogatepass")
    return max(names, key=lambda name: (_draw(name, key), name))


def _names(members: Iterable[str]) -> list[str]:
    given: object = members
    if isinstance(given, str):
        # A string is many strings, to Python.
        raise OptionError(f"members={given!r}: give a list of names")
    names = list(members)
    if not names:
        raise OptionError("members: there is none, and somebody has to visit the URL")
    for name in names:
        _check(name)
    return names


def _check(name: object) -> None:
    # A list that was split from an empty setting holds one empty name.
    if not isinstance(name, str) or not name:
        raise OptionError(f"members: {name!r} is no name")


def _draw(name: str, key: bytes) -> bytes:
    """Octets, so that they compare alike on every machine."""
    return blake2b(key, digest_size=_DRAWN, key=_keyed(name)).digest()


@lru_cache(maxsize=1024)
def _keyed(name: str) -> bytes:
    """Of one length for every name, so that no name and key run into each other."""
    return blake2b(name.encode("utf-8", "surrogatepass")).digest()
