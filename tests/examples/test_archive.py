"""examples/archive.py, run as a user runs it: killed, gone on with, and run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from tests.examples.conftest import DELAY, usage
from tests.gate.servers import endless, silent
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.conftest import Program
    from tests.gate.servers import Web

archiveiterator = pytest.importorskip("warcio.archiveiterator")

SITE: Final = "https://{}.example.org/"


def bodies(folder: Path) -> dict[str, list[bytes]]:
    """What was kept of each URL, as another program reads it; the oldest first."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(folder.glob("*/*.warc.gz")):
        with path.open("rb") as file:
            for record in archiveiterator.ArchiveIterator(file, check_digests="raise"):
                url = record.rec_headers.get_header("WARC-Target-URI")
                found.setdefault(url, []).append(record.content_stream().read())
    return found


@pytest.mark.slow
async def test_archive_as_its_docstring_says(run: Program, internet: Web, tmp_path: Path) -> None:
    """What a killed run has is not asked for again, nor robots.txt; the run after that asks for what has changed."""
    page, big, slow, shut, broken, bottomless, circle = map(
        SITE.format, ("page", "big", "slow", "shut", "broken", "endless", "circle")
    )
    listed = (page, big, slow, shut, broken, bottomless, circle, "https://nobody.invalid/")
    urls = "\n".join(listed)
    command = usage("archive.py").replace(" archive <", " --max-bytes 8000000 archive <")
    text = b"octets " * 1_000_000

    async def versioned(request: web.Request) -> web.Response:
        is_known = request.headers.get("If-None-Match") == '"1"'
        return web.Response(
            status=304 if is_known else 200, body=None if is_known else text, headers={"ETag": '"1"'}
        )

    internet.serve(page, "first")
    internet.handle(big, versioned)
    internet.handle(slow, silent())
    internet.serve(f"{shut}robots.txt", "User-agent: *\nDisallow: /")
    internet.serve(broken, status=500)
    internet.handle(bottomless, endless(b"#" * 65536))
    internet.redirect(circle, circle)
    (tmp_path / "archive").mkdir()
    killed = await run.start(command, stdin=urls)
    journal = tmp_path / "archive" / "done.txt"
    await until(lambda: slow in internet.urls and len(journal.read_text().split()) >= 7)
    killed.kill()
    await killed.wait()

    before = len(internet.visits)
    internet.serve(slow, "at last")
    resumed = await run(command, stdin=urls)
    assert (resumed.status, resumed.lines) == (0, [f"{slow}: 200, 7 bytes kept"])
    assert [visit.url for visit in internet.visits[before:]] == [slow]

    before = len(internet.visits)
    internet.serve(page, "second")
    again = await run(command, stdin=urls)
    assert again.status == 0
    assert set(again.lines) == {
        f"{page}: 200, 6 bytes kept",
        f"{big}: 304, nothing to keep",
        f"{slow}: 200, 7 bytes kept",
        f"{shut}: DisallowedError",
        f"{broken}: 500, nothing to keep",
        f"{bottomless}: ResponseTooLargeError",
        f"{circle}: 302, 0 bytes kept",
        "https://nobody.invalid/: HostUnavailableError",
    }
    assert not any(visit.url.endswith("robots.txt") for visit in internet.visits[before:])
    hosts = {visit.host for visit in internet.visits}
    assert min(gap for host in hosts for gap in internet.gaps(host)) >= DELAY
    kept = bodies(tmp_path / "archive")
    assert kept == {page: [b"first", b"second"], big: [text], slow: [b"at last"] * 2, circle: [b"", b""]}
