"""One JSON object per URL: what came of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from robotgate import (
    DisallowedError,
    HostUnavailableError,
    InvalidURLError,
    TooSoonError,
)
from robotgate.cli._progress import Outcome

if TYPE_CHECKING:
    from typing import IO

    import aiohttp

    from robotgate import Response, RobotGateError, Verdict

Row: TypeAlias = dict[str, str | int | float | None]


class OutputError(Exception):
    """A row could not be written; the cause is an `OSError`."""


class RowWriter:
    """Writes rows, each at once: what is done stays done, whatever comes next."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        """Write one line.

        Raises:
            OutputError: the stream does not take it.
        """
        try:
            self._stream.write(json.dumps(row) + "\n")
            self._stream.flush()
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}") from error


def fetched(url: str, response: Response) -> Row:
    """The row of a page that was fetched, whatever its status."""
    return {
        **_row(url, Outcome.FETCHED),
        "status": response.status,
        "final_url": response.url,
        "bytes": len(response.body),
        "waited": round(response.waited, 3),
        "elapsed": round(response.elapsed, 3),
    }


def invalid(url: str, error: InvalidURLError) -> Row:
    """The row of a URL that nobody can fetch, or that must not be."""
    return {**_row(url, Outcome.INVALID), "error": type(error).__name__, "message": in_our_words(error)}


def in_our_words(error: RobotGateError) -> str:
    """What is wrong, with the command line's options where the error names the library's."""
    text = error.problem if isinstance(error, InvalidURLError) else str(error)
    return with_our_options(text)


def with_our_options(text: str) -> str:
    """A text of the library's, with the command line's option where it names its own."""
    return text.replace("allow_private_addresses=True", "--allow-private-addresses")


def refused(url: str, error: aiohttp.ClientError | TimeoutError | OSError) -> tuple[Outcome, Row]:
    """The outcome and the row of a page that was not fetched."""
    match error:
        case DisallowedError():
            return Outcome.BLOCKED, _row(url, Outcome.BLOCKED) | _verdict_columns(error.verdict)
        case InvalidURLError():
            return Outcome.INVALID, invalid(url, error)
        case TooSoonError():
            late: Row = {"retry_after": round(error.retry_after, 3)}
            return Outcome.TOO_SOON, _row(url, Outcome.TOO_SOON) | late
        case HostUnavailableError():
            why: Row = {"retry_after": round(error.retry_after, 3), "message": with_our_options(error.cause)}
            columns = {} if error.verdict is None else _verdict_columns(error.verdict)
            return Outcome.UNAVAILABLE, _row(url, Outcome.UNAVAILABLE) | columns | why
        case _:
            failure: Row = {"error": type(error).__name__, "message": str(error) or "no answer in time"}
            return Outcome.FAILED, _row(url, Outcome.FAILED) | failure


def _row(url: str, outcome: Outcome) -> Row:
    return {
        "url": url,
        "outcome": outcome.value,
        "status": None,
        "final_url": None,
        "bytes": None,
        "waited": None,
        "elapsed": None,
    }


def _verdict_columns(verdict: Verdict) -> Row:
    rule = verdict.rule
    return {
        "final_url": verdict.url,
        "reason": verdict.reason.value,
        "rule": None if rule is None else str(rule),
        "line": None if rule is None else rule.line,
        "robots_url": verdict.robots_url,
    }
