"""What the commands print: safe text, times, errors and logs.

Everything that a command prints passes `printable`: `Screen` for lines, `printable_errors` for
errors, `logged` for what the library logs. Rows of JSON are in ASCII.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import shutil
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from robotgate import InvalidURLError, RobotGateError
from robotgate.stores.codec import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Part: TypeAlias = str | tuple[str, str]
"""A piece of a line: a text, or a text and its style."""

MAX_VALUE: Final = 1000
"""Characters that are shown of one value: a site decides how long some are."""
LABEL_WIDTH: Final = 16
_CONNECTING: Final = re.compile(r"Cannot connect to host (\S{1,300}) ssl:[^\[\]]{1,200} \[([^\]]*)\]")
"""aiohttp's message for a host that cannot be reached."""
_CLASS_NAME: Final = re.compile(r"\b[A-Za-z]{1,60}(?:Error|Exception): ")
_STATUS: Final = re.compile(r"(\d{3}), message='([^']{0,200})', url='([^']*)'")
"""aiohttp's message for a proxy that refuses."""
_PAYLOAD: Final = re.compile(
    r"Response payload is not completed: <\d{3}, message='([^']{0,200})'>|\d{3}, message:\s+"
)
"""aiohttp's messages for a body that is cut off, or is compressed in another way than it says."""
_BINDING: Final = re.compile(
    r"error while attempting to bind on address \([^()]{1,100}\): (?:\[errno \d{1,5}\] )?"
)
"""What asyncio writes before the cause of an error of a server."""
NOT_READ: Final = 141
"""The exit status when standard output is read no more, as after ``| head``: that of a program which SIGPIPE ended."""
ENDLESS: Final = "ever"
"""The text for a duration without an end."""
_THOUSANDS: Final = ("", "k", "M", "G", "T", "P")
_HELP: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What newer versions of click raise to print the help of a group; its message has several lines."""
_ERROR: Final = "Error: "
_UNITS: Final = ((31_557_600, "y"), (86_400, "d"), (3600, "h"), (60, "m"))


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters as escapes, so that it cannot control a terminal.

    Control characters, bidirectional controls and lone surrogates are unprintable (Unicode categories C and Z).
    """
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


class Screen(Console):
    """A console as wide as its terminal, or as COLUMNS says. Where there is neither, no line is folded or cut."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=soft_wrap)
        stated = os.environ.get("COLUMNS", "")
        self.folds: bool = self.is_terminal or (stated.isdecimal() and int(stated) > 0)
        if self.is_dumb_terminal or not self.width:
            # Rich takes a dumb terminal for 80 columns wide unless both numbers are given, and COLUMNS=0 as it is.
            self.size = shutil.get_terminal_size()

    def folded(self, *parts: Part, indent: int = 0) -> list[Text]:
        """A line that may be long, folded between words; its further lines are indented."""
        text = styled(*parts)
        if not self.folds:
            return [text]
        head = text.wrap(self, self.width)[0]
        rest = text[len(head) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
        lines = [head, *(rest.wrap(self, max(self.width - indent, 20)) if rest else ())]
        for number, part in enumerate(lines):
            part.rstrip()
            lines[number] = Text(" " * indent if number else "") + part
        return lines

    def paragraph(self, *parts: Part, indent: int = 0) -> None:
        """Print a line as `folded`."""
        for text in self.folded(*parts, indent=indent):
            self.print(text, soft_wrap=True)

    def excerpt(self, *parts: Part) -> None:
        """Print a line of a file: cut to the width, or whole where a program may read it."""
        self.print(styled(*parts), no_wrap=True, overflow="ellipsis", soft_wrap=not self.folds)

    def facts(self, heading: Iterable[Part], facts: Iterable[tuple[str, str]]) -> None:
        """Print a heading, and below it a line of name and value for each fact."""
        self.paragraph(*heading)
        for name, value in facts:
            shown = value if len(value) <= MAX_VALUE else f"{value[:MAX_VALUE]}..."
            self.paragraph((f"  {name:<{LABEL_WIDTH - 2}}", "dim"), shown, indent=LABEL_WIDTH)

    def on_broken_pipe(self) -> None:
        """Raise the error, which `printable_errors` reports. Rich would end the program in silence."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def styled(*parts: Part) -> Text:
    """Return the parts as one printable text."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((printable(text), style) for text, style in pairs))


def row(values: Mapping[str, object]) -> None:
    """Print a row of JSON on standard output."""
    click.echo(json_of(values))


def json_of(values: Mapping[str, object], *, indent: int | None = None) -> str:
    """Return a row as JSON, with members of enumerations as their values."""
    return json.dumps(values, default=lambda member: member.value, indent=indent)


def attributes(value: object, *names: str) -> dict[str, object]:
    """Return attributes of a value for a row; all are None where the value is."""
    return {name: getattr(value, name, None) for name in names}


def to_stdout(message: str) -> None:
    """Print one sentence on standard output, folded where lines are folded."""
    Screen().paragraph(message, indent=2)


def to_stderr(message: str) -> None:
    """Print one sentence on standard error."""
    # Not by a console: it would write past the one that shows progress meanwhile, into its lines.
    for text in Screen(stderr=True).folded(message, indent=2):
        try:
            sys.stderr.write(f"{text.plain}\n")
        except OSError:
            # It is read no more, or its disk is full, but the command goes on.
            _discard(sys.stderr)


@contextmanager
def printable_errors() -> Iterator[None]:
    """Make every error that ends a command one printable line, and flush standard output while it can be reported.

    Where standard output is read no more, the command ends without a line, as other tools do.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except _HELP:
        raise
    except click.ClickException as error:
        message = _folded(error.format_message())
        if error.exit_code != 2:
            raise click.ClickException(message) from error
        raise click.UsageError(message, getattr(error, "ctx", None)) from error
    except OSError as error:
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise SystemExit(NOT_READ) from None
        raise click.UsageError(_folded(f"cannot write: {cause_of(error)}")) from error


