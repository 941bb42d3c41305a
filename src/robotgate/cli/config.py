"""The file of ``--config``: options in TOML, by their names on the command line.

What stands at its top are options of ``robotgate fetch``, which hold for every other command that has the same ones. A
table has the options of the command that it is named after; tables of ``overrides``, those of single hosts; tables of
``groups``, the groups of hosts.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import click
from click.core import ParameterSource

from robotgate import Budget, Group, HostOverride, OptionError, Recheck
from robotgate.cli.output import printable
from robotgate.options import HOST_OPTIONS
from robotgate.stores.base import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

_WITH_CREDENTIALS: Final = ("proxy", "store_path")
_SECRET: Final = ("dashboard_token", "page_headers")
_OVERRIDES: Final = "overrides"
"""The table of tables for single hosts."""
_GROUPS: Final = "groups"
"""That of tables for groups of hosts."""
_make_override: Final[Callable[..., HostOverride]] = HostOverride
_make_group: Final[Callable[..., Group]] = Group
"""They check the types of their options themselves."""
_WIDTH: Final = 38
"""Columns in front of the comments."""
_PLACES: Final = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT: "default",
}


def configure(ctx: click.Context, path: Path) -> None:
    """Make what a file says the defaults of all commands.

    Raises:
        click.UsageError: it cannot be read, is no TOML, or has a name or a value that the command line does not have.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        shared = {name: value for name, value in values.items() if not isinstance(value, dict)}
        of_fetch = _options(_commands(ctx.command, ctx)["fetch"])
        _read(ctx, of_fetch, shared, "")
        given = {(name, of_fetch[name].name or ""): value for name, value in shared.items()}
        tables = {name: value for name, value in values.items() if name not in shared}
        made = partial(_made, ctx)
        ctx.obj = Hosts(
            made(_OVERRIDES, _of_a_host(of_fetch), tables.pop(_OVERRIDES, {}), _make_override),
            made(_GROUPS, _of_a_group(of_fetch), tables.pop(_GROUPS, {}), _make_group),
        )
        ctx.default_map = _of_group(ctx, ctx.command, tables, given, "")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path}: save it in UTF-8", ctx) from error
    except (OSError, ValueError, click.UsageError) as error:
        raise click.UsageError(f"{path}: {error}", ctx) from error


def show(ctx: click.Context) -> None:
    """Print the options of the command that runs, as a file would have them, and where each is from."""
    click.echo(f"[{'.'.join(ctx.command_path.split()[1:])}]")
    places = _PLACES | {ParameterSource.DEFAULT_MAP: ctx.find_root().params["config"]}
    for name, option in _options(ctx.command).items():
        key = option.name or ""
        source, value = ctx.get_parameter_source(key), ctx.params[key]
        if value not in (None, (), ""):
            place = "" if source is None else places.get(source)
            _print(name, value, key, place)
    if "allow_private_addresses" not in ctx.params:
        # It visits no hosts.
        return
    root = ctx.find_root()
    names = {
        option.name: name
        for name, option in _of_a_host(_options(_commands(root.command, root)["fetch"])).items()
    }
    for pattern, override in hosts_of(ctx).overrides.items():
        click.echo(printable(f"[{_OVERRIDES}.{json.dumps(pattern, ensure_ascii=False)}]"))
        for key, value in override.given.items():
            _print(names[key], value, key, root.params["config"])
    for pattern, group in hosts_of(ctx).groups.items():
        click.echo(printable(f"[{_GROUPS}.{json.dumps(pattern, ensure_ascii=False)}]"))
        for name, key in _GROUP_OPTIONS.items():
            if (value := getattr(group, key)) not in (None, 0.0):
                _print(name, value, key, root.params["config"])


@dataclass(frozen=True, slots=True)
class Hosts:
    """What a file says of hosts, by pattern."""

    overrides: Mapping[str, HostOverride] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)


def hosts_of(ctx: click.Context) -> Hosts:
    """Return what the file says of hosts."""
    return ctx.find_root().obj or Hosts()


def _print(name: str, value: object, key: str, place: object) -> None:
    click.echo(printable(f"{f'{name} = {_toml(key, value)}':<{_WIDTH}}  # {place}"))


def _of_a_host(of_fetch: Mapping[str, click.Option]) -> dict[str, click.Option]:
    """Return the options of a host by name: those of ``fetch``, and one that is for single hosts only."""
    own = click.Option(["--ignore-robots"], is_flag=True)
    return {name: each for name, each in of_fetch.items() if each.name in HOST_OPTIONS} | {
        "ignore-robots": own
    }


_GROUP_OPTIONS: Final = {
    "name": "name",
    "delay": "delay",
    "concurrency": "concurrency",
    "rate": "rate",
    "max-pages": "budget",
    "bytes-per-second": "bytes_per_second",
}
"""The options of a group in a file, and in the code."""


