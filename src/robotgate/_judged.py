"""What may change while a request waits for its turn: the rules that let it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robotgate._robots import RobotsKeeper
    from robotgate._site import Site
    from robotgate._turn import Wish


class Judged:
    """A request that its site's rules let pass: looked at once more when its turn has come. An `Interest`."""

    __slots__ = ("_keeper", "_may_be_stale", "_wish", "site")

    def __init__(self, keeper: RobotsKeeper, wish: Wish, site: Site, *, may_be_stale: bool) -> None:
        self.site = site
        """By whose rules it passes."""
        self._keeper = keeper
        self._wish = wish
        # What was stale when it was given, for want of better, cannot become so.
        current = keeper.fresh(wish.origin)
        self._may_be_stale = may_be_stale or current is None or current.record is not site.record

    def still_holds(self) -> bool:
        """Whether the rules that hold now, be they others, are known and let it pass as well."""
        current = self._keeper.fresh(self._wish.origin)
        if current is None:
            return self._may_be_stale
        if current is not self.site and not current.rules.allows(self._wish.target):
            return False
        self.site = current
        return True

    def claim(self) -> bool:
        """Whether the turn is wanted."""
        interest = self._wish.interest
        return self.still_holds() and (interest is None or interest.claim())

    def release(self) -> None:
        """It waits again."""
        if self._wish.interest is not None:
            self._wish.interest.release()
