"""Content-Usage, by draft-ietf-aipref-attach-05 and draft-ietf-aipref-vocab-08."""

from __future__ import annotations

from typing import Final

import pytest

from robotgate import RobotsTxt
from robotgate.preferences import Preference, Preferences, Source, Standard, parse_preferences

YES: Final = Preference.ALLOWED
NO: Final = Preference.DISALLOWED
OPEN: Final = Preference.UNKNOWN
SITE: Final = "https://a.example"

EXAMPLE: Final = b"""\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""
"""The example of attach-05 §5."""


def header(value: str) -> Preferences:
    """What a Content-Usage header says."""
    return parse_preferences({"Content-Usage": value})


def trained(body: str, path: str, agent: str = "OtherBot") -> Preference:
    """What a robots.txt says about training on a path."""
    return RobotsTxt.parse(body.encode(), SITE).preferences(path, agent).ai_train


@pytest.mark.parametrize(
    ("agent", "path", "allowed", "preference"),
    [
        ("OtherBot", "/test", True, NO),
        ("OtherBot", "/never/test", False, OPEN),
        ("OtherBot", "/ai-ok/test", True, YES),
        ("ExampleBot", "/test", True, YES),
        ("ExampleBot", "/never/test", True, YES),
        ("ExampleBot", "/ai-ok/test", True, YES),
    ],
)
def test_the_example_of_the_draft(agent: str, path: str, *, allowed: bool, preference: Preference) -> None:
    """attach-05 §5: groups as in RFC 9309, the longest path, and none for a path that may not be fetched."""
    verdict = RobotsTxt.parse(EXAMPLE, SITE).verdict(path, agent)
    assert (verdict.allowed, verdict.preferences.ai_train) == (allowed, preference)


def test_the_first_examples_of_the_draft() -> None:
    """Attach §1.2: a header, or a line in robots.txt, with a path as the drafts up to -04 have it."""
    assert header("train-ai=n").ai_train is NO
    for statement in ("train-ai=n", "/ train-ai=n"):
        assert trained(f"User-Agent: *\nAllow: /\nContent-Usage: {statement}", "/any") is NO


@pytest.mark.parametrize(
    ("value", "ai_train", "search"),
    [
        ("train-ai=y, search=n", YES, NO),
        # vocab §6: the last of two counts, and it has to be a token.
        ('train-ai=y, train-ai, search=n, search="n"', OPEN, OPEN),
        ("train-ai;allow=n, train-ai=y", YES, OPEN),
        ("train-ai=n ,search=y", NO, YES),
        ("train-ai=n,\tsearch=y", NO, YES),
        ("  train-ai=n, search=y  ", NO, YES),
        # HTTP and attach §5 trim blanks; RFC 9651 §4.2 alone would refuse the tab in front.
        ("\ttrain-ai=n\t", NO, OPEN),
        ("Train-ai=n", OPEN, OPEN),
        ("train-ai=n,", OPEN, OPEN),
        ("train-ai = n", OPEN, OPEN),
        ("train-ai=n search=y", OPEN, OPEN),
        ("", OPEN, OPEN),
        # An example of the draft, whose last semicolon RFC 9651 does not permit.
        ('train-ai;has;parameters="?";', OPEN, OPEN),
        ("train-ai=no, search=(y n)", OPEN, OPEN),
        ("train-ai=N, search=?0", OPEN, OPEN),
        ("train-ai=n;strength=1;note=2", NO, OPEN),
    ],
)
def test_values(value: str, ai_train: Preference, search: Preference) -> None:
    """By vocab §6: a structured dictionary of tokens y and n; what cannot be read is unknown, all or one label."""
    preferences = header(value)
    assert (preferences.ai_train, preferences.search) == (ai_train, search)
    robots = RobotsTxt.parse(f"User-agent: *\nContent-Usage: {value}".encode(), SITE).preferences("/", "Bot")
    assert (robots.ai_train, robots.search) == (ai_train, search)


@pytest.mark.parametrize(
    "label",
    [
        *("tdm", "ai", "genai", "inference"),  # vocab-01
        *("all", "train-genai"),  # vocab-02
        *("bots", "ai-output"),  # vocab-03 and -04
    ],
)
def test_labels_of_former_drafts_are_unknown(label: str) -> None:
    """Only the labels of the current draft mean something; any other is told as a problem."""
    preferences = header(f"{label}=n")
    assert {preferences.search, preferences.ai_input, preferences.ai_train, preferences.tdm} == {OPEN}
    assert preferences.problems


@pytest.mark.parametrize(
    ("label", "purpose"), [("train-ai", "ai_train"), ("ai-use", "ai_input"), ("search", "search")]
)
def test_labels(label: str, purpose: str) -> None:
    """vocab-08: three labels, none of which says anything about another."""
    preferences = header(f"{label}=n")
    assert preferences.preference(purpose) is NO
    assert [each.standard for each in preferences.deciding(purpose)] == [Standard.CONTENT_USAGE]
    others = {"ai_train", "ai_input", "search"} - {purpose}
    assert {preferences.preference(other) for other in others} == {OPEN}


def test_lines_of_a_header_are_one_dictionary() -> None:
    """RFC 9651 §4.2: field lines are joined, so the last value of a label counts."""
    lines = [("content-usage", "train-ai=n"), ("Content-Usage", "train-ai=y, search=n")]
    preferences = parse_preferences(lines)
    assert (preferences.ai_train, preferences.search) == (YES, NO)


def test_disallowed_beats_allowed_beats_unknown() -> None:
    """By vocab §5.1, over all sources."""
    robots = b"User-agent: *\nContent-Usage: train-ai=y, search=y"
    preferences = parse_preferences(
        {"Content-Usage": "train-ai=n, ai-use=y"}, robots=robots, url=f"{SITE}/", agent="Bot"
    )
    assert (preferences.ai_train, preferences.search, preferences.ai_input) == (NO, YES, YES)
    assert [each.source for each in preferences.deciding("ai_train")] == [Source.HEADER]


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        # The longest path wins as a whole, in any order (attach §5, steps 3 and 4).
        ("Content-Usage: /a search=n\nContent-Usage: /a/b train-ai=n", "/a/b", NO),
        ("Content-Usage: /a/b search=n\nContent-Usage: /a train-ai=n", "/a/b", OPEN),
        ("Content-Usage: train-ai=n\nContent-Usage: / search=n", "/x", OPEN),
        ("Content-Usage: train-ai=n\nContent-Usage: /b train-ai=y", "/a", NO),
        # Identical paths count together, the most restrictive first: unlike a tie of Allow and Disallow (step 5).
        ("Content-Usage: /a train-ai=y\nContent-Usage: /a train-ai=n", "/a", NO),
        ("Content-Usage: train-ai=n\nContent-Usage: train-ai=y", "/a", NO),
        ("Content-Usage: /%61b train-ai=n\nContent-Usage: /ab train-ai=y", "/ab", NO),
        ("Content-Usage: /a*c train-ai=y\nContent-Usage: /abc train-ai=n", "/abc", NO),
        # Wildcards, the end mark and escapes as in RFC 9309 (step 3).
        ("Content-Usage: /*.jpg$ train-ai=n", "/x/y.jpg", NO),
        ("Content-Usage: /*.jpg$ train-ai=n", "/x/y.jpg?z", OPEN),
        ("Content-Usage: /\u30c4 train-ai=n", "/%E3%83%84", NO),
        ("Content-Usage: /a%20b train-ai=n", "/a%20b", NO),
        # Case and blanks of the line (steps 1 and 2), and a comment.
        ("\tcontent-USAGE \t:\t /a\ttrain-ai=n \t# why", "/a", NO),
        ("Content-Usage:train-ai=n#", "/a", NO),
    ],
)
def test_paths(lines: str, path: str, expected: Preference) -> None:
    """By attach-05 §5."""
    assert trained(f"User-agent: *\nAllow: /\n{lines}", path) is expected


def test_an_own_group_hides_that_of_everybody() -> None:
    """By attach §5, step 6: the group is chosen as for Allow and Disallow."""
    body = "User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n\nUser-agent: MyBot\nAllow: /"
    assert trained(body, "/", "MyBot/2.0") is OPEN
    assert trained(body, "/", "OtherBot") is NO


def test_content_usage_ends_a_run_of_agents_for_itself() -> None:
    """In the grammar of attach §5 it is a rule; Allow and Disallow go on as RFC 9309 §2.2.4 reads other records."""
    body = """\
