"""Checks of Content-Usage, Content-Signal and License lines. Imported where a file has one: few have."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from robotgate.lint.table import FindingCode
from robotgate.rules.grammar import text_of
from robotgate.usage.robots import is_absolute_url, split_path
from robotgate.usage.values import (
    CONTENT_SIGNAL_KEYS,
    CONTENT_USAGE_LABELS,
    read_content_signal,
    read_content_usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.lint.findings import Findings
    from robotgate.lint.lines import Line
    from robotgate.usage.values import Reading

_AROUND_EQUALS: Final = re.compile(r"[ \t]*+[=:][ \t]*+")
_MAX_REPAIRED: Final = 200
_LABELS: Final = {
    "content-usage": (*CONTENT_USAGE_LABELS,),
    "content-signal": (*CONTENT_SIGNAL_KEYS, "use"),
}
_OF_THE_OTHER: Final = {
    "content-usage": {"ai-train": "train-ai", "ai-input": "ai-use"},
    "content-signal": {"train-ai": "ai-train", "ai-use": "ai-input"},
}
"""Labels of the other field, and what they are in this one."""
_VALUES: Final = {
    "content-usage": {"yes": "y", "no": "n", "allow": "y", "disallow": "n", "true": "y", "false": "n"},
    "content-signal": {"y": "yes", "n": "no", "allow": "yes", "disallow": "no", "true": "yes", "false": "no"},
}


def check_statement(line: Line, findings: Findings) -> None:
    """Find what no reader understands in a statement about the use of pages."""
    field = line.field.lower().decode("latin-1")
    value = text_of(line.value.decode("latin-1"))
    if field == "license":
        if not is_absolute_url(value):
            findings.add(FindingCode.STATEMENT_UNREADABLE, line, line.value_span)
        return
    path, words = split_path(value) if field == "content-usage" else (None, value)
    read: Callable[[str], Reading] = read_content_usage if field == "content-usage" else read_content_signal
    try:
        reading = read(words)
    except ModuleNotFoundError:
        # Structured fields are read by a library of the extra `usage`; without it they are not checked.
        return
    if reading.problem is None:
        return
    code = FindingCode.STATEMENT_UNREADABLE if reading.is_broken else FindingCode.STATEMENT_UNKNOWN_LABEL
    suggestion, repaired = None, ""
    if len(words) <= _MAX_REPAIRED and findings.has_room(code):
        repaired = _repaired(words, field)
    if repaired and read(repaired).problem is None:
        written = f"{path} {repaired}" if path else repaired
        suggestion = line.field + b": " + written.encode()
    findings.add(code, line, line.value_span, suggestion=suggestion)


def _repaired(words: str, field: str) -> str:
    """A value with its labels and values spelt as the field has them."""
    parts: list[str] = []
    for part in words.lower().split(","):
        label, _, value = _AROUND_EQUALS.sub("=", part.strip(" \t;")).partition("=")
        known = _LABELS[field]
        if label and label not in known:
            near = get_close_matches(label, known, n=1, cutoff=0.8)
            label = _OF_THE_OTHER[field].get(label) or (near[0] if near else label)
        if label:
            parts.append(f"{label}={_VALUES[field].get(value, value)}")
    return ", ".join(parts)
