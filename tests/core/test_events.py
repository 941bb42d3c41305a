"""Events as values, what never gets into their lines of a log, and who hears of them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import pickle
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import settle

from robotgate.errors import OptionError, StoreError, TooSoonError
from robotgate.events import (
    LEVELS,
    LINE_HEAD,
    LINE_TAIL,
    BlockCause,
    Event,
    Events,
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
    level_of,
    logger,
)
from robotgate.rules.grammar import RuleKind
from robotgate.rules.verdict import AccessResult, Reason, Rule, Verdict
from robotgate.sites.status_table import Outcome
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

NOW: Final = 1_800_000_000.0
SITE: Final = Origin.of("https://site.example")
PAGE: Final = "https://site.example/page?a=1"
REQUEST: Final[ContextVar[str]] = ContextVar("request", default="none")
OFF: Final = logging.CRITICAL + 1


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


# ── listeners


def began(number: int) -> TurnBegan:
    """An event that can be told from others."""
    return TurnBegan(at=NOW + number, url=f"https://site.example/{number}", waited=0.0)


async def test_subscriber_hears_in_order_and_later() -> None:
    """Not before the one who emits lets others run."""
    events = Events()
    heard: list[Event] = []
    events.subscribe(heard.append)
    for number in range(5):
        events.emit(began(number))
    assert heard == []
    await settle()
    assert heard == [began(number) for number in range(5)]


async def test_tracing_hears_at_once_and_in_the_context_of_the_request() -> None:
    """Such a subscriber reads what the task that made the request has set; others are called later."""
    events = Events()
    heard: list[str] = []
    later: list[Event] = []
    unsubscribe = events.subscribe(lambda _: heard.append(REQUEST.get()), at_once=True)
    events.subscribe(later.append)
    token = REQUEST.set("the request's")
    events.emit(began(1))
    REQUEST.reset(token)
    events.emit(began(2))
    assert heard == ["the request's", "none"]
    assert later == []
    await settle()
    assert later == [began(1), began(2)]
    unsubscribe()
    events.emit(began(3))
    assert len(heard) == 2


async def test_error_of_a_subscriber_reaches_the_loop_alone() -> None:
    """Neither who emits nor another subscriber notices it."""
    events = Events()
    heard: list[Event] = []
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    mistake = ValueError("a subscriber's own")

    def fail(_: Event) -> None:
        raise mistake

    events.subscribe(fail)
    events.subscribe(heard.append)
    events.emit(began(1))
    events.emit(began(2))
    await settle()
    assert errors == [mistake, mistake]
    assert heard == [began(1), began(2)]


async def test_unsubscribed_hears_no_more() -> None:
    """Not even of what happened before. It ends its own subscription, if called twice, too, and no other."""
    events = Events()
    heard: list[Event] = []
    unsubscribe = events.subscribe(heard.append)
    events.subscribe(heard.append)
    events.emit(began(1))
    unsubscribe()
    unsubscribe()
    events.emit(began(2))
    await settle()
    assert heard == [began(1), began(2)]


async def test_subscriber_may_unsubscribe_while_it_hears() -> None:
    """Once is enough for some."""
    events = Events()
    heard: list[Event] = []

    def hear_once(event: Event) -> None:
        heard.append(event)
        unsubscribe()

    unsubscribe = events.subscribe(hear_once)
    events.emit(began(1))
    events.emit(began(2))
    await settle()
    assert heard == [began(1)]
    assert not events.is_heard(TurnBegan)


async def test_subscriber_runs_in_the_context_it_subscribed_in() -> None:
    """A task that it starts is no part of the request that the event is about."""
    events = Events()
    seen: list[str] = []
    events.subscribe(lambda _: seen.append(REQUEST.get()))
    token = REQUEST.set("a request")
    events.emit(began(1))
    REQUEST.reset(token)
    await settle()
    assert seen == ["none"]


def test_without_a_loop_the_call_is_made_at_once() -> None:
    """Where no loop runs, no request does; only the operator emits there."""
    events = Events()
    heard: list[Event] = []
    events.subscribe(heard.append)
    events.emit(began(1))
    assert heard == [began(1)]


async def test_subscriber_of_some_kinds_hears_no_others() -> None:
    """Nor does it have the others made."""
    events = Events()
    heard: list[Event] = []
    events.subscribe(heard.append, TurnBegan, TurnEnded)
    event = HostRecovered(at=NOW, host="site.example", cause=BlockCause.ASKED)
    events.emit(event)
    events.emit(began(1))
    await settle()
    assert heard == [began(1)]
    assert events.is_heard(TurnEnded)
    assert not events.is_heard(VerdictRefused)


@pytest.mark.parametrize("kind", ["TurnBegan", Exception, began(1), None, Event])
def test_what_is_no_kind_of_event_is_refused(kind: type[Event]) -> None:
    """At once, and nothing is subscribed."""
    events = Events()
    heard: list[Event] = []
    with pytest.raises(OptionError, match="kinds"):
        events.subscribe(heard.append, TurnBegan, kind)
    events.emit(began(1))
    assert heard == []


async def hear(event: Event) -> None:
    """A coroutine function, which nothing would await."""


@pytest.mark.parametrize(
    ("callback", "hint"),
    [
        (None, "give a plain function"),
        ("print", "give a plain function"),
        (hear, "task"),
        (partial(hear), "task"),
    ],
)
def test_what_cannot_hear_is_refused(callback: Callable[[Event], object], hint: str) -> None:
    """At once, by name, with a remedy."""
    with pytest.raises(OptionError, match=f"callback=.*{hint}"):
        Events().subscribe(callback)


HEARD: Final[dict[int, set[type[Event]]]] = {
    logging.DEBUG: set(LEVELS),
    logging.INFO: {
        RobotsFetched, VerdictRefused, TurnRefused, HostRecovered, HostBlocked, StoreLost, StoreRecovered,
    },
    logging.WARNING: {RobotsFetched, HostBlocked, StoreLost, StoreRecovered},
    logging.ERROR: {StoreLost},
    OFF: set(),
}  # fmt: skip


@pytest.mark.parametrize(("level", "heard"), HEARD.items())
def test_logging_hears_by_its_level(
    level: int, heard: set[type[Event]], caplog: pytest.LogCaptureFixture
) -> None:
    """A kind is heard if its gravest event would be logged."""
    caplog.set_level(level, logger=logger.name)
    events = Events()
    assert {kind for kind in LEVELS if events.is_heard(kind)} == heard


@pytest.mark.parametrize("event", EVENTS, ids=str)
async def test_event_is_logged_soon_as_its_line(event: Event, caplog: pytest.LogCaptureFixture) -> None:
    """On the logger `robotgate`; the text is made only if some handler wants it."""
    caplog.set_level(logging.DEBUG, logger="robotgate")
    Events().emit(event)
    assert caplog.records == []
    await settle()
    (record,) = caplog.records
    assert (record.name, record.msg, record.args) == ("robotgate", "%s", (event,))
    assert record.levelno == level_of(event)
    assert record.getMessage() == str(event)


def test_page_lists_every_event_with_its_level_and_fields() -> None:
    """docs/events.md says what there is to hear."""
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
    for kind, level in LEVELS.items():
        head = f"| `{kind.__name__}` | {logging.getLevelName(level)} |"
        (row,) = (line for line in page.splitlines() if line.startswith(head))
        held = [field.name for field in dataclasses.fields(kind) if field.name != "at"]
        assert [name for name in held if f"`{name}`" not in row] == []
    for cause in BlockCause:
        assert f"| `{cause.name}` |" in page


def test_robots_txt_out_of_reach_is_a_warning() -> None:
    """It keeps a site closed; one that is read, or missing, changes nothing for the worse."""
    assert level_of(fetched()) == logging.INFO
    assert level_of(unreachable("it refuses connections")) == logging.WARNING
