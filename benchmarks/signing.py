"""What a signature costs a request: in each form of Signature-Agent, beside Ed25519 alone and a library that signs any
HTTP message.

A signature is made for each hop and attempt, so the time is part of every request of a gate that signs.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519

from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import interleaved
from robotgate.signing import AgentForm, Ed25519Signer, SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACKAGES: Final = ("robotgate", "cryptography", "http-message-signatures")
LIMIT: Final = 80.0
"""Microseconds a request."""
ROUNDS: Final = {Effort.QUICK: 2, Effort.FULL: 9}
CALLS: Final = {Effort.QUICK: 100, Effort.FULL: 2_000}
"""Per round."""
URL: Final = "https://www.example.com/articles/2026/11/some-page.html?page=2&sort=date"
AGENT: Final = "https://bot.example"
ALL: Final = ("@method", "@authority", "@path", "@query", "@target-uri")
NOW: Final = 1735689600
BARE: Final = "Ed25519 alone"
LIBRARY: Final = "http-message-signatures"
COLUMNS: Final = (
    Column(key="cost", title="CPU µs a request", decimals=1, shows_spread=True),
    Column(key="ratio", title="of Ed25519's", decimals=2),
)


@dataclass(slots=True)
class Message:
    """A request, as the library takes it."""

    method: str
    url: str
    headers: dict[str, str]


def by_library(signer: HTTPMessageSigner, key_id: str) -> None:
    """Sign the same with `http_message_signatures`."""
    now = dt.datetime.fromtimestamp(NOW, tz=dt.UTC)
    signer.sign(
        Message("GET", URL, {"Signature-Agent": f'"{AGENT}"'}),
        key_id=key_id,
        created=now,
        expires=now + dt.timedelta(seconds=60),
        nonce="bm9uY2U=",
        label="sig1",
        tag="web-bot-auth",
        covered_component_ids=("@authority", "signature-agent"),
    )


def ways() -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], object]]]:
    """What signs a request, by name: ours, and the others."""
    private = Ed25519PrivateKey.generate()
    key = SigningKey(private.private_bytes_raw())
    resolver = MappingKeyResolver(public_keys={}, private_keys={key.thumbprint: private})
    library = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=resolver)
    ours: dict[str, Callable[[], object]] = {
        f"{form.value}, {'all components' if components is ALL else '@authority'}": partial(
            Ed25519Signer(key, agent_url=AGENT, form=form, components=components).headers, "GET", URL, NOW
        )
        for form in AgentForm
        for components in (("@authority",), ALL)
    }
    return ours, {
        BARE: partial(private.sign, bytes(300)),
        LIBRARY: partial(by_library, library, key.thumbprint),
    }


def measure(effort: Effort) -> Findings:
    """All ways in the same rounds."""
    ours, others = ways()
    works = {name: partial(_cost, work, CALLS[effort]) for name, work in (ours | others).items()}
    costs = {name: figures["cost"] for name, figures in interleaved(ROUNDS[effort], works).items()}
    slowest = max(ours, key=lambda name: costs[name].median)
    return Findings(
        tables=(_table(costs, set(ours)),),
        goals=(Goal(text=f"a signature, CPU µs a request: {slowest}", figure=costs[slowest], at_most=LIMIT),),
    )


def _table(costs: Mapping[str, Figure], ours: set[str]) -> Table:
    return Table(
        key="request",
        title="A signed request",
        columns=COLUMNS,
        rows=tuple(
            Row(name=name, figures={"cost": cost, "ratio": cost.over(costs[BARE])}, is_ours=name in ours)
            for name, cost in costs.items()
        ),
        note="Rows of ours are named by the form of Signature-Agent and by what is covered besides it.",
    )


def _cost(work: Callable[[], object], calls: int) -> dict[str, float]:
    """CPU microseconds of one call."""
    began_at = time.process_time()
    for _ in range(calls):
        work()
    return {"cost": (time.process_time() - began_at) / calls * 1e6}
