"""Names and addresses as a resolver and a network have them: `names.py` holds these claims in a network of its own."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.real.names import CLAIMS

pytestmark = pytest.mark.real("dnsmasq", "ip")
APART: Final = ("unshare", "--map-root-user", "--net", "--mount")


@cache
def may_be_apart() -> bool:
    """Whether this user may have networks."""
    try:
        return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("claim", CLAIMS)
def test_in_a_network_of_its_own(claim: str) -> None:
    """What the program says."""
    if not may_be_apart():
        pytest.skip("no networks of their own here: unshare --map-root-user --net --mount true")
    command = [*APART, sys.executable, "-m", "tests.real.names", claim]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
