"""The messages of URLFrontier's API that a worker needs, in the encoding of Protocol Buffers (proto3).

They are few, and written by hand: code that protoc generates needs a certain range of versions of protobuf, and the
engines and exporters of a crawl need others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VARINT, _LENGTH = 0, 2
_FIXED: Final = {1: 8, 5: 4}
"""Kinds of fields, and the bytes of those of one length."""
_MAX_VARINT: Final = 10


@dataclass(frozen=True, slots=True)
class URLInfo:
    """A URL as the service has it."""

    url: str
    key: str
    """Its queue."""
    metadata: dict[str, Sequence[str]]
    """What is kept with it. The service gets it back with your changes."""
    crawl_id: str


def read_url_info(message: bytes) -> URLInfo:
    """Read a ``URLInfo``.

    Raises:
        ValueError: it is none, or has no URL.
    """
    texts = {1: "", 2: "", 4: ""}
    metadata: dict[str, Sequence[str]] = {}
    for number, value in _fields(message):
        if number == 3:
            entry = dict(_fields(value))
            metadata[entry.get(1, b"").decode()] = [
                text.decode() for inner, text in _fields(entry.get(2, b"")) if inner == 1
            ]
        elif number in texts:
            texts[number] = value.decode()
    if not texts[1]:
        raise ValueError("no URL")
    return URLInfo(texts[1], texts[2], metadata, texts[4])


def get_params(urls_per_queue: int, queues: int, lease: int, crawl_id: str) -> bytes:
    """``GetParams``: of any crawl without a `crawl_id`."""
    return _field(1, urls_per_queue) + _field(2, queues) + _field(4, lease) + _field(6, crawl_id)


def discovered_item(info: URLInfo, item_id: str) -> bytes:
    """``URLItem``: a URL that the service may not know."""
    return _field(1, _field(1, _url_info(info))) + _field(3, item_id)


def known_item(info: URLInfo, item_id: str, again_at: int) -> bytes:
    """``URLItem``: a URL that the service handed out, to come again from an instant on, or never again, with 0."""
    return _field(2, _field(1, _url_info(info)) + _field(2, again_at)) + _field(3, item_id)


def queue_params(key: str, value: int, crawl_id: str) -> bytes:
    """``QueueDelayParams``, of seconds, and ``BlockQueueParams``, of an instant."""
    return _field(1, key) + _field(2, value) + _field(3, crawl_id)


def read_ack(message: bytes) -> tuple[str, bool]:
    """The ID of an ``AckMessage``, and whether its item has been dealt with; if not, it may be sent again.

    Raises:
        ValueError: it is no such message.
    """
    found = dict(_fields(message))
    # A status of OK is left out, SKIPPED is 1 and FAIL is 2.
    return found.get(1, b"").decode(), found.get(2) != b"\x02"


def _url_info(info: URLInfo) -> bytes:
    entries = [
        _field(3, _field(1, name) + _field(2, b"".join(_field(1, text, always=True) for text in texts)))
        for name, texts in info.metadata.items()
    ]
    return _field(1, info.url) + _field(2, info.key) + b"".join(entries) + _field(4, info.crawl_id)


def _field(number: int, value: int | str | bytes, *, always: bool = False) -> bytes:
    """A field; what is not set has none, unless it is one of a list."""
    if not value and not always:
        return b""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    octets = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _LENGTH) + _varint(len(octets)) + octets


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message, each with its bytes.

    Raises:
        ValueError: it is no message.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        kind, began_at = tag & 7, at
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _LENGTH:
            size, began_at = _read_varint(message, at)
            at = began_at + size
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > len(message):
            raise ValueError("a message that is cut off")
        yield tag >> 3, message[began_at:at]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift, octet in enumerate(message[at : at + _MAX_VARINT]):
        value |= (octet & 0x7F) << (7 * shift)
        if octet < 0x80:
            return value, at + shift + 1
    raise ValueError("a number that does not end")
