"""The gate under URLFrontier, a service that keeps the URLs of a crawl and hands them to its workers.

`URLFrontier` is one worker's side of it: `connection` makes its calls, and `messages` has what they send and receive.
"""

from __future__ import annotations

from robotgate.integrations.urlfrontier.connection import FrontierError
from robotgate.integrations.urlfrontier.frontier import FrontierPage, URLFrontier
from robotgate.integrations.urlfrontier.messages import URLInfo

__all__ = ["FrontierError", "FrontierPage", "URLFrontier", "URLInfo"]
