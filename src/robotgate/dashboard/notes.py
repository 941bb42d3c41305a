"""The history that a dashboard shows, bounded: the last answers of hosts, and the rules that refused.

It is collected from the gate's events, from when the application starts.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate.events import RobotsFetched, TurnEnded, TurnRefused, VerdictRefused, one_line
from robotgate.observe.tally import Tally

if TYPE_CHECKING:
    from robotgate.events import Event
    from robotgate.gate import RobotGate

MAX_NOTED: Final = 2000
"""Origins whose answers and refusals are kept: those with the latest events."""
MAX_ANSWERS: Final = 12
"""Answers that are kept of an origin."""
MAX_RULES: Final = 32
"""Rules of an origin whose refusals are counted."""
MAX_TEXT: Final = 300
"""Characters of a URL or a reason that are shown."""
EVENTS: Final = (TurnEnded, RobotsFetched, VerdictRefused, TurnRefused)
"""The events that are kept of a host."""


@dataclass(slots=True)
class HostNotes:
    """What is kept of one origin."""

    answers: deque[TurnEnded | RobotsFetched] = field(default_factory=lambda: deque(maxlen=MAX_ANSWERS))
    rules: Counter[tuple[int | None, str]] = field(default_factory=Counter)
    """Refusals by the line and the text of the rule; by the reason where no rule decided."""
    turned_away: str | None = None
    """Why a turn was refused the last time for another reason."""

    def refuse(self, line: int | None, text: str) -> None:
        """Count a refusal; of more than `MAX_RULES` rules, the one that refused least is dropped."""
        if len(self.rules) >= MAX_RULES and (line, text) not in self.rules:
            del self.rules[min(self.rules, key=self.rules.__getitem__)]
        self.rules[line, text] += 1


class Notes:
    """Keeps the history of the hosts of one gate."""

    def __init__(self, gate: RobotGate) -> None:
        self.tally: Final = Tally(gate)
        self._hosts: dict[str, HostNotes] = {}
        """By origin; those with the latest events are last."""

    def add(self, event: Event) -> None:
        """Add an event."""
        match event:
            case TurnEnded():
                self._of(event.url).answers.appendleft(event)
            case RobotsFetched():
                self.of_origin(event.origin.text).answers.appendleft(event)
            case VerdictRefused(verdict=verdict):
                rule = verdict.rule
                line, text = (None, verdict.reason.value) if rule is None else (rule.line, str(rule))
                self._of(verdict.url).refuse(line, bounded(text))
            case TurnRefused():
                self._of(event.url).turned_away = bounded(str(event.error))

    def _of(self, url: str) -> HostNotes:
        end = url.find("/", len("https://"))
        return self.of_origin(url if end < 0 else url[:end])

    def of_origin(self, origin: str) -> HostNotes:
        """Return what is kept of an origin, and move it to the end of the line for removal."""
        known = self._hosts.pop(origin, None)
        notes = self._hosts[origin] = HostNotes() if known is None else known
        if len(self._hosts) > MAX_NOTED:
            del self._hosts[next(iter(self._hosts))]
        return notes


def bounded(text: str) -> str:
    """A text as it is shown."""
    text = one_line(text)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
