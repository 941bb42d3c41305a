"""How the commands show what sites say about the use of pages: as lines for a person, and as columns of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.usage import Statement, Usage

PURPOSES: Final = ("search", "ai_input", "ai_train", "tdm", "index", "follow", "archive", "snippet")
MAX_SHOWN: Final = 20
"""Statements, licences and problems that are shown to a person, of each."""


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
