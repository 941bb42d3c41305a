"""examples/day_of_crawling.py, run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.examples.conftest import ROOT


def test_day_of_crawling() -> None:
    """Every kind of host takes exactly as long as its delays and responses do."""
    command = [sys.executable, str(ROOT / "examples" / "day_of_crawling.py"), "200"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = re.findall(r"^ +(\d+) +(\d+) +([\d.]+) +([\d.]+)$", ran.stdout, re.MULTILINE)
    assert sum(int(hosts) for _, hosts, _, _ in rows) == 200
    assert [took for _, _, took, _ in rows] == [ideal for _, _, _, ideal in rows]
    assert "hours of crawling took" in ran.stdout
