"""The status table: what an answer for robots.txt, or its absence, means for a whole origin (RFC 9309 §2.3.1).

`STATUS_TABLE` is the one place that decides: `record` applies it, and docs/status-table.md is printed from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from robotgate.clock import DAY, MINUTE
from robotgate.options import StatusPolicy
from robotgate.rules.verdict import AccessResult

if TYPE_CHECKING:
    from collections.abc import Mapping


REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
NOT_MODIFIED: Final = 304
REQUEST_TIMEOUT: Final = 408
"""Servers send it to connections that were idle, where it may cross a request that they have not read: that may be sent
once more (RFC 9110 §15.5.9)."""
PROXY_ASKS: Final = 407
"""Only a proxy answers this, for itself (RFC 9110 §15.5.8)."""

MAX_REDIRECTS: Final = 5
"""RFC 9309 §2.3.1.2: at least five consecutive redirects are followed."""
MAX_SKEW: Final = 5 * MINUTE
"""By how much clocks that share a store may differ."""
MAX_STALE_AGE: Final = 30 * DAY
"""RFC 9309 §2.3.1.4 gives thirty days as its example of a long time."""


class Outcome(Enum):
    """How a request for robots.txt ended: one row of the table each."""

    SUCCESS = "2xx"
    FORBIDDEN = "401, 403"
    MISSING = "404, 410"
    OTHER_CLIENT_ERROR = "other 4xx but 407, 408, 421, 425, 429"
    LOST = "a redirect to nowhere, or more than 5; no good copy is held"
    NON_PUBLIC = "a redirect to a non-public address"
    NON_PUBLIC_NAME = "a name, the site's own or that of a redirect, with no public address"
    LOST_AGAIN = "a redirect to nowhere, or more than 5; a good copy is held"
    FAILURE = "408, 421, 425, 429, 5xx, anything else, network, TLS, DNS, timeout, cut off"
    PROXY = "407, or a failure of a proxy on the way"

    # There is one object of each. An enumeration's own hash takes as long as a call of Python's.
    # Type checkers take it for another than an enumeration's.
    if not TYPE_CHECKING:
        __hash__ = object.__hash__


class Effect(Enum):
    """What may be fetched from the origin after an outcome."""

    RULES = "the lines that can be parsed"
    OPEN = "all open"
    CLOSED = "closed"
    LAST_GOOD_ELSE_CLOSED = "the last good copy up to 30 days; none: closed"
    LAST_GOOD_ELSE_OPEN = "the last good copy up to 30 days; none: open"
    LAST_GOOD_ELSE_CLOSED_12_HOURS = "the last good copy up to 30 days; none: closed for 12 hours, then open"


WITHOUT_COPY: Final = frozenset({Effect.RULES, Effect.OPEN, Effect.CLOSED})
"""Effects that do not depend on an earlier copy."""


class Lifetime(Enum):
    """For how long the record of an outcome is fresh."""

    CACHE_CONTROL = (
        "Cache-Control max-age, or else Expires, less Age, at least 5 min and at most 24 h; 24 h without"
    )
    ONE_DAY = "24 h"
    RETRY = "1 min, doubling to 1 h, jittered; Retry-After obeyed"
    NOT_KEPT = "it is not: the next use requests it again"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the status table."""

    access: AccessResult
    effect: Effect
    """Under `StatusPolicy.DEFAULT`."""
    lifetime: Lifetime
    elsewhere: Mapping[StatusPolicy, Effect] = field(default_factory=dict)
    """Where a named policy differs from the default."""

    @property
    def keeps_copy(self) -> bool:
        """Whether the last good copy is kept, because some policy goes on with it."""
        return not WITHOUT_COPY.issuperset({self.effect, *self.elsewhere.values()})

    def effect_under(self, policy: StatusPolicy) -> Effect:
        """What this outcome does under a policy."""
        return self.elsewhere.get(policy, self.effect)


STATUS_TABLE: Final[Mapping[Outcome, Row]] = MappingProxyType(
    {
        Outcome.SUCCESS: Row(AccessResult.SUCCESSFUL, Effect.RULES, Lifetime.CACHE_CONTROL),
        Outcome.FORBIDDEN: Row(
            AccessResult.UNAVAILABLE,
            Effect.CLOSED,
            Lifetime.ONE_DAY,
            dict.fromkeys((StatusPolicy.RFC9309, StatusPolicy.GOOGLE, StatusPolicy.ARCHIVE), Effect.OPEN),
        ),
        Outcome.MISSING: Row(AccessResult.UNAVAILABLE, Effect.OPEN, Lifetime.ONE_DAY),
        Outcome.OTHER_CLIENT_ERROR: Row(
            AccessResult.UNAVAILABLE,
            Effect.OPEN,
            Lifetime.ONE_DAY,
            {StatusPolicy.CLASSIC: Effect.LAST_GOOD_ELSE_CLOSED},
        ),
        Outcome.LOST: Row(AccessResult.UNAVAILABLE, Effect.OPEN, Lifetime.ONE_DAY),
        Outcome.NON_PUBLIC: Row(AccessResult.UNREACHABLE, Effect.CLOSED, Lifetime.ONE_DAY),
        Outcome.NON_PUBLIC_NAME: Row(AccessResult.UNREACHABLE, Effect.CLOSED, Lifetime.RETRY),
        Outcome.LOST_AGAIN: Row(AccessResult.UNREACHABLE, Effect.LAST_GOOD_ELSE_CLOSED, Lifetime.RETRY),
        Outcome.FAILURE: Row(
            AccessResult.UNREACHABLE,
            Effect.LAST_GOOD_ELSE_CLOSED,
            Lifetime.RETRY,
            {
                StatusPolicy.GOOGLE: Effect.LAST_GOOD_ELSE_CLOSED_12_HOURS,
                StatusPolicy.ARCHIVE: Effect.LAST_GOOD_ELSE_OPEN,
            },
        ),
        Outcome.PROXY: Row(AccessResult.UNREACHABLE, Effect.LAST_GOOD_ELSE_CLOSED, Lifetime.NOT_KEPT),
    }
)


_BY_STATUS: Final = {
    **dict.fromkeys((401, 403), Outcome.FORBIDDEN),
    **dict.fromkeys((404, 410), Outcome.MISSING),
    PROXY_ASKS: Outcome.PROXY,
    # 429, and answers about the request or its connection (RFC 9110 §15.5.9, §15.5.20; RFC 8470 §5.2).
    **dict.fromkeys((408, 421, 425, 429), Outcome.FAILURE),
}
_BY_CLASS: Final = {2: Outcome.SUCCESS, 3: Outcome.LOST, 4: Outcome.OTHER_CLIENT_ERROR}
"""Of all other statuses, by their first digit."""


def outcome_of(status: int, *, is_conditional: bool = False) -> Outcome:
    """The row of the table for the status of an answer that is not followed any further.

    Args:
        is_conditional: whether the request named our copy: a 304 then stands for that copy, sent again.
    """
    if status == NOT_MODIFIED and is_conditional:
        return Outcome.SUCCESS
    return _BY_STATUS.get(status) or _BY_CLASS.get(status // 100, Outcome.FAILURE)
