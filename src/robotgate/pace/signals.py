"""What an answer asks about our speed, from its status and its headers: `heard`; from its body: `is_overuse`.

Read are Retry-After on any status (RFC 9110 §10.2.3), and the quotas that a server reports, in four forms::

    RateLimit: "default";r=50;t=30                       draft-ietf-httpapi-ratelimit-headers-08 and later
    RateLimit: limit=100, remaining=50, reset=30         draft -07
    RateLimit-Remaining: 50, RateLimit-Reset: 30         draft -06 and before
    X-RateLimit-Remaining: 50, X-RateLimit-Reset: 30     older: seconds, seconds since the epoch, or a date

A quota that is spent asks for a pause until it is renewed. One of which few requests are left asks for these to be
spread over the time until then. Any other asks for nothing: a quota of 10,000 in 1,000 seconds does not invite 1,000
requests a second, and nothing that a server sends makes a request start sooner.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from multidict import istr

from robotgate.clock import DAY, parse_date, parse_http_date
from robotgate.pace.state import GOOD_BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TELLING_STATUSES: Final = frozenset({429, 503})
"""Statuses by which a server asks for less (RFC 6585 §4, RFC 9110 §15.6.4)."""
FORBIDDEN: Final = 403
"""Some servers answer this where a quota is spent."""
FEW_LEFT: Final = 10
"""Requests left of a quota, from which on they are spread."""
PROBLEM_TYPES: Final = frozenset({"application/problem+json", "application/json"})
"""Media types whose bodies may name a problem."""
MAX_PROBLEM: Final = 8_192
"""Bytes of a body that may name one."""
_HINT: Final = b"http-problem-types#"
_OVERUSE: Final = re.compile(
    r"https?://(?:www\.)?iana\.org/assignments/http-problem-types"
    r"#(?:quota-exceeded|temporary-reduced-capacity|abnormal-usage-detected)"
)
MAX_PAUSE: Final = float(DAY)
"""Seconds; what asks for longer is taken as this."""
MAX_HEADER: Final = 100
"""Characters of a Retry-After that are read."""
MAX_FIELD: Final = 2000
"""Characters of all lines of a field of quotas; a longer one is malformed."""
EPOCH_ABOVE: Final = 1e9
"""A number above this is an instant, in seconds since the epoch; one above a thousand times this in milliseconds."""

_RETRY: Final = "retry-after"
_QUOTAS: Final = "ratelimit"
_POLICY: Final = "ratelimit-policy"
_LEFT: Final = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
# An `istr` is looked up in a multidict without being folded each time.
_NAMES: Final = tuple(
    istr(name)
    for name in (
        "Retry-After",
        "RateLimit",
        "RateLimit-Remaining",
        "X-RateLimit-Remaining",
        "X-Rate-Limit-Remaining",
    )
)
_SPELT: Final = {name.lower(): str(name) for name in _NAMES}

_COUNTS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[ \t]*,[ \t]*[0-9]+(?:\.[0-9]+)?)*", re.ASCII)
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_ITEM: Final = re.compile(
    rf"[ \t]*(?P<name>{_TEXT}|[A-Za-z*][\w.*:/%-]*)"
    rf"(?P<parameters>(?:[ \t]*;[ \t]*[a-z*][a-z0-9_.*-]*(?:=(?:{_TEXT}|:[A-Za-z0-9+/=]*:|[^;,\" \t]+))?)*)[ \t]*",
    re.ASCII,
)
"""One member of a structured field's list (RFC 9651 §3.1): a string or a token, and its parameters."""
_PARAMETER: Final = re.compile(rf";[ \t]*([a-z*][a-z0-9_.*-]*)=({_TEXT}|:[^:]*:|[^;,\" \t]+)", re.ASCII)
_MEMBER: Final = re.compile(r"[ \t]*(limit|remaining|reset|policy)[ \t]*=[ \t]*([^,]*)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What an answer says about our speed. Durations count from the answer."""

    tells_off: bool = False
    """Whether it says that we were too fast."""
    pause: float | None = None
    """Seconds until the next request may start; None when it does not say."""
    spacing: float = 0.0
    """Seconds until the next request may start, for the few that are left of a quota to last until it is renewed."""
    left: int | None = None
    """Requests left of the quota that asks for the most; None when no quota is reported."""
    renewed_after: float | None = None
    """Seconds until that quota is renewed; None when it does not say."""
    field: str = ""
    """The header that asks for the most, as ``RateLimit``."""
    malformed: int = 0
    """Fields that cannot be read, and are left out."""


NOTHING_HEARD: Final = Heard()
TOLD_OFF: Final = Heard(tells_off=True)
"""A status alone."""


@dataclass(frozen=True, slots=True)
class _Quota:
    left: int
    renewed_after: float | None

    @property
    def spacing(self) -> float:
        """Seconds between requests that make it last until it is renewed, and leave none of it unused."""
        return (self.renewed_after or 0.0) / (self.left + 1)


class _MalformedError(Exception):
    """A field is not in its form."""


def is_spoken(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer may ask for anything, so that `heard` has to look.

    Args:
        headers: names in any case: a multidict of aiohttp or httpx.
    """
    if status in TELLING_STATUSES:
        return True
    for name in _NAMES:  # noqa: SIM110  # `any` takes twice as long.
        if name in headers:
            return True
    return False


def heard(status: int, headers: Mapping[str, str] | None, *, now: float, quotas: bool = True) -> Heard:
    """What an answer says about our speed.

    Args:
        headers: names in any case; of a multidict, all lines are read.
        quotas: whether fields of quotas count; Retry-After always does.
    """
    lines: dict[str, list[str]] = {}
    for name, value in headers.items() if headers is not None else ():
        lines.setdefault(name.lower(), []).append(value)
    if lines.keys().isdisjoint(_SPELT):
        return TOLD_OFF if status in TELLING_STATUSES else NOTHING_HEARD
    told, malformed = _quotas(lines, now) if quotas else ([], 0)
    # Each wait that is asked for, and by which field; the longest counts.
    pauses = [(quota.renewed_after, field) for quota, field in told if not quota.left and quota.renewed_after]
    pauses += [
        (seconds, "Retry-After")
        for value in lines.get(_RETRY, ())
        if (seconds := parse_retry_after(value, now=now)) is not None
    ]
    spacings = [(quota.spacing, field) for quota, field in told if 0 < quota.left <= FEW_LEFT]
    pause, spacing = max(pauses, default=(None, "")), max(spacings, default=(0.0, ""))
    quota = max((quota for quota, _ in told), key=lambda quota: (not quota.left, quota.spacing), default=None)
    return Heard(
        tells_off=status in TELLING_STATUSES
        or (status == FORBIDDEN and quota is not None and not quota.left),
        pause=pause[0],
        spacing=spacing[0],
        left=None if quota is None else quota.left,
        renewed_after=None if quota is None else quota.renewed_after,
        field=pause[1] or spacing[1],
        malformed=malformed,
    )


def is_overuse(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the body of an error says that we were too fast, where its status does not.

    It does by three problem types of draft-ietf-httpapi-ratelimit-headers, in JSON (RFC 9457): quota-exceeded,
    temporary-reduced-capacity and abnormal-usage-detected.

    Args:
        headers: names in any case.
        body: decoded, and whole; a longer one than 8 KiB is not looked at.
    """
    if status < GOOD_BELOW or status in TELLING_STATUSES or not len(_HINT) < len(body) <= MAX_PROBLEM:
        return False
    if _HINT not in body or not any(
        name.lower() == "content-type" and value.partition(";")[0].strip().lower() in PROBLEM_TYPES
        for name, value in headers.items()
    ):
        return False
    try:
        problem: object = json.loads(body)
    except (ValueError, RecursionError):
        return False
    kind: object = problem.get("type") if isinstance(problem, dict) else None
    return isinstance(kind, str) and _OVERUSE.fullmatch(kind) is not None


def parse_retry_after(value: str, *, now: float) -> float | None:
    """The seconds a Retry-After header asks for (RFC 9110 §10.2.3), as a count or as a date; at most 24 hours.

    None when it cannot be read. A date in the past asks for nothing: 0. Of counts that a proxy
    has joined with commas, the longest.
    """
    text = value.strip()[:MAX_HEADER]
    if _COUNTS.fullmatch(text):
        return min(max(map(float, text.split(","))), MAX_PAUSE)
    date = parse_http_date(text)
    return None if date is None else min(max(date.timestamp() - now, 0.0), MAX_PAUSE)


def retry_after_of(headers: Mapping[str, str], *, now: float) -> float | None:
    """As `parse_retry_after`, from a response's headers: the longest of all Retry-After lines."""
    return heard(0, headers, now=now, quotas=False).pause


def _quotas(lines: Mapping[str, list[str]], now: float) -> tuple[list[tuple[_Quota, str]], int]:
    """Return the quotas that are reported, each with its field, and how many fields are malformed."""
    found: list[tuple[_Quota, str]] = []
    malformed = 0
    for name in (_QUOTAS, *_LEFT):
        if name not in lines:
            continue
        text = ", ".join(lines[name])
        try:
            read = list(_reported(text, lines) if name == _QUOTAS else _counted(text, name, lines, now))
        except _MalformedError:
            malformed += 1
        else:
            found += ((quota, _SPELT[name]) for quota in read)
    return found, malformed


def _reported(text: str, lines: Mapping[str, list[str]]) -> Iterator[_Quota]:
    """Read a RateLimit field, of draft -08 and later or of -07."""
    if len(text) > MAX_FIELD:
        raise _MalformedError
    members = _MEMBER.match(text)
    if members is not None:
        told = {each[1]: each[2] for part in text.split(",") if (each := _MEMBER.fullmatch(part))}
        if "remaining" not in told:
            raise _MalformedError
        yield _Quota(_whole(told["remaining"]), _seconds(told["reset"]) if "reset" in told else None)
        return
    others = {
        name for name, given in _policies(lines) if given.get("qu", '"requests"').strip('"') != "requests"
    }
    for name, given in _items(text):
        if name not in others and "r" in given:
            yield _Quota(_whole(given["r"]), _seconds(given["t"]) if "t" in given else None)


def _policies(lines: Mapping[str, list[str]]) -> Iterator[tuple[str, dict[str, str]]]:
    # What cannot be read says nothing of units.
    text = ", ".join(lines.get(_POLICY, ()))
    if len(text) > MAX_FIELD:
        return
    try:
        yield from _items(text) if text else ()
    except _MalformedError:
        return


def _items(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Read a structured field's list of strings with parameters (RFC 9651 §3.1)."""
    start = 0
    while True:
        item = _ITEM.match(text, start)
        if item is None or (item.end() < len(text) and text[item.end()] != ","):
            raise _MalformedError
        yield item["name"], dict(_PARAMETER.findall(item["parameters"]))
        if item.end() == len(text):
            return
        start = item.end() + 1


def _counted(text: str, name: str, lines: Mapping[str, list[str]], now: float) -> Iterator[_Quota]:
    """Read a field of what is left, and the field beside it that says until when."""
    resets = lines.get(name.replace("remaining", "reset"), ())
    left = min(_whole(part) for part in text[:MAX_FIELD].split(","))
    yield _Quota(left, max((_until(value.strip(), now) for value in resets), default=None))


def _until(text: str, now: float) -> float:
    """Return the seconds until an instant that is given as seconds, seconds since the epoch, or a date."""
    if _NUMBER.fullmatch(text):
        seconds = float(text)
        if seconds > EPOCH_ABOVE:
            seconds = (seconds / 1000 if seconds > EPOCH_ABOVE * 1000 else seconds) - now
        return min(max(seconds, 0.0), MAX_PAUSE)
    date = parse_date(text)
    if date is None:
        raise _MalformedError
    return min(max(date.timestamp() - now, 0.0), MAX_PAUSE)


def _whole(text: str) -> int:
    if not (text := text.strip()).isascii() or not text.isdigit() or len(text) > 15:
        raise _MalformedError
    return int(text)


def _seconds(text: str) -> float:
    if not _NUMBER.fullmatch(text := text.strip()):
        raise _MalformedError
    return min(float(text), MAX_PAUSE)
