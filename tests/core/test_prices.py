"""What a 402 asks for: the price that its headers name, in each form, and nothing of what cannot be read."""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from robotgate.events import TurnEnded
from robotgate.prices import Price, parse_price

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.events import Event

PAGE: Final = "http://site.example/paid"
UNKNOWN: Final = Price("unknown", None, None)
ASSET: Final = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
OFFER: Final = {"scheme": "exact", "network": "eip155:84532", "amount": "10000", "asset": ASSET}
X402: Final = Price("x402", "10000", ASSET)
RSL: Final = Price("rsl")


def offers(*accepts: object, **more: object) -> str:
    """A PAYMENT-REQUIRED header of x402 v2."""
    return b64encode(json.dumps({"x402Version": 2, "accepts": accepts, **more}).encode()).decode()


def encoded(text: str) -> str:
    """A header of any content."""
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("headers", "price"),
    [
        ({"crawler-price": "USD 0.01"}, Price("crawler-price", "0.01", "USD")),
        ({"Crawler-Price": " EUR 1000000 "}, Price("crawler-price", "1000000", "EUR")),
        ({"PAYMENT-REQUIRED": offers(OFFER)}, X402),
        ({"payment-required": offers(7, {}, {"amount": 1, "asset": ASSET}, OFFER)}, X402),
        ({"crawler-price": "0.01", "payment-required": offers(OFFER)}, X402),
        ({"WWW-Authenticate": 'License error="invalid_request"'}, RSL),
        ({"Link": '<https://a.example/l.xml>; rel="license"; type="application/rsl+xml"'}, RSL),
        ({"crawler-price": "free", "Link": '</l.xml>; type="application/rsl+xml"; rel=license'}, RSL),
    ],
    ids=str,
)
def test_price_is_read_in_each_form(headers: dict[str, str], price: Price) -> None:
    """As the site writes it, from the first header that can be read. Any other status names no price."""
    assert parse_price(402, headers) == price
    assert parse_price(402, httpx.Headers(headers)) == price
    assert [parse_price(status, headers) for status in (200, 401, 403, 429)] == [None] * 4
    assert price.amount is None or Decimal(price.amount) > 0


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [("crawler-price", "USD 0.01"), ("Crawler-Price", "USD 0.02")],
        [("crawler-price", "USD 0.01, USD 0.01")],
        *(
            [("crawler-price", text)]
            for text in ("", "USD", "usd 0.01", "USD -1", "USD 1e9", "USD  1", "$ 1")
        ),
        [("crawler-price", "USD \u0660.\u0661")],
        [("crawler-price", "USD " + "9" * 100_000)],
        [("payment-required", text) for text in (offers(OFFER), offers(OFFER))],
        *(
            [("payment-required", text)]
            for text in (
                "",
                "ключ",
                "not base64!",
                offers(OFFER)[:-3],
                encoded("[" * 12_000),
                encoded("[]"),
                encoded('{"accepts": 7}'),
                encoded('{"accepts": [' + "9" * 6_000 + "]}"),
                offers(),
                offers(OFFER | {"amount": 10_000}),
                offers(OFFER | {"amount": "-1"}),
                offers(OFFER | {"amount": "9" * 41}),
                offers(OFFER | {"asset": "a\nb"}),
                offers(OFFER | {"asset": "x" * 201}),
                offers(*[{}] * 20, OFFER),
                offers(OFFER, padding="x" * 100_000),
            )
        ),
        [("Link", '<https://a.example/l.html>; rel="license"')],
        [("WWW-Authenticate", "Basic realm=License")],
    ],
    ids=lambda lines: str(lines)[:60],
)
def test_what_cannot_be_read_is_unknown(lines: list[tuple[str, str]]) -> None:
    """A header that is malformed, doubled or too long names no price: nobody knows how much it is."""
    assert parse_price(402, CIMultiDict(lines)) == UNKNOWN


NAMES: Final = st.sampled_from(["crawler-price", "PAYMENT-REQUIRED", "Link", "WWW-Authenticate", "x"])
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["accepts", "amount", "asset"]) | st.text(), inner)
    ),
)
VALUES: Final = (
    st.text() | st.binary().map(lambda raw: b64encode(raw).decode()) | JSON.map(json.dumps).map(encoded)
)


@given(status=st.integers(), lines=st.lists(st.tuples(NAMES, VALUES)))
def test_no_header_makes_it_raise(status: int, lines: list[tuple[str, str]]) -> None:
    """Whatever a server sends: there is a price if the status is 402, and it is short."""
    for which in (402, status):
        price = parse_price(which, CIMultiDict(lines))
        assert (price is None) == (which != 402)
        assert price is None or len(str(price)) < 300


@pytest.mark.parametrize("is_stream", [False, True])
async def test_price_of_a_page_is_told(web: Web, open_gate: OpenGate, *, is_stream: bool) -> None:
    """The response has it, and so does the event. A 402 is no telling off, and nothing is requested again."""
    body = b"x" * 1_000_000 if is_stream else b"pay"
    web.serve(PAGE, body, status=402, headers={"crawler-price": "USD 0.01"})
    gate = await open_gate(adaptive=True)
    heard: list[Event] = []
    gate.subscribe(heard.append, TurnEnded, at_once=True)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session:
        response = await gate.fetch(PAGE)
        async with session.get(PAGE) as streamed:
            await streamed.read()
    async with gate.turn(PAGE) as turn:
        turn.report(402, {"crawler-price": "USD 0.01"})
    price = Price("crawler-price", "0.01", "USD")
    assert response.price == parse_price(streamed.status, streamed.headers) == price
    ended = [event for event in heard if isinstance(event, TurnEnded) and event.url == PAGE]
    assert [event.price for event in ended] == [price] * 3
    assert "HTTP status 402 (USD 0.01)" in str(ended[0])
    view = gate.host(PAGE)
    assert (web.count(PAGE), view.failures, view.learned_delay, view.blocked_until_at) == (2, 0, 0.0, None)


async def test_other_pages_have_no_price(web: Web, open_gate: OpenGate) -> None:
    """A page that is given for nothing, whatever its headers say."""
    web.serve(PAGE, "free", headers={"crawler-price": "USD 0.01"})
    gate = await open_gate()
    assert (await gate.fetch(PAGE)).price is None
