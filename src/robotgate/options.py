"""The operator's options: for the whole gate, for single hosts, and the checks that refuse senseless values by name."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate.errors import OptionError
from robotgate.urls import HostPattern, PaceKey, keys, pace_key_function

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from robotgate.urls import PaceKeyPolicy


def check_number(name: str, value: object) -> None:
    """Check a factor.

    Raises:
        OptionError: `value` is not a finite number from 0 on.
    """
    if not _is_amount(value, most=sys.float_info.max):
        raise OptionError(f"{name}={value!r}: give a finite number, 0 or more")


def check_seconds(name: str, value: object) -> None:
    """Check a duration.

    Raises:
        OptionError: `value` is not a finite number of seconds from 0 on.
    """
    if not _is_amount(value, most=sys.float_info.max):
        raise OptionError(f"{name}={value!r}: give a finite number of seconds, 0 or more")


def check_patience(name: str, value: object) -> None:
    """Check a limit of a wait.

    Raises:
        OptionError: `value` is neither a number of seconds from 0 on nor infinity.
    """
    if not _is_amount(value, most=math.inf):
        raise OptionError(
            f"{name}={value!r}: give a number of seconds, 0 or more; math.inf waits without limit"
        )


def check_instant(name: str, value: object) -> None:
    """Check an instant.

    Raises:
        OptionError: `value` is neither a number of seconds since the epoch nor infinity.
    """
    if not _is_amount(value, most=math.inf):
        raise OptionError(f"{name}={value!r}: give seconds since the epoch; math.inf for no end, 0 for now")


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Check a whole number.

    Raises:
        OptionError: `value` is not a whole number, or under `least`.
    """
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return
    bound = "" if least is None else f", {least} or more"
    raise OptionError(f"{name}={value!r}: give a whole number{bound}")


def check_flag(name: str, value: object) -> None:
    """Check a flag.

    Raises:
        OptionError: `value` is not a bool.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name}={value!r}: give True or False")


def check_choice(name: str, value: object, choices: type[Enum]) -> None:
    """Check a member of an enumeration.

    Raises:
        OptionError: `value` is not one.
    """
    if not isinstance(value, choices):
        raise OptionError(f"{name}={value!r}: give one of {', '.join(map(str, choices))}")


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: a name is unknown, as Python raises it.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; known are {', '.join(sorted(known))}")


def check_part(name: str, value: object, kind: type) -> None:
    """Check an object that the operator passes; None is permitted.

    Raises:
        OptionError: `value` is not an instance of this class, or lacks a method of this protocol.
    """
    if value is None or (isinstance(value, kind) and not isinstance(value, type)):
        return
    raise OptionError(
        f"{name}={value!r}: give {'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    )


def check_text(name: str, value: object) -> None:
    """Check a text.

    Raises:
        OptionError: `value` is not a str.
    """
    if not isinstance(value, str):
        raise OptionError(f"{name}={value!r}: give a str")


def check_callback(name: str, value: object) -> None:
    """Check a callback.

    Raises:
        OptionError: `value` is not callable, or is a coroutine function, whose result nothing would await.
    """
    if not callable(value):
        raise OptionError(f"{name}={value!r}: give a function")
    if inspect.iscoroutinefunction(value):
        raise OptionError(f"{name}={value!r}: give a plain function; it may start a task")


def unless_none(check: Callable[[str, object], object], name: str, value: object) -> None:
    """Check a value unless it is None.

    Raises:
        OptionError: as the check does.
    """
    if value is not None:
        check(name, value)


def _is_amount(value: object, *, most: float) -> bool:
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
    """When a robots.txt is requested again while it is still fresh, as in ``LWP::ElephantUA``.

    The first trigger that is met counts. Triggers only add requests: the gate's own refresh at three quarters of a
    file's lifetime stays, and so do the pauses after failed requests. Such a request runs in the background, and the
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
        if self.visits is not None:
            check_whole("visits", self.visits, least=1)
        for name in ("age", "bytes_ratio"):
            value = getattr(self, name)
            unless_none(check_seconds, name, value)
            if value == 0:
                raise OptionError(
                    f"{name}={value!r}: give more than 0; the file would be requested all the time"
                )


MAX_REQUESTS: Final = 1_000_000
"""Every start is kept in memory until it no longer counts."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many starts in any window of so many seconds."""

    requests: int
    seconds: float


def rate_of(name: str, value: object) -> Rate | None:
    """The rate of an option such as ``(600, 3600)``; None for None.

    Raises:
        OptionError: the value is neither.
    """
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise OptionError(
            f"{name}={value!r}: give numbers of requests and of seconds, such as (600, 3600), or None"
        )
    requests, seconds = value
    if isinstance(requests, bool) or not isinstance(requests, int) or not 1 <= requests <= MAX_REQUESTS:
        raise OptionError(f"{name}={value!r}: give a whole number of requests, 1 to {MAX_REQUESTS}")
    if not _is_duration(seconds):
        raise OptionError(f"{name}={value!r}: give a finite number of seconds, more than 0")
    return Rate(requests, float(seconds))


def _is_duration(value: object) -> bool:
    # As in `_is_amount`.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


