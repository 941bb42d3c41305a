"""A quota: when one more start keeps it."""

from __future__ import annotations

from typing import Final

import pytest

from robotgate.options import Rate
from robotgate.pace.quota import StartWindow

NOW: Final = 1.8e9


@pytest.mark.parametrize(("reserved", "due_in"), [(0, None), (1, 10.0), (2, 11.0), (3, 30.0)])
def test_reserved_starts_count_as_if_they_came_now(reserved: int, due_in: float | None) -> None:
    """A turn that was granted and has not begun takes part of the quota, and is followed by a known instant."""
    window = StartWindow([Rate(3, 10.0)])
    window.count(NOW)
    window.count(NOW + 1.0)
    assert window.due_at(NOW + 20.0, reserved=reserved) == (0.0 if due_in is None else NOW + due_in)


def test_strictest_of_several_quotas_holds() -> None:
    """One in a second and three in a minute."""
    window, now, starts = StartWindow([Rate(1, 1.0), Rate(3, 60.0)]), NOW, []
    for _ in range(5):
        now = max(now, window.due_at(now))
        window.count(now)
        starts.append(now - NOW)
    assert starts == [0.0, 1.0, 2.0, 60.0, 61.0]
    assert window.served_at() == NOW + 61.0 + 60.0


def test_quota_that_is_lifted_for_a_while_is_kept_when_it_is_back() -> None:
    """What was counted stays counted."""
    window = StartWindow([Rate(2, 60.0)])
    window.count(NOW)
    window.change([])
    assert window.due_at(NOW) == 0.0
    window.count(NOW + 1.0)
    window.change([Rate(2, 60.0)])
    assert window.due_at(NOW + 2.0) == NOW + 60.0