def _of_a_group(of_fetch: Mapping[str, click.Option]) -> dict[str, click.Option]:
    """Return the options of a group by name: of most, ``fetch`` has the like."""
    likes = {"max-pages": "max-pages-per-host"}
    return {
        name: click.Option(
            [f"--{name}", key], type=of_fetch[likes.get(name, name)].type if name != "name" else str
        )
        for name, key in _GROUP_OPTIONS.items()
    }


def _made(
    ctx: click.Context,
    kind: str,
    options: Mapping[str, click.Option],
    tables: Mapping[str, object],
    make: Callable[..., T],
) -> dict[str, T]:
    """Return what is made of the options of each pattern.

    Raises:
        click.UsageError: as `_read`.
    """
    made: dict[str, T] = {}
    for pattern, table in tables.items():
        where = f"{kind}.{pattern}"
        if not isinstance(table, dict):
            raise click.UsageError(f"{where}: give a table, for a host or a pattern")
        given = _read(ctx, options, table, f"{where}.")
        if "name" in options and "name" not in given:
            raise click.UsageError(f"{where}: give a name")
        # Read as the command line is.
        host = click.Command(where, params=list(options.values()), add_help_option=False)
        values = host.make_context(where, [], default_map=given).params
        try:
            made[pattern] = make(**{name: values[name] for name in given})
        except OptionError as error:
            problem = str(error).removeprefix(f"Group({values.get('name')!r}): ").replace("=", " = ", 1)
            raise click.UsageError(f"{where}.{problem}") from error
    return made


def _commands(command: click.Command, ctx: click.Context) -> dict[str, click.Command]:
    """Return the commands of a group by name; none of a command that is no group."""
    if not isinstance(command, click.Group):
        return {}
    found = {name: command.get_command(ctx, name) for name in command.list_commands(ctx)}
    return {name: each for name, each in found.items() if each is not None}


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by name, without hyphens in front."""
    options = (each for each in command.params if isinstance(each, click.Option))
    return {option.opts[-1].lstrip("-"): option for option in options}


def _of_group(
    ctx: click.Context,
    group: click.Command,
    tables: Mapping[str, object],
    shared: Mapping[tuple[str, str], object],
    where: str,
) -> dict[str, object]:
    """Return the `default_map` of a group.

    Args:
        shared: values by the names of their options, in the file and in the code.
        where: the tables that the group's tables are in.
    """
    defaults: dict[str, object] = {}
    left = dict(tables)
    for name, command in _commands(group, ctx).items():
        table, place = left.pop(name, {}), f"{where}{name}."
        if not isinstance(table, dict):
            raise click.UsageError(f"{where}{name}: it is a command; its options stand in a table")
        if isinstance(command, click.Group):
            defaults[name] = _of_group(ctx, command, table, shared, place)
        else:
            options = _options(command)
            same = {
                each: shared[key]
                for each, option in options.items()
                if (key := (each, option.name or "")) in shared
            }
            defaults[name] = _read(ctx, options, same | table, place)
    for name in left:
        raise click.UsageError(f"{where}{name}: there is no such command")
    return defaults


def _read(
    ctx: click.Context, options: Mapping[str, click.Option], values: Mapping[str, object], where: str
) -> dict[str, object]:
    """Return values by the names that options have in the code.

    Raises:
        click.UsageError: there is no such option, or it takes no such value.
    """
    found: dict[str, object] = {}
    for name, value in values.items():
        option = options.get(name)
        if option is None:
            place = "" if where else " of fetch; a table has those of another command"
            raise click.UsageError(f"{where}{name}: there is no such option{place}")
        wanted = "a list" if option.multiple else "true or false" if option.is_flag else "one value"
        kinds = isinstance(value, list), isinstance(value, bool)
        if isinstance(value, dict) or kinds != (option.multiple, option.is_flag):
            raise click.UsageError(f"{where}{name}: give {wanted}")
        given = str(value) if isinstance(value, date) else value
        try:
            # A file is opened only when the command runs.
            if not isinstance(option.type, click.File):
                option.type_cast_value(ctx, given)
        except click.BadParameter as error:
            raise click.UsageError(f"{where}{name}: {error.message}") from error
        found[option.name or ""] = given
    return found


def _toml(name: str, value: object) -> str:  # noqa: C901  # A case for each kind.
    """Return the value of an option as TOML, without credentials."""
    match value:
        case float() if math.isinf(value):
            return "inf"
        case bool() | int() | float():
            return json.dumps(value)
        case (int(count), float(seconds)):
            return f'"{count}/{seconds:g}"'
        case (str(host), int(port)):
            return f'"[{host}]:{port}"' if ":" in host else f'"{host}:{port}"'
        case tuple():
            return f"[{', '.join(_toml(name, each) for each in value)}]"
        case Budget(pages=pages, per=per):
            return f'"{pages}/{per:g}"' if per is not None else f"{pages}"
        case Recheck(visits=visits, age=age):
            return f'"{visits}"' if age is None else f'"{age:g}s"'
        case Enum():
            return _toml(name, value.value)
    text = str(value)
    if name in _SECRET:
        text = "***"
    elif name in _WITH_CREDENTIALS and "://" in text:
        text = without_secrets(text)
    return json.dumps(text, ensure_ascii=False)
