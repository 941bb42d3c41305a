"""The published test vectors of Web Bot Auth, and signatures that an independent verifier accepts."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from http_message_signatures import InvalidSignature
from multidict import CIMultiDict
from tests.signing.verifier import (
    DIRECTORY,
    RFC_PRIVATE,
    RFC_PUBLIC,
    RFC_THUMBPRINT,
    Ed25519ByNaCl,
    Request,
    Verifier,
)

from robotgate import InvalidURLError, OptionError
from robotgate.signing import AgentForm, Directory, Ed25519Signer, SigningKey
from robotgate.signing.signer import agent_field, signature_headers

if TYPE_CHECKING:
    from collections.abc import Callable

KEY: Final = SigningKey(RFC_PRIVATE)
URL: Final = "https://example.com/path/to/resource"
AGENT: Final = "https://signature-agent.test"
CREATED: Final = 1735689600
SOON: Final = 1735693200
LATE: Final = 4889289600
LEGACY, IETF_00, IETF_01 = AgentForm
SECOND, SECOND_WITH_AGENT, FIRST, FIRST_WITH_AGENT = (
    "zIW8+cdmA3vdYagbxojpONwa/l0EKJ/O3/wD486VvsQjO/RxPaSt6ZxvQaMcQzNnqKN/mQ6hpGiFro2L2qkz5A==",
    "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
    "mYotfW3CUjI68sbGw6oKd7kyXqPjZEtU8xFPGWFrqOAf5qC6MDe3pys3SWWCudB0MvwslHy32WXUpkR7u0lt/w==",
    "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
)
"""The nonces of the vectors of the architecture's two versions."""
VECTORS: Final = [
    pytest.param(
        *("sig1", None, LEGACY, LATE, SECOND),
        "QKN4fTdIYfh82fvoZCQiQA1weuozfCS/Led2zTMbewMMqH8PI2Wsy/5c4ao6B6D09nraNQdBNOADg8aM1MqfCg==",
        id="architecture v2, without an agent",
    ),
    pytest.param(
        *("sig2", AGENT, IETF_00, LATE, SECOND_WITH_AGENT),
        "CGokAoY/FrPpyuzTe1Fb2kLTAH9Idw6qSFd1+D77r1firsMRCxeuLu5e6O+ek3zQgDMAzjiXtLVfqE00xnABCQ==",
        id="working group, a dictionary with the label as its key",
    ),
    pytest.param(
        *("sig1", None, LEGACY, SOON, FIRST),
        "+NA/cssf4Y2bQTMTkyvTGRCaVzp9quyUevdwwMtMOWhhOOZ2T1subBj0BtvdnrpDEuwSAbiTeElXDzHL3WWKCw==",
        id="architecture v1, without an agent",
    ),
    pytest.param(
        *("sig2", AGENT, LEGACY, SOON, FIRST_WITH_AGENT),
        "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
        id="architecture v1, a string",
    ),
]


@pytest.mark.parametrize(("label", "agent_url", "form", "expires", "nonce", "signature"), VECTORS)
def test_vector_is_reproduced(
    *, label: str, agent_url: str | None, form: AgentForm, expires: int, nonce: str, signature: str
) -> None:
    """The signer writes the signatures of the published vectors, to the byte."""
    signer = Ed25519Signer(KEY, agent_url=agent_url, form=form, label=label)
    signed = signer.signed("GET", URL, created=CREATED, expires=expires, nonce=nonce)
    assert signed["Signature"] == f"{label}=:{signature}:"
    assert signed.get("Signature-Agent") == {
        None: None,
        (AGENT, LEGACY): f'"{AGENT}"',
        (AGENT, IETF_00): f'{label}="{AGENT}"',
    }.get((agent_url, form) if agent_url else None)


def test_vector_whose_dictionary_has_a_key_of_its_own_is_reproduced() -> None:
    """The second vector of the architecture calls the member ``agent2`` and the signature ``sig2``."""
    header, identifier, value = agent_field(IETF_00, AGENT, "agent2")
    assert header == f'agent2="{AGENT}"'
    covered = [('"@authority"', "example.com"), (identifier, value)]
    parameters: dict[str, str | int] = {
        "created": CREATED,
        "keyid": RFC_THUMBPRINT,
        "alg": "ed25519",
        "expires": LATE,
        "nonce": SECOND_WITH_AGENT,
        "tag": "web-bot-auth",
    }
    signed = signature_headers(KEY, "sig2", covered, parameters)
    assert signed["Signature"] == (
        "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:"
    )


