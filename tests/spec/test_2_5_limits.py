"""RFC 9309 §2.5: how much of a file is parsed."""

import pytest

from robotgate.rules.grammar import MAX_BYTES, MAX_LINE_BYTES
from robotgate.rules.robotstxt import RobotsTxt

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


LONG = b"x" * (MAX_LINE_BYTES + 16)


@pytest.mark.parametrize(
    ("body", "url", "expected"),
    [
        (b"User-agent: foobot\nDisallow: /\nUser-agent: %b\nAllow: /" % LONG, "/p", False),
        (b"User-agent: foobot\nDisallow: /a\nUser-agent: %b\nDisallow: /" % LONG, "/p", True),
        (b"User-agent: foobot\nDisallow: /a\nUser-agent %b\nDisallow: /" % LONG, "/p", True),
        (b"User-agent: foobot\nAllow: /%b\nUser-agent: *\nDisallow: /" % LONG, "/p", True),
        (b"User-agent: foobot\nAllow /%b\nUser-agent: *\nDisallow: /" % LONG, "/p", True),
    ],
)
def test_an_over_long_line_keeps_the_role_of_its_field(body: bytes, url: str, *, expected: bool) -> None:
    """A dropped User-agent line opens a group that binds no crawler; a dropped rule ends a run of User-agent lines."""
    assert RobotsTxt.parse(body).allowed(url, "foobot") is expected


@pytest.mark.parametrize(
    "body", [b"User-agent: foobot%b\nDisallow: /p", b"User-agent: foobot\nDisallow: /p%b"]
)
def test_blanks_at_its_end_do_not_make_a_line_too_long(body: bytes) -> None:
    """They are no part of the value."""
    assert not RobotsTxt.parse(body % (b" \t" * MAX_LINE_BYTES)).allowed("/p", "foobot")
