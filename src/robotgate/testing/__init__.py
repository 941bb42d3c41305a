"""For the tests of programs that use robotgate, and of stores made for it. Nothing here imports a testing package.

`MockedResponse` is for aioresponses, and `robotgate.testing.aioresponses` has a fixture with it; `VirtualTimeLoop`,
`VirtualClock` and `ScriptedFetcher` let a day of crawling pass in a moment; `check_store` holds a store to what the
gate expects of it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from aiohttp import ClientResponse

from robotgate.testing.clock import ScriptedFetcher, VirtualClock, VirtualTimeLoop
from robotgate.testing.store_checks import check_store

if TYPE_CHECKING:
    from yarl import URL

__all__ = ["MockedResponse", "ScriptedFetcher", "VirtualClock", "VirtualTimeLoop", "check_store"]


class MockedResponse(ClientResponse):
    """An `aiohttp.ClientResponse` that aioresponses can make.

    Give it to each mocked answer: ``mocked.get(url, body="hello", response_class=MockedResponse)``.

    aioresponses (0.7.9 is the latest at the time of writing) makes its answers without the ``stream_writer`` that
    aiohttp insists on, and so fails with a TypeError (its issue 289). Once aioresponses gives a ``stream_writer``
    itself, this class adds nothing.
    """

    def __init__(self, method: str, url: URL, **options: object) -> None:
        # All that aiohttp asks of the writer is how much was sent; of a mocked request, nothing was.
        options.setdefault("stream_writer", SimpleNamespace(output_size=0))
        # What else the constructor takes is between aioresponses and aiohttp.
        super().__init__(method, url, **options)  # type: ignore[arg-type]
