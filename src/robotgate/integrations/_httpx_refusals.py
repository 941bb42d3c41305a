"""Refusals as httpx has them: every error that can leave a request is an `httpx.RequestError` as well.

Handlers of either library see them: ``except DisallowedError`` and ``except httpx.HTTPError``. Their classes have names
of their own, which appear in logs; nobody needs them to catch an error.
"""

from __future__ import annotations

import math
from typing import Final, NoReturn

import httpx

from robotgate._errors import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    RobotGateError,
    StoreError,
    TooSoonError,
)


class RefusedRequestError(RobotGateError, httpx.RequestError):
    """A request that the gate did not let through."""


class ClosedRequestError(GateClosedError, RefusedRequestError):
    """As the gate is closed, or not open."""


class NestedRequestError(NestedTurnError, RefusedRequestError):
    """Within another of its host that is not over."""


class StoreRequestError(StoreError, RefusedRequestError):
    """As the store failed."""


class InvalidURLRequestError(InvalidURLError, RefusedRequestError):
    """For what is no http or https URL."""


class NonPublicAddressRequestError(NonPublicAddressError, RefusedRequestError):
    """To an address that no public site has."""


class DisallowedRequestError(DisallowedError, RefusedRequestError):
    """For what the site's rules refuse."""


class TooSoonRequestError(TooSoonError, RefusedRequestError):
    """Whose turn comes later than it was ready to wait."""


class HostUnavailableRequestError(HostUnavailableError, RefusedRequestError):
    """To a host that is down, or wants to be left alone."""


_AS_HTTPX: Final[dict[type[RobotGateError], type[RefusedRequestError]]] = {
    GateClosedError: ClosedRequestError,
    NestedTurnError: NestedRequestError,
    StoreError: StoreRequestError,
    InvalidURLError: InvalidURLRequestError,
    NonPublicAddressError: NonPublicAddressRequestError,
    DisallowedError: DisallowedRequestError,
    TooSoonError: TooSoonRequestError,
    HostUnavailableError: HostUnavailableRequestError,
}


def as_httpx(error: RobotGateError, request: httpx.Request) -> RefusedRequestError | None:
    """The error's twin that is httpx's as well; None for one that tells of a mistake in the program."""
    kind = _AS_HTTPX.get(type(error))
    if kind is None:
        return None
    twin = kind.__new__(kind, *error.args)
    vars(twin).update(vars(error))
    twin.request = request
    return twin


def raise_as_httpx(error: RobotGateError, request: httpx.Request) -> NoReturn:
    """Raise an error as its twin, if it has one.

    Raises:
        RobotGateError: always; an `httpx.RequestError` as well, unless it tells of a mistake in the program.
    """
    twin = as_httpx(error, request)
    if twin is None:
        raise error
    raise twin from error


def as_response(error: DisallowedError | TooSoonError | HostUnavailableError) -> httpx.Response:
    """What a refusal is in words of HTTP; ``extensions["robotgate"]`` is the error itself."""
    headers = {}
    if not isinstance(error, DisallowedError) and math.isfinite(error.retry_after):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return httpx.Response(error.status, headers=headers, text=str(error), extensions={"robotgate": error})
