"""The operator's options: for the whole gate, for single hosts, and the checks that refuse senseless values by name."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, EnumType
from functools import partial
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias, TypedDict, Unpack, cast, get_type_hints

from robotgate.errors import OptionError
from robotgate.hours import OpenHours
from robotgate.urls import HostPattern, Origin, keys


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


def check_speed(name: str, value: object) -> None:
    """Check a number of bytes a second.

    Raises:
        OptionError: `value` is neither a number above 0, infinity nor None.
    """
    if value is not None and (not _is_number(value, most=math.inf) or value == 0):
        raise OptionError(f"{name}={value!r}: give a number of bytes, more than 0; math.inf is without limit")


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
        named = str(kind) if isinstance(kind, UnionType) else kind.__name__
        choices = map(str, kind) if isinstance(kind, EnumType) else [named]
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


def check_callback(name: str, value: object, instead: str = "") -> None:
    """Check a callback.

    Args:
        instead: what else may be given, for the message.

    Raises:
        OptionError: `value` is not callable, or is a coroutine function, whose result nothing would await.
    """
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise OptionError(f"{name}={value!r}: give {instead}a plain function; it may start a task")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be fetched, and when it may be fetched anew: ``Budget(pages=10_000, per=86_400)``.

    Whatever is reached first ends it. A request that has begun is not broken off, so that its bytes may exceed the
    budget.

    Raises:
        OptionError: a value makes no sense, or neither `pages` nor `bytes` was given.
    """

    pages: int | None = None
    """Requests that are sent, but for those for robots.txt."""
    bytes: int | None = None
    """Bytes of bodies that are read, decoded, those of robots.txt included."""
    per: float | None = None
    """Seconds from the first page until the budget is there anew; None: it is there once."""

    UNLIMITED: ClassVar[Budget]
    """The budget of an override that lifts the gate's."""

    def __post_init__(self) -> None:
        if self.pages is None and self.bytes is None:
            raise OptionError("Budget(): give pages or bytes; without any, nothing is limited")
        unless_none(check_count, "pages", self.pages)
        unless_none(check_count, "bytes", self.bytes)
        unless_none(check_seconds, "per", self.per)
        if self.per == 0:
            raise OptionError(f"per={self.per!r}: give more than 0, or nothing is limited")

    def __str__(self) -> str:
        """In words, as ``10000 pages in 86400 s``."""
        counted = (self.pages, "page"), (self.bytes, "byte")
        parts = [f"{most} {what}{'' if most == 1 else 's'}" for most, what in counted if most is not None]
        return " and ".join(parts) + ("" if self.per is None else f" in {self.per:g} s")


Budget.UNLIMITED = Budget(pages=sys.maxsize)
check_budget: Final = partial(check_kind, kind=Budget | None)

MAX_REQUESTS: Final = 1_000_000
"""Every start is kept in memory until it no longer counts."""


class _Limit(NamedTuple):
    requests: int
    seconds: float


class Rate(_Limit):
    """At most so many `requests` begin in any window of so many `seconds`, as ``Rate(600, 3600)``.

    Options take a plain tuple, too. They check the values.
    """

    __slots__ = ()

    UNLIMITED: ClassVar[Rate]
    """The rate of an override that lifts the gate's."""


# No clock distinguishes instants this close.
Rate.UNLIMITED = Rate(1, 1e-9)


def check_rate(name: str, value: object) -> None:
    """Check a rate such as ``(600, 3600)``.

    Raises:
        OptionError: the value is neither one nor None.
    """
    if value is None or value == Rate.UNLIMITED:
        return
    if isinstance(value, tuple | list) and len(value) == 2:
        requests, seconds = value
        is_count = isinstance(requests, int) and _is_number(requests, most=MAX_REQUESTS)
        if is_count and _is_number(seconds) and requests > 0 and seconds > 0:
            return
    raise OptionError(
        f"{name}={value!r}: give a whole number of requests, 1 to {MAX_REQUESTS}, and a finite number of seconds,"
        " more than 0, such as (600, 3600), or None"
    )


