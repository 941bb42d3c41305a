"""A site whose robots.txt the test can change, and a gate before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from tests.paced import ROBOTS, make_gate

from robotgate import GateOptions, MemoryStore
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from robotgate.stores import Store

PRIVATE: Final = "http://a.example/private/page"
CLOSED: Final = Answer(status=200, body=b"User-agent: *\nDisallow: /private/\n", etag='"v1"')
OPEN: Final = Answer(status=200, body=b"User-agent: *\nDisallow:\n", etag='"v2"')
UNCHANGED: Final = Answer(status=304)
DEAD: Final = Failure("no answer")


class Site:
    """What it answers when its robots.txt is asked for, and when that was."""

    def __init__(
        self, answer: Answer | Failure = CLOSED, *, takes: float = 0.0, **options: Unpack[GateOptions]
    ) -> None:
        self._answers: dict[str, Answer | Failure] = {ROBOTS: answer}
        self.fetcher = ScriptedFetcher(self._answers, otherwise=Answer(status=404), latency=takes)
        self.store: Store = MemoryStore()
        self.gate = make_gate(self.fetcher, **GateOptions(store=self.store) | options)

    def becomes(self, answer: Answer | Failure) -> None:
        """From now on it answers so."""
        self._answers[ROBOTS] = answer

    @property
    def asked_at(self) -> list[float]:
        """When its robots.txt was asked for."""
        return [at for at, url in self.fetcher.requests if url == ROBOTS]

    @property
    def conditions(self) -> list[str | None]:
        """If-None-Match of each request for it."""
        return [
            headers.get("If-None-Match")
            for (_, url), headers in zip(self.fetcher.requests, self.fetcher.headers, strict=True)
            if url == ROBOTS
        ]
