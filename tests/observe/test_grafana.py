"""docs/grafana.json, docs/observing.md and docs/deploying.md: they name the metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from robotgate import RobotGate
from robotgate.observe import prometheus
from robotgate.observe.tally import Tally

DOCS: Final = Path(__file__).parents[2] / "docs"
DASHBOARD: Final = DOCS / "grafana.json"
PAGE: Final = DOCS / "observing.md"
NAME: Final = re.compile(r"\brobotgate_[a-z_]+\b")
BY: Final = re.compile(r"\bby \(([a-z, ]+)\)")
SELECTED: Final = re.compile(r"\b(robotgate_[a-z_]+)\b(?:\{([^}]*)\})?")
LABEL: Final = re.compile(r"([a-z]+)=")
SUFFIXES: Final = ("_bucket", "_count", "_sum")


def exposed() -> dict[str, tuple[str, ...]]:
    """The labels of each metric, by the name that a query uses; a gate that is not open shows most of them."""
    registry, gate = CollectorRegistry(), RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with prometheus(gate, registry):
        families = [
            f"{each.name}_total" if each.type == "counter" else each.name for each in registry.collect()
        ]
    tally = Tally(gate)
    metrics = [*tally.values(gate.stats()), *tally.histograms]
    return {name: metric.labels for name, metric in zip(families, metrics, strict=True)}


def queries(part: object) -> Iterator[str]:
    """Every expression of a dashboard, wherever it stands."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key in {"expr", "query", "definition"} and isinstance(value, str):
                yield value
            else:
                yield from queries(value)
    elif isinstance(part, list):
        for each in part:
            yield from queries(each)


def metrics_in(text: str) -> set[str]:
    """The names of metrics in a text, without the suffixes of a histogram."""
    found = set(NAME.findall(text))
    for suffix in SUFFIXES:
        found = {name.removesuffix(suffix) for name in found}
    return found


def test_dashboard_shows_every_metric_and_no_other() -> None:
    """A renamed metric would leave a panel empty without a word."""
    text = "\n".join(queries(json.loads(DASHBOARD.read_text(encoding="utf-8"))))
    assert metrics_in(text) == set(exposed())


def test_dashboard_groups_by_labels_that_there_are() -> None:
    """Each expression has one metric."""
    metrics = exposed()
    for query in queries(json.loads(DASHBOARD.read_text(encoding="utf-8"))):
        for labels in BY.findall(query):
            (metric,) = metrics_in(query)
            assert set(labels.split(", ")) <= {*metrics[metric], "le"}, query


def test_page_lists_every_metric_and_no_other() -> None:
    """In a table, one row each."""
    rows = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `robotgate_")
    ]
    listed = [name for row in rows for name in metrics_in(row.split("|")[1])]
    assert sorted(listed) == sorted(exposed())


def test_alerts_are_of_metrics_that_there_are() -> None:
    """With labels that they have: an alert of another name never fires."""
    metrics = exposed()
    page = (DOCS / "deploying.md").read_text(encoding="utf-8")
    expressions = re.findall(r"expr: (.*?)\n +(?:for|- alert): ", page, re.DOTALL)
    assert len(expressions) == page.count("- alert: ") > 0
    for expression in expressions:
        for name, labels in SELECTED.findall(expression):
            assert set(LABEL.findall(labels)) <= set(metrics[name]), expression
