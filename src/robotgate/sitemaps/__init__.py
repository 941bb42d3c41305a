"""The URLs that sitemaps list (sitemaps.org), for `RobotGate.sitemap_urls`; `parse` does no I/O, `walk` fetches."""

from robotgate.sitemaps.parse import SitemapEntry
from robotgate.sitemaps.walk import SitemapFault

__all__ = ["SitemapEntry", "SitemapFault"]
