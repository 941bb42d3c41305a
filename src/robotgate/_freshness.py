"""For how long an answer's headers let it be used, and what asks whether it still holds (RFC 9111 §4.2, §4.3).

Pure functions of header texts, as hostile as any server cares to send them, and an instant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from robotgate._status import MAX_LIFETIME, MIN_LIFETIME

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DELTA: Final = 2.0**31
"""Seconds; a longer count is taken as this (RFC 9111 §1.2.2)."""
MAX_HEADER: Final = 1000
"""Characters of Cache-Control that are looked at."""
MAX_VALIDATOR: Final = 200
"""Characters; a longer ETag or date is not sent back."""

_DIRECTIVE: Final = re.compile(r"([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:\"([^\"]*)\"?|([^\s,;\"]*)))?", re.ASCII)
_ENTITY_TAG: Final = re.compile(r"(?:W/)?\"[\x21\x23-\x7e]*\"")
_HTTP_DATE: Final = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Validators:
    """What tells one copy of a file from another (RFC 9110 §8.8)."""

    etag: str | None
    last_modified: str | None

    def conditions(self) -> Mapping[str, str]:
        """The headers that ask for the file only if it is another; none where nothing can be sent back safely.

        An ETag that is not written as one is left out: ``*`` would match whatever there is.
        """
        headers = {}
        if self.etag is not None and len(self.etag) <= MAX_VALIDATOR and _ENTITY_TAG.fullmatch(self.etag):
            headers["If-None-Match"] = self.etag
        if self.last_modified is not None and _can_be_sent_back(self.last_modified):
            headers["If-Modified-Since"] = self.last_modified
        return headers

    def may_be_of_one_copy_with(self, other: Validators) -> bool:
        """Whether nothing says that the two belong to different copies; ETags are compared weakly (RFC 9111 §4.3.4)."""
        if self.etag is not None and other.etag is not None:
            return self.etag.removeprefix("W/") == other.etag.removeprefix("W/")
        if self.last_modified is not None and other.last_modified is not None:
            return self.last_modified == other.last_modified
        return True

    def renewed_by(self, other: Validators) -> Validators:
        """Those of the same copy, where the other has news of them."""
        return Validators(other.etag or self.etag, other.last_modified or self.last_modified)


def granted_lifetime(
    *, cache_control: str | None, expires: str | None, date: str | None, age: str | None, now: float
) -> float | None:
    """The seconds from now on that an answer's headers let it be used; None when they do not say.

    Cache-Control goes before Expires (RFC 9111 §5.3), and what lies in caches on the way has used up a part of either
    (§4.2.3). ``s-maxage`` is for caches that many share. What the answer took to arrive is not counted: it is no more
    than the request may take.
    """
    granted = max_age(cache_control)
    if granted is None and expires is not None:
        granted = _until(expires, date, now)
    return None if granted is None else max(granted - _age(age), 0.0)


def clamped(lifetime: float) -> float:
    """A lifetime within 5 min and 24 h."""
    return min(max(lifetime, MIN_LIFETIME), MAX_LIFETIME)


def max_age(cache_control: str | None) -> float | None:
    """The seconds a Cache-Control header grants: 0 for ``no-store`` and ``no-cache``; None when it does not say.

    What cannot be read is taken as stale, and of repeated values the first counts (RFC 9111 §4.2.1).
    """
    if cache_control is None:
        return None
    granted: float | None = None
    for name, quoted, bare in _DIRECTIVE.findall(cache_control[:MAX_HEADER].lower()):
        if name in ("no-store", "no-cache"):
            return 0.0
        if name == "max-age" and granted is None:
            granted = _seconds(quoted or bare) or 0.0
    return granted


def http_date(text: str) -> float | None:
    """The instant a date names (RFC 9110 §5.6.7), in seconds since the epoch; None when it cannot be read."""
    try:
        moment = parsedate_to_datetime(text[:MAX_VALIDATOR])
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _until(expires: str, date: str | None, now: float) -> float:
    """Seconds from an answer's own instant to its end: its clock may be wrong, but it is one clock."""
    at = http_date(expires)
    if at is None:
        # "0", as many write it, has expired (RFC 9111 §5.3).
        return 0.0
    said_at = None if date is None else http_date(date)
    return at - (now if said_at is None else said_at)


def _age(age: str | None) -> float:
    """What Age says; of a list the first counts, and what is no number is passed over (RFC 9111 §5.1)."""
    if age is None:
        return 0.0
    return _seconds(age[:MAX_HEADER].partition(",")[0]) or 0.0


def _seconds(text: str) -> float | None:
    text = text.strip()
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        return None
    return min(float(text), MAX_DELTA)


def _can_be_sent_back(date: str) -> bool:
    return (
        len(date) <= MAX_VALIDATOR and _HTTP_DATE.fullmatch(date) is not None and http_date(date) is not None
    )
