"""The order of the packages: each imports only from those above it (docs/design.md)."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import robotgate

ROOT: Final = Path(robotgate.__file__).parent
ORDER: Final = (
    {"statements", "clock", "rules.decode", "rules.grammar", "rules.verdict"},
    {"errors"},
    {"hours", "urls"},
    {"options"},
    {"identity", "prices", "sites.status_table"},
    {"events"},
    {"rules", "preferences"},
    {"pace"},
    {"sites"},
    {"stores"},
    {"client"},
    {"sitemaps", "threads", "observe.views"},
    {"gate", "gate_options"},
    {"sessions"},
    {"lint"},
    {"observe"},
    {"testing"},
    {"signing"},
    {"integrations"},
    {"judge"},
    {"dashboard"},
    {"cli"},
    {"__main__"},
)
"""From the top down. Modules with a place of their own stand apart from their packages: errors and events hold
verdicts, and what the gate has from `observe.views` is made of its turns."""
LEVELS: Final = {name: level for level, names in enumerate(ORDER) for name in names}
FILES: Final = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
    if path != ROOT / "__init__.py"
}


@cache
def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports, without ``robotgate.``; `robotgate` itself is left out."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("robotgate."):
            module = (node.module or "").removeprefix("robotgate.")
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else module for name in names}
        elif isinstance(node, ast.Import):
            modules = (alias.name for alias in node.names)
            found |= {name.removeprefix("robotgate.") for name in modules if name.startswith("robotgate.")}
    return found


def test_every_package_has_a_place() -> None:
    """A new package has to be put in the order."""
    assert {name.partition(".")[0] for name in FILES} == {name.partition(".")[0] for name in LEVELS}


def test_imports_come_from_above() -> None:
    """A package imports only from itself and from those above it, for types too."""

    def level(module: str) -> int:
        return LEVELS[module if module in LEVELS else module.partition(".")[0]]

    below = {
        (module, name)
        for module, path in FILES.items()
        for name in imported(path)
        if level(name) > level(module)
    }
    assert below == set()


def test_modules_know_each_other_one_way() -> None:
    """No circle of imports runs through the modules, with imports for types and those in functions."""
    graph = {module: imported(path) - {module} for module, path in FILES.items()}
    assert list(TopologicalSorter(graph).static_order())
