"""The gate in Scrapy 2.14 and later: ``ADDONS = {"robotgate.integrations.scrapy.Addon": 300}``.

A downloader middleware asks for the verdict, which takes no turn. A download handler waits for the turn, below
everything that Scrapy times, counts or limits, and ends it when the response has been read. docs/scrapy.md tells how to
use them.
"""

from __future__ import annotations

from robotgate.errors import missing_extra

try:
    from robotgate.integrations.scrapy.addon import Addon, RefusedRequest
    from robotgate.integrations.scrapy.robots import RobotParser
except ModuleNotFoundError as error:
    raise missing_extra(__name__, "scrapy", error) from error

__all__ = ["Addon", "RefusedRequest", "RobotParser"]