Value = TypeVar("Value")

MANY_BLOCKS: Final = 64
"""Blocks that are kept without a look for those that are over."""
NO_RATE: Final = (1, 1e-9)
"""The rate of an override that lifts the gate's: no clock distinguishes instants this close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options that hold for one host; `HostOverride` describes each."""

    delay: float
    rate: Rate | None
    concurrency: int
    max_delay: float
    max_block: float
    latency_factor: float
    obey_crawl_delay: bool
    obey_visit_time: bool
    status_policy: StatusPolicy
    ignore_robots: bool


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
        unless_none(check_seconds, "delay", self.delay)
        unless_none(rate_of, "rate", self.rate)
        if self.concurrency is not None:
            check_whole("concurrency", self.concurrency, least=1)
        unless_none(check_patience, "max_delay", self.max_delay)
        unless_none(check_patience, "max_block", self.max_block)
        unless_none(check_number, "latency_factor", self.latency_factor)
        for name in ("obey_crawl_delay", "obey_visit_time", "ignore_robots"):
            unless_none(check_flag, name, getattr(self, name))
        if self.status_policy is not None:
            check_choice("status_policy", self.status_policy, StatusPolicy)

    @classmethod
    def own(cls) -> HostOverride:
        """For your own host: no robots.txt, no delay and no rate. A 429 or 503 still blocks it, and the gate's
        concurrency holds.
        """
        return cls(
            delay=0.0,
            rate=NO_RATE,
            latency_factor=0.0,
            obey_crawl_delay=False,
            obey_visit_time=False,
            ignore_robots=True,
        )

    def over(self, options: HostOptions) -> HostOptions:
        """The options, with the values of this override where it has any."""
        return HostOptions(
            delay=_first(self.delay, options.delay),
            rate=options.rate if self.rate is None else _settled_rate(self.rate),
            concurrency=_first(self.concurrency, options.concurrency),
            max_delay=_first(self.max_delay, options.max_delay),
            max_block=_first(self.max_block, options.max_block),
            latency_factor=_first(self.latency_factor, options.latency_factor),
            obey_crawl_delay=_first(self.obey_crawl_delay, options.obey_crawl_delay),
            obey_visit_time=_first(self.obey_visit_time, options.obey_visit_time),
            status_policy=_first(self.status_policy, options.status_policy),
            ignore_robots=_first(self.ignore_robots, options.ignore_robots),
        )


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
        self._defaults = defaults
        self._overrides: dict[str, HostOverride] = {}
        if not isinstance(given, Mapping):
            raise OptionError(f"overrides={given!r}: give a mapping of host patterns to HostOverride")
        for text, override in given.items():
            pattern = _read(text, override)
            if pattern.key in self._overrides:
                raise OptionError(f"overrides[{text!r}]: {str(pattern)!r} is given twice, in two spellings")
            self._overrides[pattern.key] = override
        # Computed once for each pattern: hosts with the same most specific pattern have the same options.
        self._settled = {key: self._settle(key) for key in self._overrides}

    def set(self, pattern: str, override: HostOverride | None) -> HostPattern:
        """Replace the override of a pattern; None removes it. Returns the pattern.

        Raises:
            OptionError: as in the constructor; nothing has changed then.
        """
        known = HostPattern.parse(pattern) if override is None else _read(pattern, override)
        before = self._overrides.get(known.key)
        self._put(known.key, override)
        try:
            settled = {key: self._settle(key) for key in self._touched_by(known)}
        except OptionError:
            self._put(known.key, before)
            raise
        if override is None:
            self._settled.pop(known.key, None)
        self._settled |= settled
        return known

    def options(self, host: str) -> HostOptions:
        """The options of a host, given in the spelling of `Origin.host`."""
        settled = self._settled
        if settled:
            for key in keys(host):
                options = settled.get(key)
                if options is not None:
                    return options
        return self._defaults

    def _put(self, key: str, override: HostOverride | None) -> None:
        if override is None:
            self._overrides.pop(key, None)
        else:
            self._overrides[key] = override

    def _touched_by(self, pattern: HostPattern) -> list[str]:
        if pattern.is_wildcard:
            return [key for key in self._overrides if pattern.matches(key)]
        return [pattern.key] if pattern.key in self._overrides else []

    def _settle(self, key: str) -> HostOptions:
        options = self._defaults
        for above in reversed(list(keys(key))):
            override = self._overrides.get(above)
            if override is not None:
                options = override.over(options)
        if options.delay > options.max_delay:
            raise OptionError(self._contradiction(key, options))
        return options

    def _contradiction(self, key: str, options: HostOptions) -> str:
        chain = [above for above in keys(key) if above in self._overrides]
        # Names the more specific of the two; in one override, the delay.
        for above in chain:
            override = self._overrides[above]
            name = f"overrides[{str(HostPattern(above))!r}]"
            if override.delay is not None:
                return f"{name}.delay={options.delay!r} is over max_delay={options.max_delay!r}, which holds there"
            if override.max_delay is not None:
                return f"{name}.max_delay={options.max_delay!r} is under delay={options.delay!r}, which holds there"
        return f"delay={options.delay!r} is over max_delay={options.max_delay!r}"


