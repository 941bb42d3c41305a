"""Who we say we are: product tokens (RFC 9309 §2.2.1), contacts and the headers that carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from multidict import CIMultiDict, MultiDict

from robotgate import RobotGate
from robotgate.errors import OptionError
from robotgate.identity import Identity, identify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

MAIL = "bot@example.org"


def test_names_that_cannot_be_used(subtests: pytest.Subtests) -> None:
    """A name that site owners could not address is refused, with the option's name and a hint."""
    for agent, token, hint in [
        ("", None, "agent=''"),
        ("   ", None, "agent=''"),
        ("Example\nBot/1.0", None, "agent="),
        ("ExampleBot/1.0\r\nX-Evil: 1", None, "agent="),
        ("Beispielbär/1.0", None, "agent="),
        ("/1.0", None, "token=''"),
        ("Example.Bot/1.0", None, "token='Example.Bot'"),
        ("(compatible; ExampleBot/1.0)", None, "token='ExampleBot'"),
        ("*", None, "token='*'"),
        ("Mozilla/5.0 (compatible; ExampleBot/1.0)", None, "every browser"),
        ("mozilla", None, "every browser"),
        ("ExampleBot/1.0", "", "token=''"),
        ("ExampleBot/1.0", "Example Bot", "token='Example Bot'"),
        ("ExampleBot/1.0", "Mozilla", "every browser"),
        ("ExampleBot/1.0", "OtherBot", "does not appear in agent"),
        # The address of the page does not make its words the crawler's name.
        ("Bot/1.0", "example", "does not appear in agent"),
    ]:
        with subtests.test(agent=agent, token=token, hint=hint):
            with pytest.raises(OptionError) as refusal:
                identify(agent, contact="https://example.org/bot", token=token)
            assert hint in str(refusal.value)


@pytest.mark.parametrize(
    ("agent", "given", "token"),
    [
        ("ExampleBot/1.0", None, "ExampleBot"),
        ("ExampleBot", None, "ExampleBot"),
        ("  ExampleBot/1.0  ", None, "ExampleBot"),
        ("Example-Bot_x/2 (+https://example.org/bot)", None, "Example-Bot_x"),
        ("Bot9/1.0", None, "Bot9"),
        ("My Bot/1.0", None, "My"),
        ("Example  Bot", None, "Example"),
        ("My Bot/1.0", "Bot", "Bot"),
        *(
            ("Mozilla/5.0 (compatible; ExampleBot/1.0)", token, token)
            for token in ("ExampleBot", "examplebot", "EXAMPLEBOT")
        ),
        ("ExampleBot (a spider of ours)", None, "ExampleBot"),
    ],
)
def test_token_is_the_first_word_unless_it_is_given(agent: str, given: str | None, token: str) -> None:
    """All before the first slash or blank. RFC 9309 §2.2.1 has no digits in product tokens, but real crawlers do."""
    identity = identify(agent, contact=MAIL, token=given)
    assert (identity.token, identity.user_agent) == (token, agent.strip())


async def test_gate_tells_whose_rules_it_obeys() -> None:
    """As `gate.token`, before it is opened too."""
    assert RobotGate("ExampleBot/1.0", contact=MAIL).token == "ExampleBot"
    assert RobotGate("My Bot/1.0", contact=MAIL, token="Bot").token == "Bot"


@pytest.mark.parametrize("contact", [MAIL, "a@b", "first.last+bot@mail.example.org"])
def test_mail_contact_is_sent_as_from(contact: str) -> None:
    """An e-mail address goes into From (RFC 9110 §10.1.2) and leaves the User-Agent alone."""
    identity = identify("ExampleBot/1.0", contact=contact, token=None)
    assert identity.headers == {"User-Agent": "ExampleBot/1.0", "From": contact}


@pytest.mark.parametrize(
    "contact", ["https://example.org/bot", "http://example.org", "HTTPS://EXAMPLE.ORG/bot"]
)
@pytest.mark.parametrize("names_it", [False, True])
def test_page_contact_stands_in_the_user_agent(contact: str, *, names_it: bool) -> None:
    """Once, though the agent names the page already; and there is no From."""
    whole = f"ExampleBot/1.0 (+{contact})"
    identity = identify(whole if names_it else "ExampleBot/1.0", contact=contact, token=None)
    assert identity.headers == {"User-Agent": whole}
    assert identity.token == "ExampleBot"


