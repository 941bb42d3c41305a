"""The options of a `RobotGate`. Those of `robotgate.options.PaceOptions` are among them."""

# Without `from __future__ import annotations`: the constructor's signature is made from these annotations.

import os
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias, cast

import aiohttp

from robotgate.client.addresses import check_networks
from robotgate.client.robots import Fetcher
from robotgate.clock import Clock
from robotgate.errors import OptionError
from robotgate.identity import Signer
from robotgate.options import (
    HOST_OPTIONS,
    MAX_HOSTS,
    Budget,
    GroupPolicy,
    HostOptions,
    HostOverride,
    Option,
    PaceOptions,
    Recheck,
    check_bool,
    check_budget,
    check_count,
    check_groups,
    check_kind,
    check_options,
    check_rate,
    check_seconds,
    check_speed,
    options_of,
    unless_none,
)
from robotgate.rules.parser import Dialect
from robotgate.stores.base import PATIENCE, SERVERS, OwnStore, Store, without_secrets
from robotgate.stores.sqlite import SQLiteStore
from robotgate.urls import PaceKey, PaceKeyPolicy

StoreOption: TypeAlias = Store | str | os.PathLike[str] | None

MAX_FETCH_BYTES: Final = 10 * 1024 * 1024


def check_store(name: str, value: object) -> None:
    """Check that a value is a store, a path, a URL or None.

    Raises:
        OptionError: it is none of these.
    """
    if isinstance(value, type) or not isinstance(value, Store | str | os.PathLike | None):
        raise OptionError(f"{name}={value!r}: give a Store, or the path of a file for a SQLiteStore")


class GateOptions(PaceOptions, total=False):
    """The options of a `RobotGate`, for functions that pass them on: all but `agent` and `contact`."""

    total_rate: Annotated[tuple[int, float] | None, Option(None, check_rate)]
    """As `rate`, for the requests to all hosts together, those for robots.txt included."""
    origin_budget: Annotated[Budget | None, Option(None, check_budget)]
    """As `budget`, for each origin: those of one host, or of one pace key, have one each."""
    total_budget: Annotated[Budget | None, Option(None, check_budget)]
    """As `budget`, for all hosts together: those of this gate. Of several gates with one store, each has its own."""
    total_bytes_per_second: Annotated[float | None, Option(None, check_speed)]
    """As `bytes_per_second`, for all hosts together."""
    shared_total: Annotated[bool, Option(default=False, check=check_bool)]
    """Whether `total_rate`, `total_budget`, `total_bytes_per_second` and `concurrency` hold for all gates together that
    share the store and have the same values, each of which uses what the others leave. By default each gate counts for
    itself."""
    concurrency: Annotated[int, Option(256, check_count)]
    """Open requests for pages, over all hosts; those for robots.txt have `robots_concurrency`."""
    robots_concurrency: Annotated[int, Option(256, check_count)]
    """Open requests for robots.txt over all hosts."""
    max_wait: Annotated[float | None, Option(None, partial(unless_none, check_seconds))]
    """Seconds a turn may wait; None waits as long as it takes, 0 not at all."""
    pace_key: Annotated[PaceKeyPolicy, Option(PaceKey.HOST)]
    """What is paced together: the requests to one host, to one origin, to one registrable domain (extra ``psl``), or to
    the origins for which a function of yours returns the same text."""
    groups: Annotated[GroupPolicy, Option(MappingProxyType({}), check_groups)]
    """Hosts that are paced together beside each for itself: a `Group` for each pattern, as ``{"*.shops.example":
    Group("shops", delay=0.5)}``, or a function that returns the group of an origin's text, or None."""
    address_delay: Annotated[float, Option(0.0, check_seconds)]
    """Seconds between the end of one response from a server's address and the next request to it, at least, whatever
    host it is for; above one request at a time, from start to start. An IPv6 address counts by its first 64 bits."""
    address_concurrency: Annotated[int | None, Option(None, partial(unless_none, check_count))]
    """Open requests at one address. None: one where there is an `address_delay`, else any number."""
    address_exempt: Annotated[Collection[str], Option(frozenset(), check_networks)]
    """Networks whose addresses are not paced, as ``["203.0.113.0/24"]``: those of content delivery networks, which have
    thousands of machines behind one address. Most publish their lists."""
    overrides: Annotated[Mapping[str, HostOverride], Option(MappingProxyType({}))]
    """Options in place of these for some hosts, by pattern: ``example.org``, ``*.example.org`` or ``*``."""
    dialect: Annotated[Dialect, Option(Dialect.RFC9309, partial(check_kind, kind=Dialect))]
    """The standard by which each robots.txt is read. `Dialect.CLASSIC` knows no Crawl-delay; give a `delay`. Stores
    keep files as they were served, so gates of both may share one."""
    recheck: Annotated[Recheck | None, Option(None, partial(check_kind, kind=Recheck | None))]
    """When a robots.txt is requested again before its age requires it: after so many visits to its host, so many
    seconds, or so many bytes read, as `Recheck` says. By default age alone counts."""
    allow_private_addresses: Annotated[bool, Option(default=False, check=check_bool)]
    """Whether ``localhost`` and addresses that no public site has may be fetched from, whether they are in the URL or
    its name resolves to them."""
    purposes: Annotated[Collection[str], Option(frozenset())]
    """What you do with pages, as ``{"search", "ai_train"}``; the names are those of `robotgate.preferences.Purpose`. A
    URL whose robots.txt disallows one of them is refused by `DisallowedError`, and a `fetch` whose response does raises
    `PreferenceError` in place of the body. Needs the extra ``preferences``. By default no preference refuses
    anything."""
    tdmrep: Annotated[bool, Option(default=False, check=check_bool)]
    """Whether an awaited `fetch` requests each origin's ``/.well-known/tdmrep.json``, in a turn of the host ahead of
    the page, and keeps it as it does robots.txt, for `Response.preferences`. Needs the extra ``preferences``."""
    token: Annotated[str | None, Option(None)]
    """The product token (RFC 9309 §2.2.1), when it is not the first word of `agent`."""
    signer: Annotated[Signer | None, Option(None)]
    """Signs every request, so that sites can verify whose crawler they see, such as `robotgate.signing.Ed25519Signer`.
    It serves clients of yours by `Turn.headers`."""
    session: Annotated[
        aiohttp.ClientSession | None, Option(None, partial(check_kind, kind=aiohttp.ClientSession | None))
    ]
    """An aiohttp session to fetch pages with, which stays yours to close. By default the gate opens one of its own.
    robots.txt is requested by it as well, but without its headers, cookies, credentials and middlewares. What names
    resolve to is checked if its connector is a `PublicConnector`. docs/proxies.md has more."""
    store: Annotated[StoreOption, Option(None, check_store)]
    """Where rules and host states are kept; by default in the gate's memory only. The path of a file, as ``"cache.db"``
    or a `pathlib.Path`, makes a `SQLiteStore` that is opened and closed with the gate. The URL of a Redis or Valkey
    server, as ``"redis://localhost:6379/0"``, makes a `robotgate.stores.redis.RedisStore` (extra `redis`).
    For options of a store, or several gates of one process, make the store yourself: it stays yours to close."""
    max_bytes: Annotated[int, Option(MAX_FETCH_BYTES, check_count)]
    """The longest body that an awaited `fetch` reads."""
    max_hosts: Annotated[int, Option(MAX_HOSTS, check_count)]
    """How many origins, with their rules and paces, are kept in this process's memory. Beyond it the oldest are
    evicted, and loaded from `store` when they are needed again; never one that is in use, or not due."""
    clock: Annotated[Clock | None, Option(None, partial(check_kind, kind=Clock | None))]
    """The source of the time."""
    fetcher: Annotated[Fetcher | None, Option(None, partial(check_kind, kind=Fetcher | None))]
    """Requests robots.txt files."""


