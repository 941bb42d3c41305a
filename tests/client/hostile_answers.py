"""Answers that no honest server sends, byte for byte, and a server that sends them."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.waiting import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BODY: Final = b"User-agent: *\nDisallow: /\n"
MANY: Final = 20_000


def answer(*lines: bytes, body: bytes = b"", status: bytes = b"200 OK", has_length: bool = True) -> bytes:
    """An HTTP/1.1 response with these header lines."""
    length = (b"Content-Length: %d" % len(body),) if has_length else ()
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, *length, b"", body])


def compressed(body: bytes = BODY, times: int = 1) -> bytes:
    """A body as gzip, so many times over."""
    for _ in range(times):
        body = gzip.compress(body, mtime=0)
    return body


CHUNKED: Final = b"Transfer-Encoding: chunked"

HOSTILE: Final[dict[str, bytes]] = {
    # The status line.
    "nothing": b"",
    "line feeds": b"\n" * 1000,
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/0.9": BODY,
    "binary": bytes(range(256)) * 10,
    "version 0": b"HTTP/0.0 200 OK\r\n\r\n" + BODY,
    "version 9.9": b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "version without numbers": b"HTTP/x.y 200 OK\r\n\r\n",
    "huge version": b"HTTP/1." + b"1" * 500 + b" 200 OK\r\n\r\n",
    "status without a number": b"HTTP/1.1 OK\r\n\r\n",
    "status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "status below zero": b"HTTP/1.1 -20 OK\r\n\r\n",
    "status 0": answer(status=b"000 Zero", body=BODY),
    "status 99": answer(status=b"099 Low", body=BODY),
    "status 999": answer(status=b"999 High", body=BODY),
    "status of 500 digits": b"HTTP/1.1 " + b"2" * 500 + b" OK\r\n\r\n",
    "status in Arabic digits": "HTTP/1.1 ٢٠٠ OK\r\n\r\n".encode(),
    "status without a reason": b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "reason of a megabyte": b"HTTP/1.1 200 " + b"x" * 1_000_000 + b"\r\n\r\n",
    "reason that is no text": answer(status=b"200 \xff\xfe\x80", body=BODY),
    "reason with a NUL": answer(status=b"200 a\0b", body=BODY),
    "request instead": b"GET /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    # Informational answers.
    "endless 100": b"HTTP/1.1 100 Continue\r\n\r\n" * MANY,
    "103 and nothing": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + BODY,
    "101 to nothing": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + BODY,
    # Header lines.
    "header without a colon": answer(b"X-Broken", body=BODY),
    "header without a name": answer(b": value", body=BODY),
    "header with a blank in its name": answer(b"X Broken: 1", body=BODY),
    "header with a NUL": answer(b"X-Broken: a\0b", body=BODY),
    "header with a bare CR": answer(b"X-Broken: a\rb", body=BODY),
    "header name that is no text": answer(b"\xff\xfe: 1", body=BODY),
    "header value that is no text": answer(b"X-Broken: \xff\xfe\xed\xa0\x80", body=BODY),
    "folded header": answer(b"X-Folded: a", b" b", body=BODY),
    "folded first header": b"HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n" + BODY,
    "header of a megabyte": answer(b"X-Long: " + b"x" * 1_000_000, body=BODY),
    "header name of a megabyte": answer(b"x" * 1_000_000 + b": 1", body=BODY),
    "many headers": answer(*(b"X-%d: 1" % number for number in range(MANY)), body=BODY),
    "headers without an end": b"HTTP/1.1 200 OK\r\nX-Open: 1\r\n",
    "lines that end in LF": b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
    "Set-Cookie that is none": answer(
        b"Set-Cookie: \xff=;;;===\x01; expires=never; Max-Age=1e999; Domain=..; Path=\\",
        b"Set-Cookie: " + b"a" * 5000 + b"=1",
        b"Set-Cookie: a=1; Expires=Thu, 99 Foo 99999999999 99:99:99 GMT",
        b"Set-Cookie: a=1; Max-Age=" + b"9" * 4000,
        body=BODY,
    ),
    "Content-Type that is none": answer(b"Content-Type: ;;;charset==\xff", body=BODY),
    "charset of another kind": answer(b"Content-Type: text/plain; charset=hex", body=BODY),
    "charset with a NUL": answer(b"Content-Type: text/plain; charset=utf\\08", body=BODY),
    "Link that is none": answer(b"Link: <http://[>; rel=next, <", body=BODY),
    "Content-Disposition that is none": answer(b"Content-Disposition: attachment; filename*=x'", body=BODY),
    "Connection of nonsense": answer(b"Connection: \xff, close, keep-alive, upgrade", body=BODY),
    "Upgrade nobody asked for": answer(b"Connection: upgrade", b"Upgrade: h2c", body=BODY),
    # Lengths.
    "length of letters": answer(b"Content-Length: abc", has_length=False),
    "length below zero": answer(b"Content-Length: -5", body=BODY, has_length=False),
    "length with a plus": answer(b"Content-Length: +5", body=BODY, has_length=False),
    "length of 5000 digits": answer(b"Content-Length: " + b"9" * 5000, body=BODY, has_length=False),
    "length of 2 ** 64": answer(b"Content-Length: 18446744073709551616", body=BODY, has_length=False),
    "length in Arabic digits": answer("Content-Length: ٣".encode(), body=BODY, has_length=False),
    "two lengths": answer(b"Content-Length: 3", body=BODY),
    "list of lengths": answer(b"Content-Length: 3, 3", body=BODY, has_length=False),
    "longer than it is": answer(b"Content-Length: 5000", body=BODY, has_length=False),
    "shorter than it is": answer(b"Content-Length: 5", body=BODY, has_length=False),
    "length and chunks": answer(CHUNKED, body=b"5\r\nabcde\r\n0\r\n\r\n"),
    # Chunks.
    "chunk of letters": answer(CHUNKED, body=b"xyz\r\nabc\r\n0\r\n\r\n", has_length=False),
    "chunk below zero": answer(CHUNKED, body=b"-5\r\nabcde\r\n0\r\n\r\n", has_length=False),
    "chunk of 5000 digits": answer(CHUNKED, body=b"f" * 5000 + b"\r\nabc\r\n", has_length=False),
    "chunk size without an end": answer(CHUNKED, body=b"1" * 200_000, has_length=False),
    "chunk with a long extension": answer(
        CHUNKED, body=b"3;" + b"x" * 200_000 + b"\r\nabc\r\n0\r\n\r\n", has_length=False
    ),
    "chunk that is longer than it says": answer(CHUNKED, body=b"3\r\nabcdef\r\n0\r\n\r\n", has_length=False),
    "chunks without an end": answer(CHUNKED, body=b"3\r\nabc\r\n", has_length=False),
    "trailers of a megabyte": answer(
        CHUNKED, body=b"0\r\nX-Trailer: " + b"x" * 1_000_000 + b"\r\n\r\n", has_length=False
    ),
    "trailers that are none": answer(CHUNKED, body=b"0\r\n\xff\0\r\n\r\n", has_length=False),
    "tiny chunks": answer(CHUNKED, body=b"1\r\n#\r\n" * 50_000 + b"0\r\n\r\n", has_length=False),
    "chunked twice": answer(CHUNKED, CHUNKED, body=b"3\r\nabc\r\n0\r\n\r\n", has_length=False),
    "Transfer-Encoding gzip": answer(b"Transfer-Encoding: gzip", body=compressed(), has_length=False),
    "Transfer-Encoding gzip, chunked": answer(
        b"Transfer-Encoding: gzip, chunked",
        body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(compressed()), compressed()),
        has_length=False,
    ),
    "Transfer-Encoding of nonsense": answer(b"Transfer-Encoding: \xff", body=BODY, has_length=False),
    # Content codings.
    "gzip that is none": answer(b"Content-Encoding: gzip", body=BODY),
    "gzip that breaks off": answer(b"Content-Encoding: gzip", body=compressed()[:-6]),
    "gzip with a bad checksum": answer(b"Content-Encoding: gzip", body=compressed()[:-8] + bytes(8)),
    "gzip of empty members": answer(b"Content-Encoding: gzip", body=compressed(b"") * 30_000),
    "gzip of empty blocks": answer(
        b"Content-Encoding: gzip",
        body=b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\0\0\0\xff\xff" * 400_000 + compressed()[10:],
    ),
    "gzip with a name without an end": answer(
        b"Content-Encoding: gzip", body=b"\x1f\x8b\x08\x08\0\0\0\0\0\x03" + b"x" * 2_000_000
    ),
    "gzip on ten lines": answer(*[b"Content-Encoding: gzip"] * 10, body=compressed(times=10)),
    "deflate that is none": answer(b"Content-Encoding: deflate", body=BODY),
    "deflate that needs a dictionary": answer(
        b"Content-Encoding: deflate", body=b"\x78\xbb\0\0\0\1" + zlib.compress(BODY)[2:]
    ),
    "br": answer(b"Content-Encoding: br", body=b"\x0b\x02\x80abc\x03"),
    "zstd": answer(b"Content-Encoding: zstd", body=b"\x28\xb5\x2f\xfd"),
    "coding of nonsense": answer(b"Content-Encoding: \xff\xfe", body=BODY),
    # Redirects, dates and other values.
    "redirect to two places": answer(b"Location: /a", b"Location: /b", status=b"302 Found"),
    "redirect to no URL": answer(b"Location: http://[::1", status=b"302 Found"),
    "redirect to bytes": answer(b"Location: \xff\xfe\x80\xed\xa0\x80", status=b"302 Found"),
    "redirect to a huge port": answer(b"Location: http://a:99999999999/", status=b"302 Found"),
    "redirect to a name of dots": answer(b"Location: http://....../", status=b"302 Found"),
    "redirect to a name that cannot be encoded": answer(
        b"Location: http://" + "\u2488\u00df".encode() + b"." * 300 + b"/", status=b"302 Found"
    ),
    "redirect to a megabyte": answer(b"Location: /" + b"a" * 1_000_000, status=b"302 Found"),
    "redirect to ftp": answer(b"Location: ftp://a.example/", status=b"302 Found"),
    "refresh never": answer(b"Retry-After: " + b"9" * 5000, status=b"503 Busy"),
    "Retry-After that is none": answer(
        b"Retry-After: Thu, 99 Foo 99999 99:99:99 +9999999", status=b"429 Slow"
    ),
    "dates that are none": answer(
        b"Date: \xff", b"Expires: Thu, 01 Jan 0000 00:00:00 -9999", b"Age: " + b"9" * 5000, body=BODY
    ),
    "challenges": answer(b'WWW-Authenticate: Digest \xff,,,="', b"WWW-Authenticate: x", status=b"401 No"),
    # Statuses without a body.
    "204 with a body": answer(status=b"204 Empty", body=BODY),
    "304 nobody asked for": answer(status=b"304 Same", body=BODY),
    "205 with a body": answer(status=b"205 Reset", body=BODY),
    "206 of nothing": answer(b"Content-Range: bytes 5-1/\xff", status=b"206 Part", body=BODY),
    # After the answer.
    "two answers": answer(body=BODY) + answer(status=b"500 Oops", body=BODY),
    "rubbish behind it": answer(body=BODY) + b"\0" * 100_000,
}
"""By name. Each is sent whatever was requested, and the connection is closed after it."""


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """A server on a port of 127.0.0.1 that treats each connection like this, and closes it."""
    talks: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        # A client may leave at any point.
        with suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            await settle()
            async with asyncio.timeout(60):
                await asyncio.gather(*talks)


@asynccontextmanager
async def serving(raw: bytes, *, pause: float = 0.0) -> AsyncIterator[int]:
    """A server on a port of 127.0.0.1 that answers every request with these bytes, and closes the connection.

    Args:
        pause: seconds between the headers and the rest, and again before the last byte.
    """
    end_of_headers = raw.find(b"\r\n\r\n") + 4
    pieces = (raw[:end_of_headers], raw[end_of_headers:-1], raw[end_of_headers:][-1:]) if pause else (raw,)

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    async with listening(answer_all) as port:
        yield port