def test_contacts_that_reach_nobody(subtests: pytest.Subtests) -> None:
    """A contact is an e-mail address or a page; everything else is refused by name, with the remedy."""
    for contact in [
        "", "   ", "example.org", "@", "bot@", "@example.org", "bot@example@org", "bot at example.org",
        "Bot <bot@example.org>", "a@b, c@d", "mailto:bot@example.org", "ftp://example.org/", "http://",
        "https:///bot", "https://exa mple.org/", "https://example.org/(bot)", "http://[::1",
        "bot@example.org\r\nX-Evil: 1", "bot@bücher.example",
    ]:  # fmt: skip
        with (
            subtests.test(contact=contact),
            pytest.raises(OptionError, match=r"contact=.*e-mail address or an http\(s\) URL"),
        ):
            identify("ExampleBot/1.0", contact=contact, token=None)


@pytest.mark.parametrize("kind", [CIMultiDict, dict])
@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({}, {"User-Agent": "ExampleBot/1.0", "From": MAIL}),
        ({"user-agent": "Mozilla/5.0 (examplebot)"}, {"From": MAIL}),
        ({"User-Agent": "ExampleBotNews/1.0"}, {"From": MAIL}),
        ({"USER-AGENT": "ExampleBot/1.0", "from": "me"}, {}),
        ({"Accept": "*/*"}, {"User-Agent": "ExampleBot/1.0", "From": MAIL}),
    ],
)
def test_headers_are_completed(
    kind: Callable[[Mapping[str, str]], MutableMapping[str, str]],
    given: Mapping[str, str],
    added: Mapping[str, str],
) -> None:
    """What a request has of its own stays, in whatever case: also in a dict, which would take a second one."""
    headers = kind(given)
    Identity("ExampleBot", "ExampleBot/1.0", MAIL).complete(headers)
    assert dict(headers) == {**given, **added}


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "curl/8"},
        {"USER-AGENT": "curl/8", "User-Agent": "ExampleBot/1.0"},
        {"User-Agent": "ExampleBot/1.0", "user-agent": "curl/8"},
        CIMultiDict([("User-Agent", "ExampleBot/1.0"), ("user-agent", "curl/8")]),
        MultiDict([("user-agent", "ExampleBot/1.0"), ("user-agent", "curl/8")]),
    ],
    ids=lambda headers: f"{type(headers).__name__}-{'-'.join(headers)}",
)
def test_no_user_agent_passes_unseen(headers: MutableMapping[str, str]) -> None:
    """However its name is written, and whatever stands beside it."""
    before = list(headers.items())
    with pytest.raises(OptionError, match="'curl/8' does not name 'ExampleBot'"):
        Identity("ExampleBot", "ExampleBot/1.0", MAIL).complete(headers)
    assert list(headers.items()) == before


def test_token_is_named_by_a_word_that_begins_with_it(subtests: pytest.Subtests) -> None:
    """Not by one that ends with it, or has it in its middle."""
    for user_agent, names in [
        ("Googlebot/2.1", False),
        ("Google-bot/2.1", False),
        ("google_bot/2.1", False),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/crawler.html)", False),
        ("2bot", False),
        ("", False),
        ("bot", True),
        ("Bot/1.0", True),
        ("BotNews/1.0", True),
        ("Mozilla/5.0 (compatible; bot/2.1)", True),
        ("Googlebot/2.1 (bot)", True),
    ]:
        for token in ["bot", "Bot", "BOT"]:
            with subtests.test(user_agent=user_agent, names=names, token=token):
                headers = CIMultiDict({"User-Agent": user_agent})
                identity = Identity(token, f"{token}/1.0", MAIL)
                if names:
                    identity.complete(headers)
                else:
                    with pytest.raises(OptionError, match="does not name"):
                        identity.complete(headers)
                assert headers["User-Agent"] == user_agent
