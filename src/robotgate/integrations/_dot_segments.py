"""Paths that lead elsewhere than they read.

aiohttp and browsers resolve dot segments before they send. A client that sends them as they are would have one path
judged here and, as most servers resolve them, another one served.
"""

from __future__ import annotations

import re
from typing import Final

from robotgate._errors import InvalidURLError

_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|\Z)", re.IGNORECASE)


def check_no_dot_segment(path: str, url: str) -> None:
    """Let a path pass, without its query, that servers read as we do.

    Args:
        url: what the error tells of.

    Raises:
        InvalidURLError: a segment of it is ``.`` or ``..``, escaped or not.
    """
    if _DOT_SEGMENT.search(path):
        raise InvalidURLError(url, "a dot segment leads servers to another path")
