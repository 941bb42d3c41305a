"""RFC 9309 §2.5: how much of a file is parsed."""

import pytest

from robotgate._lines import MAX_BYTES, MAX_LINE_BYTES
from robotgate._robotstxt import RobotsTxt

GROUP = b"User-agent: *\n"


def padded(last: bytes, size: int) -> bytes:
    """A file of one group whose last line ends, its line end not counted, at `size` octets."""
    filler = size - len(GROUP) - len(last) - 1
    return GROUP + b"\n" * filler + b"\n" + last


def test_the_limit_is_at_least_500_kibibytes() -> None:
    """A smaller one is not permitted."""
    assert MAX_BYTES >= 500 * 1024


@pytest.mark.parametrize("after", [b"", b"\n", b"\r\n", b"\nAllow: /x/y"])
def test_a_line_that_ends_at_the_limit_counts(after: bytes) -> None:
    """The limit is reached, not passed."""
    robots = RobotsTxt.parse(padded(b"Disallow: /x", MAX_BYTES) + after)
    assert not robots.allowed("/x/y", "foobot")


@pytest.mark.parametrize("line", [b"Disallow: /x", b"Allow: /x"])
def test_a_line_that_the_limit_cuts_does_not_count(line: bytes) -> None:
    """Half a rule is another rule."""
    assert RobotsTxt.parse(padded(line, MAX_BYTES + 1)).groups[0].rules == ()


def test_one_line_of_any_length_is_no_line() -> None:
    """A file without a line end within the limit holds nothing."""
    assert RobotsTxt.parse(b"User-agent: *" + b" " * MAX_BYTES).groups == ()


@pytest.mark.parametrize(("extra", "count"), [(0, 1), (1, 0)])
def test_over_long_lines_are_dropped_not_cut(extra: int, count: int) -> None:
    """An Allow cut short would allow too much."""
    line = b"Allow: /".ljust(MAX_LINE_BYTES + extra, b"x")
    assert len(RobotsTxt.parse(GROUP + line + b"\n").groups[0].rules) == count


def test_a_comment_does_not_make_a_line_too_long() -> None:
    """Only what is parsed is measured."""
    robots = RobotsTxt.parse(GROUP + b"Disallow: /x #" + b"!" * MAX_LINE_BYTES)
    assert not robots.allowed("/x", "foobot")