def limits(rates: Iterable[tuple[int, float] | None]) -> list[Rate]:
    """Those of the rates that limit anything, each once."""
    known = dict.fromkeys([Rate(*rate) for rate in rates if rate is not None])
    return [rate for rate in known if rate != Rate.UNLIMITED]


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that share something, such as all shops of one hoster: they are paced together, beside each for itself.

    Groups of one name are one group; give all of them the same limits.

    Raises:
        OptionError: a value makes no sense.
    """

    name: str
    delay: float = field(default=0.0, kw_only=True)
    """Seconds between the end of one response of the group and the next request to it, at least; with more than one
    request at a time, from start to start."""
    concurrency: int | None = field(default=None, kw_only=True)
    """Open requests to the group. None: one where it has a delay, else any number."""
    rate: tuple[int, float] | None = field(default=None, kw_only=True)
    """A quota, as the option `rate`."""
    budget: Budget | None = field(default=None, kw_only=True)
    """What may be fetched of the group, as the option `budget`."""
    bytes_per_second: float | None = field(default=None, kw_only=True)
    """Bytes that are read of the group, as the option `bytes_per_second`."""

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise OptionError(f"Group({name!r}): give a name")
        where = f"Group({self.name!r}): "
        check_seconds(f"{where}delay", self.delay)
        unless_none(check_count, f"{where}concurrency", self.concurrency)
        check_rate(f"{where}rate", self.rate)
        check_budget(f"{where}budget", self.budget)
        check_speed(f"{where}bytes_per_second", self.bytes_per_second)


GroupPolicy: TypeAlias = Mapping[str, Group] | Callable[[str], Group | None]
"""The group of an origin: by pattern, as ``*.shops.example``, or by a function of the origin's text."""


def check_groups(name: str, value: object) -> None:
    """Check which groups there are.

    Raises:
        OptionError: the value is neither a mapping of patterns to groups nor a function.
    """
    if not isinstance(value, Mapping):
        check_callback(name, value, "a mapping of patterns to Group, or ")
        return
    for pattern, group in value.items():
        HostPattern.parse(pattern)
        check_kind(f"{name}[{pattern!r}]", group, Group)


def group_function(policy: GroupPolicy) -> Callable[[Origin], Group | None]:
    """The group of an origin as a function. It raises `OptionError` where the caller's function returns no group."""
    if isinstance(policy, Mapping):
        groups = {HostPattern.parse(pattern).key: group for pattern, group in policy.items()}
        return lambda origin: next((groups[key] for key in keys(origin.host) if key in groups), None)

    def of_origin(origin: Origin) -> Group | None:
        group: object = policy(origin.text)
        if group is None or isinstance(group, Group):
            return group
        raise OptionError(
            f"groups={policy!r} returned {group!r} for {origin.text!r}: it has to return a Group or None"
        )

    return of_origin


@dataclass(frozen=True, slots=True)
class Option:
    """What belongs to an option besides its name and its type. It stands in the `Annotated` of its declaration."""

    default: object
    check: Callable[[str, object], object] | None = None
    """Raises `OptionError` for a value that makes no sense; None: what the value is given to checks it."""


class PaceOptions(TypedDict, total=False):
    """The options that a gate and an override have in common."""

    # Each option is declared here or in `GateOptions`, once: the constructors, the checks, the options of a host and
    # docs/options.md are made from the declaration. A docstring is the text of that page.

    delay: Annotated[float, Option(1.0, check_seconds)]
    """Seconds between the end of one response of a host and the next request to it, at least. What a site asks for can
    only make it longer."""
    rate: Annotated[tuple[int, float] | None, Option(None, check_rate)]
    """A quota for each host, as ``(600, 3600)`` or ``Rate(600, 3600)``: at most so many requests in any so many
    seconds, counted from when it is set. In an override, `Rate.UNLIMITED` lifts the gate's."""
    budget: Annotated[Budget | None, Option(None, check_budget)]
    """What may be fetched of each host, as ``Budget(pages=10_000, per=86_400)``. Beyond it turns are refused at once,
    with `BudgetExceededError`. A store keeps what was used, so that a restart does not give it anew. In an override,
    `Budget.UNLIMITED` lifts the gate's."""
    bytes_per_second: Annotated[float | None, Option(None, check_speed)]
    """Bytes of bodies that are read from each host, on average: a response of so many bytes moves the next request
    later. A body that is being read is not slowed down. In an override, `math.inf` lifts the gate's."""
    concurrency_per_host: Annotated[int, Option(1, check_count)]
    """Open requests at one host. Above 1, delays count from start to start."""
    max_delay: Annotated[float, Option(60.0, check_patience)]
    """Seconds; a site that asks for a longer delay is refused, never visited sooner than it asks. `math.inf` waits
    for as long as it takes."""
    max_block: Annotated[float, Option(300.0, check_patience)]
    """Seconds; what a host asks for by Retry-After or Visit-time, and what `gate.block` or `open_hours` ask for, is
    waited out up to this, and refused at once beyond. `math.inf` waits for as long as it takes."""
    give_up_after: Annotated[float, Option(60.0, check_patience)]
    """Seconds for which turns wait for a host that cannot be reached, before they are refused; 0 refuses them at once.
    It is tried again after pauses that grow from a second; turns wait for none that is over `max_block`."""
    latency_factor: Annotated[float, Option(0.0, check_seconds)]
    """The delay is at least so many times as long as the host's responses take to begin, on a moving average, up to 60
    seconds; 0 leaves that out."""
    obey_crawl_delay: Annotated[bool, Option(default=True, check=check_bool)]
    """Whether Crawl-delay and Request-rate count."""
    obey_rate_limit_fields: Annotated[bool, Option(default=True, check=check_bool)]
    """Whether the quotas count that answers report by RateLimit and X-RateLimit fields. Retry-After always does."""
    adaptive: Annotated[bool, Option(default=True, check=check_bool)]
    """Whether a host that answers 429 or 503 is visited at the speed that it bears: the delay is raised, and lowered
    slowly by good answers. If not, such an answer blocks the host for a minute and more."""
    obey_visit_time: Annotated[bool, Option(default=False, check=check_bool)]
    """Whether pages are requested only within the hours of Visit-time."""
    open_hours: Annotated[OpenHours | None, Option(None, partial(check_kind, kind=OpenHours | None))]
    """Your own hours, as ``OpenHours("Mo-Fr 22:00-06:00, Sa-Su", zone="Europe/Berlin")``: outside of them nothing is
    requested, robots.txt included. In an override, ``OpenHours("00:00-24:00")`` lifts the gate's."""
    status_policy: Annotated[
        StatusPolicy, Option(StatusPolicy.DEFAULT, partial(check_kind, kind=StatusPolicy))
    ]
    """What a robots.txt that cannot be read means for its site."""


