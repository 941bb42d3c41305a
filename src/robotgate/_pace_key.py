"""What is paced together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from robotgate._errors import OptionError

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

    from robotgate._urls import Origin

    PaceKeyFunction: TypeAlias = Callable[[Origin, str], str]


class PaceKey(Enum):
    """Which requests wait for one another."""

    HOST = "host"
    """Those to one host, on whatever port."""
    ORIGIN = "origin"
    """Those to one scheme, host and port."""
    REGISTRABLE_DOMAIN = "registrable domain"
    """Those to all hosts below a name that somebody registered, by the public suffix list. Its private section counts:
    two blogs of one hoster are two sites. Takes the extra ``psl``."""


PaceKeyPolicy: TypeAlias = PaceKey | Callable[[str], str]
"""A function is given the URL, as it will be sent, and returns whatever names what is paced together."""


def pace_key_function(policy: PaceKeyPolicy) -> PaceKeyFunction:
    """The pace key of a request, as a function of its origin and its target (the path and query, as sent).

    Raises:
        OptionError: the policy makes no sense, or its package is not installed. What it returns raises the same when a
            caller's function gives no name.
    """
    if isinstance(policy, PaceKey):
        if policy is PaceKey.REGISTRABLE_DOMAIN:
            _public_suffixes()
        return _FUNCTIONS[policy]
    given: object = policy
    if not callable(given) or isinstance(given, type) or inspect.iscoroutinefunction(given):
        raise OptionError(
            f"pace_key={policy!r}: give one of {', '.join(map(str, PaceKey))}, or a function that names a URL's pace"
        )
    return _checked(policy)


def registrable_domain(host: str) -> str:
    """The name that somebody registered and a host is below, or the host: an address, a public suffix, a single label.

    Raises:
        OptionError: the package with the list is not installed.
    """
    # The list knows nothing of addresses, and would take the last two numbers of one for a domain.
    if ":" in host or host.rpartition(".")[2].isdecimal():
        return host
    return _public_suffixes().privatesuffix(host) or host


@cache
def _public_suffixes() -> PublicSuffixList:
    """The list that the package carries, read once in a process."""
    try:
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- Installed only with the extra.
    except ImportError as error:
        raise OptionError(
            f"pace_key={PaceKey.REGISTRABLE_DOMAIN}: needs the public suffix list: pip install 'robotgate[psl]'"
        ) from error
    return PublicSuffixList()


def _of_host(origin: Origin, _target: str) -> str:
    return origin.host


def _of_origin(origin: Origin, _target: str) -> str:
    return origin.text


def _of_registrable_domain(origin: Origin, _target: str) -> str:
    return registrable_domain(origin.host)


def _checked(function: Callable[[str], str]) -> PaceKeyFunction:
    def of_url(origin: Origin, target: str) -> str:
        url = f"{origin}{target}"
        key: object = function(url)
        if not isinstance(key, str) or not key:
            raise OptionError(f"pace_key={function!r} returned {key!r} for {url!r}: it has to return a name")
        return key

    return of_url


_FUNCTIONS = {
    PaceKey.HOST: _of_host,
    PaceKey.ORIGIN: _of_origin,
    PaceKey.REGISTRABLE_DOMAIN: _of_registrable_domain,
}