User-agent: one
Content-Usage: train-ai=y

User-agent: two
Content-Usage: train-ai=n
User-agent: *
Disallow: /private
Content-Usage: /open search=y
"""
    robots = RobotsTxt.parse(body.encode(), SITE)
    expected = {"one": (YES, OPEN), "two": (NO, OPEN), "three": (OPEN, YES)}
    for agent, (ai_train, search) in expected.items():
        assert robots.preferences("/x", agent).ai_train is ai_train
        assert robots.preferences("/open", agent).search is search
        assert not robots.allowed("/private", agent)


def test_a_signal_for_one_crawler_allows_no_other() -> None:
    """Where the same rules follow for others: they get what the line disallows, and not what it allows."""
    body = b"User-agent: Friend\nContent-Signal: ai-train=yes, search=no\n\nUser-agent: *\nDisallow: /x"
    robots = RobotsTxt.parse(body, SITE)
    friend, other = robots.preferences("/", "Friend"), robots.preferences("/", "Other")
    assert (friend.ai_train, friend.search) == (YES, NO)
    assert (other.ai_train, other.search) == (OPEN, NO)


def test_a_statement_tells_where_it_stands() -> None:
    """The line, the words and the standard, for a person who asks why."""
    (statement,) = RobotsTxt.parse(EXAMPLE, SITE).preferences(f"{SITE}/test", "OtherBot").deciding("ai_train")
    assert (statement.line, statement.words, statement.field) == (4, "train-ai=n", "Content-Usage")
    assert statement.standard is Standard.CONTENT_USAGE
    assert statement.source is Source.ROBOTS_TXT
