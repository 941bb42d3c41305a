"""The fuzzer's invariant, for the inputs it starts from and for those that once broke it."""

from pathlib import Path

import pytest
from fuzz.fuzz_rules import SEEDS, check


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
def test_the_invariant_holds_for_a_seed(seed: Path) -> None:
    """What is in the corpus stays mended."""
    check(seed.read_bytes())
