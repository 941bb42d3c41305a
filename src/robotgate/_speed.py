"""The words for speed: what a file may ask of it besides a Crawl-delay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VisitTime:
    """A Visit-time: when, each day, visits are welcome."""

    start_minute: int
    """Minutes after midnight UTC, 0 to 1440."""
    end_minute: int
    """The last minute, included; before `start_minute` where the hours run past midnight."""


@dataclass(frozen=True, slots=True)
class RequestRate:
    """A Request-rate: at most so many documents in so many seconds."""

    documents: int
    """At least 1."""
    seconds: int
    """At least 1."""
    start_minute: int | None = None
    """Minutes after midnight UTC from which the rate holds; None for a rate that always holds."""
    end_minute: int | None = None
    """The last minute, included; before `start_minute` where the hours run past midnight."""

    @property
    def seconds_per_document(self) -> float:
        """The delay that keeps to the rate: seconds."""
        return self.seconds / self.documents
