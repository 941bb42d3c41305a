"""Names of a package that are imported when somebody asks for them (PEP 562): few need them, and all pay otherwise."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def imported_later(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Type checkers take any name for granted where they see a ``__getattr__``: show them the imports instead.

    Args:
        package: its name.
        homes: what it holds besides what it imports at once, with the module that each is from.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        found: object = getattr(import_module(home), name)
        # From now on it is found without us.
        namespace[name] = found
        return found

    def names() -> list[str]:
        return sorted(namespace.keys() | homes.keys())

    return get, names
