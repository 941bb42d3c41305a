"""Which host, or which origins of it, a HOST on the command line means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

from robotgate import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import HostState, RobotsRecord
    from robotgate._ports import Catalogue


@dataclass(frozen=True, slots=True)
class Named:
    """A host; or of its origins those on one port, or of one scheme and port."""

    host: str
    port: int | None = None
    scheme: str | None = None

    @classmethod
    def parse(cls, text: str) -> Named:
        """Read ``example.org``, ``example.org:8080``, ``https://example.org``, ``::1``, ``[::1]:8080``.

        International names may be written as such.

        Raises:
            InvalidURLError: it is none of these.
        """
        if "://" in text:
            origin = Origin.of(text)
            return cls(origin.host, origin.port, origin.scheme)
        authority = f"[{text}]" if text.count(":") > 1 and "[" not in text else text
        origin = Origin.of(f"https://{authority}")
        return cls(origin.host, URL(f"https://{authority}").explicit_port)

    @property
    def is_whole_host(self) -> bool:
        """Whether every origin of the host is meant."""
        return self.port is None

    @property
    def first_origin(self) -> Origin:
        """The origin to ask while none is known."""
        return Origin(self.scheme or ("http" if self.port == 80 else "https"), self.host, self.port or 443)

    def matches(self, origin: Origin) -> bool:
        """Whether an origin is meant."""
        return (
            origin.host == self.host
            and self.port in (None, origin.port)
            and self.scheme in (None, origin.scheme)
        )

    async def records(self, store: Catalogue) -> list[RobotsRecord]:
        """What is kept of the origins that are meant."""
        if self.scheme is None:
            origins = [origin for origin in await store.origins_of(self.host) if self.matches(origin)]
        else:
            origins = [self.first_origin]
        found = [await store.load_record(origin) for origin in origins]
        return [record for record in found if record is not None]

    async def states(
        self, store: Catalogue, records: list[RobotsRecord]
    ) -> AsyncIterator[tuple[str, HostState]]:
        """What is written of the host's pace, and of its origins' where each has its own; by pace key."""
        origins = [record.origin for record in records] or [self.first_origin]
        for pace_key in dict.fromkeys([self.host, *map(str, origins)]):
            state = await store.host(pace_key)
            if state is not None:
                yield pace_key, state

    def __str__(self) -> str:
        if self.port is None:
            return self.host
        origin = self.first_origin
        return origin.text if self.scheme is not None else origin.authority
