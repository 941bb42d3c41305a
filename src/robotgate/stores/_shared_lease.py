"""The right to fetch a robots.txt, among the tasks of one event loop and among processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from robotgate._urls import Origin
    from robotgate.stores._lease import Lease
    from robotgate.stores._sharing import Sharing


class SharedLease:
    """First ours, then everybody's."""

    __slots__ = ("_origin", "_ours", "_sharing")

    def __init__(self, ours: Lease, sharing: Sharing, origin: Origin) -> None:
        self._ours = ours
        self._sharing = sharing
        self._origin = origin.text

    async def __aenter__(self) -> None:
        await self._ours.__aenter__()
        try:
            await self._sharing.take_lease(self._origin)
        except BaseException as error:
            await self._ours.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sharing.leave_lease(self._origin)
        await self._ours.__aexit__(error_type, error, traceback)
