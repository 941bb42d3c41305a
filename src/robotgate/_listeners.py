"""Who hears of events: whoever subscribed, and the standard logging.

The logger is ``robotgate``. Its levels, which `LEVELS` holds::

    DEBUG    what happens all the time: turns
    INFO     what one may want to know of a site: robots.txt read, a URL or a turn refused, a host visited again
    WARNING  what slows or stops a host: a block, a robots.txt that cannot be reached; and the end of an ERROR
    ERROR    what endangers the gate's own memory: a store that fails
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from robotgate._checks import check_callback
from robotgate._errors import OptionError
from robotgate._events import (
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
)
from robotgate._verdict import AccessResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from robotgate._events import Event

logger: Final = logging.getLogger("robotgate")

LEVELS: Final[Mapping[type[Event], int]] = MappingProxyType(
    {
        TurnBegan: logging.DEBUG,
        TurnEnded: logging.DEBUG,
        RobotsFetched: logging.INFO,
        VerdictRefused: logging.INFO,
        TurnRefused: logging.INFO,
        HostRecovered: logging.INFO,
        HostBlocked: logging.WARNING,
        # Whoever's log has the loss in it has its end as well, unless it shows nothing but errors.
        StoreRecovered: logging.WARNING,
        StoreLost: logging.ERROR,
    }
)
UNREACHABLE_LEVEL: Final = logging.WARNING
"""For `RobotsFetched` where robots.txt could not be reached: such a site stays closed, or goes by an old copy."""
_HIGHEST: Final[Mapping[type[Event], int]] = MappingProxyType({**LEVELS, RobotsFetched: UNREACHABLE_LEVEL})


def level_of(event: Event) -> int:
    """The level an event is logged at."""
    if isinstance(event, RobotsFetched) and event.access is AccessResult.UNREACHABLE:
        return UNREACHABLE_LEVEL
    return LEVELS[type(event)]


class Listeners:
    """Passes events on."""

    __slots__ = ("_subscriptions",)

    def __init__(self) -> None:
        self._subscriptions: tuple[_Subscription, ...] = ()

    def subscribe(self, callback: Callable[[Event], object], *kinds: type[Event]) -> Callable[[], None]:
        """Call back with every event of these kinds, or of all, from now on, in their order, soon after each happened.

        The event loop makes the calls: an error that `callback` raises reaches the loop's exception handler, and
        neither another subscriber nor any request.

        Args:
            callback: a plain function; what it returns is not looked at.

        Returns:
            What ends the subscription: nothing is passed on any more, not even what has happened already. Calling it
            again changes nothing.

        Raises:
            OptionError: `callback` cannot be called, or is a coroutine function, which nobody would wait for; or what
                is no kind of event.
        """
        check_callback("callback", callback)
        for kind in kinds:
            if kind not in LEVELS:
                raise OptionError(f"kinds: {kind!r} is no kind of event")
        subscription = _Subscription(callback, frozenset(kinds or LEVELS))
        self._subscriptions = (*self._subscriptions, subscription)

        def unsubscribe() -> None:
            subscription.is_over = True
            self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

        return unsubscribe

    def is_heard(self, kind: type[Event]) -> bool:
        """Whether anybody would hear of such an event; if nobody does, it need not be made."""
        for subscription in self._subscriptions:
            if kind in subscription.kinds:
                return True
        return logger.isEnabledFor(_HIGHEST[kind])

    def emit(self, event: Event) -> None:
        """Have an event logged, and pass it on, soon: what a handler or a callback raises is no request's business."""
        level = level_of(event)
        if logger.isEnabledFor(level):
            _soon(partial(logger.log, level, "%s", event), copy_context())
        for subscription in self._subscriptions:
            if type(event) in subscription.kinds:
                subscription.pass_on(event)


class _Subscription:
    """One callback, for as long as it is wanted."""

    __slots__ = ("_callback", "_context", "is_over", "kinds")

    def __init__(self, callback: Callable[[Event], object], kinds: frozenset[type[Event]]) -> None:
        self._callback = callback
        self.kinds = kinds
        # Whose request an event is about is no business of what the callback starts: a task made in that request's
        # context would pass for a part of it, and be sent without a turn.
        self._context = copy_context()
        self.is_over = False

    def pass_on(self, event: Event) -> None:
        _soon(partial(self._call, event), self._context)

    def _call(self, event: Event) -> None:
        if not self.is_over:
            self._callback(event)


def _soon(call: Callable[[], object], context: Context) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # Outside the loop there is no request to protect; only the operator acts there.
        call()
        return
    loop.call_soon(call, context=context)
