"""Writes docs/options.md from the options' declarations: ``python docs/_options_table.py > docs/options.md``."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from robotgate.gate_options import GATE_OPTIONS, GateOptions
from robotgate.options import HOST_OPTIONS, HostOptions, PaceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRODUCTION: Final = """\
# All options

Each option is a keyword argument of `RobotGate`, besides `agent` and `contact`. Options for single hosts are also
arguments of `HostOverride`. [Delays, quotas and limits](pace.md) explains the options of the pace.

| option | default | for single hosts | meaning |
| --- | --- | --- | --- |
"""
PAGE: Final = re.compile(r"\bdocs/([\w-]+)\.md")


def options_table() -> str:
    """The page, as Markdown."""
    lines = [INTRODUCTION]
    for name, meaning in _meanings():
        default = (GATE_OPTIONS.get(name) or HOST_OPTIONS[name]).default
        scope = (
            "no"
            if name not in HOST_OPTIONS
            else "yes"
            if name in GATE_OPTIONS
            else "only"
        )
        lines.append(f"| `{name}` | {_shown(default)} | {scope} | {meaning} |\n")
    return "".join(lines)


def _meanings() -> Iterator[tuple[str, str]]:
    """The options by name, with their docstrings, in the order of their declarations."""
    for declaration in (PaceOptions, HostOptions, GateOptions):
        for part in ast.parse(inspect.getsource(declaration)).body:
            for field, text in pairwise(ast.iter_child_nodes(part)):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    words = " ".join(ast.literal_eval(text.value).split())
                    meaning = PAGE.sub(r"[\g<0>](\1.md)", words.replace("``", "`"))
                    yield ast.unparse(field.target), meaning


def _shown(default: object) -> str:
    if default is None or (isinstance(default, Mapping | frozenset) and not default):
        return "none"
    if isinstance(default, Enum):
        return f"`{default}`"
    return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    sys.stdout.write(options_table())
