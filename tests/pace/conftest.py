"""The tests of this folder run on virtual time: instants are exact, and hours pass at once."""

from __future__ import annotations

from tests.gate.virtual.conftest import few_objects, pending_timers, pytest_asyncio_loop_factories

__all__ = ["few_objects", "pending_timers", "pytest_asyncio_loop_factories"]
