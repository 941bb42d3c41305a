"""The rows of ``robotgate fetch``: how they are made, and what those of earlier runs say."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp

from robotgate import Response, Verdict, errors
from robotgate.cli import check, files, output
from robotgate.cli.lists import Digests, key_of
from robotgate.client.attempt import MAX_PAGE_REDIRECTS
from robotgate.client.fetch import GATEWAY_STATUSES
from robotgate.pace.signals import TELLING_STATUSES
from robotgate.pace.state import GOOD_BELOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row: TypeAlias = dict[str, object]


class Outcome(StrEnum):
    """How a URL ended. The values stand in the JSON rows."""

    FETCHED = "fetched"
    BLOCKED = "blocked"
    FAILED = "failed"
    INVALID = "invalid"
    TOO_SOON = "too_soon"
    OVER_BUDGET = "over_budget"
    UNAVAILABLE = "unavailable"


def refused(url: str, error: aiohttp.ClientError | TimeoutError | OSError) -> Row:
    """Return the row of a page that was not fetched."""
    match error:
        case errors.DisallowedError():
            return _row(url, Outcome.BLOCKED) | _verdict_columns(error.verdict)
        case errors.PreferenceError():
            return _row(url, Outcome.BLOCKED, final_url=error.url, reason=str(error))
        case errors.InvalidURLError():
            return _row(url, Outcome.INVALID, error=type(error).__name__, message=output.problem_of(error))
        case errors.TooSoonError():
            return _row(url, Outcome.TOO_SOON, retry_after=round(error.retry_after, 3))
        case errors.BudgetExceededError():
            after = None if error.retry_after is None else round(error.retry_after, 3)
            return _row(url, Outcome.OVER_BUDGET, retry_after=after, message=str(error))
        case errors.HostUnavailableError():
            more = {"retry_after": round(error.retry_after, 3), "message": output.in_plain_words(error.cause)}
            return _row(url, Outcome.UNAVAILABLE) | _verdict_columns(error.verdict) | more
        case _:
            return _row(url, Outcome.FAILED, error=type(error).__name__, message=_failure(error))


def _failure(error: aiohttp.ClientError | TimeoutError | OSError) -> str:
    match error:
        case aiohttp.TooManyRedirects():
            return f"more than {MAX_PAGE_REDIRECTS} redirects"
        case aiohttp.InvalidUrlRedirectClientError() | aiohttp.NonHttpUrlRedirectClientError():
            return f"redirected to {error.args[0]}, which is no http or https URL"
    return output.in_plain_words(str(error)) or "no answer in time"


def _verdict_columns(verdict: Verdict | None) -> Row:
    return {} if verdict is None else {"final_url": verdict.url, **check.verdict_columns(verdict)}


def fetched(url: str, response: Response) -> Row:
    """Return the row of a page that has been fetched just now."""
    ended_at, price = time.time(), response.price
    return _row(
        url,
        Outcome.FETCHED,
        status=response.status,
        final_url=response.url,
        bytes=len(response.body),
        waited=round(response.waited, 3),
        elapsed=round(response.elapsed, 3),
        sent_at=round(ended_at - response.elapsed, 3),
        ended_at=round(ended_at, 3),
        media_type=files.media_type_of(response),
        price=None if price is None else asdict(price),
    )


def _row(url: str, outcome: Outcome, **columns: object) -> Row:
    empty = dict.fromkeys(("status", "final_url", "bytes", "waited", "elapsed", "sent_at"))
    return {"url": url, "outcome": outcome, **empty, "ended_at": round(time.time(), 3), **columns}


_PASSING: Final = {Outcome.FAILED, Outcome.TOO_SOON, Outcome.OVER_BUDGET, Outcome.UNAVAILABLE}
"""Outcomes for a reason that may have passed."""
_LASTING: Final = {
    "ResponseTooLargeError",
    "TooManyRedirects",
    "InvalidUrlRedirectClientError",
    "NonHttpUrlRedirectClientError",
}
"""Errors of failed pages that another attempt would meet again."""


_BUSY: Final = TELLING_STATUSES | GATEWAY_STATUSES
"""Statuses of pages that were fetched but are not what was asked for; ``--retries`` repeats them, too."""


def is_passing(row: Row) -> bool:
    """Return whether the reason for which a row has no page may have passed."""
    if row.get("outcome") == Outcome.FETCHED:
        return row.get("status") in _BUSY
    return row.get("outcome") in _PASSING and row.get("error") not in _LASTING


def is_failed(row: Row) -> bool:
    """Return whether a row has no page, for whatever reason, or one with the status of an error."""
    status = row.get("status")
    return row.get("outcome") != Outcome.FETCHED or (isinstance(status, int) and status >= GOOD_BELOW)


class Earlier:
    """What the rows of earlier runs say of URLs. Of several rows of a URL, the last counts.

    Args:
        is_again: tells of a row whether its URL is asked for again.
    """

    def __init__(self, is_again: Callable[[Row], bool] = is_passing) -> None:
        self._is_again = is_again
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

    def _add(self, row: Row) -> None:
        key = key_of(str(row["url"]))
        self.lost.discard(key)
        if self._is_again(row):
            self.done.discard(key)
            self.attempts[key] = self.attempts.get(key, 0) + 1
            return
        self.attempts.pop(key, None)
        self.done.add(key)
        if row.get("outcome") in (Outcome.FAILED, Outcome.INVALID):
            self.lost.add(key)


def row_of(line: bytes) -> dict[str, object]:
    """Return a row of ``robotgate fetch``: an object with a URL. It is empty if the line is none."""
    with suppress(ValueError, RecursionError):
        row = json.loads(line)
        if isinstance(row, dict) and isinstance(row.get("url"), str):
            return row
    return {}
