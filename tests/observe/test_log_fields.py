"""Fields of log records: what a formatter that writes JSON finds without reading the text."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

import pytest
from tests.core.test_events import EVENTS, hostile
from tests.waiting import settle

from robotgate import DisallowedError
from robotgate.events import FIELD_PREFIX, LINE_HEAD, LINE_TAIL, Event, log_fields

if TYPE_CHECKING:
    from tests.gate.servers import Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"


def told(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a record, without their prefix."""
    return {
        name.removeprefix(FIELD_PREFIX): value
        for name, value in vars(record).items()
        if name.startswith(FIELD_PREFIX)
    }


async def test_records_of_a_crawl_have_fields(
    gate: RobotGate, web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    """URL, host, status, wait, and the line of the rule."""
    caplog.set_level(logging.DEBUG, "robotgate")
    web.serve(f"{SITE}/robots.txt", "User-agent: *\nDisallow: /private")
    await gate.fetch(f"{SITE}/page")
    with pytest.raises(DisallowedError):
        await gate.fetch(f"{SITE}/private")
    await settle()
    found = {str(fields["event"]): fields for fields in map(told, caplog.records) if fields}
    assert found["RobotsFetched"].items() >= {"host": "site.example", "status": 200}.items()
    assert found["RobotsFetched"]["outcome"] == "success"
    assert found["TurnBegan"]["url"] == f"{SITE}/page"
    assert isinstance(found["TurnBegan"]["waited"], float)
    assert found["TurnEnded"].items() >= {"url": f"{SITE}/page", "status": 200}.items()
    refused = found["VerdictRefused"]
    assert (refused["url"], refused["reason"]) == (f"{SITE}/private", "disallowed_by_rule")
    assert (refused["rule"], refused["rule_line"]) == ("Disallow: /private", 2)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_fields_are_plain_and_clash_with_none(event: Event) -> None:
    """Any JSON encoder takes them, in its strictest form, and no attribute of a record is overwritten."""
    fields = log_fields(event)
    json.dumps(fields, allow_nan=False)
    record = logging.LogRecord("robotgate", logging.INFO, __file__, 1, "%s", (event,), None)
    assert fields.keys().isdisjoint(vars(record))
    assert fields[f"{FIELD_PREFIX}event"] == type(event).__name__


def test_what_a_server_sends_stays_bounded_and_on_one_line() -> None:
    """As in the text: no credentials, no line breaks, no megabytes."""
    for event in hostile("https://user:secret@site.example/\n2026-01-01 CRITICAL\u202e" + "x" * 100_000):
        for value in log_fields(event).values():
            text = str(value)
            assert "secret" not in text
            assert text.isprintable()
            assert len(text) <= (LINE_HEAD + LINE_TAIL + 1) * len(r"\U00000000")
