"""What a signature costs a request: ``python -m benchmarks.signing [--count N]``.

It prints a table of microseconds for each form of Signature-Agent, beside Ed25519 alone and beside a library that signs
any HTTP message. A signature is made for each hop and attempt, so the time is part of every request of a gate that
signs. Exits with 1 if a signer of ours takes more than `LIMIT`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519

from robotgate.signing import AgentForm, Ed25519Signer, SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT: Final = 80.0
"""Microseconds a request."""
ROUNDS: Final = 7
"""The median of so many is shown."""
URL: Final = "https://www.example.com/articles/2026/11/some-page.html?page=2&sort=date"
AGENT: Final = "https://bot.example"
ALL: Final = ("@method", "@authority", "@path", "@query", "@target-uri")
NOW: Final = 1735689600


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


def microseconds(work: Callable[[], object], count: int) -> float:
    """The time of one call, in the middle one of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began_at = time.perf_counter()
        for _ in range(count):
            work()
        rounds.append((time.perf_counter() - began_at) / count * 1e6)
    return statistics.median(rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether each signer keeps the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="signatures a round")
    count = parser.parse_args(arguments).count
    private = Ed25519PrivateKey.generate()
    key = SigningKey(private.private_bytes_raw())
    resolver = MappingKeyResolver(public_keys={}, private_keys={key.thumbprint: private})
    library = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=resolver)
    ours = {
        f"{form.value}, {'all components' if components is ALL else '@authority'}": partial(
            Ed25519Signer(key, agent_url=AGENT, form=form, components=components).headers, "GET", URL, NOW
        )
        for form in AgentForm
        for components in (("@authority",), ALL)
    }
    theirs: dict[str, Callable[[], object]] = {
        "Ed25519 alone": partial(private.sign, bytes(300)),
        "http-message-signatures": partial(by_library, library, key.thumbprint),
    }
    print("| what signs | µs a request |\n| --- | ---: |")
    slowest = 0.0
    for name, work in ours.items():
        took = microseconds(work, count)
        slowest = max(slowest, took)
        print(f"| {name} | {took:.1f} |")
    for name, other in theirs.items():
        print(f"| {name} | {microseconds(other, count):.1f} |")
    return int(slowest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
