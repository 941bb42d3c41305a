"""One run: groups measured one after another, and what they find printed as it comes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks._machine import described, machine_with
from benchmarks._markdown import as_markdown, goals_as_markdown
from benchmarks._report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks._report import Effort, Findings, Group, Table


def run(groups: Mapping[str, Group], effort: Effort, *, show: Callable[[str], None] = print) -> Report:
    """Measure groups in their order.

    Args:
        show: is given Markdown: the machine first, every table once its group is done, and all goals at the end.
    """
    packages = sorted({package for group in groups.values() for package in group.PACKAGES})
    machine = machine_with(*packages)
    show(f"# {effort.value.capitalize()} run of {', '.join(groups)}\n\n{described(machine)}\n")
    findings: dict[str, Findings] = {}
    seconds: dict[str, float] = {}
    for name, group in groups.items():
        began = time.perf_counter()
        findings[name] = group.measure(effort)
        seconds[name] = time.perf_counter() - began
        show(f"## {name}\n\n{seconds[name]:.1f} s\n")
        for table in findings[name].tables:
            show(_section(table))
    report = Report(
        taken_on=datetime.now(UTC).date().isoformat(),
        effort=effort,
        machine=machine,
        seconds=seconds,
        groups=findings,
    )
    show(_summary(report))
    return report


def _section(table: Table) -> str:
    note = f"\n{table.note}\n" if table.note else ""
    return f"### {table.title}\n\n{as_markdown(table)}\n{note}"


def _summary(report: Report) -> str:
    goals = [goal for findings in report.groups.values() for goal in findings.goals]
    reached = sum(goal.is_reached for goal in goals)
    count = f"{reached} of {len(goals)} reached, in {sum(report.seconds.values()):,.0f} s."
    return f"## Goals\n\n{goals_as_markdown(goals)}\n\n{count}" if goals else count
