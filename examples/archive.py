"""Stores the answers of URLs as WARC files. A later run fetches only what has changed; a killed run continues.

python examples/archive.py --contact you@example.org archive < urls.txt
"""

import argparse
import asyncio
import hashlib
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import ClientError, ClientTimeout
from warcio.archiveiterator import ArchiveIterator  # pip install warcio
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from robotgate import ResponseTooLargeError, RobotGate


def headers_for(files: Path) -> dict[str, str]:
    """Headers for an unencoded page, and only if it differs from the newest of its files."""
    headers = {"Accept-Encoding": "identity"}
    for newest in sorted(files.glob("*.warc.gz"))[-1:]:
        with newest.open("rb") as file:
            headers["If-None-Match"] = (
                next(iter(ArchiveIterator(file))).http_headers.get_header("ETag") or '""'
            )
    return headers


async def archive(gate: RobotGate, url: str, folder: Path, max_bytes: int) -> str:
    """Store an answer in a file that is complete or absent, and return what happened."""
    files = folder / hashlib.sha256(url.encode()).hexdigest()[:16]
    files.mkdir(exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as body:
        headers, timeout = headers_for(files), ClientTimeout(sock_read=60)
        async with gate.fetch(url, headers=headers, allow_redirects=False, timeout=timeout) as response:
            async for chunk in response.content.iter_chunked(2**16):
                if body.tell() + len(chunk) > max_bytes:
                    raise ResponseTooLargeError(url, max_bytes)
                body.write(chunk)
        if response.status == 304 or response.status >= 500:
            return f"{response.status}, nothing to keep"
        http = StatusAndHeaders(f"HTTP/1.1 {response.status} {response.reason}", [*response.headers.items()])
        size, _ = body.tell(), body.seek(0)
        with (files / "part").open("wb") as file:
            writer = WARCWriter(file)
            record = writer.create_warc_record(url, "response", payload=body, length=size, http_headers=http)
            await asyncio.to_thread(writer.write_record, record)
        (files / "part").rename(files / f"{time.time_ns()}.warc.gz")
    return f"{response.status}, {size} bytes kept"


async def main(contact: str, folder: Path, max_bytes: int) -> None:
    """Archive the URLs that were not archived since the last complete run."""
    with (folder / "done.txt").open("a+") as journal:
        journal.seek(0)
        urls = set(sys.stdin.read().split()) - set(journal.read().split())

        async def visit(url: str) -> None:
            try:
                print(f"{url}: {await archive(gate, url, folder, max_bytes)}")
            except (ClientError, TimeoutError) as error:
                print(f"{url}: {type(error).__name__}")
            print(url, file=journal, flush=True)

        async with RobotGate("ExampleArchiver/1.0", contact=contact, store=folder / "cache.db") as gate:
            await asyncio.gather(*map(visit, urls))
    (folder / "done.txt").unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one that exists")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--max-bytes", type=int, default=2**30, help="of one body")
    asyncio.run(main(**vars(parser.parse_args())))
