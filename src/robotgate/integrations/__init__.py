"""The gate inside other HTTP clients, crawlers and workers.

Each module but `workers` needs the extra of its name, such as ``robotgate[scrapy]``. Nothing else in robotgate imports
from here.
"""

from __future__ import annotations

import re
from typing import Final

from robotgate.errors import InvalidURLError

__all__: tuple[str, ...] = ()

_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|\Z)", re.IGNORECASE)


def check_no_dot_segment(path: str, url: str) -> None:
    """Refuse a path with a segment ``.`` or ``..``, escaped or not.

    aiohttp and browsers resolve such segments before they send. A client that sends them unchanged would have one path
    judged here and another one served, because most servers resolve them.

    Args:
        path: the path as it is sent, without the query.
        url: the URL that the error names.

    Raises:
        InvalidURLError: the path has such a segment.
    """
    if _DOT_SEGMENT.search(path):
        raise InvalidURLError(url, "a dot segment leads servers to another path")
