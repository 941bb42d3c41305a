"""What a signature costs a request: in each form of Signature-Agent, beside Ed25519 alone and a library that signs any
HTTP message.

A signature is made for each hop and attempt, so the time is part of every request of a gate that signs.
"""

from __future__ import annotations

import datetime as dt
import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519

from benchmarks._bench import interleaved
from benchmarks._report import Column, Effort, Findings, ratio
from robotgate.signing import AgentForm, Ed25519Signer, SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES: Final = ("robotgate", "cryptography", "http-message-signatures")
URL: Final = "https://www.example.com/articles/2026/11/some-page.html?page=2&sort=date"
AGENT: Final = "https://bot.example"
ALL: Final = ("@method", "@authority", "@path", "@query", "@target-uri")
NOW: Final = 1735689600
BARE: Final = "Ed25519 alone"
COLUMNS: Final = (
    Column("cost", "CPU µs a request", 1, shows_spread=True),
    Column("ratio", "of Ed25519's", 2),
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


def measure(effort: Effort) -> Findings:
    """All ways in the same rounds."""
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
    others: dict[str, Callable[[], object]] = {
        BARE: partial(private.sign, bytes(300)),
        "http-message-signatures": partial(by_library, library, key.thumbprint),
    }
    works = {name: partial(_cost, work, effort.pick(100, 2_000)) for name, work in (ours | others).items()}
    figures = interleaved(effort.pick(2, 9), works)
    for own in figures.values():
        own["ratio"] = ratio(own["cost"], figures[BARE]["cost"])
    findings = Findings()
    note = "Rows of ours are named by the form of Signature-Agent and by what is covered besides it."
    findings.table("request", "A signed request", COLUMNS, figures, ours=ours, note=note)
    slowest = max(ours, key=lambda name: statistics.median(figures[name]["cost"]))
    findings.goal(f"a signature, CPU µs a request: {slowest}", figures[slowest]["cost"], at_most=80)
    return findings


def _cost(work: Callable[[], object], calls: int) -> dict[str, float]:
    """CPU microseconds of one call."""
    began_at = time.process_time()
    for _ in range(calls):
        work()
    return {"cost": (time.process_time() - began_at) / calls * 1e6}
