"""Measure robotgate beside what people use instead: ``python -m benchmarks [names] [--quick]``.

Without names, all groups, in forty minutes; with ``--quick`` in three minutes, on few hosts, so that nothing rots. What
is found is printed as Markdown; ``--json`` keeps it, and everything else is made from that file.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._bench import machine_with
from benchmarks._report import Effort, Findings, Group, Report, goals_as_markdown, read_report, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NAMES: Final = (
    "rules",
    "gate",
    "crawl",
    "tls",
    "pace",
    "scopes",
    "limited",
    "memory",
    "disk",
    "fleet",
    "scale",
    "signing",
)
"""In the order in which they are measured."""


def load(name: str, corpus: Path | None = None) -> Group:
    """The group of a name. Its module is imported here: what it takes need not be installed for the others.

    Raises:
        ModuleNotFoundError: it takes a package that is not installed.
    """
    module = importlib.import_module(f"benchmarks.{name}")
    group: object = module.Over(corpus) if corpus and name == "rules" else module
    if not isinstance(group, Group):
        raise TypeError(f"benchmarks.{name} is no group: it has no PACKAGES, or no measure()")
    return group


def run(groups: Mapping[str, Group], effort: Effort) -> Report:
    """Measure groups in their order, and print the machine first, every table once its group is done, and all goals at
    the end.
    """
    machine = machine_with(*{package for group in groups.values() for package in group.PACKAGES})
    print(f"# {effort.value.capitalize()} run of {', '.join(groups)}\n\n{machine}\n")
    findings: dict[str, Findings] = {}
    seconds: dict[str, float] = {}
    for name, group in groups.items():
        began = time.perf_counter()
        findings[name] = group.measure(effort)
        seconds[name] = time.perf_counter() - began
        print(f"## {name}\n\n{seconds[name]:.1f} s\n\n{findings[name].markdown()}\n", flush=True)
    report = Report(datetime.now(UTC).date().isoformat(), effort, machine, seconds, findings)
    reached = sum(goal.is_reached for goal in report.goals)
    print(f"## Goals\n\n{goals_as_markdown(report.goals)}\n")
    print(f"{reached} of {len(report.goals)} reached, in {sum(seconds.values()):,.0f} s.")
    return report


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="everything once or twice, on few hosts")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep what is found; other groups that FILE has stay"
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="robots.txt files for rules: every *.txt of DIR"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.corpus and not any(options.corpus.glob("*.txt")):
        parser.error(f"no *.txt in {options.corpus}")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"no folder {options.json.parent}")  # Said before forty minutes have gone by.
    options.effort = Effort.QUICK if options.quick else Effort.FULL
    if options.json and options.json.exists() and read_report(options.json).effort is not options.effort:
        parser.error(f"{options.json} is no {options.effort} run")
    return options


def main(arguments: Sequence[str] | None = None, *, load: Callable[[str, Path | None], Group] = load) -> int:
    """Measures; 1 where something that was asked for could not be measured.

    Args:
        load: finds a group by its name.
    """
    options = read_options(arguments)
    names = [name for name in NAMES if name in options.names or not options.names]
    groups: dict[str, Group] = {}
    for name in names:
        try:
            groups[name] = load(name, options.corpus)
        except ModuleNotFoundError as error:
            print(f"Left out: {name} needs {error.name}, of the dependency group bench", file=sys.stderr)
    report = run(groups, options.effort)
    if options.json:
        if options.json.exists():
            report = read_report(options.json).renewed(report)
        options.json.write_text(to_json(report), encoding="utf-8")
    return 0 if len(groups) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
