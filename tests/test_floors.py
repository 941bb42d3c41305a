"""The import floors: the map in `robotgate`'s docstring, held against what every module really imports.

The map reads from left to right and from top to bottom, and a module imports only from what stands before it. A
package stands for all its modules that have no place of their own; these may import each other, but in no circle.
`robotgate` itself stands behind the last module that it re-exports.
"""

from __future__ import annotations

import ast
import graphlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import robotgate

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(robotgate.__file__).parent
PACKAGE: Final = "robotgate"
FLOOR_LINE: Final = re.compile(r"^\s*(?P<floor>\d+) \w+: (?P<places>.+)$", re.MULTILINE)

PURE_FLOORS: Final = (0, 1)
IMPURE: Final = frozenset({"aiohttp", "asyncio", "random", "time"})
PERMITTED: Final = {
    # Errors that leave an aiohttp call have to be aiohttp's own kind of error.
    ("_errors", "aiohttp", "ClientError"),
}
UPWARD_FOR_TYPES: Final = {
    # Errors carry verdicts; verdicts know nothing of errors, which every other word needs.
    ("_errors", "_verdict"),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported thing: ``name`` is None for ``import module``."""

    module: str
    name: str | None
    line: int
    for_types: bool

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.module.partition(".")[0]

    @property
    def ours(self) -> str | None:
        """The module of ours that is imported, without ``robotgate.``; None for a module of someone else's."""
        if self.package != PACKAGE:
            return None
        submodule = f"{self.module}.{self.name}".removeprefix(f"{PACKAGE}.")
        if submodule in MODULES:
            return submodule
        return self.module.removeprefix(f"{PACKAGE}.")


def module_files() -> dict[str, Path]:
    """Every module, by its name without ``robotgate.``."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__") or PACKAGE] = path
    return found


def imports_of(tree: ast.AST, *, for_types: bool = False) -> Iterator[Import]:
    """Every import in the tree, those inside functions included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None, node.lineno, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (Import(module, alias.name, node.lineno, for_types) for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imports_of(ast.Module(node.body, []), for_types=True)
            yield from imports_of(ast.Module(node.orelse, []), for_types=for_types)
        else:
            yield from imports_of(node, for_types=for_types)


def floor_map() -> dict[str, int]:
    """Place -> floor, in the order of the map in the package's docstring."""
    rows = FLOOR_LINE.finditer(robotgate.__doc__ or "")
    return {place: int(row["floor"]) for row in rows for place in row["places"].split()}


MODULES: Final = module_files()
IMPORTS: Final = {
    name: list(imports_of(ast.parse(path.read_bytes(), str(path)))) for name, path in MODULES.items()
}
FLOORS: Final = floor_map()
INSIDE: Final = [name for name in MODULES if name != PACKAGE]


def place_of(module: str) -> str:
    """What of the map a module belongs to: itself, or the nearest package around it that the map names."""
    place = module
    while place not in FLOORS and "." in place:
        place = place.rpartition(".")[0]
    return place


def rank(module: str) -> float:
    """Where a module stands in the total order."""
    if module == PACKAGE:
        return max(rank(item.ours) for item in IMPORTS[PACKAGE] if item.ours is not None) + 0.5
    return list(FLOORS).index(place_of(module))


def test_map_is_in_ascending_floors() -> None:
    """The docstring holds a map, and its floors only rise."""
    floors = list(FLOORS.values())
    assert floors, "robotgate's docstring has no line such as '0 words: _errors _urls'"
    assert floors == sorted(floors)


def test_map_names_every_module_and_no_other() -> None:
    """A new module has to take its place in the map; a removed one leaves it."""
    assert {place_of(module) for module in INSIDE} == set(FLOORS)


@pytest.mark.parametrize("module", INSIDE)
def test_imports_only_what_stands_before(module: str) -> None:
    """No module imports from its right or from below it in the map, not even for types."""
    for item in IMPORTS[module]:
        if item.ours is None or place_of(item.ours) == place_of(module):
            continue
        if item.for_types and (module, item.ours) in UPWARD_FOR_TYPES:
            continue
        assert rank(item.ours) < rank(module), f"line {item.line} imports {item.ours}, which stands behind"


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_absolute(module: str) -> None:
    """Relative imports would pass the floors unseen."""
    assert [item for item in IMPORTS[module] if item.module.startswith(".")] == []


@pytest.mark.parametrize("module", [name for name in INSIDE if FLOORS.get(place_of(name)) in PURE_FLOORS])
def test_low_floors_know_neither_network_nor_clock_nor_chance(module: str) -> None:
    """Words and core compute from their arguments alone: ``now`` and jitter are arguments."""
    impure = {(module, item.package, item.name) for item in IMPORTS[module] if item.package in IMPURE}
    assert impure - PERMITTED == set()


def test_packages_have_no_circles_inside() -> None:
    """What shares one place in the map has an order of its own too."""
    graph = {
        module: {item.ours for item in IMPORTS[module] if not item.for_types} - {None, module}
        for module in INSIDE
    }
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(order) >= set(INSIDE)
