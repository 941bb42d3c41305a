"""The rows of ``robotgate fetch``: how a URL ended, and what the rows of an earlier run say."""

from __future__ import annotations

import json
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from robotgate.cli.lists import Digests, key_of

if TYPE_CHECKING:
    from pathlib import Path


class Outcome(StrEnum):
    """How a URL ended. The values stand in the JSON rows."""

    FETCHED = "fetched"
    BLOCKED = "blocked"
    FAILED = "failed"
    INVALID = "invalid"
    TOO_SOON = "too_soon"
    UNAVAILABLE = "unavailable"


_PASSING: Final = {Outcome.FAILED, Outcome.TOO_SOON, Outcome.UNAVAILABLE}
"""Outcomes for a reason that may have passed."""
_LASTING: Final = {
    "ResponseTooLargeError",
    "TooManyRedirects",
    "InvalidUrlRedirectClientError",
    "NonHttpUrlRedirectClientError",
}
"""Errors of failed pages that another attempt would meet again."""


class Earlier:
    """What the rows of earlier runs say of URLs."""

    def __init__(self) -> None:
        self.done: Digests = Digests()
        """Those that are not asked for again, by `key_of`."""
        self.lost: Digests = Digests()
        """Those of `done` that were neither fetched nor blocked."""
        self.attempts: dict[bytes, int] = {}
        """How often the others were tried."""

    def read(self, path: Path) -> None:
        """Read a file of rows, if there is one. A last line that a killed run has cut off is removed.

        Raises:
            OSError: the file cannot be read or shortened.
        """
        if not path.exists():
            return
        whole = 0
        with path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(whole)
                    break
                whole += len(line)
                if row := row_of(line):
                    self._add(row)

    def _add(self, row: dict[str, object]) -> None:
        key, outcome = key_of(str(row["url"])), row.get("outcome")
        if outcome in _PASSING and row.get("error") not in _LASTING:
            self.attempts[key] = self.attempts.get(key, 0) + 1
            return
        self.attempts.pop(key, None)
        self.done.add(key)
        if outcome in (Outcome.FAILED, Outcome.INVALID):
            self.lost.add(key)


def row_of(line: bytes) -> dict[str, object]:
    """Return a row of ``robotgate fetch``: an object with a URL. It is empty if the line is none."""
    with suppress(ValueError, RecursionError):
        row = json.loads(line)
        if isinstance(row, dict) and isinstance(row.get("url"), str):
            return row
    return {}
