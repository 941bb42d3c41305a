"""RFC 9309 §2.2.1: which groups bind a crawler."""

import pytest

from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import Reason

TWO_GROUPS = b"User-agent: foobot\nDisallow: /foo\n\nUser-agent: *\nDisallow: /all\n"


@pytest.mark.parametrize("written", ["foobot", "FOOBOT", "FooBot", "fOObOT"])
@pytest.mark.parametrize("asked", ["foobot", "FOOBOT", "FooBot"])
def test_tokens_are_compared_without_regard_to_case(written: str, asked: str) -> None:
    """A crawler must find its group whatever the case of the letters."""
    robots = RobotsTxt.parse(f"User-agent: {written}\nDisallow: /".encode())
    assert not robots.allowed("/page", asked)


@pytest.mark.parametrize("field", ["User-agent", "user-agent", "USER-AGENT", "User-Agent"])
def test_the_field_name_is_compared_without_regard_to_case(field: str) -> None:
    """ABNF strings match in any case (RFC 5234 §2.3)."""
    assert not RobotsTxt.parse(f"{field}: foobot\nDisallow: /".encode()).allowed("/page", "foobot")


@pytest.mark.parametrize(
    "asked", ["foo", "foobo", "foobot-news", "newsfoobot", "foobott", "bot", "foobot_x", "foobot2"]
)
def test_a_token_is_matched_whole(asked: str) -> None:
    """A group binds the token it names: neither a part of it nor a longer one."""
    robots = RobotsTxt.parse(b"User-agent: foobot\nDisallow: /")
    assert robots.allowed("/page", asked)
    assert robots.verdict("/page", asked).reason is Reason.NO_GROUP


def test_several_groups_of_one_token_are_one() -> None:
    """Groups that name the token again must be combined."""
    robots = RobotsTxt.parse(
        b"User-agent: foobot\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n\nUser-agent: FooBot\nDisallow: /c\n"
    )
    assert [robots.allowed(path, "foobot") for path in ("/a", "/b", "/c")] == [False, True, False]


def test_combining_keeps_the_longest_match() -> None:
    """Combined groups decide as if their rules stood in one."""
    robots = RobotsTxt.parse(b"User-agent: foobot\nDisallow: /a\nUser-agent: foobot\nAllow: /a/b\n")
    assert not robots.allowed("/a/c", "foobot")
    assert robots.allowed("/a/b", "foobot")


def test_a_group_of_several_agents_binds_each() -> None:
    """A group may begin with several User-agent lines."""
    robots = RobotsTxt.parse(b"User-agent: foobot\nUser-agent: barbot\n\nDisallow: /x\n")
    assert not robots.allowed("/x", "foobot")
    assert not robots.allowed("/x", "barbot")


def test_an_unnamed_crawler_obeys_the_group_for_everybody() -> None:
    """Where no group names it, a crawler must obey the one for ``*``."""
    robots = RobotsTxt.parse(TWO_GROUPS)
    assert not robots.allowed("/all", "barbot")
    assert robots.allowed("/foo", "barbot")


def test_a_named_crawler_does_not_obey_the_group_for_everybody() -> None:
    """The group for ``*`` is only for those whom no group names."""
    robots = RobotsTxt.parse(TWO_GROUPS)
    assert robots.allowed("/all", "foobot")
    assert not robots.allowed("/foo", "foobot")


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nDisallow: /\nUser-agent: foobot\n",
        b"User-agent: foobot\nDisallow:\nUser-agent: *\nDisallow: /\n",
        b"User-agent: *\nDisallow: /\nUser-agent: foobot\nCrawl-delay: 5\n",
    ],
    ids=["at the end of the file", "an empty rule", "a delay only"],
)
def test_an_empty_group_of_ours_hides_the_group_for_everybody(body: bytes) -> None:
    """A group that names us is ours even if it asks nothing."""
    robots = RobotsTxt.parse(body)
    assert robots.allowed("/page", "foobot")
    assert not robots.allowed("/page", "barbot")
    assert robots.verdict("/page", "foobot").reason is Reason.NO_RULE_MATCHES


def test_groups_for_everybody_are_combined_too() -> None:
    """``*`` is combined like any token."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: *\nDisallow: /b\n"
    )
    assert not robots.allowed("/a", "foobot")
    assert not robots.allowed("/b", "foobot")


def test_without_a_group_for_us_or_everybody_no_rules_apply() -> None:
    """No matching group, and none for ``*``: everything is open."""
    verdict = RobotsTxt.parse(b"User-agent: barbot\nDisallow: /").verdict("/page", "foobot")
    assert verdict.allowed
    assert verdict.reason is Reason.NO_GROUP
    assert verdict.group == ()


def test_everybody_beside_a_name() -> None:
    """A group for ``*`` and for a token binds both, once each."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nUser-agent: foobot\nDisallow: /x\n\nUser-agent: foobot\nDisallow: /y\n"
    )
    assert not robots.allowed("/x", "foobot")
    assert not robots.allowed("/y", "foobot")
    assert not robots.allowed("/x", "barbot")
    assert robots.allowed("/y", "barbot")


@pytest.mark.parametrize(
    "agent", ["foobot/2.1", "foobot/2.1 (+https://example.org/bot)", "foobot (like barbot)", "FooBot/"]
)
def test_the_identification_string_contains_the_token(agent: str) -> None:
    """The token is the beginning of the string that the crawler sends."""
    assert not RobotsTxt.parse(b"User-agent: foobot\nDisallow: /").allowed("/page", agent)
