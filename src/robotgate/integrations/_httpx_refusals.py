"""Refusals as httpx has them: every error that can leave a request is an `httpx.RequestError` as well.

Handlers of either library see them: ``except DisallowedError`` and ``except httpx.HTTPError``.
"""

from __future__ import annotations

import math
from typing import Final

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


class _RefusedRequestError(RobotGateError, httpx.RequestError):
    """A request that the gate did not let through."""


class _ClosedRequestError(GateClosedError, _RefusedRequestError):
    pass


class _NestedRequestError(NestedTurnError, _RefusedRequestError):
    pass


class _StoreRequestError(StoreError, _RefusedRequestError):
    pass


class _InvalidURLRequestError(InvalidURLError, _RefusedRequestError):
    pass


class _NonPublicAddressRequestError(NonPublicAddressError, _RefusedRequestError):
    pass


class _DisallowedRequestError(DisallowedError, _RefusedRequestError):
    pass


class _TooSoonRequestError(TooSoonError, _RefusedRequestError):
    pass


class _HostUnavailableRequestError(HostUnavailableError, _RefusedRequestError):
    pass


_AS_HTTPX: Final[dict[type[RobotGateError], type[_RefusedRequestError]]] = {
    GateClosedError: _ClosedRequestError,
    NestedTurnError: _NestedRequestError,
    StoreError: _StoreRequestError,
    InvalidURLError: _InvalidURLRequestError,
    NonPublicAddressError: _NonPublicAddressRequestError,
    DisallowedError: _DisallowedRequestError,
    TooSoonError: _TooSoonRequestError,
    HostUnavailableError: _HostUnavailableRequestError,
}


def as_httpx(error: RobotGateError, request: httpx.Request) -> RobotGateError:
    """The error's twin that is httpx's as well; an error that tells of a mistake in the program has none."""
    kind = _AS_HTTPX.get(type(error))
    if kind is None:
        return error
    twin = kind.__new__(kind, *error.args)
    vars(twin).update(vars(error))
    twin.request = request
    return twin


def as_response(error: DisallowedError | TooSoonError | HostUnavailableError) -> httpx.Response:
    """What a refusal is in words of HTTP; ``extensions["robotgate"]`` is the error itself."""
    headers = {}
    if not isinstance(error, DisallowedError) and math.isfinite(error.retry_after):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return httpx.Response(error.status, headers=headers, text=str(error), extensions={"robotgate": error})
