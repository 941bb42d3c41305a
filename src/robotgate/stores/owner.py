"""Which process of a fleet visits a host, where the processes share no store: each computes it for itself."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from robotgate.errors import OptionError
from robotgate.urls import Origin, PaceKey, PaceKeyPolicy, pace_key_function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarl import URL


def owner(url: str | URL, members: Iterable[str], *, pace_key: PaceKeyPolicy = PaceKey.HOST) -> str:
    """The member of a fleet that visits a URL: the same one for all URLs that are paced together.

    The result depends on the arguments only, so that all processes, machines and versions agree. It is rendezvous
    hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): each of n members owns
    about an n-th of all hosts. When a member leaves, its hosts are spread over the others; when one is added, it takes
    its share from all others; no other host moves.

    Args:
        url: absolute, http or https. No request is made.
        members: names of the processes or machines of the fleet. Their order and repetitions do not matter.
        pace_key: the option that the gates of the fleet have.

    Raises:
        InvalidURLError: the URL is invalid.
        OptionError: there are no members, a name is empty, or `pace_key` makes no sense.
    """
    # A string is an iterable of strings, and an empty setting that was split has one empty name.
    given: list[object] = [] if isinstance(members, str) else list(members)
    names = [name for name in given if isinstance(name, str) and name]
    if not names or len(names) < len(given):
        raise OptionError(f"members={members!r}: give a list of names, at least one and none empty")
    key = pace_key_function(pace_key)(Origin.of(url)).encode("utf-8", "surrogatepass")
    return max(names, key=lambda name: (_weight(name, key), name))


def _weight(name: str, key: bytes) -> bytes:
    # Hashed first, names of any length are keys of one.
    name_hash = blake2b(name.encode("utf-8", "surrogatepass")).digest()
    return blake2b(key, digest_size=16, key=name_hash).digest()
