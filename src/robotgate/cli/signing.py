"""``robotgate keygen`` and ``robotgate directory``: the key that signs requests, and what verifiers read of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from robotgate.cli import common, output

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import Signer
    from robotgate.signing import AgentForm, Directory

KEY_FILE: Final = click.Path(dir_okay=False)
MAX_DAYS: Final = 366
MAX_PORT: Final = 65_535

agent_url_option = click.option(
    "--agent-url", metavar="URL", help="The https origin where the directory of the key is published."
)
agent_form_option = click.option(
    "--agent-form",
    type=click.Choice(["legacy", "ietf-00", "ietf-01"]),
    default="legacy",
    show_default=True,
    help="How requests name that origin; verifiers in production expect legacy.",
)


def sign_options(command: Callable[common.P, common.R]) -> Callable[common.P, common.R]:
    """The options of a command that can sign its requests."""
    sign_option = click.option(
        "--sign", "key_file", metavar="KEY", type=KEY_FILE, help="Sign each request with the key in a file."
    )
    return sign_option(agent_url_option(agent_form_option(command)))


def signer_of(key_file: str | None, agent_url: str | None, agent_form: str) -> Signer | None:
    """The signer that the options of a command name.

    Raises:
        OptionError: the key cannot be used, or the origin is none.
    """
    if key_file is None:
        if agent_url is not None:
            raise click.UsageError("Give --sign with --agent-url.")
        return None
    if agent_url is None:
        raise click.UsageError("Give --agent-url with --sign: verifiers look for the key there.")
    form = _form(agent_form)
    from robotgate.signing import Ed25519Signer

    return Ed25519Signer.from_pem(key_file, agent_url=agent_url, form=form)


@click.command(cls=common.Command, short_help="Make the key that signs requests.")
@click.argument("key_file", metavar="KEY", type=KEY_FILE)
def keygen(*, key_file: str) -> None:
    """Make an Ed25519 key and write it to the new file KEY, which only you can read.

    Prints the key's thumbprint, by which signatures name it, and the directory to publish. An existing file is never
    overwritten.

    Exit status: 0 when the key was written, 2 when it was not.
    """
    _form("legacy")
    from robotgate.signing import SigningKey
    from robotgate.signing.directory import directory_body

    key = SigningKey.generate()
    key.write(key_file)
    click.echo(key.thumbprint)
    click.echo(directory_body([key]))


@click.command(cls=common.Command, short_help="Serve or write the directory of keys.")
@click.argument("key_files", metavar="KEY...", type=KEY_FILE, nargs=-1, required=True)
@click.option(
    "--serve", "address", metavar="HOST:PORT", help="Serve the directory, behind a proxy that does TLS."
)
@click.option(
    "--write", "root", type=click.Path(file_okay=False), help="Write it below the root of a web server."
)
@click.option(
    "--days",
    default=1,
    show_default=True,
    type=click.IntRange(1, MAX_DAYS),
    help="With --write: for how long its signature holds.",
)
@agent_url_option
@agent_form_option
@common.agent_option
@click.option("--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True, help="How site owners reach you.")
@common.token_option
def directory(
    *,
    key_files: tuple[str, ...],
    address: str | None,
    root: str | None,
    days: int,
    agent_url: str | None,
    agent_form: str,
    agent: str,
    contact: str | None,
    token: str | None,
) -> None:
    """Publish the public keys of a crawler, signed by each of them, and with --contact its Signature Agent Card.

    --write prints the headers that the server has to send with the directory; its signature is one of them, so write
    again before it expires. --serve signs each response anew, and answers only requests for the host of --agent-url.

    Exit status: 0 when it was written, 2 for wrong usage or a key that cannot be used, 130 after Ctrl-C.
    """
    if (address is None) == (root is None):
        raise click.UsageError("Give --serve or --write.")
    if agent_url is None:
        raise click.UsageError("Give --agent-url: the directory is signed for its host.")
    form = _form(agent_form)
    from robotgate.signing import Directory, SigningKey

    keys = tuple(SigningKey.from_pem(file) for file in key_files)
    published = Directory(keys, agent_url, form)
    card = None if contact is None else published.card(agent, contact=contact, token=token)
    if root is not None:
        _write(published, Path(root), card, lifetime=days * 24 * 3600)
    if address is not None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > MAX_PORT:
            raise click.UsageError("--serve: give an address such as 127.0.0.1:8080.")
        asyncio.run(_serve(published, host.strip("[]"), int(port), card))


def _write(published: Directory, root: Path, card: bytes | None, *, lifetime: int) -> None:
    from robotgate.signing.directory import CARD_PATH
    from robotgate.signing.message import DIRECTORY_PATH

    files = {DIRECTORY_PATH: published.body}
    if card is not None:
        files[CARD_PATH] = card
    try:
        for path, body in files.items():
            file = root / path.removeprefix("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
    except OSError as error:
        raise common.CommandError(f"{error.filename}: cannot be written ({error.strerror})") from error
    for name, value in published.headers(time.time(), lifetime=lifetime).items():
        click.echo(f"{name}: {value}")


async def _serve(published: Directory, host: str, port: int, card: bytes | None) -> None:
    """Serve until the program is ended."""
    from aiohttp import web

    from robotgate.signing.directory import server_of
    from robotgate.signing.message import DIRECTORY_PATH

    runner = web.AppRunner(server_of(published, card), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        output.say(
            f"{DIRECTORY_PATH} of {published.agent_url} is served at {host} port {bound}; Ctrl-C ends it"
        )
        await asyncio.Event().wait()
    except OSError as error:
        raise common.CommandError(f"{host}:{port}: cannot be listened at ({error.strerror})") from error
    finally:
        await runner.cleanup()


def _form(name: str) -> AgentForm:
    """The form of this name; the first use of the extra.

    Raises:
        CommandError: the extra is not installed.
    """
    try:
        from robotgate.signing import AgentForm
    except ModuleNotFoundError as error:
        raise common.CommandError(str(error)) from error
    return AgentForm(name)
