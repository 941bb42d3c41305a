"""A robots.txt as small sites have it, and URLs of many such sites."""

from __future__ import annotations

import random
from typing import Final

ROBOTS_TXT: Final = b"""\
User-agent: GreedyBot
Disallow: /

User-agent: *
Allow: /search/about
Allow: /account/help$
Disallow: /search
Disallow: /account
Disallow: /cart
Disallow: /checkout/
Disallow: /internal/
Disallow: /print/
Disallow: /cgi-bin/
Disallow: /*?sort=
Disallow: /*.json$
Disallow: /*/reviews/

Sitemap: https://site.example/sitemap.xml
"""
PATHS: Final = (
    "/",
    "/search?q=a",
    "/search/about",
    "/item/%d",
    "/item/%d?sort=price",
    "/news/2026/%d.html",
    "/cart",
)


def site(number: int) -> str:
    """One of the sites, up to its path."""
    return f"https://{number}.site.example"


def urls_over(hosts: int, count: int) -> list[str]:
    """So many URLs, spread over the hosts in no order."""
    chance = random.Random(hosts)
    paths = [path % number if "%d" in path else path for number in range(1000) for path in PATHS]
    return [site(chance.randrange(hosts)) + chance.choice(paths) for _ in range(count)]
