"""Writes docs/status-table.md from `STATUS_TABLE`: run ``python docs/_status_table.py > docs/status-table.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from robotgate.client.robots import ROBOTS_TIMEOUT
from robotgate.options import StatusPolicy
from robotgate.sites.site import FIRST_REFRESH, LAST_REFRESH
from robotgate.sites.status_table import MAX_REDIRECTS, STATUS_TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

INTRODUCTION = """\
# Answers for robots.txt

This table says what you may fetch from a site when a request for its robots.txt gets 404, 403, 500 or no answer. It
decides for the whole origin (RFC 9309 §2.3.1). `gate.check(url)` tells which row applied.

"""
POLICIES = """
## Other policies

`RobotGate(..., status_policy=StatusPolicy.…)` changes these rows. All others stay.

"""
REFRESH = f"{100 * FIRST_REFRESH:g} to {100 * LAST_REFRESH:g} %"
NOTES = f"""
- Up to {MAX_REDIRECTS} redirects are followed, also to other hosts. The file applies to the first origin.
- The whole request has to end within {ROBOTS_TIMEOUT:g} s, redirects included.
- A 304 to a conditional request renews the copy. A 304 to an unconditional request is a redirect to nowhere.
- While a copy is fresh, a failed request for it, or a redirect to nowhere, changes nothing.
- Errors of a [proxy](proxies.md) are not kept, neither in memory nor in the store.
- After {REFRESH} of the lifetime of a robots.txt, the next use of the site requests it again in the background. If that
  fails, the copy stays valid to its end, and the request is repeated after 1 min, doubling to 1 h.
"""


def status_table() -> str:
    """The page, as Markdown."""
    return f"{INTRODUCTION}{_rows()}{NOTES}{POLICIES}{_policies()}"


def _rows() -> str:
    cells = [
        (outcome.value, row.access.value, row.effect.value, row.lifetime.value)
        for outcome, row in STATUS_TABLE.items()
    ]
    return _table(
        ("robots.txt answers", "access", "the origin", "taken as known for"), cells
    )


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
