"""``robotgate keygen``, ``robotgate directory`` and ``robotgate fetch --sign``."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from http_message_signatures import HTTPMessageVerifier
from multidict import CIMultiDict
from tests.cli.conftest import CONTACT, FETCH, run
from tests.signing.verifier import Answer, Ed25519ByNaCl, Keys, Request, Verifier, public_half

from robotgate.signing import AgentForm, SigningKey

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

BOT: Final = "https://bot.example"
DIRECTORY: Final = "/.well-known/http-message-signatures-directory"
CARD: Final = "/.well-known/signature-agent-card"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """A key that was made by the command."""
    assert run("keygen", str(tmp_path / "key.pem")).status == 0
    return str(tmp_path / "key.pem")


def verified(body: bytes, headers: Mapping[str, str], *, covers_body: bool = False) -> set[object]:
    """The thumbprints of the keys that signed a directory for the host of the agent."""
    keys = {each["kid"]: base64.urlsafe_b64decode(each["x"] + "=") for each in json.loads(body)["keys"]}
    verifier = HTTPMessageVerifier(signature_algorithm=Ed25519ByNaCl, key_resolver=Keys(keys))
    answer = Answer(Request("GET", BOT + DIRECTORY, CIMultiDict()), 200, CIMultiDict(headers))
    tag = "http-message-signatures-directory"
    results = verifier.verify(answer, expect_tag=tag, max_age=None, body=body if covers_body else None)
    return {each.parameters["keyid"] for each in results}


def test_keygen_writes_a_private_file_and_prints_what_is_public(tmp_path: Path) -> None:
    """The thumbprint, then the directory; a second run changes nothing."""
    file = tmp_path / "key.pem"
    made = run("keygen", str(file))
    (name, thumbprint), (other, directory) = (line.split(": ", 1) for line in made.out.splitlines())
    assert (name, other) == ("thumbprint", "directory")
    key = SigningKey.from_pem(file)
    assert (made.status, thumbprint, json.loads(directory)) == (0, key.thumbprint, {"keys": [key.jwk]})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_bytes()
    again = run("keygen", str(file))
    assert (again.status, again.out) == (2, "")
    assert "key.pem" in again.err
    assert "never overwritten" in again.err
    assert file.read_bytes() == text


@pytest.mark.parametrize("form", AgentForm)
def test_directory_is_written_with_the_headers_to_send(
    tmp_path: Path, key_file: str, form: AgentForm
) -> None:
    """The file is what verifiers read, for as long as it was asked for; the card names its crawler."""
    run("keygen", str(tmp_path / "next.pem"))
    named = (
        "--agent-url", BOT, "--agent-form", form.value, "--contact", CONTACT, "--agent", "ExampleBot/1.0",
    )  # fmt: skip
    keys = (key_file, str(tmp_path / "next.pem"))
    ended = run("directory", *keys, "--write", str(tmp_path / "www"), "--days", "7", *named)
    assert ended.status == 0, ended.err
    headers = dict(line.split(": ", 1) for line in ended.out.splitlines())
    body = (tmp_path / "www" / DIRECTORY[1:]).read_bytes()
    covers_body = form is not AgentForm.LEGACY
    assert verified(body, headers, covers_body=covers_body) == {
        SigningKey.from_pem(key).thumbprint for key in keys
    }
    created, expires = (int(re.findall(rf"{name}=(\d+)", ended.out)[0]) for name in ("created", "expires"))
    assert expires - created == 7 * 24 * 3600
    assert headers["Content-Type"] == "application/http-message-signatures-directory+json"
    card = json.loads((tmp_path / "www" / CARD[1:]).read_bytes())
    assert (card["client_id"], card["jwks_uri"]) == (BOT + CARD, BOT + DIRECTORY)
    assert card["contacts"] == [f"mailto:{CONTACT}"]
    assert card["web_bot_auth"]["rfc9309-product-token"] == "ExampleBot"
    assert card["web_bot_auth"]["expected-user-agent"] == "ExampleBot/1.0"


async def test_directory_is_served_for_its_own_host_only(program: Program, key_file: str) -> None:
    """Signed at each request; a request for another host gets no signature."""
    process = await program.start(
        "directory", key_file, "--serve", "127.0.0.1:0", "--agent-url", BOT, "--contact", CONTACT
    )
    assert process.stderr is not None
    async with asyncio.timeout(30):
        line = (await process.stderr.readline()).decode()
    port = re.search(r"port (\d+)", line)
    assert port is not None, line
    base = f"http://127.0.0.1:{port[1]}"
    async with aiohttp.ClientSession() as client:
        for host in ("bot.example", "bot.example:443"):
            async with client.get(base + DIRECTORY, headers={"Host": host}) as response:
                assert response.status == 200
                thumbprint = SigningKey.from_pem(key_file).thumbprint
                assert verified(await response.read(), response.headers) == {thumbprint}
        for path in (DIRECTORY, CARD):
            async with client.get(base + path, headers={"Host": "thief.example"}) as response:
                assert response.status == 421
                assert "Signature" not in response.headers
        async with client.get(base + CARD, headers={"Host": "bot.example"}) as response:
            assert (await response.json())["client_id"] == BOT + CARD
    process.terminate()
    await process.communicate()


def test_fetch_signs(site: LocalSite, key_file: str) -> None:
    """The site sees signatures of the key on robots.txt and page."""
    ended = run(*FETCH, "--sign", key_file, "--agent-url", BOT, "--agent-form", "ietf-01", f"{site.base}/a?b")
    assert ended.status == 0, ended.err
    verifier = Verifier(dict([public_half(SigningKey.from_pem(key_file))]), AgentForm.IETF_01)
    assert [path for path, _ in site.headers] == ["/robots.txt", "/a?b"]
    for path, headers in site.headers:
        verifier.check(Request("GET", site.base + path, headers))


@pytest.mark.parametrize(
    ("command", "arguments", "complaint"),
    [
        ("fetch", ("--sign", "KEY"), "--agent-url"),
        ("fetch", ("--agent-url", BOT), "--sign"),
        ("fetch", ("--sign", "KEY", "--agent-url", "http://bot.example"), "https origin"),
        ("fetch", ("--sign", "absent.pem", "--agent-url", BOT), "absent.pem"),
        ("directory", (), "--serve or --write"),
        ("directory", ("--serve", "127.0.0.1:0", "--write", "www"), "--serve or --write"),
        ("directory", ("--write", "www"), "--agent-url"),
        ("directory", ("--write", "www", "--agent-url", "bot.example"), "--agent-url 'bot.example'"),
        ("directory", ("--serve", "127.0.0.1:99999", "--agent-url", BOT), "--serve"),
        ("directory", ("--write", "/dev/null/www", "--agent-url", BOT), "cannot write"),
    ],
)
def test_wrong_usage_sends_nothing(
    site: LocalSite, key_file: str, command: str, arguments: tuple[str, ...], complaint: str
) -> None:
    """Status 2 and one line that names the option or the file."""
    given = [key_file if each == "KEY" else each for each in arguments]
    first = (*FETCH, f"{site.base}/a") if command == "fetch" else (command, key_file)
    ended = run(*first, *given)
    assert ended.status == 2
    assert complaint in ended.err
    assert not site.asked


def test_without_the_extra_it_says_what_to_install() -> None:
    """One clear line and status 2; commands that sign nothing do not need it."""
    code = "import sys; sys.modules['cryptography'] = None; from robotgate.cli import main; main()"
    fetch = (*FETCH, "--sign", "KEY", "--agent-url", BOT, "http://a.example/")
    ended = subprocess.run([sys.executable, "-c", code, *fetch], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith(
        'robotgate.signing needs cryptography: pip install "robotgate[signing]"'
    )
