"""docs/private-addresses.md: its program runs, and prints what the page shows."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias, cast

import pytest
from tests.test_readme import ROOT, blocks

PAGE: Final = (ROOT / "docs" / "private-addresses.md").read_text(encoding="utf-8")

Crawl: TypeAlias = Callable[..., Coroutine[object, object, None]]


def look_up(host: str, port: int, *_: object, **__: object) -> object:
    """The resolver of a network with an intranet."""
    assert host == "intranet.example"
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("10.0.0.7", port))]


@pytest.mark.skipif(importlib.util.find_spec("aiodns") is not None, reason="aiohttp would ask aiodns")
def test_program_refuses_a_name_of_the_inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word."""
    (program,), (shown,) = blocks(PAGE, "python"), blocks(PAGE, "text")
    names: dict[str, object] = {"__name__": "a page"}
    exec(compile(program, "docs/private-addresses.md", "exec"), names)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(cast("Crawl", names["crawl"])("http://intranet.example/"))
    assert capsys.readouterr().out == shown
