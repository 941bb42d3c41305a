"""What a page costs: the price that an answer with status 402 (Payment Required) names.

`parse_price` reads what any client has received. The gate never pays: it asks for the page as for any other, and a
price is what the site wants for the next request.

Needs no extra. Sends nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from multidict import CIMultiDict

from robotgate.statements import RSL_TYPE
from robotgate.urls import read_links

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Price", "parse_price"]

PAYMENT_REQUIRED: Final = 402
MAX_OFFERS: Final = 16_384
"""Characters of a header of x402 that are read; a longer one is malformed."""
MAX_ACCEPTED: Final = 20
"""Offers of x402 that are looked at."""

_CRAWLER_PRICE: Final = re.compile(r"([A-Z]{3}) ([0-9]{1,15}(?:\.[0-9]{1,15})?)", re.ASCII)
_UNITS: Final = re.compile(r"[0-9]{1,40}", re.ASCII)
_ASSET: Final = re.compile(r"[!-~]{1,200}", re.ASCII)
MAX_LINK: Final = 8_192
"""Characters of a line of Link headers that are read."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a site asks for a page."""

    scheme: Literal["crawler-price", "x402", "rsl", "unknown"] = "unknown"
    """How it is named, and paid:

    - ``crawler-price``: by Cloudflare's header (pay per crawl), as ``crawler-price: USD 0.01``.
    - ``x402``: by the header PAYMENT-REQUIRED of x402 v2. The amount counts the smallest units of a token, and the
      currency is that token's address or name.
    - ``rsl``: by a licence of RSL 1.0, which has the price, or names the server that has it.
    - ``unknown``: in no way that can be read.
    """
    amount: str | None = None
    """As the site writes it, in ASCII digits: ``decimal.Decimal`` reads it. None if it is not known."""
    currency: str | None = None
    """As the site writes it, such as ``USD``; None if it is not known."""

    def __str__(self) -> str:
        return f"price unknown ({self.scheme})" if self.amount is None else f"{self.currency} {self.amount}"


_UNKNOWN: Final = Price()


def parse_price(status: int, headers: Mapping[str, str]) -> Price | None:
    """Read the price that an answer names.

    Read are Cloudflare's crawler-price, then PAYMENT-REQUIRED of x402 v2, then the mention of an RSL licence. The first
    that can be read counts, and so does the first readable offer of x402. A header that is malformed, or comes twice,
    is left out. Any text is accepted.

    Args:
        headers: of the response; names in any case. Of a multidict, all lines are read.

    Returns:
        None unless the status is 402. If nothing can be read, a price whose scheme is ``unknown``.
    """
    if status != PAYMENT_REQUIRED:
        return None
    lines = CIMultiDict(headers)
    found = None
    if len(named := lines.getall("crawler-price", [])) == 1:
        found = _of_crawler_price(named[0])
    if found is None and len(offers := lines.getall("payment-required", [])) == 1:
        found = _of_offers(offers[0])
    return found or (Price("rsl") if _names_licence(lines) else _UNKNOWN)


def _of_crawler_price(text: str) -> Price | None:
    # As Cloudflare writes it.
    read = _CRAWLER_PRICE.fullmatch(text.strip(" \t"))
    return None if read is None else Price("crawler-price", read[2], read[1])


def _of_offers(text: str) -> Price | None:
    """Read base64 of a JSON object, whose ``accepts`` is a list of offers."""
    if len(text) > MAX_OFFERS:
        return None
    try:
        asked: object = json.loads(b64decode(text.strip(" \t"), validate=True))
    except (ValueError, RecursionError):
        return None
    offers: object = asked.get("accepts") if isinstance(asked, dict) else None
    for offer in offers[:MAX_ACCEPTED] if isinstance(offers, list) else ():
        match offer:
            case {"amount": str(amount), "asset": str(asset)}:
                if _UNITS.fullmatch(amount) and _ASSET.fullmatch(asset):
                    return Price("x402", amount, asset)
    return None


def _names_licence(lines: CIMultiDict[str]) -> bool:
    """Whether an RSL licence is asked for, or linked to (RSL 1.0)."""
    asked = {line.partition(" ")[0].lower() for line in lines.getall("WWW-Authenticate", ())}
    links = [dict(link[1]) for line in lines.getall("Link", ()) for link in read_links(line[:MAX_LINK])]
    return "license" in asked or any(
        "license" in link.get("rel", "").lower().split() and link.get("type", "").lower() == RSL_TYPE
        for link in links
    )
