"""What a site asks about our speed: the longer of its Crawl-delay and its strictest Request-rate."""

from __future__ import annotations

import pytest

from robotgate.pace.spacing import NOTHING_ASKED, Asked
from robotgate.rules.grammar import RequestRate


@pytest.mark.parametrize(
    ("asked", "delay"),
    [
        (NOTHING_ASKED, 0.0),
        (Asked(crawl_delay=0.25), 0.25),
        (Asked(crawl_delay=0.0), 0.0),
        (Asked(request_rate=RequestRate(3, 10)), 10 / 3),
        (Asked(crawl_delay=45.0, request_rate=RequestRate(1, 30)), 45.0),
        (Asked(crawl_delay=45.0, request_rate=RequestRate(1, 60)), 60.0),
        (Asked(request_rate=RequestRate(1, 60, 9 * 60, 17 * 60 - 1)), 60.0),
    ],
)
def test_longer_of_what_is_asked_counts(asked: Asked, delay: float) -> None:
    """Fractions and all, and at every hour, whatever hours a rate names."""
    assert asked.delay == delay
