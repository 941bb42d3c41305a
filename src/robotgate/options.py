"""The operator's options: for the whole gate, for single hosts, and the checks that refuse senseless values by name."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, EnumType
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.errors import OptionError
from robotgate.urls import HostPattern, keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import UnionType


class ByOption(Enum):
    """Stands for an argument that is left to the gate's options."""

    BY_OPTION = "by option"


BY_OPTION: Final = ByOption.BY_OPTION


def check_seconds(name: str, value: object) -> None:
    """Check a duration, or a factor.

    Raises:
        OptionError: `value` is not a finite number from 0 on.
    """
    if not _is_number(value):
        raise OptionError(f"{name}={value!r}: give a finite number, 0 or more")


def check_patience(name: str, value: object) -> None:
    """Check a limit of a wait, or an instant.

    Raises:
        OptionError: `value` is neither a number from 0 on nor infinity.
    """
    if not _is_number(value, most=math.inf):
        raise OptionError(f"{name}={value!r}: give a number of seconds, 0 or more; math.inf is without limit")


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Check a whole number.

    Raises:
        OptionError: `value` is not a whole number, or under `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        bound = "" if least is None else f", {least} or more"
        raise OptionError(f"{name}={value!r}: give a whole number{bound}")


def check_kind(name: str, value: object, kind: type | UnionType) -> None:
    """Check what kind of object is given.

    Args:
        kind: a class, a protocol, or a union such as ``Clock | None``.

    Raises:
        OptionError: `value` is of another kind.
    """
    if not isinstance(value, kind) or isinstance(value, type):
        choices = map(str, kind) if isinstance(kind, EnumType) else [getattr(kind, "__name__", str(kind))]
        raise OptionError(f"{name}={value!r}: give {' or '.join(choices)}")


check_count: Final = partial(check_whole, least=1)
check_bool: Final = partial(check_kind, kind=bool)


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: a name is unknown, as Python raises it.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; known are {', '.join(sorted(known))}")


def check_callback(name: str, value: object) -> None:
    """Check a callback.

    Raises:
        OptionError: `value` is not callable, or is a coroutine function, whose result nothing would await.
    """
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise OptionError(f"{name}={value!r}: give a plain function; it may start a task")


def unless_none(check: Callable[[str, object], object], name: str, value: object) -> None:
    """Check a value unless it is None.

    Raises:
        OptionError: as the check does.
    """
    if value is not None:
        check(name, value)


def _is_number(value: object, *, most: float = sys.float_info.max) -> bool:
    # Compared, not converted: an int may be larger than every float. NaN fails every comparison.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


class StatusPolicy(Enum):
    """What a robots.txt status means where RFC 9309 leaves it open."""

    DEFAULT = "default"
    """401 and 403 close the site, as in the 1990s; failures close it until it answers."""
    RFC9309 = "rfc9309"
    """As the default, but 401 and 403 open the site, as every 4xx may."""
    GOOGLE = "google"
    """As Google documents its crawlers: 4xx open; after twelve hours of failures without a copy, open."""
    CLASSIC = "classic"
    """The 1990s: 401 and 403 close, 404 and 410 open, anything else means to try again later."""
    ARCHIVE = "archive"
    """For archives that have the right to it: failures, 401 and 403 open the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """When a robots.txt is requested again while it is still fresh.

    The first trigger that is met counts. Triggers only add requests: the gate's own refresh at 75 to 85 % of a file's
    lifetime stays, and so do the pauses after failed requests. Such a request runs in the background, and the
    known rules hold until it has ended.

    Raises:
        OptionError: a value makes no sense, or none was given.
    """

    visits: int | None = None
    """Requests sent to the host since the file was last requested, or loaded from the store."""
    age: float | None = None
    """Seconds since the file was last requested."""
    bytes_ratio: float | None = None
    """Bytes read from the host since then, as a multiple of the file's size; a file of less than 1 KiB counts as
    1 KiB."""

    def __post_init__(self) -> None:
        if self.visits is None and self.age is None and self.bytes_ratio is None:
            raise OptionError("Recheck(): give visits, age or bytes_ratio; without any, nothing is rechecked")
        unless_none(check_count, "visits", self.visits)
        for name, value in (("age", self.age), ("bytes_ratio", self.bytes_ratio)):
            unless_none(check_seconds, name, value)
            if value == 0:
                raise OptionError(f"{name}={value!r}: give more than 0, or it is requested all the time")


MAX_REQUESTS: Final = 1_000_000
"""Every start is kept in memory until it no longer counts."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many starts in any window of so many seconds."""

    requests: int
    seconds: float


NO_RATE: Final = (1, 1e-9)
"""The rate of an override that lifts the gate's: no clock distinguishes instants this close."""


def rate_of(name: str, value: object) -> Rate | None:
    """The rate of an option such as ``(600, 3600)``; None for None and for `NO_RATE`.

    Raises:
        OptionError: the value is none of these.
    """
    if value is None or value == NO_RATE:
        return None
    if isinstance(value, tuple | list) and len(value) == 2:
        requests, seconds = value
        is_count = isinstance(requests, int) and _is_number(requests, most=MAX_REQUESTS)
        if is_count and _is_number(seconds) and requests > 0 and seconds > 0:
            return Rate(requests, float(seconds))
    raise OptionError(
        f"{name}={value!r}: give a whole number of requests, 1 to {MAX_REQUESTS}, and a finite number of seconds,"
        " more than 0, such as (600, 3600), or None"
    )


CHECKS: Final[Mapping[str, Callable[[str, object], object]]] = {
    **dict.fromkeys(("delay", "latency_factor"), check_seconds),
    **dict.fromkeys(("max_delay", "max_block", "give_up_after"), check_patience),
    **dict.fromkeys(("max_wait", "middleware_timeout"), partial(unless_none, check_seconds)),
    **dict.fromkeys(("rate", "total_rate"), rate_of),
    **dict.fromkeys(("concurrency_per_host", "concurrency", "robots_concurrency"), check_count),
    **dict.fromkeys(("max_bytes", "max_hosts"), check_count),
    **dict.fromkeys(("obey_crawl_delay", "obey_visit_time"), check_bool),
    **dict.fromkeys(("ignore_robots", "allow_private_addresses", "tdmrep"), check_bool),
    "status_policy": partial(check_kind, kind=StatusPolicy),
    "recheck": partial(check_kind, kind=Recheck | None),
}
"""How the value of an option is checked, by its name: of a gate's and of an override's."""


def check_options(given: Mapping[str, object]) -> None:
    """Check options by name; others than those of `CHECKS` are left out.

    Raises:
        OptionError: a value makes no sense; the message names the option.
    """
    for name, check in CHECKS.items():
        if name in given:
            check(name, given[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options that hold for one host; `HostOverride` describes each. The defaults are those of `RobotGate`."""

    delay: float = 1.0
    rate: Rate | None = None
    concurrency: int = 1
    max_delay: float = 60.0
    max_block: float = 300.0
    give_up_after: float = 60.0
    latency_factor: float = 0.0
    obey_crawl_delay: bool = True
    obey_visit_time: bool = False
    status_policy: StatusPolicy = StatusPolicy.DEFAULT
    ignore_robots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverride:
    """Options for some hosts. None takes the value of the next less specific pattern, and in the end that of the gate.

    Raises:
        OptionError: a value makes no sense; the message names the field.
    """

    delay: float | None = None
    """Least seconds between the end of one response and the next request."""
    rate: tuple[int, float] | None = None
    """At most so many requests in so many seconds, counted from when it is set; `NO_RATE` lifts the gate's."""
    concurrency: int | None = None
    """Most requests at once."""
    max_delay: float | None = None
    """Seconds; a site that asks for a longer delay is refused. `math.inf` waits without limit."""
    max_block: float | None = None
    """Seconds; a turn of a host that is blocked for longer is refused at once. `math.inf` waits without limit."""
    give_up_after: float | None = None
    """Seconds for which turns wait for a host that cannot be reached; 0 refuses them at once."""
    latency_factor: float | None = None
    """The delay is at least this multiple of the seconds that the host's responses take to begin; 0 ignores them."""
    obey_crawl_delay: bool | None = None
    """Whether Crawl-delay and Request-rate count."""
    obey_visit_time: bool | None = None
    """Whether pages are requested only within the hours of Visit-time."""
    status_policy: StatusPolicy | None = None
    """What a robots.txt that cannot be read means for the site."""
    ignore_robots: bool | None = None
    """Whether robots.txt is neither requested nor obeyed: for your own hosts."""

    def __post_init__(self) -> None:
        for field in fields(self):
            unless_none(CHECKS[field.name], field.name, getattr(self, field.name))

    @classmethod
    def own(cls) -> HostOverride:
        """For your own host: no robots.txt, no delay and no rate. A 429 or 503 still blocks it, and the gate's
        concurrency holds.
        """
        return cls(delay=0.0, rate=NO_RATE, latency_factor=0.0, ignore_robots=True)

    def over(self, options: HostOptions) -> HostOptions:
        """The options, with the values of this override where it has any."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        given = {name: value for name, value in values if value is not None}
        if self.rate is not None:
            given["rate"] = rate_of("rate", self.rate)
        return replace(options, **given)


class Overrides:
    """The options of every host. Each field comes from the host's own override, else from that of the longest domain
    that it is below, and so on up to ``*``, else from the gate's options.

    Args:
        defaults: the gate's options.
        given: an override for each pattern.

    Raises:
        OptionError: a pattern or an override makes no sense, or the delay of some host is over its `max_delay`.
    """

    def __init__(self, defaults: HostOptions, given: Mapping[str, HostOverride]) -> None:
        check_kind("overrides", given, Mapping)
        _check_delay("", defaults)
        self._defaults = defaults
        self._given: dict[str, HostOverride] = {}
        for text, override in given.items():
            pattern = _read(text, override)
            if pattern.key in self._given:
                raise OptionError(f"overrides[{text!r}]: {str(pattern)!r} is given twice, in two spellings")
            self._given[pattern.key] = override
        # Computed once for each pattern: hosts with the same most specific pattern have the same options.
        self._settled = {key: self._settle(key, self._given) for key in self._given}

    def set(self, pattern: str, override: HostOverride | None) -> HostPattern:
        """Replace the override of a pattern; None removes it. Returns the pattern.

        Raises:
            OptionError: as in the constructor; nothing has changed then.
        """
        changed = HostPattern.parse(pattern) if override is None else _read(pattern, override)
        given = {key: other for key, other in self._given.items() if key != changed.key}
        if override is not None:
            given[changed.key] = override
        self._settled = {
            key: self._settle(key, given) if changed.matches(key) else self._settled[key] for key in given
        }
        self._given = given
        return changed

    def options(self, host: str) -> HostOptions:
        """The options of a host, given in the spelling of `Origin.host`."""
        if not self._settled:
            return self._defaults
        return next((self._settled[key] for key in keys(host) if key in self._settled), self._defaults)

    def _settle(self, key: str, given: Mapping[str, HostOverride]) -> HostOptions:
        options = self._defaults
        for above in reversed(list(keys(key))):
            if above in given:
                options = given[above].over(options)
        _check_delay(f"overrides[{str(HostPattern(key))!r}]: ", options)
        return options


def _check_delay(where: str, options: HostOptions) -> None:
    if options.delay > options.max_delay:
        raise OptionError(
            f"{where}delay={options.delay!r} is over max_delay={options.max_delay!r}: every request would be refused"
        )


class HostBlocks(dict[HostPattern, float]):
    """The hosts that the operator blocks, and until when, in seconds since the epoch: `math.inf` until lifted."""

    def until_at(self, host: str) -> float:
        """Until when a host, given in the spelling of `Origin.host`, is blocked; 0 or a past instant when it is not.

        Of several patterns, the latest instant counts.
        """
        return max(self.get(HostPattern(key), 0.0) for key in keys(host)) if self else 0.0

    def prune(self, now: float) -> None:
        """Drop the blocks that are over."""
        for pattern in [pattern for pattern, until_at in self.items() if until_at <= now]:
            del self[pattern]


def _read(text: str, override: HostOverride) -> HostPattern:
    try:
        pattern = HostPattern.parse(text)
    except OptionError as error:
        raise OptionError(f"overrides: {error}") from error
    check_kind(f"overrides[{text!r}]", override, HostOverride)
    if override.ignore_robots and not pattern.key:
        raise OptionError(f"overrides[{text!r}].ignore_robots=True: name the hosts that are your own")
    return pattern


MAX_HOSTS: Final = 100_000
"""The default of `max_hosts`, for gates and stores."""
