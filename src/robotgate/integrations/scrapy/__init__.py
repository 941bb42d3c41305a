"""The gate in Scrapy 2.14 and later: ``ADDONS = {"robotgate.integrations.scrapy.Addon": 300}``.

A downloader middleware asks for the verdict, which takes no turn. A download handler waits for the turn, below
everything that Scrapy times, counts or limits, and ends it when the response has been read. docs/scrapy.md tells how to
use them.
"""

from __future__ import annotations

from robotgate.errors import needs_extra

with needs_extra("scrapy", __name__):
    from robotgate.integrations.scrapy.addon import Addon, RefusedRequest
    from robotgate.integrations.scrapy.robots import RobotParser

__all__ = ["Addon", "RefusedRequest", "RobotParser"]
