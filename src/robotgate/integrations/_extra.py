"""What to install where an integration's library is not there."""

from __future__ import annotations


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a module that only an extra of robotgate brings: which, and how to get it."""
    library = (error.name or extra).partition(".")[0]
    return ModuleNotFoundError(
        f"robotgate.integrations.{extra} needs {library}: pip install 'robotgate[{extra}]'",
        name=error.name,
        path=error.path,
    )
