"""Budgets and bandwidth: what was used of a host or a scope, and what that means for the next request.

A period of a budget begins with its first page; once it is over, the budget is there anew. What is counted stands in
the fields of a `Spender`, so that stores keep it as a host's state.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from robotgate.errors import BudgetExceededError
from robotgate.options import Budget
from robotgate.pace.state import CLOCK_GRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable


SAVED_PAGES: Final = 10
"""Pages of a budget after which a store is told at once: a crash forgets as many, and the few that begin meanwhile."""


class Spender(Protocol):
    """What has a budget."""

    budget: Budget | None
    budget_began_at: float | None
    budget_ends_at: float
    budget_pages: int
    budget_bytes: int
    bytes_per_second: float
    """Infinity: without limit."""
    read_until_at: float
    """When what was read so far would have been read at that speed."""


def strictest(budgets: Iterable[Budget]) -> Budget | None:
    """Return a budget that keeps all of these: the fewest pages and bytes, in the longest period."""
    known = set(budgets) - {Budget.UNLIMITED}
    if len(known) < 2:
        return next(iter(known), None)
    most = math.inf
    per = max(most if budget.per is None else budget.per for budget in known)
    return Budget(
        pages=min((budget.pages for budget in known if budget.pages is not None), default=None),
        bytes=min((budget.bytes for budget in known if budget.bytes is not None), default=None),
        per=None if per == most else per,
    )


def ends_at(spender: Spender) -> float:
    """Return when the present period ends, by the budget that holds now; 0.0 if none has begun."""
    began_at, budget = spender.budget_began_at, spender.budget
    if budget is None or began_at is None:
        return 0.0
    return math.inf if budget.per is None else began_at + budget.per


def is_spent(spender: Spender, now: float) -> bool:
    """Return whether no page may be requested. The first of a period always may."""
    budget = spender.budget
    if budget is None or _is_over(spender, now):
        return False
    return (budget.pages is not None and spender.budget_pages >= budget.pages) or (
        budget.bytes is not None and spender.budget_bytes >= budget.bytes
    )


def renewed_at(spender: Spender, now: float) -> float:
    """Return when a page may be requested, as far as the budget is concerned; 0.0 if at any time."""
    return ends_at(spender) if is_spent(spender, now) else 0.0


def exceeded(budget: Budget, name: str, left: float) -> BudgetExceededError:
    """Return the error for a request for a page.

    Args:
        left: seconds until the budget opens.
    """
    return BudgetExceededError(name, str(budget), left if left < math.inf else None)


def count_page(spender: Spender, now: float) -> None:
    """Count a page that is requested now."""
    _renew(spender, now)
    if spender.budget_began_at is None:
        spender.budget_began_at = now
    spender.budget_pages += 1
    spender.budget_ends_at = ends_at(spender)


def count_bytes(spender: Spender, bytes_read: int, now: float) -> None:
    """Count the body of a response that ends now. What is read between two periods counts in the second."""
    _renew(spender, now)
    spender.budget_bytes += bytes_read


def _is_over(spender: Spender, now: float) -> bool:
    return ends_at(spender) - now <= CLOCK_GRAIN


def _renew(spender: Spender, now: float) -> None:
    if spender.budget_began_at is not None and _is_over(spender, now):
        spender.budget_began_at, spender.budget_ends_at = None, 0.0
        spender.budget_pages = spender.budget_bytes = 0


def read_by(spender: Spender, bytes_read: int, now: float) -> float:
    """Return the first instant at which the next request may start after a response that ends now."""
    spender.read_until_at = max(spender.read_until_at, now) + bytes_read / spender.bytes_per_second
    return spender.read_until_at


def used(spender: Spender, now: float) -> tuple[int, int]:
    """Return the pages and the bytes that count now."""
    if spender.budget_began_at is not None and _is_over(spender, now):
        return 0, 0
    return spender.budget_pages, spender.budget_bytes


def left(spender: Spender, now: float) -> tuple[int | None, int | None]:
    """Return the pages and the bytes that are left of a budget; None for what has no limit."""
    budget, (pages, read) = spender.budget, used(spender, now)
    if budget is None:
        return None, None
    return (
        None if budget.pages is None else max(budget.pages - pages, 0),
        None if budget.bytes is None else max(budget.bytes - read, 0),
    )
