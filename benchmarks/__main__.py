"""Measure robotgate beside what people use instead: ``python -m benchmarks [names] [--quick]``.

Without names, all groups, in half an hour; with ``--quick`` in three minutes, on few hosts, so that nothing rots. What
is found is printed as Markdown; ``--json`` keeps it, and everything else is made from that file.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._json import write_report
from benchmarks._report import Effort, Group
from benchmarks._run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NAMES: Final = ("rules", "gate", "crawl", "pace", "memory", "disk", "fleet", "scale", "signing")
"""In the order in which they are measured."""
PROJECTS: Final = {"robots": "robotspy"}
"""Modules that are not called as what is installed for them."""
INSTALL: Final = "pip install -e '.[bench]'"


class MissingPeerError(Exception):
    """A group cannot be measured without a package that is not installed."""


def load(name: str) -> Group:
    """The group of a name.

    Its module is imported here and no sooner: what it takes need not be installed for the others.

    Raises:
        MissingPeerError: it takes a package that is not installed.
    """
    try:
        module: object = importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "benchmarks", "robotgate"}:
            raise
        raise MissingPeerError(f"{name} needs {PROJECTS.get(missing, missing)}: {INSTALL}") from error
    if not isinstance(module, Group):
        raise TypeError(f"benchmarks.{name} is no group: it has no PACKAGES, or no measure()")
    return module


def rules_of(corpus: Path) -> Group:
    """The group of rules, over a folder of your own.

    Raises:
        MissingPeerError: as `load`.
    """
    load("rules")
    from benchmarks.rules import Over  # noqa: PLC0415  # The other groups do without its peers.

    return Over(corpus)


def present(loads: Mapping[str, Callable[[], Group]]) -> dict[str, Group]:
    """The groups that can be measured here; what is missing for the others is said."""
    groups: dict[str, Group] = {}
    for name, load_one in loads.items():
        try:
            groups[name] = load_one()
        except MissingPeerError as error:
            print(f"Left out: {error}", file=sys.stderr)
    return groups


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="everything once or twice, on few hosts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what is found")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw what is found")
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="robots.txt files for rules: every *.txt of DIR"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.corpus and not any(options.corpus.glob("*.txt")):
        parser.error(f"no *.txt in {options.corpus}")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"no folder {options.json.parent}")  # Said before half an hour has gone by.
    return options


def main(arguments: Sequence[str] | None = None, *, load: Callable[[str], Group] = load) -> int:
    """Measures; 1 where something that was asked for could not be measured.

    Args:
        load: finds a group by its name.
    """
    options = read_options(arguments)
    names = [name for name in NAMES if name in options.names or not options.names]
    loads: dict[str, Callable[[], Group]] = {name: partial(load, name) for name in names}
    if options.corpus and "rules" in loads:
        loads["rules"] = partial(rules_of, options.corpus)
    groups = present(loads)
    if not groups:
        return 1
    report = run(groups, Effort.QUICK if options.quick else Effort.FULL)
    if options.json:
        write_report(report, options.json)
    if options.plots:
        from benchmarks._plots import draw  # noqa: PLC0415  # Only who wants plots needs what draws them.

        for path in draw(report, options.plots):
            print(path)
    return 0 if len(groups) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
