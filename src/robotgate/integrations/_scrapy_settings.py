"""From Scrapy's settings to a gate, and back: what is refused by the name of its setting, and what follows from it."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import TYPE_CHECKING, Final

from scrapy.settings import SETTINGS_PRIORITIES

from robotgate._checks import check_names
from robotgate._clock import SystemClock
from robotgate._errors import OptionError
from robotgate._gate import RobotGate
from robotgate._identity import Identity, TokenWarning, identify

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from robotgate._ports import Fetcher

NOT_OPTIONS: Final = {"self", "agent", "contact", "session", "clock", "fetcher", "max_bytes"}
"""What of `RobotGate` has a setting of its own, is the add-on's to choose, or has no meaning here."""
OPTIONS: Final = inspect.signature(RobotGate.__init__).parameters.keys() - NOT_OPTIONS

ADDON: Final = SETTINGS_PRIORITIES["addon"]
"""Above Scrapy's defaults, below whatever a project, a spider or a command line says."""

_URL: Final = re.compile(r"https?://[^\s();,]+")


def make_gate(settings: BaseSettings, fetcher: Fetcher) -> tuple[RobotGate, Identity]:
    """The gate that a project asks for, and who it is.

    Raises:
        OptionError: a setting is missing or makes no sense; the message begins with its name.
    """
    if _is_chosen(settings, "ROBOTSTXT_OBEY") and not settings.getbool("ROBOTSTXT_OBEY"):
        raise OptionError(
            "ROBOTSTXT_OBEY: it is False, but robotgate obeys; for hosts of your own give"
            " ROBOTGATE_OPTIONS = {'overrides': {'example.org': HostOverride.own()}},"
            " for single requests meta={'dont_obey_robotstxt': True}"
        )
    try:
        options = settings.getdict("ROBOTGATE_OPTIONS")
        check_names(options, OPTIONS)
    except (TypeError, ValueError) as error:
        raise OptionError(f"ROBOTGATE_OPTIONS: {error}") from error
    options.setdefault("token", settings.get("ROBOTSTXT_USER_AGENT"))
    agent = _agent(settings)
    contact = _contact(settings, agent)
    try:
        with warnings.catch_warnings():
            # The gate says it once more.
            warnings.simplefilter("ignore", TokenWarning)
            identity = identify(agent, contact=contact, token=options["token"])
    except OptionError as error:
        raise OptionError(f"ROBOTGATE_AGENT, ROBOTGATE_CONTACT: {error}") from error
    try:
        gate = RobotGate(agent, contact=contact, clock=SystemClock(), fetcher=fetcher, **options)
    except OptionError as error:
        raise OptionError(f"ROBOTGATE_OPTIONS: {error}") from error
    return gate, identity


def set_defaults(settings: BaseSettings, identity: Identity) -> None:
    """What Scrapy has to know of it, as far as nobody else has chosen.

    Raises:
        OptionError: the User-Agent that was chosen is not that of the crawler whose rules are obeyed.
    """
    if _is_chosen(settings, "USER_AGENT"):
        try:
            identity.complete({"User-Agent": settings["USER_AGENT"]})
        except OptionError as error:
            raise OptionError(f"USER_AGENT: {error}") from error
    options = settings.getdict("ROBOTGATE_OPTIONS")
    overrides = options.get("overrides", {}).values()
    per_host = [
        options.get("concurrency_per_host", 1),
        *(override.concurrency or 1 for override in overrides),
    ]
    settings.set("USER_AGENT", identity.user_agent, ADDON)
    # The gate bounds what is under way. Here is bounded what waits: no more of one host than could be sent at once, and
    # as many hosts as the gate serves at once.
    settings.set("CONCURRENT_REQUESTS_PER_DOMAIN", max(per_host), ADDON)
    settings.set("CONCURRENT_REQUESTS", options.get("concurrency", 256), ADDON)


def _agent(settings: BaseSettings) -> str:
    agent = settings.get("ROBOTGATE_AGENT")
    if agent is None and _is_chosen(settings, "USER_AGENT"):
        agent = settings.get("USER_AGENT")
    if not isinstance(agent, str) or not agent:
        raise OptionError(
            "ROBOTGATE_AGENT: name your crawler, as 'ExampleBot/1.0', here or in USER_AGENT;"
            " Scrapy's default names Scrapy"
        )
    return agent


def _contact(settings: BaseSettings, agent: str) -> str:
    contact = settings.get("ROBOTGATE_CONTACT")
    if contact is None and (page := _URL.search(agent)) is not None:
        return page[0]
    if not isinstance(contact, str) or not contact:
        raise OptionError(
            "ROBOTGATE_CONTACT: give an e-mail address or a page where site owners reach you, as"
            " 'bot@example.org'; or name the page in USER_AGENT, as 'ExampleBot/1.0 (+https://example.org/bot)'"
        )
    return contact


def _is_chosen(settings: BaseSettings, name: str) -> bool:
    """Whether somebody set it, be it to the default's value."""
    return (settings.getpriority(name) or 0) > ADDON
