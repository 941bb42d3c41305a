"""A budget: how it is written, what it lets through, and what is known of it in two places."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate import Budget, Group, OptionError
from robotgate.pace.budget import count_bytes, count_page, is_spent
from robotgate.pace.scope import Scope
from robotgate.pace.state import HostState, merged, moved

if TYPE_CHECKING:
    from collections.abc import Callable

MAKE: Callable[..., Budget] = Budget
USED = HostState(
    last_visit_at=100.0, budget_began_at=50.0, budget_ends_at=110.0, budget_pages=5, budget_bytes=70
)


@pytest.mark.parametrize("name", ["pages", "bytes", "per"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "1", True])
def test_value_that_makes_no_sense_is_refused(name: str, value: object) -> None:
    """By its name."""
    with pytest.raises(OptionError, match=rf"^{name}=.*: give"):
        MAKE(**{"pages": 1} | {name: value})


def test_budget_limits_something() -> None:
    """A period alone does not."""
    with pytest.raises(OptionError, match="pages or bytes"):
        Budget(per=60)
    assert str(Budget(pages=1, bytes=2000, per=60)) == "1 page and 2000 bytes in 60 s"


@pytest.mark.parametrize("limits", [{"budget": 5}, {"bytes_per_second": 0}])
def test_group_names_what_makes_no_sense(limits: dict[str, int]) -> None:
    """With its own name."""
    make: Callable[..., Group] = Group
    with pytest.raises(OptionError, match=rf"^Group\('shops'\): {next(iter(limits))}="):
        make("shops", **limits)


@given(
    pauses=st.lists(st.sampled_from([0.0, 0.5, 3.0, 9.9999999, 10.0, 25.0]), max_size=40),
    sizes=st.lists(st.sampled_from([0, 10, 60]), min_size=40, max_size=40),
)
def test_no_period_has_more_than_the_budget(pauses: list[float], sizes: list[int]) -> None:
    """A period of ten seconds begins with its first page, wherever that is; only its last body may exceed the bytes."""
    spending, now = Scope("total", budget=Budget(pages=4, bytes=100, per=10.0)), 0.0
    pages: list[tuple[float, int]] = []
    for pause, size in zip(pauses, sizes, strict=False):
        now += pause
        if not is_spent(spending, now):
            count_page(spending, now)
            count_bytes(spending, size, now)
            pages.append((now, size))
    while pages:
        period = [(at, size) for at, size in pages if at - pages[0][0] < 10.0 - 1e-6]
        assert len(period) <= 4
        assert sum(size for _, size in period[:-1]) < 100
        pages = pages[len(period) :]


def test_of_two_accounts_the_later_period_counts() -> None:
    """Of one period the larger: a process may tell late what it used, of a host that was visited again since."""
    renewed = replace(USED, budget_began_at=115.0, budget_ends_at=175.0, budget_pages=1, budget_bytes=0)
    assert merged(USED, renewed) == merged(renewed, USED) == renewed
    since = replace(USED, last_visit_at=130.0, budget_pages=3)
    assert merged(USED, since) == merged(since, USED) == replace(USED, last_visit_at=130.0)
    # Through the clock of a server, the same instant is some milliseconds later or earlier each time.
    for seconds in (-0.03, 0.03):
        stale = moved(replace(USED, last_visit_at=90.0, budget_pages=3), seconds)
        assert merged(USED, stale).budget_pages == merged(stale, USED).budget_pages == 5
    bare = HostState(last_visit_at=130.0)
    assert merged(USED, bare) == merged(bare, USED) == replace(USED, last_visit_at=130.0)


def test_period_moves_with_the_clock() -> None:
    """One without an end has none afterwards."""
    later = moved(USED, 1000.0)
    assert (later.budget_began_at, later.budget_ends_at, later.budget_pages) == (1050.0, 1110.0, 5)
    assert moved(replace(USED, budget_ends_at=math.inf), 1000.0).budget_ends_at == math.inf
    assert moved(HostState(), 1000.0) == HostState()