GATE_OPTIONS: Final = options_of(GateOptions)
_DEFAULTS: Final = cast("GateOptions", {name: option.default for name, option in GATE_OPTIONS.items()})


def completed(given: GateOptions) -> GateOptions:
    """The options, with the defaults of those that are not given.

    Raises:
        TypeError: a name is unknown.
        OptionError: a value makes no sense; the message names the option.
    """
    check_options(GATE_OPTIONS, given)
    return _DEFAULTS | given


def host_options(options: GateOptions) -> HostOptions:
    """What holds for every host without an override."""
    return cast(
        "HostOptions", {name: options.get(name, option.default) for name, option in HOST_OPTIONS.items()}
    )


def open_store(store: str | os.PathLike[str], *, clock: Clock, patience: float = PATIENCE) -> OwnStore:
    """Make the store for a path or a URL. Nothing is read or written before its `open`.

    Args:
        clock: the gate's clock.
        patience: seconds for which a server that cannot be reached is tried again.

    Raises:
        OptionError: the value is neither the path of a file nor the URL of a server, or redis-py is missing.
    """
    try:
        if isinstance(store, str) and SERVERS.match(store):
            # Installed only with the extra.
            from robotgate.stores.redis import RedisStore  # noqa: PLC0415

            return RedisStore(store, clock=clock, patience=patience)
        return SQLiteStore(store, clock=clock)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise OptionError(
            f"store={without_secrets(str(store))!r}: a store in Redis or Valkey needs redis-py: "
            'pip install "robotgate[redis]"'
        ) from error
    except OptionError as error:
        # The error names the option of the store's class; the user has given `store`.
        raise OptionError(f"store={str(error).partition('=')[2]}") from error
