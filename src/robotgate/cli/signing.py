"""``robotgate keygen`` and ``robotgate directory``: the key that signs requests, and what verifiers read of it.

`robotgate.signing` is imported where it is used: it needs an extra, and says so.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import click
from aiohttp import web

from robotgate.cli import common, output

if TYPE_CHECKING:
    from pathlib import Path

    from robotgate import Signer
    from robotgate.signing import Directory

_DAYS: Final = click.IntRange(1, 366)
_FORM: Final = click.Choice(["legacy", "ietf-00", "ietf-01"])
_named_options = common.all_of(
    click.option("--agent-url", metavar="URL", help="The https origin that publishes the directory of keys."),
    common.setting(
        "--agent-form", type=_FORM, default="legacy", help="How a request names it; legacy is in production."
    ),
)
sign_options: Final = common.all_of(
    click.option(
        "--sign",
        "key_file",
        metavar="KEY",
        type=common.FILE,
        help="Sign each request with the key in a file.",
    ),
    _named_options,
)


def signer_of_options() -> Signer | None:
    """Return the signer for a command that visits sites.

    Raises:
        OptionError: the key cannot be used, or the origin is none.
        ModuleNotFoundError: the extra is not installed.
    """
    params = click.get_current_context().params
    key_file, agent_url = params["key_file"], params["agent_url"]
    if key_file is None and agent_url is None:
        return None
    if key_file is None or agent_url is None:
        raise click.UsageError("Give --sign and --agent-url together: verifiers look for the key there.")
    from robotgate.signing import AgentForm, Ed25519Signer

    return Ed25519Signer.from_pem(key_file, agent_url=agent_url, form=AgentForm(params["agent_form"]))


@click.command(cls=common.Command, short_help="Make a key to sign requests with.")
@click.argument("key_file", metavar="KEY", type=common.FILE)
async def keygen(*, key_file: Path) -> None:
    """Make an Ed25519 key, and write it to the new file KEY. Only you can read the file.

    The command prints the thumbprint of the key, which each signature contains, and the directory to publish. It does
    not overwrite a file.

    Exit status: 0 when the key was written, 2 when it was not.
    """
    from robotgate.signing import SigningKey
    from robotgate.signing.directory import directory_body

    key = SigningKey.generate()
    key.write(key_file)
    click.echo(f"thumbprint: {key.thumbprint}")
    click.echo(f"directory: {directory_body([key]).decode()}")


@click.command(cls=common.Command, short_help="Publish the directory of keys.")
@click.argument("key_files", metavar="KEY...", type=common.FILE, nargs=-1, required=True)
@common.address_option("--serve", "address", help="Serve the directory, behind a proxy that does TLS.")
@common.folder_option("--write", "root", help="Write it below DIR, the root of a web server.")
@common.setting("--days", default=1, type=_DAYS, help="With --write: how many days its signature is valid.")
@_named_options
@common.agent_option
@common.contact_option(help="How site owners reach you; also publish a Signature Agent Card.")
@common.token_option
async def directory(
    *,
    key_files: tuple[Path, ...],
    address: tuple[str, int] | None,
    root: Path | None,
    days: int,
    agent_url: str | None,
    agent_form: str,
    agent: str,
    contact: str | None,
    token: str | None,
) -> None:
    """Publish the directory of a crawler's public keys. Each key signs it.

    --write prints the headers that the web server has to send with the directory. The signature is one of them: write
    the directory again before it expires. --serve signs each response when it is sent, and answers only requests for
    the host of --agent-url.

    Exit status: 0 when it was written, 2 for wrong usage or a key that cannot be used, 130 after Ctrl-C.
    """
    if (address is None) == (root is None):
        raise click.UsageError("Give --serve or --write.")
    if agent_url is None:
        raise click.UsageError("Give --agent-url: the directory is signed for its host.")
    from robotgate.signing import AgentForm, Directory, SigningKey
    from robotgate.signing.directory import CARD_PATH
    from robotgate.signing.signer import DIRECTORY_PATH

    keys = tuple(SigningKey.from_pem(file) for file in key_files)
    published = Directory(keys, agent_url, AgentForm(agent_form))
    card = None if contact is None else published.card(agent, contact=contact, token=token)
    if address is not None:
        await _serve(published, *address, card)
    if root is not None:
        for path, body in ((DIRECTORY_PATH, published.body), (CARD_PATH, card)):
            file = root / path.removeprefix("/")
            if body is not None:
                with common.os_errors(f"write {file}"):
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(body)
        for name, value in published.headers(time.time(), lifetime=days * 24 * 3600).items():
            click.echo(f"{name}: {value}")


async def _serve(published: Directory, host: str, port: int, card: bytes | None) -> None:
    """Serve until the program is ended."""
    from robotgate.signing.directory import server_of
    from robotgate.signing.signer import DIRECTORY_PATH

    runner = web.AppRunner(server_of(published, card), access_log=None)
    await runner.setup()
    try:
        with common.os_errors(f"serve at {host}:{port}"):
            await web.TCPSite(runner, host, port).start()
        place = f"{host} port {runner.addresses[0][1]}"
        output.to_stderr(f"{DIRECTORY_PATH} of {published.agent_url} is served at {place}. Ctrl-C ends it.")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
