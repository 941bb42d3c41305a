"""What the demonstration's sites are drawn with: names, folders and pages, all from one seeded generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.cli._demo_sites import Page

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

CLOSED_SHARE: Final = 0.3
"""The share of a site's pages that its rules close."""
MIN_PAGES: Final = 4

_FIRST: Final = (
    "amber", "brisk", "calm", "dusty", "early", "fabled", "gentle", "hidden", "idle", "jolly", "keen",
    "lunar", "mossy", "narrow", "olive", "plain", "quiet", "rustic", "silver", "tidal", "upper", "velvet",
    "windy", "young",
)  # fmt: skip
_SECOND: Final = (
    "atlas", "bakery", "cinema", "docks", "estate", "forum", "garden", "harbour", "index", "journal",
    "kitchen", "library", "museum", "notes", "orchard", "press", "quarry", "records", "seminar", "tower",
    "union", "weekly",
)  # fmt: skip
_OPEN_FOLDERS: Final = (
    "articles", "docs", "maps", "news", "people", "photos", "products", "recipes", "reviews",
)  # fmt: skip
_CLOSED_FOLDERS: Final = (
    "admin", "basket", "drafts", "internal", "private", "search", "staging", "tmp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draw:
    """What the sites of one kind are made from."""

    rng: random.Random
    hosts: tuple[str, ...]
    wanted: int
    """Pages of each site that the crawler is to be given."""

    @property
    def host(self) -> str:
        """The first host."""
        return self.hosts[0]

    def closed_folders(self) -> list[str]:
        """Folders for rules to close."""
        return self.rng.sample(_CLOSED_FOLDERS, 2)

    def pages(self, closed: Iterable[str] = (), *, count: int | None = None) -> tuple[Page, ...]:
        """Pages in folders of which some are closed."""
        wanted = self.wanted if count is None else count
        closed = list(closed)
        shut = round(wanted * CLOSED_SHARE) if closed else 0
        return tuple(
            self.page(
                f"/{self.rng.choice(closed if number < shut else _OPEN_FOLDERS)}/{number}",
                is_open=number >= shut,
            )
            for number in range(wanted)
        )

    def page(self, path: str, *, is_open: bool = True, is_asked: bool = True) -> Page:
        """An ordinary page."""
        return Page(
            path=path,
            is_open=is_open,
            is_asked=is_asked,
            busy_delay=round(self.rng.uniform(0.002, 0.02), 4),
            size=self.rng.randrange(200, 20_000),
        )

    def hop(self, path: str, location: str) -> Page:
        """A page that redirects."""
        return Page(path=path, status=self.rng.choice((301, 302, 303, 307, 308)), location=location)

    def shut_pages(self) -> tuple[Page, ...]:
        """Pages of a site that may not be visited at all."""
        return tuple(
            self.page(f"/{self.rng.choice(_OPEN_FOLDERS)}/{number}", is_open=False)
            for number in range(MIN_PAGES)
        )


def draw_hosts(rng: random.Random, count: int) -> list[str]:
    """Names under the top-level domains that are nobody's (RFC 6761 §6)."""
    names = rng.sample([f"{first}-{second}" for first in _FIRST for second in _SECOND], count)
    return [f"{name}.{rng.choice(('example', 'test'))}" for name in names]
