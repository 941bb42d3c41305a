"""Answers of your own in place of the web, by aioresponses: the fixture `mocked_web`, for pytest.

Name it once, in the ``conftest.py`` at the root of your tests; every test then may take ``mocked_web`` as an argument::

    pytest_plugins = ["robotgate.testing.aioresponses"]

This module needs pytest and aioresponses, which robotgate itself does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import pytest
    from aioresponses import aioresponses
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"{__name__} needs {_error.name}: pip install pytest aioresponses", name=_error.name
    ) from _error

from robotgate.testing import MockedResponse

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from yarl import URL

__all__ = ["MockedWeb", "mocked_web"]


class MockedWeb(aioresponses):
    """An ``aioresponses`` whose answers are `MockedResponse`, unless a test gives another ``response_class``."""

    def add(  # type: ignore[override]  # What else there is, is given by name.
        self, url: str | URL | re.Pattern[str], method: str = "GET", **answer: object
    ) -> None:
        """Mock an answer, as ``aioresponses.add``; ``get``, ``post`` and the others come here."""
        options = {"response_class": MockedResponse, **answer}
        super().add(url, method, **options)  # type: ignore[arg-type]  # As the line above.


@pytest.fixture
def mocked_web() -> Iterator[MockedWeb]:
    """The answers that a test gives; any other request is refused as a failed connection. Nothing uses the network."""
    web = MockedWeb()
    with web:
        yield web
