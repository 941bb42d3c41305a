"""A real Prometheus scrapes a gate, and takes the dashboard and the alerts of the docs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from tests.daemons import LOOPBACK, free_port, running
from tests.gate.servers import RULES
from tests.test_readme import blocks
from tests.waiting import settle

from robotgate import DisallowedError
from robotgate.observe import prometheus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gate.servers import Web

    from robotgate import RobotGate

DOCS: Final = Path(__file__).parents[2] / "docs"
CONF: Final = """
scrape_configs:
  - job_name: crawl
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs: [{targets: ["127.0.0.1:EXPORTER"]}]
"""
VARIABLES: Final = {"$job": "crawl", "$__rate_interval": "1m"}


@pytest.fixture
async def crawled(web: Web, gate: RobotGate) -> AsyncIterator[CollectorRegistry]:
    """Metrics of a gate that has fetched three pages, and was refused one."""
    registry = CollectorRegistry()
    site = f"http://{LOOPBACK}:{web.port}"
    web.serve(f"{site}/robots.txt", RULES)
    with prometheus(gate, registry):
        for page in ("one", "two", "three"):
            await gate.fetch(f"{site}/{page}")
        with pytest.raises(DisallowedError):
            await gate.fetch(f"{site}/private")
        await settle()
        yield registry


def queries() -> list[str]:
    """Those of the dashboard."""
    found = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', (DOCS / "grafana.json").read_text(encoding="utf-8"))
    texts = [str(json.loads(each)) for each in found]
    for name, value in VARIABLES.items():
        texts = [text.replace(name, value) for text in texts]
    return texts


@pytest.mark.real("promtool")
def test_metrics_are_as_prometheus_wants_them(crawled: CollectorRegistry) -> None:
    """Its own tool finds no fault in their names, types and help."""
    ran = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(crawled), capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.real("promtool")
def test_alerts_can_be_loaded(tmp_path: Path) -> None:
    """As docs/deploying.md has them."""
    (alerts,) = blocks((DOCS / "deploying.md").read_text(encoding="utf-8"), "yaml")
    rules = tmp_path / "rules.yml"
    rules.write_text(alerts, encoding="utf-8")
    ran = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, check=False)
    assert ran.returncode == 0, ran


@pytest.mark.slow
@pytest.mark.real("prometheus")
async def test_dashboard_is_answered(web: Web, crawled: CollectorRegistry, tmp_path: Path) -> None:
    """Prometheus scrapes the gate, counts what came to the site, and takes every query."""
    exporter, thread = start_http_server(0, LOOPBACK, registry=crawled)
    port, conf = free_port(), tmp_path / "prometheus.yml"
    conf.write_text(CONF.replace("EXPORTER", str(exporter.server_port)), encoding="ascii")
    options = [f"--web.listen-address={LOOPBACK}:{port}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    with running(
        "prometheus", f"--config.file={conf}", *options, port=port, output=tmp_path / "prometheus.output"
    ):
        async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port}") as session:

            async def answer(query: str) -> list[float]:
                async with session.get("/api/v1/query", params={"query": query}) as response:
                    if response.status == 503:
                        # It is not ready yet.
                        return []
                    assert response.status == 200, await response.text()
                    return [float(each["value"][1]) for each in (await response.json())["data"]["result"]]

            async with asyncio.timeout(60):
                while await answer("count_over_time(up[1m]) > 2") == []:  # noqa: ASYNC110  # Another program is awaited.
                    await asyncio.sleep(0.05)
            assert await answer("min(up)") == [1]
            assert await answer("sum(robotgate_requests_total)") == [len(web.visits)]
            assert await answer("sum(robotgate_refusals_total)") == [1]
            assert [query for query in queries() if await answer(query) == []] == []
    exporter.shutdown()
    exporter.server_close()
    thread.join()
