"""RFC 9309 §2.3.1.5 and §2.2: whatever can be parsed is used."""

import pytest

from robotgate.rules.robotstxt import RobotsTxt


@pytest.mark.parametrize(
    "noise",
    [
        b"<!DOCTYPE html>", b"\x00\x01\x02", b"\xff\xfe\xfd", b": value without a field",
        b"field without a value:", b"Disallow", b"Disallow /two words", b"User-agent", b"::::",
        b"\xed\xa0\x80: \xf8\x88",
    ],
)  # fmt: skip
def test_other_lines_are_used_whatever_stands_between(noise: bytes) -> None:
    """Each line must be tried on its own."""
    robots = RobotsTxt.parse(
        b"\n".join([noise, b"User-agent: *", noise, b"Disallow: /x", noise, b"Disallow: /y"])
    )
    assert not robots.allowed("/x", "foobot")
    assert not robots.allowed("/y", "foobot")
    assert robots.allowed("/z", "foobot")


@pytest.mark.parametrize(
    "body", [b"", b"\n\n\n", b"\xef\xbb\xbf", b"\0", b"<html><body>404: not found</body></html>"]
)
def test_a_file_without_rules_allows_everything(body: bytes) -> None:
    """Nothing parseable, nothing to follow."""
    robots = RobotsTxt.parse(body)
    assert robots.allowed("/page", "foobot")
    assert robots.groups == ()


def test_rules_before_the_first_user_agent_are_ignored() -> None:
    """§2.2.2: such rules bind no crawler."""
    robots = RobotsTxt.parse(b"Disallow: /a\nAllow: /b\nUser-agent: *\nDisallow: /c\n")
    assert robots.allowed("/a", "foobot")
    assert not robots.allowed("/c", "foobot")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_line_ends(end: bytes) -> None:
    """Each of the three ends a line, and a pair ends one, not two."""
    robots = RobotsTxt.parse(end.join([b"User-agent: *", b"Disallow: /a", b"", b"Disallow: /b"]))
    assert [rule.line for rule in robots.groups[0].rules] == [2, 4]


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_nothing_else_ends_a_line(character: str) -> None:
    """What other standards take for a line end is part of the line."""
    robots = RobotsTxt.parse(f"User-agent: *\nDisallow: /a{character}Allow: /b\n".encode())
    assert len(robots.groups[0].rules) == 1


@pytest.mark.parametrize(
    "line", [b"Disallow:/x", b" \tDisallow \t: \t/x \t", b"disallow:/x", b"DISALLOW: /x", b"Disallow: /x#"]
)
def test_blanks_around_field_and_value(line: bytes) -> None:
    """Spaces and tabs may stand there, or not."""
    assert not RobotsTxt.parse(b"User-agent: *\n" + line).allowed("/x", "foobot")


def test_blank_lines_end_nothing() -> None:
    """§2.1: empty lines may stand anywhere in a group."""
    robots = RobotsTxt.parse(b"User-agent: a\n\n\nUser-agent: b\n\nDisallow: /x\n\n\nDisallow: /y\n")
    assert len(robots.groups) == 1
    assert not robots.allowed("/y", "a")
