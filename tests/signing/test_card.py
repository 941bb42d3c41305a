"""The Signature Agent Card, read by the rules of draft-meunier-webbotauth-registry-04."""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import unquote

import pytest
from yarl import URL

from robotgate.signing import Directory, SigningKey

BOT: Final = "https://bot.example"
CARD: Final = f"{BOT}/.well-known/signature-agent-card"
TEXTS: Final = ("client_id", "client_name", "client_uri", "jwks_uri")
ABOUT: Final = {
    "expected-user-agent": str,
    "rfc9309-product-token": str,
    "rfc9309-compliance": bool,
    "trigger": str,
}
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
"""RFC 3986 §3."""


def read_card(body: bytes, url: str) -> dict[str, object]:
    """The card that is published at a URL, as a verifier reads it.

    Raises:
        ValueError: it breaks a rule of the draft.
    """
    card = json.loads(body)
    if not all(isinstance(card[name], str) for name in TEXTS) or card["client_id"] != url:
        raise ValueError("client_id has to be the card's own URL")
    if ("jwks_uri" in card) == ("jwks" in card) or URL(card["jwks_uri"]).scheme != "https":
        raise ValueError("the keys stand in one place")
    if URL(card["client_uri"]).scheme not in {"http", "https"}:
        raise ValueError("client_uri is the URL of a page")
    if not card["contacts"] or not all(map(_URI.fullmatch, card["contacts"])):
        raise ValueError("contacts are URIs")
    about = card["web_bot_auth"]
    if not all(isinstance(about[name], kind) for name, kind in ABOUT.items()):
        raise ValueError("web_bot_auth")
    if about["trigger"] not in {"fetcher", "crawler"}:
        raise ValueError("trigger")
    return dict(card)


@pytest.mark.parametrize(
    ("contact", "uri"),
    [
        ("bot@example.org", "mailto:bot@example.org"),
        ("bot+crawl@example.org", "mailto:bot+crawl@example.org"),
        ("50%&more?@example.org", "mailto:50%25%26more%3F@example.org"),
        ("https://bot.example/about?a=b#c", "https://bot.example/about?a=b#c"),
    ],
)
def test_contact_is_a_uri(contact: str, uri: str) -> None:
    """An address as well as a page, so that the card is read at all."""
    body = Directory((SigningKey.generate(),), BOT).card("ExampleBot/1.0", contact=contact)
    card = read_card(body, CARD)
    assert card["contacts"] == [uri]
    assert unquote(uri).removeprefix("mailto:") == contact


def test_bare_address_would_be_refused() -> None:
    """The rules above tell the difference."""
    body = Directory((SigningKey.generate(),), BOT).card("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(ValueError, match="URIs"):
        read_card(body.replace(b"mailto:", b""), CARD)