class HostBlocks:
    """The hosts that the operator blocks, and until when. Of several patterns, the latest instant counts."""

    def __init__(self) -> None:
        self._until_at: dict[str, float] = {}
        self._prune_at = MANY_BLOCKS

    def set(self, pattern: str, until_at: float) -> HostPattern:
        """Block hosts until an instant, which replaces the pattern's former one. Returns the pattern.

        Args:
            until_at: seconds since the epoch; `math.inf` until lifted; 0 lifts the block.

        Raises:
            OptionError: the pattern or the instant is invalid.
        """
        known = HostPattern.parse(pattern)
        check_instant("until_at", until_at)
        if until_at:
            self._until_at[known.key] = until_at
        else:
            self._until_at.pop(known.key, None)
        return known

    def get(self, pattern: str) -> float:
        """The instant of this pattern; 0 where it has none.

        Raises:
            OptionError: the pattern is invalid.
        """
        return self._until_at.get(HostPattern.parse(pattern).key, 0.0)

    def until_at(self, host: str) -> float:
        """Until when a host, given in the spelling of `Origin.host`, is blocked; 0 or a past instant when it is not."""
        blocks = self._until_at
        return max(blocks.get(key, 0.0) for key in keys(host)) if blocks else 0.0

    def prune(self, now: float) -> None:
        """Drop the blocks that are over, once there are so many that it may be worth it."""
        if len(self._until_at) < self._prune_at:
            return
        self._until_at = {key: until_at for key, until_at in self._until_at.items() if until_at > now}
        self._prune_at = max(MANY_BLOCKS, 2 * len(self._until_at))


def _read(text: str, override: HostOverride) -> HostPattern:
    try:
        pattern = HostPattern.parse(text)
    except OptionError as error:
        raise OptionError(f"overrides: {error}") from error
    if not isinstance(override, HostOverride):
        raise OptionError(f"overrides[{text!r}]={override!r}: give a HostOverride")
    if override.ignore_robots and not pattern.key:
        raise OptionError(f"overrides[{text!r}].ignore_robots=True: name the hosts that are your own")
    return pattern


def _settled_rate(rate: tuple[int, float]) -> Rate | None:
    return None if rate == NO_RATE else rate_of("rate", rate)


def _first(given: Value | None, otherwise: Value) -> Value:
    return otherwise if given is None else given


MAX_FETCH_BYTES: Final = 10 * 1024 * 1024
MAX_HOSTS: Final = 100_000
"""The default of `max_hosts`, for gates and stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a gate; `RobotGate` documents them and has the same defaults."""

    delay: float = 1.0
    concurrency_per_host: int = 1
    concurrency: int = 256
    max_delay: float = 60.0
    max_wait: float | None = None
    max_block: float = 300.0
    robots_concurrency: int = 256
    allow_private_addresses: bool = False
    status_policy: StatusPolicy = StatusPolicy.DEFAULT
    max_bytes: int = MAX_FETCH_BYTES
    max_hosts: int = MAX_HOSTS
    middleware_timeout: float | None = None
    rate: tuple[int, float] | None = None
    total_rate: tuple[int, float] | None = None
    latency_factor: float = 0.0
    obey_crawl_delay: bool = True
    obey_visit_time: bool = False
    pace_key: PaceKeyPolicy = PaceKey.HOST
    overrides: Mapping[str, HostOverride] = field(default_factory=dict)
    recheck: Recheck | None = None

    def __post_init__(self) -> None:
        check_seconds("delay", self.delay)
        for name in ("max_delay", "max_block"):
            check_patience(name, getattr(self, name))
        if self.max_wait is not None:
            check_seconds("max_wait", self.max_wait)
        if self.middleware_timeout is not None:
            check_seconds("middleware_timeout", self.middleware_timeout)
        for name in ("concurrency_per_host", "concurrency", "robots_concurrency", "max_bytes", "max_hosts"):
            check_whole(name, getattr(self, name), least=1)
        for name in ("rate", "total_rate"):
            rate_of(name, getattr(self, name))
        check_number("latency_factor", self.latency_factor)
        for name in ("allow_private_addresses", "obey_crawl_delay", "obey_visit_time"):
            check_flag(name, getattr(self, name))
        check_part("recheck", self.recheck, Recheck)
        check_choice("status_policy", self.status_policy, StatusPolicy)
        if self.delay > self.max_delay:
            raise OptionError(
                f"delay={self.delay!r} is over max_delay={self.max_delay!r}: every site would be refused"
            )
        pace_key_function(self.pace_key)
        Overrides(self.host_options(), self.overrides)

    def host_options(self) -> HostOptions:
        """The options of a host that no override names."""
        return HostOptions(
            delay=self.delay,
            rate=rate_of("rate", self.rate),
            concurrency=self.concurrency_per_host,
            max_delay=self.max_delay,
            max_block=self.max_block,
            latency_factor=self.latency_factor,
            obey_crawl_delay=self.obey_crawl_delay,
            obey_visit_time=self.obey_visit_time,
            status_policy=self.status_policy,
            ignore_robots=False,
        )