def cause_of(error: OSError) -> str:
    """Return why the system refuses something."""
    if error.errno == errno.EEXIST:
        return "it exists already; name another file"
    return "the stream is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def _discard(stream: TextIO) -> None:
    """Drop what is buffered and what follows. Otherwise Python reports an error of the stream again as it exits."""
    # It may be an object without a descriptor.
    with suppress(OSError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _folded(message: str) -> str:
    """A message as click prints it behind its "Error: "."""
    lines = Screen(stderr=True).folded(f"{_ERROR}{_BINDING.sub('', message)}", indent=2)
    return "\n".join(text.plain for text in lines).removeprefix(_ERROR)


class _LogLines(logging.Handler):
    """Prints log records on standard error: one line each, and the lines of a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        for number, text in enumerate(self.format(record).splitlines()):
            to_stderr(text if number else in_plain_words(text))


@contextmanager
def logged(verbosity: int) -> Iterator[None]:
    """Print what is logged within the block, with the library's own records from a level on.

    Args:
        verbosity: up to 0 for errors and the warnings of stores, which no command prints itself; 1 adds blocks,
            refusals and requests for robots.txt; 2 adds each turn.
    """
    level = (logging.ERROR, logging.INFO, logging.DEBUG)[max(verbosity, 0)]
    library, stores = logging.getLogger("robotgate"), logging.getLogger("robotgate.stores")
    library.setLevel(level)
    stores.setLevel(min(level, logging.WARNING))
    handler, root = _LogLines(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        library.setLevel(logging.NOTSET)
        stores.setLevel(logging.NOTSET)


def moment(instant: float) -> str:
    """Return an instant (seconds since the epoch) as text, to the second."""
    if instant >= MAX_AMOUNT:
        return "the end of time"
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(at: float, now: float) -> str:
    """Return an instant as text, and how long ago it was."""
    return f"{moment(at)}, {span(now - at)} ago" if at <= now else moment(at)


def time_left(at: float, now: float, word: str, *, over: str) -> str:
    """Return how long it is until an instant, and the instant behind a word; or what is over."""
    return f"{span(at - now)}, {word} {moment(at)}" if at > now else over


def span(seconds: float) -> str:
    """Return a duration in its largest unit: ``12s``, ``4m``, ``23h``, ``30d``, ``2y``."""
    for size, unit in _UNITS:
        if seconds >= size:
            # A block without an end is stored as one until the year 9999.
            return f"{seconds // size:.0f}{unit}" if seconds < MAX_AMOUNT - 1e10 else ENDLESS
    return f"{max(math.ceil(seconds), 0)}s"


def short(count: int) -> str:
    """Return a count in at most six characters: ``12345``, ``123k``, ``12M``; rounded down from 100,000 on."""
    for unit in _THOUSANDS:
        if count < 100_000:
            return f"{count}{unit}"
        count //= 1000
    return "many"


def shortened(name: str, width: int) -> str:
    """Return a name with an ellipsis in its middle if it is too wide: its end has the registrable domain and port."""
    if cell_len(name) <= width:
        return name
    return f"{name[: width // 3]}…{name[-(width - width // 3 - 1) :]}"


def counted(count: int, word: str) -> str:
    """Return a count with its noun: ``1 host``, ``2,000 hosts``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def in_plain_words(text: str) -> str:
    """Return a message of the library for the command line: with options as they are typed, and no class names."""
    text = _with_options_as_typed(text).replace("math.inf", "inf")
    text = _CONNECTING.sub(r"cannot connect to \1: \2", text)
    text = _STATUS.sub(r"\3 answered \1 \2", text)
    return _PAYLOAD.sub(r"\1", _CLASS_NAME.sub("", text))


def _with_options_as_typed(text: str) -> str:
    """Replace ``delay=5`` by ``--delay 5``, and other names that only an option can have."""
    ctx = click.get_current_context(silent=True)
    typed: dict[str, str] = {}
    for option in () if ctx is None else ctx.command.params:
        if isinstance(option, click.Option):
            names = option.name or "", option.opts[-1].lstrip("-").replace("-", "_")
            typed |= dict.fromkeys(names, option.opts[-1])
    if not typed:
        return text
    distinct = "|".join(name for name in typed if "_" in name)
    pattern = rf"(?<![^\s(])(?:({'|'.join(typed)})=(True\b)?|({distinct})(?![^\s,;.:)]))"
    return re.sub(
        pattern,
        lambda found: typed[found[1] or found[3]] + (" " if found[1] and not found[2] else ""),
        text,
    )


def problem_of(error: RobotGateError) -> str:
    """Return what is wrong, in terms of the command line."""
    return in_plain_words(error.problem if isinstance(error, InvalidURLError) else str(error))
