"""The Signature Agent Card of draft-meunier-webbotauth-registry-04."""

from __future__ import annotations

import json
from typing import Final

import pytest

from robotgate.signing import Directory, SigningKey

BOT: Final = "https://bot.example"


@pytest.mark.parametrize(
    ("contact", "uri"),
    [
        ("bot@example.org", "mailto:bot@example.org"),
        ("bot+crawl@example.org", "mailto:bot+crawl@example.org"),
        ("50%&more?@example.org", "mailto:50%25%26more%3F@example.org"),
        ("https://bot.example/about?a=b#c", "https://bot.example/about?a=b#c"),
    ],
)
def test_card_is_as_the_draft_has_it(contact: str, uri: str) -> None:
    """The card's own URL, keys in one place, and contacts that are URIs: an address as well as a page."""
    body = Directory((SigningKey.generate(),), BOT).card("ExampleBot/1.0", contact=contact)
    card = json.loads(body)
    about = card.pop("web_bot_auth")
    assert card == {
        "client_id": f"{BOT}/.well-known/signature-agent-card",
        "client_name": "ExampleBot",
        "client_uri": BOT,
        "contacts": [uri],
        "jwks_uri": f"{BOT}/.well-known/http-message-signatures-directory",
    }
    assert str(about["expected-user-agent"]).startswith("ExampleBot/1.0")
    assert (about["rfc9309-product-token"], about["rfc9309-compliance"]) == ("ExampleBot", True)
    assert about["trigger"] == "crawler"
