"""Events as values, and what never gets into their lines of a log."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.errors import StoreError, TooSoonError
from robotgate.events import (
    LINE_HEAD,
    LINE_TAIL,
    BlockCause,
    Event,
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
)
from robotgate.rules.grammar import RuleKind
from robotgate.rules.verdict import AccessResult, Reason, Rule, Verdict
from robotgate.sites.status_table import Outcome
from robotgate.urls import Origin

NOW: Final = 1_800_000_000.0
SITE: Final = Origin.of("https://site.example")
PAGE: Final = "https://site.example/page?a=1"


def fetched(**news: object) -> RobotsFetched:
    """A robots.txt that was read, but for what is said."""
    read = RobotsFetched(
        at=NOW,
        origin=SITE,
        robots_url=SITE.robots_url,
        access=AccessResult.SUCCESSFUL,
        outcome=Outcome.SUCCESS,
        status=200,
    )
    return dataclasses.replace(read, **news)  # type: ignore[arg-type]


def unreachable(cause: str, **news: object) -> RobotsFetched:
    """A robots.txt that was not read."""
    return fetched(access=AccessResult.UNREACHABLE, outcome=Outcome.FAILURE, status=None, cause=cause, **news)


def refused(url: str = PAGE, pattern: str = "/page") -> VerdictRefused:
    """A URL that a rule disallows."""
    rule = Rule(RuleKind.DISALLOW, pattern, 3)
    return VerdictRefused(
        at=NOW, verdict=Verdict(allowed=False, reason=Reason.DISALLOWED_BY_RULE, url=url, rule=rule)
    )


def blocked(*, stretch: float = 60.0, detail: str | None = None) -> HostBlocked:
    """A host that is blocked for so many seconds."""
    return HostBlocked(
        at=NOW, host="site.example", until_at=NOW + stretch, cause=BlockCause.UNREACHABLE, detail=detail
    )


EVENTS: Final[list[Event]] = [
    fetched(),
    unreachable("it refuses connections", stale=True),
    refused(),
    TurnBegan(at=NOW, url=PAGE, waited=1.25),
    TurnEnded(at=NOW, url=PAGE, status=200, bytes_read=512, elapsed=0.5),
    TurnRefused(at=NOW, url=PAGE, error=TooSoonError("site.example", 2.5)),
    blocked(stretch=-1.0),
    blocked(stretch=math.inf),
    HostRecovered(at=NOW, host="site.example", cause=BlockCause.ASKED),
    StoreLost(at=NOW, error=StoreError("the disk is full: make room")),
    StoreRecovered(at=NOW),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_event_is_a_value(event: Event) -> None:
    """It can be compared, sent to another process, and not be changed."""
    again = pickle.loads(pickle.dumps(event))
    assert str(again) == str(event)
    # Errors are equal to themselves alone.
    assert hasattr(event, "error") or again == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.at = 0.0  # type: ignore[misc]


def hostile(text: str) -> list[Event]:
    """Events into which a server, a store or a caller put a text of theirs."""
    return [
        unreachable(text), fetched(robots_url=text), refused(text), refused(pattern=text),
        TurnRefused(at=NOW, url=text, error=StoreError(text)), TurnBegan(at=NOW, url=text, waited=0.0),
        TurnEnded(at=NOW, url=text, status=None, bytes_read=0, elapsed=0.0), blocked(detail=text),
        HostBlocked(at=NOW, host=text, until_at=NOW, cause=BlockCause.OPERATOR),
        HostRecovered(at=NOW, host=text, cause=BlockCause.OPERATOR),
        StoreLost(at=NOW, error=StoreError(text)),
    ]  # fmt: skip


@given(st.text(st.characters()))
def test_whatever_a_server_says_is_one_line(text: str) -> None:
    """No line break, no control, no lone surrogate and no change of direction gets into a log."""
    for event in hostile(text):
        line = str(event)
        assert line.isprintable()
        assert line.splitlines() == [line]
        assert line.encode()


def test_what_can_be_read_stays_as_it_is() -> None:
    """Only what would not be seen is escaped."""
    assert str(unreachable("Übergröße 漢字")).endswith(", Übergröße 漢字")


@pytest.mark.parametrize(
    "url",
    [
        "https://user:secret@site.example/page",
        "https://secret@site.example",
        "http://a:secret@b@site.example/?next=x",
    ],
)
def test_no_credentials_are_shown(url: str) -> None:
    """A URL with a password in it may stand anywhere in an event."""
    for event in hostile(f"asked {url} in vain, or {url}"):
        assert "secret" not in str(event)
        assert "//site.example" in str(event)


def test_credentials_are_not_parted_from_their_sign() -> None:
    """The cut of a long text comes after the removal."""
    for length in range(LINE_HEAD - 100, LINE_HEAD):
        url = f"https://{'u' * length}:secret@site.example/"
        assert "secret" not in str(TurnBegan(at=NOW, url=url, waited=0.0))


def test_long_text_is_cut_in_its_middle() -> None:
    """Who it is about and why are both kept."""
    line = str(refused(f"https://site.example/{'x' * 100_000}"))
    assert len(line) == LINE_HEAD + 1 + LINE_TAIL
    assert line.startswith("https://site.example/xxx")
    assert line.endswith("Disallow: /page")
