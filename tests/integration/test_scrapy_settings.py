"""What the add-on for Scrapy takes from the settings, and what it refuses by name. No crawl is started."""

from __future__ import annotations

import pytest
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import Settings
from scrapy.spiders import Spider
from tests.conftest import AGENT, CONTACT

from robotgate import HostOverride, OptionError
from robotgate.integrations.scrapy import Addon, RobotParser

WHO = {"ROBOTGATE_AGENT": AGENT, "ROBOTGATE_CONTACT": CONTACT}


def configured(**values: object) -> tuple[Addon, Settings]:
    """The add-on of a project with these settings, and the settings as the add-on leaves them."""
    settings = Settings(values)
    addon = Addon(Crawler(Spider, settings))
    addon.update_settings(settings)
    return addon, settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"^ROBOTGATE_AGENT: name your crawler"),
        ({"ROBOTGATE_AGENT": AGENT}, r"^ROBOTGATE_CONTACT: give an e-mail address or a page"),
        ({"ROBOTGATE_AGENT": AGENT, "ROBOTGATE_CONTACT": "me"}, r"ROBOTGATE_CONTACT: contact='me'"),
        (
            {"USER_AGENT": "Mozilla/5.0", "ROBOTGATE_CONTACT": CONTACT},
            r"^ROBOTGATE_AGENT, .*is not that of every browser",
        ),
        ({**WHO, "USER_AGENT": "Mozilla/5.0"}, r"^USER_AGENT: .*does not name 'ExampleBot'"),
        ({**WHO, "ROBOTSTXT_OBEY": False}, r"^ROBOTSTXT_OBEY: it is False"),
        ({**WHO, "ROBOTSTXT_USER_AGENT": "OtherBot"}, r"token='OtherBot' does not appear"),
        ({**WHO, "ROBOTGATE_OPTIONS": {"delay": -1}}, r"^ROBOTGATE_OPTIONS: delay=-1: give"),
        ({**WHO, "ROBOTGATE_OPTIONS": {"delya": 1}}, r"^ROBOTGATE_OPTIONS: .*'delya'"),
        ({**WHO, "ROBOTGATE_OPTIONS": {"fetcher": None}}, r"^ROBOTGATE_OPTIONS: .*'fetcher'"),
        ({**WHO, "ROBOTGATE_OPTIONS": {"overrides": 1}}, r"^ROBOTGATE_OPTIONS: overrides=1"),
        ({**WHO, "ROBOTGATE_OPTIONS": "delay=1"}, r"^ROBOTGATE_OPTIONS: "),
    ],
)
def test_setting_is_refused_by_name(values: dict[str, object], message: str) -> None:
    """The error of a wrong setting begins with its name."""
    with pytest.raises(OptionError, match=message):
        configured(**values)


def test_user_agent_can_say_it_all() -> None:
    """A project whose USER_AGENT names it and its page needs no other setting."""
    addon, settings = configured(USER_AGENT="ExampleBot/1.0 (+https://example.org/bot)")
    assert dict(addon.gate._identity.headers) == {"User-Agent": "ExampleBot/1.0 (+https://example.org/bot)"}
    assert settings["USER_AGENT"] == "ExampleBot/1.0 (+https://example.org/bot)"


def test_what_a_project_chose_stays() -> None:
    """Settings that a project has chosen stay, except for the middleware and the handlers."""
    chosen = {
        "CONCURRENT_REQUESTS": 3,
        "DOWNLOAD_DELAY": 3,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "USER_AGENT": "Mozilla/5.0 (compatible; ExampleBot/1.0)",
    }
    addon, settings = configured(**WHO, **chosen, DOWNLOAD_HANDLERS={"https": "example.Handler", "ftp": None})
    assert {name: settings[name] for name in chosen} == chosen
    assert settings.getdict("DOWNLOADER_MIDDLEWARES")[RobotsTxtMiddleware] is None
    assert addon.handlers["https"] == "example.Handler"
    assert settings.getwithbase("DOWNLOAD_HANDLERS")["ftp"] is None


def test_places_follow_the_gate() -> None:
    """A host gets as many places in Scrapy as the gate sends requests to it at once, by option or override."""
    options = {"concurrency": 50, "overrides": {"example.org": HostOverride(concurrency_per_host=4)}}
    _, settings = configured(**WHO, ROBOTGATE_OPTIONS=options)
    assert settings.getint("CONCURRENT_REQUESTS") == 50
    assert settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") == 4


def test_scheme_without_a_handler_stays_without() -> None:
    """A scheme that a project has switched off stays off."""
    addon, settings = configured(**WHO, DOWNLOAD_HANDLERS={"http": None})
    assert set(addon.handlers) == {"https"}
    assert settings.getwithbase("DOWNLOAD_HANDLERS")["http"] is None


def test_component_without_the_add_on_is_refused() -> None:
    """A component of the add-on without the add-on is refused."""
    with pytest.raises(OptionError, match=r"^ADDONS: give"):
        Addon.of(Crawler(Spider))


def test_parser_alone() -> None:
    """The parser takes str and bytes, and a name or a whole User-Agent, as Scrapy passes them."""
    body = b"User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 2.5\n"
    parser = RobotParser.from_crawler(Crawler(Spider), body)
    assert parser.allowed("https://example.org/", "ExampleBot/1.0")
    assert not parser.allowed(b"https://example.org/private", b"examplebot")
    assert parser.allowed("https://example.org/private", "OtherBot")
    assert parser.crawl_delay(b"ExampleBot") == 2.5
    assert parser.crawl_delay("OtherBot") is None


@pytest.mark.parametrize("scheme", ["s3", "ftp", "HTTP"])
def test_parser_judges_other_schemes_by_the_path(scheme: str) -> None:
    """The parser judges URLs of any scheme by their path, because Scrapy asks it for all of them."""
    parser = RobotParser(b"User-agent: *\nDisallow: /private\n")
    assert parser.allowed(f"{scheme}://bucket.example/open", "ExampleBot")
    assert not parser.allowed(f"{scheme}://bucket.example/private/1", "ExampleBot")
    assert not parser.allowed(f"{scheme}://bucket.example:21/open/../private", "ExampleBot")


@pytest.mark.parametrize(
    "url", ["mailto:bot@example.org", "s3:///key", "http://", "http://a\\b/", "ftp://[::1/", "", "data:,x"]
)
def test_parser_allows_nothing_that_it_cannot_read(url: str) -> None:
    """Text that is not a URL is not allowed: Scrapy would take an error of the parser for one of the request."""
    assert RobotParser(b"").allowed(url, "ExampleBot") is False
