"""Leaves requests in the scheduler while their host is busy, so that one slow host does not take every place."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy.pqueues import DownloaderAwarePriorityQueue

if TYPE_CHECKING:
    from scrapy import Request


class HostAwarePriorityQueue(DownloaderAwarePriorityQueue):
    """Gives out no more requests of a host than it can be sent at once (``CONCURRENT_REQUESTS_PER_DOMAIN``).

    A request that has left the scheduler takes one of the ``CONCURRENT_REQUESTS`` until it is answered, however long
    it waits for its turn. Scrapy's own queue prefers idle hosts, but once only one host is left it gives that one all.
    """

    def pop(self) -> Request | None:
        """The next request of a host that is not busy; None while all are. The end of any request asks again."""
        downloader = self.crawler.engine.downloader
        active = Counter(downloader.get_slot_key(request) for request in downloader.active)
        limit = downloader.domain_concurrency
        busy = {
            slot: self.pqueues.pop(slot)
            for slot, count in active.items()
            if count >= limit and slot in self.pqueues
        }
        try:
            return super().pop()
        finally:
            self.pqueues.update(busy)
