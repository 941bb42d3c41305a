"""Sites that Apache serves: listings of folders, files that did not change, and files in several languages."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.daemons import LOOPBACK, Daemon, free_port, running, user_or
from yarl import URL

from robotgate import DisallowedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import OpenGate

pytestmark = pytest.mark.real("apache2")
MODULES: Final = Path("/usr/lib/apache2/modules")
NAMES: Final = (
    "mpm_event",
    "authz_core",
    "autoindex",
    "deflate",
    "dir",
    "filter",
    "headers",
    "mime",
    "negotiation",
)
CONF: Final = """
ServerName localhost
ServerRoot FOLDER
DefaultRuntimeDir FOLDER
PidFile FOLDER/apache.pid
ErrorLog FOLDER/error.log
User USER
Listen 127.0.0.1:PORT
LogFormat "%{end:sec}t.%{end:usec_frac}t 0 %>s %r %{Content-Language}o" served
CustomLog FOLDER/served.log served
TypesConfig /dev/null
AddType text/html .html
AddType text/plain .txt
AddLanguage de .de
AddLanguage en .en
LanguagePriority en
ForceLanguagePriority Prefer
DocumentRoot FOLDER/site
<Directory FOLDER/site>
DIRECTIVES
</Directory>
"""
DAY: Final = 86_400


@pytest.fixture
def root(open_folder: Path) -> Path:
    """The folder that Apache serves."""
    (open_folder / "site").mkdir()
    return open_folder / "site"


@contextmanager
def apache(root: Path, directives: str) -> Iterator[Daemon]:
    """Apache with directives for the folder that it serves; it logs the language of each answer."""
    folder = root.parent
    port, log, conf = free_port(), folder / "served.log", folder / "apache.conf"
    log.touch()
    modules = [f"LoadModule {name}_module {MODULES / f'mod_{name}.so'}\n" for name in NAMES]
    text = CONF.replace("DIRECTIVES", directives).replace("USER", user_or("www-data"))
    text = text.replace("PORT", str(port)).replace("FOLDER", str(folder))
    conf.write_text("".join(modules) + text, encoding="ascii")
    with running("apache2", "-X", "-f", conf, port=port, output=folder / "apache.output"):
        yield Daemon(LOOPBACK, port, log)


async def test_listing_of_a_folder_is_crawled(root: Path, open_gate: OpenGate) -> None:
    """Every file is read by its name, whatever is in it, and nothing that is disallowed: the same listing, sorted."""
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /*?C=\nDisallow: /private/", encoding="ascii")
    names = ["one.txt", "a b/two & three.txt", "100%.txt", "ä/?.txt", "semi;colon.txt", "[x]+(y)'#.txt"]
    for name in (*names, "private/file.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    gate = await open_gate(delay=0.0)
    ahead, seen, read, refused = ["/"], set[str](), [], []
    with apache(root, "Options +Indexes\nIndexOptions FancyIndexing") as server:
        while ahead:
            url = str(URL(server.url).join(URL(ahead.pop(), encoded=True)))
            if url in seen:
                continue
            seen.add(url)
            try:
                response = await gate.fetch(url)
            except DisallowedError:
                refused.append(url)
                continue
            assert response.status == 200, url
            if response.content_type == "text/plain":
                read.append(response.text)
            targets = [
                URL(unescape(each), encoded=True) for each in re.findall('href="([^"]*)"', response.text)
            ]
            ahead += [str(URL(url, encoded=True).join(target)) for target in targets]
        served = server.served()
    assert sorted(text for text in read if not text.startswith("User-agent")) == sorted(names)
    assert all("?C=" in url or url.endswith("/private/") for url in refused)
    assert any("?C=" in url for url in refused)
    assert not [each.url for each in served if "?C=" in each.url or "private" in each.url]


@pytest.mark.parametrize(
    "directives",
    [
        "",
        "FileETag None",
        "Header unset Last-Modified",
        "AddOutputFilterByType DEFLATE text/plain",
        "Options +MultiViews",
    ],
    ids=["both", "date", "tag", "compressed", "language"],
)
async def test_robots_txt_that_did_not_change_is_not_sent_again(
    root: Path, open_gate: OpenGate, directives: str
) -> None:
    """The rules hold on; when it has changed, the new ones do."""
    robots = root / ("robots.txt.en" if "MultiViews" in directives else "robots.txt")
    for age, name in ((2, "old"), (1, "new")):
        (root / name).write_text(f"User-agent: *\nDisallow: /{name}\n" * 100, encoding="ascii")
        os.utime(root / name, (age * -DAY + robots.parent.stat().st_mtime,) * 2)
    gate = await open_gate(delay=0.0)
    with apache(root, directives) as server:
        (root / "old").rename(robots)
        for _ in range(3):
            await gate.refresh(server.url)
            assert not await gate.allowed(f"{server.url}/old")
        (root / "new").rename(robots)
        await gate.refresh(server.url)
        assert await gate.allowed(f"{server.url}/old")
        assert not await gate.allowed(f"{server.url}/new")
        served = await server.all_served(4)
    assert [each.status for each in served] == [200, 304, 304, 200]


async def test_what_a_crawl_accepts_is_for_its_pages(root: Path, open_gate: OpenGate) -> None:
    """A page comes in its language; the site's rules are the same for every crawl."""
    for language in ("de", "en"):
        (root / f"page.html.{language}").write_text(f"a page, {language}", encoding="ascii")
        (root / f"robots.txt.{language}").write_text(
            f"User-agent: *\nDisallow: /{language}", encoding="ascii"
        )
    gate = await open_gate(delay=0.0)
    wanted = {"Accept": "text/html", "Accept-Language": "de"}
    with apache(root, "Options +MultiViews") as server:
        assert (await gate.fetch(f"{server.url}/page", headers=wanted)).text == "a page, de"
        assert await gate.allowed(f"{server.url}/de")
        assert not await gate.allowed(f"{server.url}/en")
        served = await server.all_served(2)
    assert [(each.url, each.more) for each in served] == [
        ("/robots.txt", "HTTP/1.1 en"),
        ("/page", "HTTP/1.1 de"),
    ]
