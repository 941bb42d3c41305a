"""The fuzzer's invariant, for the inputs it starts from and for those that once broke it."""

from pathlib import Path
from typing import Final

import pytest
from fuzz.fuzz_rules import DICTIONARY, SEEDS, check, dictionary


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
def test_the_invariant_holds_for_a_seed(seed: Path) -> None:
    """What is in the corpus stays mended."""
    check(seed.read_bytes())


def test_the_dictionary_can_be_read() -> None:
    """Without atheris, too."""
    lines: Final = DICTIONARY.read_text(encoding="ascii").splitlines()
    assert len(dictionary()) == len([line for line in lines if line.startswith('"')])
    assert b"\xef\xbb\xbf" in dictionary()
