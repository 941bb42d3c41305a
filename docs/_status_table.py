# ruff: noqa: INP001 - a tool beside the page it writes, no package.
"""Writes docs/status-table.md from `STATUS_TABLE`: run ``python docs/_status_table.py > docs/status-table.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from robotgate._status import MAX_REDIRECTS, STATUS_TABLE, StatusPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

INTRODUCTION = """\
# The status table

What an answer for robots.txt means for the whole origin (RFC 9309 §2.3.1). The table is printed by
`python docs/_status_table.py` from the very table that the code runs.

"""
POLICIES = """
## Named policies

`RobotGate(..., status_policy=StatusPolicy.…)` chooses another reading of some rows. What a policy does not name here
is as above.

"""
NOTES = f"""
- A redirect to a place is followed up to {MAX_REDIRECTS} times, to other hosts too; what is read in the end binds
  the first origin.
- 304 to a request that bore the ETag or Last-Modified of the copy we have, at the URL it was read from, is as if that
  copy had been sent again: its life begins anew, by the headers of the 304. A 304 nobody asked for is a redirect to
  nowhere. A 304 that names another copy, or cannot be read, and a 412, have the question put once more without
  conditions.
- From three quarters of its life on, whatever the site has answered is asked for again by whoever asks about it; he is
  not kept waiting. If that comes to a row of the last kind, what is known stays as it is to its end, and is asked for
  again after 1 min, doubling to 1 h.
- The access results are those of RFC 9309 §2.3.1.1 to §2.3.1.4.
- Every instant is kept with the record, so `gate.check(url)` tells which row decided, and until when.
"""


def status_table() -> str:
    """The page, as Markdown."""
    return f"{INTRODUCTION}{_rows()}{NOTES}{POLICIES}{_policies()}"


def _rows() -> str:
    cells = [
        (outcome.value, row.access.value, row.effect.value, row.lifetime.value)
        for outcome, row in STATUS_TABLE.items()
    ]
    return _table(("robots.txt answers", "access", "the origin", "taken as known for"), cells)


def _policies() -> str:
    cells = [
        (f"`StatusPolicy.{policy.name}`", outcome.value, row.effect_under(policy).value)
        for policy in StatusPolicy
        for outcome, row in STATUS_TABLE.items()
        if policy in row.elsewhere
    ]
    return _table(("policy", "robots.txt answers", "the origin"), cells)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(status_table())
