# ruff: noqa: INP001 - a tool beside the page it writes, no package.
"""Writes docs/status-table.md from `STATUS_TABLE`: run ``python docs/_status_table.py > docs/status-table.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from robotgate.options import StatusPolicy
from robotgate.sites.status import MAX_REDIRECTS, STATUS_TABLE

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
- A 304 to a conditional request (with the ETag or Last-Modified of the copy, to the URL it was read from) counts as if
  the copy had been sent again: its lifetime starts again, by the headers of the 304. A 304 to an unconditional request
  is a redirect to nowhere. After a 304 that names another copy or cannot be read, and after a 412, robots.txt is
  requested again unconditionally.
- After three quarters of a record's lifetime, the next use of the site requests robots.txt again in the background. If
  that ends in the last row, the record stays as it is to its end, and the request is repeated after 1 min, doubling to
  1 h.
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
