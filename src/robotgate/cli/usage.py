"""How the commands show what sites say about the use of pages: as lines for a person, and as columns of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robotgate.usage import Statement, Usage

P = ParamSpec("P")
R = TypeVar("R")

PURPOSES: Final = ("search", "ai_input", "ai_train", "tdm", "index", "follow", "archive", "snippet")
MAX_SHOWN: Final = 20
"""Statements, licences and problems that are shown to a person, of each."""


def usage_option(what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """``--usage``.

    Args:
        what: the help.
    """
    return click.option("--usage", "with_usage", is_flag=True, callback=_checked, help=what)


def _checked(_context: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # As click calls it.
    """Refuse the option where the extra is not installed."""
    if value:
        check_extra()
    return value


def check_extra() -> None:
    """Refuse the command where the extra ``usage`` is not installed.

    Raises:
        UsageError: it is not; click's.
    """
    from robotgate.usage.values import structured_fields  # noqa: PLC0415  # Needs an extra.

    try:
        structured_fields()
    except ModuleNotFoundError as error:
        raise click.UsageError(str(error)) from error


def lines(usage: Usage) -> Iterator[str]:
    """What is known for each purpose, the statements it comes from, licences, policies and problems."""
    unknown: list[str] = []
    for purpose in PURPOSES:
        deciding = usage.deciding(purpose)
        if not deciding:
            unknown.append(purpose)
            continue
        more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
        yield f"{purpose}: {usage.preference(purpose).value} by {deciding[0]}{more}"
    yield f"unknown: {', '.join(unknown)}"
    yield from (f"licence: {url}" for url in usage.licenses[:MAX_SHOWN])
    yield from (f"policy: {url}" for url in usage.policies[:MAX_SHOWN])
    yield from (f"cannot be read: {statement}" for statement in usage.problems[:MAX_SHOWN])


def columns(usage: Usage) -> dict[str, object]:
    """A column for each purpose, null where nothing is known, the licences in one, and the statements."""
    found: dict[str, object] = {}
    for purpose in PURPOSES:
        found[f"usage_{purpose}"] = usage.preference(purpose).value if usage.deciding(purpose) else None
    found["licenses"] = " ".join(usage.licenses) or None
    found["usage_statements"] = list(map(_as_json, usage.statements))
    return found


def _as_json(statement: Statement) -> dict[str, object]:
    """A statement without what it does not have."""
    values = {
        "source": statement.source.value,
        "line": statement.line,
        "field": statement.field,
        "words": statement.words,
        "standard": statement.standard.value,
        "says": {str(purpose): preference.value for purpose, preference in statement.says},
        "reference": statement.reference,
        "note": statement.note,
        "problem": statement.problem,
    }
    return {name: value for name, value in values.items() if value not in (None, {})}