def test_vector_of_the_directory_is_reproduced() -> None:
    """Body, digest and proof of possession are those of the working group's example."""
    directory = Directory((KEY,), AGENT, IETF_00)
    sent = directory.headers(CREATED, lifetime=LATE - CREATED)
    assert len(directory.body) == 154
    assert sent["Content-Digest"] == "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"
    assert sent["Signature-Input"] == (
        f'binding=("@authority";req "content-digest");created={CREATED};expires={LATE};keyid="{RFC_THUMBPRINT}"'
        ';tag="http-message-signatures-directory"'
    )
    assert sent["Signature"] == (
        "binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:"
    )
    assert sent["Content-Type"] == "application/http-message-signatures-directory+json"


def test_all_lines_of_a_header_are_covered() -> None:
    """RFC 9421 §2.1: their values in one, with a comma between, without blanks at their ends, whatever the case."""
    signer = Ed25519Signer(KEY, agent_url=None, components=("@authority", "x-a", "x-b", "x-none"))
    lines = CIMultiDict([("X-A", " 1\t"), ("x-a", "2"), ("x-B", "")])
    headers = signer.headers("GET", URL, CREATED, lines)
    assert headers["Signature-Input"].startswith('sig1=("@authority" "x-a" "x-b");created=')
    parameters = headers["Signature-Input"].removeprefix("sig1=")
    base = f'"@authority": example.com\n"x-a": 1, 2\n"x-b": \n"@signature-params": {parameters}'
    signature = base64.b64decode(headers["Signature"].removeprefix("sig1=:").removesuffix(":"))
    Ed25519ByNaCl(RFC_PUBLIC).verify(signature, base.encode())


def verifier(form: AgentForm) -> Verifier:
    """A verifier that knows the test key."""
    return Verifier({RFC_THUMBPRINT: RFC_PUBLIC}, form)


@pytest.mark.parametrize("form", AgentForm)
@pytest.mark.parametrize(
    "components",
    [("@authority",), ("@method", "@target-uri"), ("@method", "@scheme", "@authority", "@path", "@query")],
)
@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("https://example.com/a%2Fb/?q=%20x&y", None),
        ("http://Example.COM:80/", "http://example.com/"),
        ("https://user:pass@example.com:8443/a;b#part", "https://example.com:8443/a;b"),
        ("http://[2001:db8::1]:81/p?", None),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example/"),
    ],
)
def test_each_form_and_component_is_verified(
    form: AgentForm, components: tuple[str, ...], asked: str, seen: str | None
) -> None:
    """Whatever form and components are chosen, a verifier rebuilds the same base from what it sees of the URL."""
    signer = Ed25519Signer(KEY, agent_url=AGENT, form=form, components=components, label="sig1")
    headers = CIMultiDict(signer.headers("GET", asked, time.time()))
    found = verifier(form).check(Request("GET", seen or asked, headers))
    assert found.key_id == RFC_THUMBPRINT
    assert found.lifetime == 60
    assert found.components >= {f'"{name}"' for name in components}
    assert found.agent == (f"{AGENT}{DIRECTORY}" if form is IETF_01 else AGENT)


@pytest.mark.parametrize(
    "url",
    ["https://example.com/ü", "https://bücher.example/", "https://example.com/a b", "https://a.test/\n", ""],
)
def test_url_that_is_not_as_it_is_sent_is_not_signed(url: str) -> None:
    """A verifier would rebuild another base; a line feed would even add a line to it."""
    with pytest.raises(InvalidURLError):
        Ed25519Signer(KEY, agent_url=AGENT).headers("GET", url, time.time())


def test_directory_needs_a_key_and_has_it_once() -> None:
    """Verifiers look a key up by its id."""
    twice = Directory((KEY, KEY), AGENT)
    assert len(json.loads(twice.body)["keys"]) == 1
    assert twice.headers(CREATED)["Signature-Input"].count("keyid=") == 1
    for keys, form, named in (((), LEGACY, "keys:"), ((KEY,), "legacy", "form=")):
        with pytest.raises(OptionError, match=named):
            Directory(keys, AGENT, form)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        lambda request: replace(request, url="https://other.example/path/to/resource"),
        lambda request: replace(request, url="https://example.com/other"),
        lambda request: replace(request, method="POST"),
    ],
)
def test_narrow_signature_serves_no_other_request(change: Callable[[Request], Request]) -> None:
    """With method and URL covered, whoever copies a signature can only repeat the request."""
    signer = Ed25519Signer(KEY, agent_url=AGENT, components=("@method", "@target-uri"))
    request = Request("GET", URL, CIMultiDict(signer.headers("GET", URL, time.time())))
    verifier(LEGACY).check(request)
    with pytest.raises(InvalidSignature):
        verifier(LEGACY).check(change(request))
