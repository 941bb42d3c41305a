"""The gate inside other HTTP clients, crawlers and workers.

Each module but `workers` needs the extra of its name, such as ``robotgate[scrapy]``. Nothing else in robotgate imports
from here.
"""

from __future__ import annotations

__all__: tuple[str, ...] = ()
