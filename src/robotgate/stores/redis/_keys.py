"""Under which keys things are kept.

Every key carries a hash tag, that of its bucket, so that all that one operation touches lies in one slot of a cluster.
A host and an origin have the bucket of their own text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from robotgate._urls import Origin

BUCKETS: Final = 256
FLEET_BUCKET: Final = 0
"""Where what belongs to the fleet as a whole is."""
HOSTS_AT_HAND: Final = 4096
"""Whose keys are kept ready, for a turn is two calls at the least."""


def bucket_of(name: str) -> int:
    """The bucket of a pace key, or of an origin as text."""
    return crc32(text(name)) % BUCKETS


def text(name: str) -> bytes:
    """A name as it stands in a key. A pace key is whatever the operator's function makes of a URL."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet.

    Args:
        prefix: before all of them; fleets with different ones know nothing of each other.
    """

    prefix: str

    def epoch(self, bucket: int) -> bytes:
        """Since when a bucket has been complete: an instant, and the server's run."""
        return self._key(bucket, "epoch", "")

    def host(self, pace_key: str) -> bytes:
        """All that is known of a host, its requests under way, and who waits for it, in one string."""
        return self._key(bucket_of(pace_key), "host", pace_key)

    def hosts_of(self, bucket: int) -> bytes:
        """What the keys of a bucket's hosts begin with; the pace key follows."""
        return self._key(bucket, "host", "")

    def record(self, origin: Origin) -> bytes:
        """An origin's robots.txt: a hash."""
        return self._key(bucket_of(origin.text), "robots", origin.text)

    def lease(self, origin: Origin) -> bytes:
        """Who has the sole right to ask for an origin's robots.txt."""
        return self._key(bucket_of(origin.text), "lease", origin.text)

    def tokens(self, origin: Origin) -> bytes:
        """The last fencing token that was drawn in an origin's bucket."""
        return self._key(bucket_of(origin.text), "tokens", "")

    def fleet(self, what: str) -> bytes:
        """What belongs to the fleet as a whole."""
        return self._key(FLEET_BUCKET, what, "")

    def pattern(self, what: str, *, containing: str = "") -> bytes:
        """A pattern for SCAN that finds the keys of one kind, of this prefix alone, whose name contains a text.

        It may find more: a name may look like a key. Whoever scans makes sure by making the key of the name.
        """
        return text(f"{_escaped(self.prefix)}{{*}}:{what}:*{_escaped(containing)}*")

    def name_in(self, key: bytes) -> str:
        """The pace key, or the origin as text, that a key stands for."""
        _, _, rest = key.removeprefix(text(self.prefix)).partition(b"}:")
        return rest.partition(b":")[2].decode("utf-8", "surrogatepass")

    def _key(self, bucket: int, what: str, name: str) -> bytes:
        return text(f"{self.prefix}{{{bucket}}}:{what}:{name}")


def _escaped(name: str) -> str:
    return "".join(f"\\{char}" if char in r"*?[]\^-" else char for char in name)