class HostOptions(PaceOptions, total=False):
    """The options that hold for one host: all of them once they are settled, some in an override."""

    ignore_robots: Annotated[bool, Option(default=False, check=check_bool)]
    """Whether robots.txt is neither requested nor obeyed: for your own hosts."""


def options_of(declaration: type) -> dict[str, Option]:
    """The options that a `TypedDict` declares, by name."""
    return {
        name: hint.__metadata__[0] for name, hint in get_type_hints(declaration, include_extras=True).items()
    }


def check_options(known: Mapping[str, Option], given: Mapping[str, object]) -> None:
    """Check the names and the values of options.

    Raises:
        TypeError: a name is unknown.
        OptionError: a value makes no sense; the message names the option.
    """
    check_names(given, known)
    for name, value in given.items():
        check = known[name].check
        if check is not None:
            check(name, value)


def signature_of(declaration: type, *before: Parameter, may_be_none: bool = False) -> Signature:
    """The signature of an `__init__` that takes the declared options by name.

    Args:
        before: its other parameters, after `self`.
        may_be_none: None stands for every option that is not given.
    """
    types, options = get_type_hints(declaration), options_of(declaration)
    named = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=types[name] | None)
        if may_be_none
        else Parameter(name, Parameter.KEYWORD_ONLY, default=option.default, annotation=types[name])
        for name, option in options.items()
    ]
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    return Signature([own, *before, *named], return_annotation=None)


HOST_OPTIONS: Final = options_of(HostOptions)
DEFAULTS: Final = cast("HostOptions", {name: option.default for name, option in HOST_OPTIONS.items()})
"""The options of a host without a gate."""


class HostOverride:
    """Options for some hosts, in place of the gate's: those of docs/options.md that are for single hosts.

    Options that are left out, and None, take the value of the next less specific pattern, and in the end that of the
    gate.

    Raises:
        OptionError: a value makes no sense; the message names the option.
    """

    __slots__ = ("given",)

    def __init__(self, **options: Unpack[HostOptions]) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        check_names(options, HOST_OPTIONS)
        check_options(HOST_OPTIONS, given)
        self.given: Final = cast("HostOptions", given)
        """The options by name."""

    vars(__init__)["__signature__"] = signature_of(HostOptions, may_be_none=True)

    @classmethod
    def own(cls) -> HostOverride:
        """For your own host: no robots.txt, no delay and no rate. A 429 or 503 still blocks it, and the gate's
        concurrency and budget hold.
        """
        return cls(delay=0.0, rate=Rate.UNLIMITED, latency_factor=0.0, ignore_robots=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostOverride) and self.given == other.given

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"HostOverride({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"


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
                options = options | given[above].given
        _check_delay(f"overrides[{str(HostPattern(key))!r}]: ", options)
        return options


def _check_delay(where: str, options: HostOptions) -> None:
    delay, max_delay = options["delay"], options["max_delay"]
    if delay > max_delay:
        raise OptionError(
            f"{where}delay={delay!r} is over max_delay={max_delay!r}: every request would be refused"
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
    if override.given.get("ignore_robots") and not pattern.key:
        raise OptionError(f"overrides[{text!r}].ignore_robots=True: name the hosts that are your own")
    return pattern


MAX_HOSTS: Final = 100_000
"""The default of `max_hosts`, for gates and stores."""
