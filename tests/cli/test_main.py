"""The entry point, and what is the same for all commands."""

from __future__ import annotations

import pytest
from tests.cli.conftest import CONTACT, run

from robotgate.cli import main


@pytest.mark.parametrize("missing", ["click", "platformdirs", "rich"])
def test_without_the_extra_it_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear line and status 2, no traceback."""
    monkeypatch.setattr("robotgate.cli.find_spec", lambda name: None if name == missing else name)

    with pytest.raises(SystemExit, match="2"):
        main()
    told = f'robotgate: the command line needs {missing}: pip install "robotgate[cli]"\n'
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("fetch", "--contact", CONTACT), "Give URLs"),
        (("fetch", "http://a.example/"), "--contact"),
        (("fetch", "--contact", "nobody", "http://a.example/"), "--contact 'nobody': "),
        (("fetch", "--contact", CONTACT, "--delay", "-1", "http://a.example/"), "--delay -1.0: "),
        (
            ("fetch", "--contact", CONTACT, "--max-delay", "0", "http://a.example/"),
            "--delay 1.0 is over --max-delay 0.0: ",
        ),
        (
            ("fetch", "--contact", CONTACT, "--max-block", "nan", "http://a.example/"),
            "--max-block nan: give a number of seconds, 0 or more; inf is without limit",
        ),
        (("fetch", "--contact", CONTACT, "--dashboard", "0.0.0.0:0", "http://a.example/"), "--dashboard: "),
        (("fetch", "--contact", CONTACT, "-i", "/no/such/file"), "does not exist"),
        (("check", "http://a.example/"), "--contact"),
        (("check", "--robots", "/no/such/file", "/"), "does not exist"),
        (("check", "--contact", CONTACT, "--agent", "Mozilla/5.0", "http://a.example/"), "Mozilla"),
        (("lint", "http://a.example/"), "--contact"),
        (("demo", "--pages", "0"), "pages"),
        *(
            (("fetch", "--contact", CONTACT, "--proxy", proxy, "http://a.example/"), "http://localhost:3128")
            for proxy in ("localhost:3128", "socks5://localhost", "http://", "http://[", "nonsense")
        ),
        *(
            (("fetch", "--contact", CONTACT, "--rate", rate, "http://a.example/"), "rate")
            for rate in ("", "3", "3/0", "0/3", "-1/3", "a/b", "1/2/3", "1/inf")
        ),
        *(
            ((command, "--contact", CONTACT, *store, "http://a.example/"), complaint)
            for command in ("fetch", "check", "lint")
            for store, complaint in (
                (("--store", "x.db", "--no-store"), "not both"),
                (("--store", ""), "--store '': "),
                (("--store", "redis://localhost:port"), "port is no number"),
            )
        ),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2, the usage of the command, and the option by its name."""
    ended = run(*arguments)

    assert ended.status == 2
    assert ended.err.startswith(f"Usage: robotgate {arguments[0]} ")
    assert complaint in ended.err


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("example.org", "write https://example.org/"),
        ("localhost:8080/a?b=max_bytes=1", "write https://localhost:8080/a?b=max_bytes=1"),
        ("index", "not an absolute http or https URL"),
        ("mailto:bot@example.org", "not an absolute http or https URL"),
    ],
)
def test_a_url_without_its_scheme_is_answered_with_a_hint(url: str, told: str) -> None:
    """What could be a host is taken for one, but no request is sent to it."""
    for command in ("fetch", "check", "sitemap", "why"):
        ended = run(command, *(() if command == "why" else ("--contact", CONTACT)), url)
        assert ended.status == (2 if command in {"check", "why"} else 1)
        assert told in ended.out + ended.err


@pytest.mark.parametrize("command", [("check",), ("lint",), ("fetch", "-q"), ("cache", "refresh")])
def test_a_private_address_is_refused_by_the_options_name(command: tuple[str, ...]) -> None:
    """The option that permits it is named as the command line has it, not as the library."""
    ended = run(*command, "--contact", CONTACT, "http://127.0.0.1/")

    assert ended.status != 0
    assert "--allow-private-addresses" in ended.out
    assert "allow_private_addresses" not in ended.out
