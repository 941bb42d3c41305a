"""``async with`` for a store that has to be opened and closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from robotgate._errors import StoreError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Managed(ABC):
    """Opened when a block begins, if not before, and closed when it ends."""

    @abstractmethod
    async def open(self) -> None:
        """Reach what it remembers in."""

    @abstractmethod
    async def aclose(self) -> None:
        """Write what is pending, and let go of it. A second time changes nothing."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # What tries to reach it would go on. Why it cannot be closed either is no news.
            with suppress(StoreError):
                await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
