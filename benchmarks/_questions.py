"""What is asked of a file: paths that its own rules speak of, and others as sites have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.corpus import path_for
from robotgate import RobotsTxt

if TYPE_CHECKING:
    import random

QUESTIONS: Final = 20
OWN: Final = 6
WORDS: Final = (
    "about", "article", "author", "blog", "brand", "cart", "catalog", "category", "contact", "date", "docs", "en",
    "event", "file", "forum", "gallery", "help", "home", "id", "image", "index", "item", "lang", "list", "login",
    "map", "news", "offer", "page", "photo", "post", "press", "price", "print", "product", "profile", "q", "query",
    "report", "review", "search", "section", "shop", "sid", "sort", "source", "staff", "story", "tag", "team",
    "terms", "topic", "track", "user", "utm_source", "video", "view",
)  # fmt: skip


def questions(body: bytes, chance: random.Random) -> list[str]:
    """Twenty paths, of which the file's own rules speak of six, or of fewer where they are fewer."""
    patterns = sorted({rule.path_pattern for group in RobotsTxt.parse(body).groups for rule in group.rules})
    own = [path_for(pattern) for pattern in chance.sample(patterns, min(OWN, len(patterns)))]
    return [path.replace("#", "") for path in own] + [_page(chance) for _ in range(QUESTIONS - len(own))]


def _page(chance: random.Random) -> str:
    path = "/" + "/".join(
        "-".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 5))
    )
    path += chance.choice(("", "", "/", ".html", ".php", ".pdf", "/%E2%82%AC"))
    if chance.random() < 0.3:
        path += "?" + "&".join(
            f"{chance.choice(WORDS)}={chance.randrange(10_000)}" for _ in range(chance.randint(1, 3))
        )
    return path
